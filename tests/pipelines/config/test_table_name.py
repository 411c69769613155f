"""Which names tables can have: one rule for `validate` and for names that arrive while a pipeline runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from paimon_table.catalog.table_name import TableName
from paimon_table.errors import ConfigError
from pipelines.config.table_rules import CreateRule, TargetRule
from pipelines.tables.known_routes import may_write, rules_for
from tests.support.local_batches import pipeline_tables

BAD = [
    ("lake", "orders$snapshots", r"has a \$"),
    ("lake", "orders$branch_test", r"has a \$"),
    ("sys", "orders", "system tables"),
    ("lake", "x" * 300, "300 bytes, at most 255"),
    ("lake", "ü" * 130, "260 bytes"),
    ("d" * 253, "orders", "256 bytes"),
    ("lake", "or\u202eders", r"U\+202E"),
    ("lake", "or\u200bders", r"U\+200B"),
    ("lake", "or\nders", r"U\+000A"),
    ("lake", "or\x00ders", r"U\+0000"),
    ("lake", "or\ud800ders", r"U\+D800"),
    ("lake", "a/b", "slash"),
    ("lake", "a\\b", "slash"),
    ("lake", " ", "is not a name"),
    ("lake", " orders", "blanks"),
    ("..", "orders", "is not a name"),
]
BAD_THAT_ARRIVE = [("shop.v2", "orders", "'shop.v2' contains a dot"), (".shop", "orders", "contains a dot")]
"""Text of a file that looks like these has three parts, which is told otherwise."""


@pytest.mark.parametrize(("database", "table", "problem"), [*BAD, *BAD_THAT_ARRIVE])
def test_impossible_names_are_refused_where_they_arrive(database: str, table: str, problem: str) -> None:
    rule = TargetRule("{database}.{table}", None, (), {}, {})
    with pytest.raises(ConfigError, match=problem) as refusal:
        rule.target(database, None, table, "topic")
    assert str(refusal.value).isprintable() and len(str(refusal.value)) < 300


@pytest.mark.parametrize(("database", "table", "problem"), [bad for bad in BAD if ".." not in bad[0]])
def test_impossible_names_are_refused_in_the_file(database: str, table: str, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        CreateRule.model_validate({"into": f"{database}.{table}"})


def test_two_source_tables_never_get_one_identifier() -> None:
    rule = TargetRule("{database}.{table}", None, (), {}, {})
    name = rule.target("a", None, "b.c", "topic")

    assert name == TableName("a", "b.c") == TableName.of(str(name))
    with pytest.raises(ConfigError, match="before the first dot of `into`"):
        rule.target("a.b", None, "c", "topic")


def test_the_rule_of_a_table_with_dots_in_its_name_is_found_again(tmp_path: Path) -> None:
    rules: list[dict[str, object]] = [{"match": {"database": "a"}, "into": "{database}.{table}"}]
    config = pipeline_tables(tmp_path, rules).config

    assert rules_for(config, TableName("a", "b.c"), ["topic"]) != []
    assert rules_for(config, TableName("a.b", "c"), ["topic"]) == []
    assert may_write(config, TableName.of("a.b.c"))


@pytest.mark.parametrize(
    "name", ["orders", "shop.public.orders", "Bestellungen_2024", "注文", "a-b", "a b", "x" * 255, "system"]
)
def test_other_names_are_as_they_are(name: str) -> None:
    assert TargetRule("lake.{table}", None, (), {}, {}).target(None, None, name, "t") == TableName("lake", name)
    if "." not in name:
        assert CreateRule.model_validate({"into": f"lake.{name}"}).into == f"lake.{name}"
