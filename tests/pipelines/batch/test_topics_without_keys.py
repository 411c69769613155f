"""Rules that state no mode, for topics whose records have no key: the first records decide what a table is."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paimon_table.errors import ConfigError
from paimon_table.schema.table_schema import create_schema, to_json
from paimon_table.storage.file_io import LocalFileIO
from paimon_table.table import Table
from paimon_table.types import parse_type
from pipelines.config.config import PipelineConfig
from pipelines.replay.rebuild_rules import changed_options
from pipelines.tables.tables import PipelineTables
from sources.column_forms import OPTION
from tests.support.clicks import event, inserts, reasons, records, rule
from tests.support.local_batches import run_batches, shop_config

RULE: dict[str, object] = {"match": {"table": "clicks"}, "into": "lake.clicks"}


def config_of(directory: Path, *rules: dict[str, object], otherwise: str = "skip", **options: str) -> PipelineConfig:
    return shop_config(directory, rules, options, otherwise=otherwise)


def table_at(directory: Path, name: str = "lake.db/clicks") -> Table:
    return Table.open(str(directory / "warehouse" / name))


def stated_options(options: Mapping[str, str]) -> dict[str, str]:
    """Those of a table without what the pipeline remembers of its columns."""
    return {name: value for name, value in options.items() if name != OPTION}


def kinds_and_ids(table: Table) -> list[tuple[str, int]]:
    rows = table.to_arrow().to_pylist()
    return [(row["event_kind"], row["id"]) for row in sorted(rows, key=lambda row: row["event_offset"])]


CHANGES = [
    *inserts(2),
    event("u", {"id": 0, "text": "new"}, {"id": 0, "text": "t0"}),
    event("d", None, {"id": 1, "text": "t1"}),
]


@pytest.mark.parametrize("key", [None, {"schema": None, "payload": None}], ids=["none", "null in an envelope"])
def test_a_table_is_a_log_of_all_events(tmp_path: Path, key: Any, caplog: pytest.LogCaptureFixture) -> None:
    tables = PipelineTables(config_of(tmp_path, RULE), "user")
    quarantine = run_batches(tables, [records(*((key, value) for _, value in CHANGES))], tmp_path)
    assert reasons(quarantine) == []
    table = table_at(tmp_path)
    assert (table.schema.primary_keys, table.schema.options["bucket"]) == ((), "-1")
    assert kinds_and_ids(table) == [("+I", 0), ("+I", 1), ("+U", 0), ("-D", 1)]
    assert [r.getMessage() for r in caplog.records if "is a log of events" in r.getMessage()]


def test_options_of_tables_with_keys_are_for_its_neighbours(tmp_path: Path) -> None:
    options = {
        "bucket": "3", "merge-engine": "aggregation", "changelog-producer": "lookup", "sequence.field": "id",
        "fields.text.aggregate-function": "last_value", "num-sorted-run.compaction-trigger": "4",
        "record-level.expire-time": "900 d", "record-level.time-field": "id", "file.format": "avro",
    }  # fmt: skip
    tables = PipelineTables(config_of(tmp_path, otherwise="create", **options), "user")
    keyed = event("c", {"id": 5_000_000_000_000, "text": "x"}, key={"id": 5_000_000_000_000}, table="orders")
    neighbour = records(keyed).to_pylist()[0]
    orders = type(records())
    batch = orders.from_pylist([{**neighbour, "topic": "shop.public.orders"}], schema=records().schema)
    run_batches(tables, [batch, records(*inserts(2))], tmp_path)

    log, upsert = (table_at(tmp_path, f"shop.db/{name}") for name in ("clicks", "orders"))
    assert stated_options(log.schema.options) == {"bucket": "-1", "file.format": "avro"}
    assert kinds_and_ids(log) == [("+I", 0), ("+I", 1)]
    assert (upsert.schema.primary_keys, stated_options(upsert.schema.options)) == (("id",), options)


def test_records_of_another_tool_are_told_with_their_format(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    canal = event("c", {"data": "[]", "type": "INSERT", "isDdl": False})
    run_batches(PipelineTables(config_of(tmp_path, RULE), "user"), [records(canal)], tmp_path)
    told = "no key (they look like Canal JSON: set source.format to canal-json), so table lake.clicks has"
    assert told in caplog.text


def test_it_stays_one_over_restarts_and_when_keys_come(tmp_path: Path) -> None:
    config = config_of(tmp_path, RULE, bucket="4")
    run_batches(PipelineTables(config, "user"), [records(*inserts(1))], tmp_path)
    later = event("u", {"id": 0, "text": "new"}, key={"id": 0})
    again = PipelineTables(config, "user")
    assert again.sinks or again.routes  # what is known is taken up before the first event
    run_batches(again, [records(later, first_offset=1)], tmp_path, first_batch_id=1)
    run_batches(PipelineTables(config, "user"), [records(later, first_offset=2)], tmp_path, first_batch_id=2)
    assert kinds_and_ids(table_at(tmp_path)) == [("+I", 0), ("+U", 0), ("+U", 0)]
    # A rebuild finds nothing to change, and a rule that says it outright goes on with it.
    assert changed_options(config, "lake.clicks", table_at(tmp_path), ["shop.public.clicks"]) == {}
    stated = config_of(tmp_path, rule(on_change="log"))
    run_batches(PipelineTables(stated, "user"), [records(later, first_offset=3)], tmp_path, first_batch_id=3)
    assert len(kinds_and_ids(table_at(tmp_path))) == 4


@pytest.mark.parametrize(
    "more",
    [
        {"mode": "upsert"},
        {"merge_sources": "same_rows"},
        {"options": {"merge-engine": "first-row"}},
        {"options": {"bucket": "4"}},
        {"options": {"fields.text.aggregate-function": "max"}},
    ],
    ids=str,
)
def test_a_rule_that_says_how_keys_are_merged_needs_one(tmp_path: Path, more: dict[str, object]) -> None:
    tables = PipelineTables(config_of(tmp_path, {**RULE, **more}), "user")
    with pytest.raises(ConfigError, match=r"its messages have no key.*`mode: append`"):
        run_batches(tables, [records(*inserts(1))], tmp_path)


def test_all_tables_of_one_topic_without_keys_are_logs(tmp_path: Path) -> None:
    rules: dict[str, object] = {"match": {"topic": "shop.public.clicks"}, "into": "lake.{table}"}
    config = config_of(tmp_path, rules)
    both = [event("c", {"id": n}, table=name) for n, name in enumerate(("clicks", "views"))]
    quarantine = run_batches(PipelineTables(config, "user"), [records(*both)], tmp_path)
    third = event("c", {"id": 2}, table="pages")
    run_batches(PipelineTables(config, "user"), [records(third, first_offset=2)], tmp_path, 1)
    assert reasons(quarantine) == []
    for n, name in enumerate(("clicks", "views", "pages")):
        assert kinds_and_ids(table_at(tmp_path, f"lake.db/{name}")) == [("+I", n)]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("cuts", [1, 2])
def test_beside_records_with_keys_those_without_are_stray(tmp_path: Path, order: int, cuts: int) -> None:
    """Whatever comes first, and in whatever batch: where both are seen at once no log is made."""
    rules: dict[str, object] = {"match": {"topic": "shop.public.clicks"}, "into": "lake.{table}"}
    both = [event("c", {"id": 0}, key={"id": 0}), event("c", {"id": 1}, table="views")][::order]
    if cuts == 2 and order == -1:
        return  # the log is there before anybody can know
    parts = [records(*both)] if cuts == 1 else [records(both[0]), records(both[1], first_offset=1)]
    quarantine = run_batches(PipelineTables(config_of(tmp_path, rules), "user"), parts, tmp_path)
    assert len(reasons(quarantine)) == 1 and "have no key" in reasons(quarantine)[0]
    assert not (tmp_path / "warehouse" / "lake.db" / "views").exists()


def test_one_log_is_not_that_of_two_source_tables_unasked(tmp_path: Path) -> None:
    rules: dict[str, object] = {"match": {"table": "clicks|views"}, "into": "lake.clicks"}
    tables = PipelineTables(config_of(tmp_path, rules), "user")
    run_batches(tables, [records(*inserts(1))], tmp_path)
    later = records(event("c", {"id": 5}, key={"id": 5}, table="views")).to_pylist()
    other = type(records()).from_pylist([{**later[0], "topic": "shop.public.views"}], schema=records().schema)
    with pytest.raises(
        ConfigError, match=r"is a log of the events of .*clicks.*Set `mode: append` and `on_change: log`"
    ):
        run_batches(tables, [other], tmp_path, 1)


@pytest.mark.parametrize("buckets", [{}, {"bucket": "2"}, {"bucket": "-1"}], ids=str)
def test_a_bucket_key_of_the_defaults_needs_buckets(tmp_path: Path, buckets: dict[str, str]) -> None:
    config = config_of(tmp_path, RULE, **{"bucket-key": "id", **buckets})
    run_batches(PipelineTables(config, "user"), [records(*inserts(2))], tmp_path)
    expected = {"bucket": "2", "bucket-key": "id"} if buckets.get("bucket") == "2" else {"bucket": "-1"}
    assert stated_options(table_at(tmp_path).schema.options) == expected


@pytest.mark.parametrize("key", [7, "k", [1]], ids=str)
def test_a_key_without_names_is_a_key(tmp_path: Path, key: Any) -> None:
    tables = PipelineTables(config_of(tmp_path, RULE), "user")

    quarantine = run_batches(tables, [records((key, CHANGES[0][1]))], tmp_path)

    assert ["its messages have a key without names of columns" in reason for reason in reasons(quarantine)] == [True]


def test_one_key_among_the_first_records_makes_a_table_with_a_key(tmp_path: Path) -> None:
    keyed = event("c", {"id": 9, "text": "z"}, key={"id": 9})
    tables = PipelineTables(config_of(tmp_path, RULE), "user")
    run_batches(tables, [records(*inserts(2), keyed)], tmp_path)
    assert table_at(tmp_path).schema.primary_keys == ("id",)


def test_a_table_with_a_key_takes_no_events_of_a_log(tmp_path: Path) -> None:
    """Records without key, and without old values to find the row by."""
    config = config_of(tmp_path, RULE)
    keyed = event("c", {"id": 9, "text": "z"}, key={"id": 9})
    run_batches(PipelineTables(config, "user"), [records(keyed)], tmp_path)
    lone = event("d", None, None)
    quarantine = run_batches(PipelineTables(config, "user"), [records(lone, first_offset=1)], tmp_path, 1)
    assert len(reasons(quarantine)) == 1
    assert [row["id"] for row in table_at(tmp_path).to_arrow().to_pylist()] == [9]


def test_a_table_of_java_with_options_in_vain_is_written(tmp_path: Path) -> None:
    options = {
        "bucket": "-1", "merge-engine": "partial-update", "sequence.field": "id",
        "record-level.expire-time": "1 s", "record-level.time-field": "id",
    }  # fmt: skip
    columns = [("id", parse_type("BIGINT")), ("text", parse_type("STRING"))]
    schema = replace(create_schema(columns, [], [], {"bucket": "-1"}), options=options)
    root = tmp_path / "warehouse" / "lake.db" / "clicks"
    with pytest.raises(ConfigError, match="a table without primary key keeps every row"):
        Table.create(str(root), schema)
    LocalFileIO().publish(f"{root}/schema/schema-0", to_json(schema).encode())
    more = event("c", {"id": 7, "text": "b", "more": "x"})
    tables = PipelineTables(config_of(tmp_path, rule()), "user")
    run_batches(tables, [records(*inserts(3)), records(more, first_offset=3)], tmp_path)
    assert stated_options(table_at(tmp_path).schema.options) == options
    rows = [(row["id"], row["more"]) for row in table_at(tmp_path).to_arrow().to_pylist()]
    assert sorted(rows, key=str) == [(0, None), (1, None), (2, None), (7, "x")]
    assert stated_options(json.loads((root / "schema" / "schema-2").read_text())["options"]) == options


def test_the_log_is_told_by_its_level(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A table that is not what most would expect is a warning; one that is asked for is not."""
    run_batches(PipelineTables(config_of(tmp_path, rule(on_change="log")), "user"), [records(*CHANGES)], tmp_path)
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING and "log of events" in r.getMessage()]
