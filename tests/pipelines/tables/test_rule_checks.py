"""A rule that does not fit the table that is there is told at the start, before any record comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.errors import ConfigError
from pipelines.config.config_file import load_pipeline
from pipelines.prepared import own_tables, prepared
from pipelines.tables.tables import PipelineTables
from tests.support.quarantined import QUERY, envelope, record, run_batch, table, write_pipeline

KEY, TYPES = "primary_key: [id]", "{ types: { n: INT } }"
CHANGES = {
    "bucket": ('"bucket": "2"', '"bucket": "4"', "option 'bucket' cannot change"),
    "key": (KEY, "primary_key: [id, day]", r"exists with primary_key \[id\], the rule wants"),
    "engine": (
        '"bucket": "2"',
        '"bucket": "2", "merge-engine": "partial-update"',
        "merge-engine' cannot change .*; leave it unset. Nothing",
    ),
    "mode": (
        '{"bucket": "2"}\n    primary_key: [id]',
        '{"bucket": "-1"}\n    mode: append',
        "the rule has `mode: append`",
    ),
    "type by pattern": (TYPES, "{ types: { /n.*/: BOOLEAN } }", "declares column 'n' as BOOLEAN"),
    "time of deletes": (
        KEY,
        f"{KEY}\n    history: {{ soft_delete: {{ column: day }} }}",
        "exists and has day as STRING",
    ),
}
CATCH_ALL = "  - { match: { table: '(.*)' }, into: 'lake.{table}' }\n"


def written(root: Path, match: str = "schema: public, table: orders") -> Path:
    """A table that the pipeline has written by a rule that names it, and which another rule may write by its name."""
    file = write_pipeline(root, {"bucket": "2"})
    text = file.read_text().replace("table: '(.*)'", match).replace("'lake.{table}'", "lake.orders")
    file.write_text(f"{text}    primary_key: [id]\n{CATCH_ALL}")
    run_batch(root, file, 0, record(0, envelope(0, 0, day="a")))
    return file


def change(file: Path, how: str) -> str:
    old, new, reason = CHANGES[how]
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return reason


@pytest.mark.parametrize("how", CHANGES)
def test_a_changed_rule_is_told_at_the_start_though_its_name_alone_does_not_tell_it(tmp_path: Path, how: str) -> None:
    file = written(tmp_path)
    reason = change(file, how)
    config = load_pipeline(file)
    with pytest.raises(ConfigError, match=reason):
        PipelineTables(config, f"tidemark-shop-{QUERY}", own_tables(config))
    assert table(tmp_path).schema.id == 0


@pytest.mark.parametrize("how", CHANGES)
def test_a_changed_rule_of_an_own_table_is_told_before_spark_starts(tmp_path: Path, how: str) -> None:
    file = written(tmp_path)
    prepared(load_pipeline(file))
    reason = change(file, how)
    with pytest.raises(ConfigError, match=reason):
        prepared(load_pipeline(file))
    assert table(tmp_path).schema.id == 0


@pytest.mark.slow
@pytest.mark.parametrize("how", CHANGES)
def test_a_table_that_somebody_else_has_made_is_looked_at_before_spark_starts(tmp_path: Path, how: str) -> None:
    file = written(tmp_path)
    file.write_text(file.read_text().replace("name: shop", "name: other").replace("/checkpoint", "/checkpoint-2"))
    prepared(load_pipeline(file))
    reason = change(file, how)
    with pytest.raises(ConfigError, match=reason):
        prepared(load_pipeline(file))
    assert table(tmp_path).schema.id == 0


def test_an_option_that_may_change_is_left_to_the_first_record(tmp_path: Path) -> None:
    file = written(tmp_path)
    file.write_text(
        file.read_text()
        .replace("name: shop", "name: other")
        .replace("/checkpoint", "/checkpoint-2")
        .replace('"bucket": "2"', '"bucket": "2", "snapshot.time-retained": "2 h"')
    )
    prepared(load_pipeline(file))
    assert table(tmp_path).schema.id == 0


def test_another_expression_of_the_key_is_told_before_spark_starts(tmp_path: Path) -> None:
    file = write_pipeline(tmp_path)
    file.write_text(
        file.read_text().replace(TYPES, "{ replace: { id: id + 1 } }\n    primary_key: [id]\n    before: full")
    )
    run_batch(tmp_path, file, 0, record(0, envelope(0, 0)))
    file.write_text(file.read_text().replace("id + 1", "id + 2"))
    with pytest.raises(ConfigError, match="computes id of its primary key differently"):
        prepared(load_pipeline(file))
