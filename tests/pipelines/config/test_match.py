"""`match` with lists of names and with `exclude`: which rule takes a source table, told early and late alike."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_table.errors import ConfigError
from pipelines.config.config import PipelineConfig
from pipelines.config.config_file import load_pipeline
from pipelines.tables.known_routes import rules_for

NAMES = ("a", "ab", "b", "tmp_a")
PATTERNS = (*NAMES, "a.*", "tmp_.*", ".*")
ONE = st.sampled_from(PATTERNS)
SOME = ONE | st.lists(ONE, min_size=1, max_size=3)
MATCH = st.fixed_dictionaries({"table": SOME}, optional={"database": SOME, "exclude": SOME})
RULE = st.fixed_dictionaries(
    {"match": MATCH, "into": st.sampled_from(["lake.{table}", "{database}.x_{table}_y", "lake.x"])}
)
HEAD = """\
version: 1
name: shop
source: { files: { path: dumps }, format: debezium-json }
checkpoint: state
catalog: { warehouse: lake }
tables:
"""


def config_of(rules: list[Any]) -> PipelineConfig:
    head = {"version": 1, "name": "shop", "checkpoint": "state", "catalog": {"warehouse": "lake"}, "tables": rules}
    source = {"files": {"path": "dumps"}, "format": "debezium-json"}
    return PipelineConfig.model_validate({**head, "source": source}, context={"directory": Path("/")})


def takes(match: dict[str, Any], database: str, table: str) -> bool:
    """What the page says of `match`."""

    def one_of(given: Any, name: str) -> bool:
        return any(re.fullmatch(p, name) is not None for p in ([given] if isinstance(given, str) else given))

    is_wanted = one_of(match["table"], table) and one_of(match.get("database", ".*"), database)
    return is_wanted and not one_of(match.get("exclude", ()), table)


@pytest.mark.slow
@given(st.lists(RULE, min_size=1, max_size=4))
def test_the_first_rule_that_takes_a_table_decides_and_is_found_by_the_name_of_its_table(rules: list[Any]) -> None:
    config = config_of(rules)
    for database in NAMES:
        for table in NAMES:
            names, topic = (database, None, table), f"x.{database}.s.{table}"
            wanted = next((n for n, rule in enumerate(rules) if takes(rule["match"], database, table)), None)
            found = config.rule_for(*names, topic)
            assert (found and found.number) == wanted
            if found is not None:
                assert found in rules_for(config, found.target(*names, topic), [topic])


@pytest.mark.parametrize(
    ("match", "place", "told"),
    [
        ("{ table: [] }", "7:21: tables[0].match.table", "expected a name, a regular expression, or a list of them"),
        ("{ table: { a: b } }", "7:21: tables[0].match.table", "expected a name, a regular expression, or a list"),
        ("{ table: [a, 'b*'] }", "7:25: tables[0].match.table[1]", "write 'b.*'"),
        ("{ table: a, exclude: ['('] }", "7:34: tables[0].match.exclude[0]", "not a regular expression"),
        ("{ exclude: a }", "7:12: tables[0].match", "`match` needs at least one of topic, database, schema, table"),
    ],
)
def test_what_is_no_list_of_patterns_is_refused_with_its_place(
    tmp_path: Path, match: str, place: str, told: str
) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(f"{HEAD}  - match: {match}\n    into: lake.x\n")
    with pytest.raises(ConfigError) as refusal:
        load_pipeline(file)
    assert str(refusal.value).startswith(f"{file}:{place}: ") and told in str(refusal.value)


@pytest.mark.parametrize(
    ("first", "second", "is_refused"),
    [
        ("table: [a, b]", "table: [c, d]", True),
        ("table: [a, b]", "table: [b, c]", False),
        ("table: [a, 'x.*']", "table: [c, d]", False),
    ],
)
def test_rules_that_surely_meet_in_one_table_need_a_word_for_it(
    tmp_path: Path, first: str, second: str, is_refused: bool
) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(HEAD + "".join(f"  - {{ match: {{ {m} }}, into: lake.x }}\n" for m in (first, second)))
    if is_refused:
        with pytest.raises(ConfigError, match="merge_sources"):
            load_pipeline(file)
    else:
        load_pipeline(file)
