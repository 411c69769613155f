"""Tables that keep every version of a row (`history: scd2`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from paimon_table import Table
from paimon_table.errors import ConfigError
from paimon_table.storage.file_io import LocalFileIO
from pipelines.config.config import PipelineConfig
from pipelines.quarantine import older_records
from pipelines.replay import replay_range
from pipelines.tables.tables import PipelineTables
from sinks.quarantine import Quarantine
from sources.changes import RECORD_SCHEMA
from tests.support.changelog import replay_strictly
from tests.support.item_batches import TOPIC
from tests.support.local_batches import processed, shop_config, task_settings
from tests.support.row_records import rows_of
from tests.support.source_content import open_table

RULE: dict[str, object] = {"match": {"table": "items"}, "into": "lake.items", "history": "scd2"}
TOAST = "__debezium_unavailable_value"


@dataclass(frozen=True)
class Change:
    """A change of a row in the source: ``value`` is None for a delete."""

    key: int
    time_ms: int
    offset: int
    value: str | None
    op: str = "u"

    def record(self) -> dict[str, Any]:
        row = None if self.value is None else {"id": self.key, "value": self.value}
        source = {"db": "shop", "schema": "public", "table": "items", "ts_ms": self.time_ms}
        value = {
            "op": "d" if row is None else self.op,
            "before": {"id": self.key} if row is None else None,
            "after": row,
            "source": source,
        }
        return {
            "topic": TOPIC, "partition": 0, "offset": self.offset, "timestamp": 0,
            "key": json.dumps({"id": self.key}).encode(), "value": json.dumps(value).encode(), "headers": None,
        }  # fmt: skip


def batch_of(changes: Sequence[Change]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([change.record() for change in changes], schema=RECORD_SCHEMA)


def at(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def folded(changes: Sequence[Change]) -> dict[tuple[int, int, int], dict[str, Any]]:
    """The rows that a plain fold in the order of the source gives, by key, time and offset."""
    rows: dict[tuple[int, int, int], dict[str, Any]] = {}
    for key in {change.key for change in changes}:
        last: dict[str, Any] | None = None
        for change in sorted({c for c in changes if c.key == key}, key=lambda c: (c.time_ms, c.offset)):
            end = {"valid_to": at(change.time_ms), "valid_to_offset": change.offset, "is_current": False}
            begin = {"id": key, "valid_from": at(change.time_ms), "valid_from_offset": change.offset}
            place = (key, change.time_ms, change.offset)
            if last is not None:
                last |= end
            elif change.value is None:
                rows[place] = {**begin, "value": None, **end}
            last = None
            if change.value is not None:
                held = {"valid_to": None, "valid_to_offset": None, "is_current": True}
                last = rows[place] = {**begin, "value": change.value, **held}
    return rows


def content(table: Table) -> dict[tuple[int, int, int], dict[str, Any]]:
    rows = table.to_arrow().to_pylist()
    return {(r["id"], round(r["valid_from"].timestamp() * 1000), r["valid_from_offset"]): r for r in rows}


def by_key(rows: dict[tuple[int, int, int], dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    return {(key, at(ms), offset): row for (key, ms, offset), row in rows.items()}


OPTIONS: list[dict[str, str]] = [
    {"bucket": "2", "changelog-producer": "lookup"},
    {"bucket": "1", "changelog-producer": "input"},
    {"bucket": "3", "deletion-vectors.enabled": "true", "changelog-producer": "none"},
    {"bucket": "1", "changelog-producer": "none"},
]


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[list[list[Change]], dict[str, str]]:
    """Batches of changes in any order, some of them again later. A change has its own offset, also when it is late."""
    count = draw(st.integers(1, 14))
    changes = [
        Change(
            draw(st.integers(1, 2)),
            draw(st.integers(1, 6)),
            offset,
            draw(st.none() | st.sampled_from(["a", "b", "c"])),
            draw(st.sampled_from(["c", "u"])),
        )
        for offset in range(count)
    ]
    order = draw(st.permutations(changes))
    again = draw(st.lists(st.sampled_from(changes), max_size=6))
    whole, batches = [*order, *again], [[Change(0, 1, count, "a", "c")]]
    while whole:
        size = draw(st.integers(1, 6))
        batches.append(whole[:size])
        whole = whole[size:]
    return batches, draw(st.sampled_from(OPTIONS))


def written(root: Path, config: PipelineConfig, batches: Sequence[Sequence[Change]]) -> PipelineTables:
    """Each batch under dump files, whose offsets may come in any order; each runs twice, as after a kill."""
    for number, changes in enumerate(batches):
        for _ in range(2):
            tables = PipelineTables(config, "tidemark-shop-test")
            processed(tables, [batch_of(changes)], task_settings(root), number)
    return tables


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(arrivals())
def test_whatever_order_changes_arrive_in_the_versions_are_those_of_the_source(
    drawn: tuple[list[list[Change]], dict[str, str]],
) -> None:
    batches, options = drawn
    with TemporaryDirectory() as directory:
        config = shop_config(Path(directory), [RULE], options)
        tables = written(Path(directory), config, batches)

        expected = folded([change for batch in batches for change in batch])
        table = open_table(tables, "items")
        assert content(table) == expected
        if options["changelog-producer"] != "none":
            key = ["id", "valid_from", "valid_from_offset"]
            assert replay_strictly((rows for _, rows in table.changes()), key) == by_key(expected)


def brought(root: Path, rule: Mapping[str, object], *batches: Sequence[Change], **options: str) -> Table:
    """The table of a rule once the batches, by records that are told as they are, have come."""
    config = shop_config(root, [{**RULE, **rule}], {"bucket": "1", "changelog-producer": "lookup", **options})
    tables = PipelineTables(config, "tidemark-shop-test")
    settings = task_settings(root, Quarantine(LocalFileIO(), str(root / "quarantine")), config.decoder)
    processed(tables, [batch_of(changes) for changes in batches], settings)
    return open_table(tables, "items")


def spans(table: Table, column: str = "value") -> list[tuple[Any, ...]]:
    rows = content(table).items()
    return [(row["id"], row[column], place[1], row["is_current"]) for place, row in sorted(rows)]


def test_a_filter_ends_versions_and_leaves_nothing_of_rows_that_it_never_took(tmp_path: Path) -> None:
    changes = [
        Change(1, 1, 0, "draft", "c"),
        Change(3, 1, 9, "draft", "r"),
        Change(2, 1, 1, "paid", "c"),
        Change(2, 4, 4, "draft"),
        Change(2, 5, 5, "draft"),
        Change(2, 6, 6, "sent"),
    ]
    rule = {
        "where": "value <> 'draft'",
        "columns": {"rename": {"value": "state"}, "add": {"size": "length(value)", "op": "$op"}},
    }
    table = brought(tmp_path, rule, changes[:3], changes[3:])

    assert spans(table, "state") == [(2, "paid", 1, False), (2, None, 5, False), (2, "sent", 6, True)]
    rows = [(r["size"], r["op"], r["valid_to"]) for _, r in sorted(content(table).items())]
    assert rows == [(4, "c", at(4)), (None, None, at(5)), (4, "u", None)]


def test_a_row_that_leaves_the_filter_ends_a_version_that_comes_late(tmp_path: Path) -> None:
    first = [Change(1, 5, 0, None), Change(2, 5, 1, "draft"), Change(3, 5, 2, "draft", "c")]
    late = [Change(key, 1, 3 + key, "paid", "c") for key in (1, 2, 3)]
    table = brought(tmp_path, {"where": "value <> 'draft'"}, first, late)
    ends = {row["id"]: row["valid_to"] for row in table.to_arrow().to_pylist()}
    assert ends == {1: at(5), 2: at(5), 3: None}


def test_a_snapshot_that_is_taken_again_adds_no_versions(tmp_path: Path) -> None:
    first = [Change(1, 1, 0, "a", "r"), Change(2, 1, 1, "b", "r"), Change(2, 2, 2, "c")]
    again = [Change(1, 9, 3, "a", "r"), Change(2, 9, 4, "c", "r"), Change(3, 9, 5, "n", "r")]
    table = brought(tmp_path, {}, first, again)
    assert spans(table) == [(1, "a", 1, True), (2, "b", 1, False), (2, "c", 2, True), (3, "n", 9, True)]


@pytest.mark.parametrize(
    ("has_time", "expected", "bad"), [(True, [(5, 6), (7, None)], 0), (False, [(5, 7), (7, None)], 1)]
)
def test_a_null_value_has_the_time_of_its_headers(
    tmp_path: Path, has_time: bool, expected: list[tuple[int, int | None]], bad: int
) -> None:
    """``add.headers`` gives a delete that is written as a tombstone what it gives rows."""

    def headers(ms: int) -> dict[str, str]:
        return {"__source_ts_ms": str(ms)} if has_time or ms != 6 else {}

    source = {"files": {"path": str(tmp_path)}, "format": {"upsert-json": {"add_fields": "op"}}}
    config = shop_config(tmp_path, [{**RULE, "match": {"topic": ".*"}}], {"bucket": "1"}, source=source)
    tables = PipelineTables(config, "tidemark-shop-test")
    told = rows_of(*(({"id": 1}, None if ms == 6 else {"id": 1, "__op": "u"}, headers(ms)) for ms in (5, 6, 7)))
    timed = [{**record, "timestamp": at(record["offset"])} for record in told.to_pylist()]
    quarantine = Quarantine(LocalFileIO(), str(tmp_path / "quarantine"))
    batch = pa.RecordBatch.from_pylist(timed, schema=RECORD_SCHEMA)
    (report,) = processed(tables, [batch], task_settings(tmp_path, quarantine, config.decoder))

    found = sorted(content(tables.sinks["lake.items"].table).values(), key=lambda row: row["valid_from"])
    assert [(row["valid_from"], row["valid_to"]) for row in found] == [(at(a), at(b)) for a, b in expected]
    assert sum(report.quarantined_reasons.values()) == bad


@pytest.mark.parametrize(
    ("policies", "expected", "bad"),
    [
        ({}, [(5, 6), (7, None)], 1),
        ({"on_tombstone": "skip"}, [(5, 6), (7, None)], 0),
        ({"add_fields": "op"}, [(100, 101), (102, 102), (103, None)], 0),
    ],
)
def test_a_null_value_ends_no_version_that_the_source_made_since(
    tmp_path: Path, policies: Mapping[str, str], expected: list[tuple[int, int | None]], bad: int
) -> None:
    """A null value has the time of its record, when the source has made newer rows already."""
    source = {"files": {"path": str(tmp_path)}, "format": {"upsert-json": policies}}
    rule = {**RULE, "match": {"topic": ".*"}, "primary_key": ["id"]}
    config = shop_config(tmp_path, [rule], {"bucket": "1"}, source=source)
    tables = PipelineTables(config, "tidemark-shop-test")
    rows = [{"id": 1, "__source_ts_ms": ms, "__deleted": str(ms == 6).lower()} for ms in (5, 6, 7)]
    told = rows_of(*(({"id": 1}, row) for row in (*rows[:2], None, rows[2])))
    timed = [{**record, "timestamp": at(record["offset"])} for record in told.to_pylist()]
    batch = pa.RecordBatch.from_pylist(timed, schema=RECORD_SCHEMA)
    quarantine = Quarantine(LocalFileIO(), str(tmp_path / "quarantine"))

    (report,) = processed(tables, [batch], task_settings(tmp_path, quarantine, config.decoder))

    found = sorted(content(tables.sinks["lake.items"].table).values(), key=lambda row: row["valid_from"])
    assert [(row["valid_from"], row["valid_to"]) for row in found] == [(at(a), at(b)) for a, b in expected]
    assert sum(report.quarantined_reasons.values()) == bad


@pytest.mark.slow
def test_a_changed_key_ends_the_old_row_and_takes_its_large_values_along(tmp_path: Path) -> None:
    for split in (1, 2, 3):
        moved = [Change(1, 5, 0, "large", "c"), Change(1, 6, 1, None), Change(2, 6, 2, TOAST, "c")]
        rows = [change.record() for change in moved]
        rows[1]["headers"] = [{"key": "__debezium.newkey", "value": b'{"id":2}'}]
        rows[2]["headers"] = [{"key": "__debezium.oldkey", "value": b'{"id":1}'}]
        batch = pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)
        root = tmp_path / str(split)
        config = shop_config(root, [RULE], {"bucket": "2"})
        tables = PipelineTables(config, "tidemark-shop-test")

        processed(tables, [batch.slice(0, split), batch.slice(split)], task_settings(root))

        assert spans(open_table(tables, "items")) == [(1, "large", 5, False), (2, "large", 6, True)], split


def test_a_changed_key_takes_the_values_of_the_newest_version_not_of_the_last_to_come(tmp_path: Path) -> None:
    moved = [Change(1, 5, 0, "large", "c"), Change(1, 3, 1, "late"), Change(1, 6, 2, None), Change(2, 6, 3, TOAST, "c")]
    rows = [change.record() for change in moved]
    rows[2]["headers"] = [{"key": "__debezium.newkey", "value": b'{"id":2}'}]
    rows[3]["headers"] = [{"key": "__debezium.oldkey", "value": b'{"id":1}'}]
    tables = PipelineTables(shop_config(tmp_path, [RULE], {"bucket": "2"}), "tidemark-shop-test")

    processed(tables, [pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)], task_settings(tmp_path))

    expected = [(1, "late", 3, False), (1, "large", 5, False), (2, "large", 6, True)]
    assert spans(open_table(tables, "items")) == expected


@pytest.mark.parametrize("again", [slice(2, 3), slice(1, 3)], ids=["the new row alone", "its delete too"])
@pytest.mark.parametrize("is_late", [False, True])
def test_a_changed_key_that_comes_again_or_late_takes_no_values_of_a_newer_row(
    tmp_path: Path, again: slice, *, is_late: bool
) -> None:
    """The old key has another row by then."""
    moved = [Change(1, 5, 0, "large", "c"), Change(1, 6, 1, None), Change(2, 6, 2, TOAST, "c")]
    rows = [change.record() for change in moved]
    rows[1]["headers"] = [{"key": "__debezium.newkey", "value": b'{"id":2}'}]
    rows[2]["headers"] = [{"key": "__debezium.oldkey", "value": b'{"id":1}'}]
    batches = [rows[: 2 if is_late else 3], [Change(1, 7, 3, "other", "c").record()], rows[again]]
    tables = PipelineTables(shop_config(tmp_path, [RULE], {"bucket": "2"}), "tidemark-shop-test")

    told = [pa.RecordBatch.from_pylist(batch, schema=RECORD_SCHEMA) for batch in batches]
    processed(tables, told, task_settings(tmp_path))

    expected = [(1, "large", 5, False), (1, "other", 7, True), (2, "large", 6, True)]
    assert spans(open_table(tables, "items")) == expected


def test_the_columns_have_the_names_that_the_rule_gives(tmp_path: Path) -> None:
    names = {"valid_from": "since", "valid_to": "until", "is_current": "now"}
    table = brought(tmp_path, {"history": {"scd2": names}, "primary_key": ["id"]}, [Change(1, 1, 0, "a")])
    assert table.schema.column_names == ("id", "value", "since", "until", "now", "since_offset", "until_offset")
    assert tuple(table.schema.primary_keys) == ("id", "since", "since_offset")
    assert table.schema.options["bucket-key"] == "id"


def test_partitions_hold_all_versions_of_their_rows(tmp_path: Path) -> None:
    rule = {"primary_key": ["part", "id"], "partition_by": ["part"], "columns": {"add": {"part": "id % 2"}}}
    changes = [Change(key, ms, 10 * key + ms, f"{ms}") for ms in (3, 1, 2) for key in (1, 2)]
    table = brought(tmp_path, rule, changes[:3], changes[3:])
    assert spans(table) == [(key, f"{ms}", ms, ms == 3) for key in (1, 2) for ms in (1, 2, 3)]


def test_columns_that_come_later_are_null_in_older_versions(tmp_path: Path) -> None:
    config = shop_config(tmp_path, [RULE], {"bucket": "1"})
    tables = PipelineTables(config, "tidemark-shop-test")
    row = Change(1, 5, 1, "b").record()
    value = json.loads(row["value"])
    value["after"]["more"] = 7
    later = pa.RecordBatch.from_pylist([{**row, "value": json.dumps(value).encode()}], schema=RECORD_SCHEMA)

    processed(tables, [batch_of([Change(1, 1, 0, "a")]), later], task_settings(tmp_path))

    rows = sorted(content(open_table(tables, "items")).items())
    assert [(r["value"], r["more"], r["valid_to"]) for _, r in rows] == [("a", None, at(5)), ("b", 7, None)]


def test_records_may_come_again_and_late(tmp_path: Path) -> None:
    plain = brought(tmp_path / "plain", {"history": None}, [Change(1, 1, 0, "a")])
    versions = brought(tmp_path, {}, [Change(1, 1, 0, "a")])
    assert replay_range.refusal("lake.items", plain, ends_early=True) and older_records.refusal("lake.items", plain)
    assert replay_range.refusal("lake.items", versions, ends_early=True) is None
    assert older_records.refusal("lake.items", versions) is None


def test_a_table_that_keeps_other_rows_is_refused(tmp_path: Path) -> None:
    brought(tmp_path, {"history": None}, [Change(1, 1, 0, "a")])
    with pytest.raises(ConfigError, match="does not keep versions of its rows, and the rule says scd2"):
        brought(tmp_path, {}, [Change(1, 2, 1, "b")])
    brought(tmp_path / "versions", {}, [Change(1, 1, 0, "a")])
    with pytest.raises(ConfigError, match=r"keeps versions of its rows .*, and the rule has no `history: scd2`"):
        brought(tmp_path / "versions", {"history": None}, [Change(1, 2, 1, "b")])


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ({"mode": "append"}, "`history` needs the keys of rows, and a table with `mode: append` has none"),
        ({"schema_changes": {"truncate": "apply"}}, "deletes rows whose versions scd2 keeps"),
        ({"options": {"merge-engine": "partial-update"}}, "scd2 needs 'merge-engine' = deduplicate"),
        ({"options": {"bucket": "-1"}}, "scd2 needs a fixed number of buckets"),
        ({"options": {"sequence.field": "n"}}, "scd2 orders versions by their time; remove the option"),
        ({"columns": {"mask": {"is_current": "redact"}}}, "`history: scd2` stores its own values"),
        ({"columns": {"add": {"valid_to": "now"}}}, "`history: scd2` stores its own values"),
        ({"primary_key": ["id"], "partition_by": ["day"]}, "add day of partition_by to primary_key"),
        ({"history": {"scd2": {"valid_to": "valid_from"}}}, "two columns would have the name valid_from"),
        ({"watermark": {"column": "valid_to"}}, "new versions have no time in valid_to for `watermark`"),
        ({"history": {}}, "expected one of soft_delete and scd2"),
    ],
)
def test_what_cannot_be_right_is_refused(tmp_path: Path, rule: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        shop_config(tmp_path, [{**RULE, **rule}], {})
