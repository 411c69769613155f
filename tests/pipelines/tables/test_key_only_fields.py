"""Message keys with a field that no row has: the table alone is refused, unless its rule makes the field a column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paimon_table.errors import ConfigError
from paimon_table.table import Table
from pipelines.tables.tables import PipelineTables
from sinks.quarantine import Quarantine
from tests.support.item_batches import event, records, run
from tests.support.keyed_events import Event, batch_of
from tests.support.local_batches import pipeline_tables, run_batches, shop_config

ROUTED = "__dbz__physicalTableIdentifier"
SHARDS: dict[str, object] = {"match": {"table": "t"}, "into": "lake.t", "merge_sources": "disjoint_keys"}


def routed(shard: str, op: str, before: Any, after: Any) -> Event:
    return {"id": 1, ROUTED: shard}, op, before, after


EVENTS = [
    routed("s1", "c", None, {"id": 1, "n": 1}),
    routed("s2", "c", None, {"id": 1, "n": 2}),
    routed("s2", "u", {"id": 1, "n": 2}, {"id": 1, "n": 3}),
    routed("s1", "d", {"id": 1, "n": 1}, None),
    routed("s3", "c", None, {"id": 1, "n": 4}),
]


def reasons(quarantine: Quarantine) -> list[str]:
    files = sorted(Path(quarantine.path).rglob("*.jsonl"))
    return [json.loads(line)["reason"] for file in files for line in file.read_text().splitlines()]


def rows_of(directory: Path, table: str = "t") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = Table.open(str(directory / "warehouse" / "lake.db" / table)).to_arrow().to_pylist()
    return rows


@pytest.mark.parametrize("copies", [1, 20])
@pytest.mark.parametrize("with_schema", [False, True])
def test_a_rule_makes_the_field_a_column_of_the_key(tmp_path: Path, with_schema: bool, copies: int) -> None:
    tables = pipeline_tables(tmp_path, [{**SHARDS, "primary_key": ["id", ROUTED]}])
    batches = [batch_of(0, EVENTS[:2] * copies, with_schema), batch_of(2 * copies, EVENTS[2:], with_schema)]

    quarantine = run_batches(tables, batches, tmp_path)

    assert reasons(quarantine) == []
    assert sorted((row["id"], row[ROUTED], row["n"]) for row in rows_of(tmp_path)) == [(1, "s2", 3), (1, "s3", 4)]


def test_a_record_without_the_field_goes_to_quarantine(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, [{**SHARDS, "primary_key": ["id", ROUTED]}])
    odd: list[Event] = [({"id": 2}, "c", None, {"id": 2, "n": 1}), (None, "c", None, {"id": 3, "n": 1})]

    quarantine = run_batches(tables, [batch_of(0, [*EVENTS[:1], *odd])], tmp_path)

    assert [ROUTED in reason and "NULL" in reason for reason in reasons(quarantine)] == [True, True]
    assert len(rows_of(tmp_path)) == 1


def test_an_explicit_null_in_a_key_column_is_not_filled(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, [{**SHARDS, "primary_key": ["id"]}])
    events: list[Event] = [({"id": 1}, "c", None, {"id": 1, "n": 1}), ({"id": 2}, "c", None, {"id": None, "n": 2})]

    quarantine = run_batches(tables, [batch_of(0, events)], tmp_path)

    assert len(reasons(quarantine)) == 1
    assert [row["id"] for row in rows_of(tmp_path)] == [1]


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ({"id": 1, ROUTED: "s1"}, [ROUTED, f"primary_key: [id, {ROUTED}]"]),
        ({"ID": 1}, ["ID of the message key", "which has id", "the same names"]),
        (7, ["a key without names of columns", "primary_key"]),
        ("k", ["a key without names of columns"]),
        ([1], ["a key without names of columns"]),
        ({"payload": {"ID": 1}}, ["ID of the message key"]),
        ({"id": [1]}, ["id of the message key", "ARRAY<BIGINT>", "`id: STRING`"]),
    ],
    ids=str,
)
@pytest.mark.parametrize("otherwise", ["create", "skip"])
def test_a_message_key_that_no_row_has_is_one_tables_trouble(
    tmp_path: Path, key: Any, words: list[str], otherwise: str
) -> None:
    rules: list[dict[str, object]] = (
        [] if otherwise == "create" else [{"match": {"table": "(.*)"}, "into": "shop.{table}"}]
    )
    config = shop_config(tmp_path, rules, {"bucket": "1"}, otherwise=otherwise)
    row = key if isinstance(key, dict) and "id" in key and ROUTED not in key else {"id": 1}
    odd = (key, event("c", 1, row, table="odd")[1])
    batch = records(odd, event("c", 2, {"id": 2}), odd)

    found, (report,) = run(PipelineTables(config, "tidemark-shop-test"), tmp_path, batch)

    assert report.counts.quarantined == len(found) == 2
    assert [word for word in words if word not in found[0]] == []
    assert [path.name for path in (tmp_path / "warehouse" / "shop.db").iterdir()] == ["items"]


def test_deletes_of_rows_in_quarantine_go_there_too(tmp_path: Path) -> None:
    """A retry applies them after the rows; a skip would bring the rows back."""
    tables = pipeline_tables(tmp_path, [{**SHARDS, "max_bad_records": None}])

    quarantine = run_batches(tables, [batch_of(0, EVENTS[:3]), batch_of(3, EVENTS[3:])], tmp_path)

    assert [ROUTED in reason for reason in reasons(quarantine)] == [True] * 5


def test_the_table_is_made_once_a_key_fits(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, [{"match": {"table": "items"}, "into": "lake.items"}])
    odd = ({"ID": 1}, event("c", 1, {"id": 1})[1])

    found, _ = run(tables, tmp_path, records(odd), records(event("c", 2, {"id": 2}), first_offset=1))

    assert len(found) == 1
    assert [row["id"] for row in rows_of(tmp_path, "items")] == [2]


def test_a_field_of_the_key_that_has_only_null_is_told_with_the_cause(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, [{**SHARDS, "primary_key": ["id", ROUTED]}])
    events: list[Event] = [({"id": 1, ROUTED: None}, "c", None, {"id": 1, "n": 1})]

    with pytest.raises(ConfigError, match=f"'{ROUTED}' of its key has only NULL so far in .*columns.types"):
        run_batches(tables, [batch_of(0, events)], tmp_path)
