"""Tables that keep the rows which their source has deleted (`history: soft_delete`)."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from paimon_table import Table
from paimon_table.errors import ConfigError
from pipelines.tables.tables import PipelineTables
from sources.changes import RECORD_SCHEMA
from tests.support.changelog import replay_strictly
from tests.support.item_batches import event, records
from tests.support.local_batches import pipeline_tables, processed, reported_batches, shop_config, task_settings
from tests.support.row_records import rows_of
from tests.support.source_content import open_table

RULE: dict[str, object] = {"match": {"table": "items"}, "into": "lake.items", "history": "soft_delete"}
TOAST = "__debezium_unavailable_value"


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def timed(ms: int, op: str, key: int, after: Any = None, before: Any = None) -> tuple[Any, Any]:
    """An event whose source has a time, which differs from that of its record."""
    message_key, value = event(op, key, after, before)
    return message_key, {**value, "source": {**value["source"], "ts_ms": ms}}


def drawn_events(r: random.Random, count: int) -> tuple[list[tuple[Any, Any]], dict[int, dict[str, Any]]]:
    """Changes with what PostgreSQL sends by default, and the table in the end.

    The image of a deleted row is made up, and large values that did not change are not there.
    """
    found, rows = [], dict[int, dict[str, Any]]()
    for n in range(count):
        ms, key = 1_700_000_000_000 + n, r.randrange(8)
        present = rows.get(key)
        is_there = present is not None and present["deleted_at"] is None
        if present is not None and is_there and r.random() < 0.4:
            found.append(timed(ms, "d", key, None, {"id": key, "n": 0, "body": ""}))
            rows[key] = {**present, "deleted_at": at(ms)}
        elif present is not None and is_there and r.random() < 0.5:
            found.append(timed(ms, "u", key, {"id": key, "n": n, "body": TOAST}))
            rows[key] = {**present, "n": n}
        else:
            row = {"id": key, "n": n, "body": f"text {n}"}
            found.append(timed(ms, "u" if is_there else "c", key, row))
            rows[key] = {**row, "deleted_at": None}
    return found, rows


def content(table: Table) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in table.to_arrow().to_pylist()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"bucket": "2", "changelog-producer": "lookup"},
        {"bucket": "-1", "changelog-producer": "lookup", "sequence.field": "n"},
        {"bucket": "1", "changelog-producer": "none"},
        {"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer": "none"},
    ],
    ids=str,
)
@pytest.mark.parametrize("is_one_job", [False, True])
def test_any_history_keeps_the_deleted_rows(tmp_path: Path, options: dict[str, str], is_one_job: bool) -> None:
    """Each batch runs twice, the second time in a new process."""
    for seed in range(2):
        r, root = random.Random(seed), tmp_path / str(seed)
        events, expected = drawn_events(r, 60)
        whole, first, batch_id = records(*events), 0, 0
        config = shop_config(root, [RULE], options)
        while first < whole.num_rows:
            part = whole.slice(first, r.randint(1, 20))
            for _ in range(2):
                tables = PipelineTables(config, "tidemark-shop-test")
                processed(tables, [part], task_settings(root), batch_id, is_one_job=is_one_job)
            first, batch_id = first + part.num_rows, batch_id + 1

        table = open_table(tables, "items")
        assert content(table) == expected, f"seed {seed}"
        if options["changelog-producer"] == "lookup":
            changes = replay_strictly((rows for _, rows in table.changes()), ["id"])
            assert changes == {(key,): row for key, row in expected.items()}, f"seed {seed}"


@pytest.mark.parametrize("batch_size", [1, 2, 9])
def test_a_tombstone_after_a_delete_leaves_the_time_of_the_delete(tmp_path: Path, batch_size: int) -> None:
    """As ``rewrite-with-tombstone`` writes deletes; a row that came back gets the time of its next delete."""
    source = {"files": {"path": str(tmp_path)}, "format": "upsert-json"}
    config = shop_config(tmp_path, [{**RULE, "match": {"topic": ".*"}}], {"bucket": "1"}, source=source)
    rows = [
        {"id": 1, "n": 5, "__deleted": "false", "__source_ts_ms": 5},
        {"id": 1, "n": 0, "__deleted": "true", "__source_ts_ms": 6},
        None,
        {"id": 1, "n": 7, "__deleted": "false", "__source_ts_ms": 7},
        {"id": 1, "n": 0, "__deleted": "true", "__source_ts_ms": 8},
        None,
        None,
    ]
    told = rows_of(*(({"id": 1}, row) for row in rows))
    timed = [{**record, "timestamp": at(1000)} for record in told.to_pylist()]
    whole = pa.RecordBatch.from_pylist(timed, schema=RECORD_SCHEMA)
    found = []
    for number, first in enumerate(range(0, whole.num_rows, batch_size)):
        tables = PipelineTables(config, "tidemark-shop-test")
        processed(tables, [whole.slice(first, batch_size)], task_settings(tmp_path, decoder=config.decoder), number)
        (row,) = open_table(tables, "items").to_arrow().to_pylist()
        found.append((row["n"], row["deleted_at"]))

    by_record = [(5, None), (5, at(6)), (5, at(6)), (7, None), (7, at(8)), (7, at(8)), (7, at(8))]
    assert found == [by_record[min(end, 7) - 1] for end in range(batch_size, 7 + batch_size, batch_size)]


COLUMNS = {
    "rename": {"n": "number"},
    "replace": {"body": "upper(body)"},
    "add": {"twice": "n * 2", "place": "$offset", "word": "'x'"},
    "mask": {"note": "redact"},
}


def as_stored(row: dict[str, Any]) -> dict[str, Any]:
    """What the table has of a row under ``COLUMNS``; each event has its own offset as ``n``."""
    told = {"id": row["id"], "number": row["n"], "twice": row["n"] * 2, "place": row["n"], "word": "x"}
    return {**told, "body": row["body"].upper(), "deleted_at": row["deleted_at"]}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_deletes_keep_computed_and_renamed_columns_too(tmp_path: Path, seed: int) -> None:
    events, expected = drawn_events(random.Random(seed), 40)
    config = shop_config(tmp_path, [{**RULE, "columns": COLUMNS}], {"changelog-producer": "lookup"})
    whole = records(*events)
    for number, first in enumerate(range(0, whole.num_rows, 9)):
        tables = PipelineTables(config, "tidemark-shop-test")
        settings = task_settings(tmp_path, decoder=config.decoder)
        processed(tables, [whole.slice(first, 9)], settings, number)

    table = open_table(tables, "items")
    assert content(table) == {key: as_stored(row) for key, row in expected.items()}
    changes = replay_strictly((rows for _, rows in table.changes()), ["id"])
    assert changes == {(key,): as_stored(row) for key, row in expected.items()}


def test_a_computed_key_that_changes_leaves_its_old_row_as_deleted(tmp_path: Path) -> None:
    rule = {**RULE, "primary_key": ["part", "id"], "before": "full", "columns": {"add": {"part": "n % 2"}}}
    config = shop_config(tmp_path, [rule], {"bucket": "1", "changelog-producer": "lookup"})
    tables = PipelineTables(config, "tidemark-shop-test")
    batch = records(
        timed(5, "c", 1, {"id": 1, "n": 2, "body": "a"}),
        timed(6, "u", 1, {"id": 1, "n": 3, "body": "b"}, {"id": 1, "n": 2, "body": "a"}),
    )

    processed(tables, [batch], task_settings(tmp_path, decoder=config.decoder))

    rows = sorted(open_table(tables, "items").to_arrow().to_pylist(), key=lambda row: row["n"])
    assert [(row["part"], row["n"], row["body"], row["deleted_at"]) for row in rows] == [
        (0, 2, "a", at(6)),
        (1, 3, "b", None),
    ]


@pytest.mark.parametrize("columns", [{}, {"add": {"m": "n + 1"}}], ids=str)
def test_a_late_update_to_another_key_marks_no_newer_row(tmp_path: Path, columns: dict[str, Any]) -> None:
    rule = {**RULE, "primary_key": ["part", "id"], "before": "full", "columns": columns}
    config = shop_config(tmp_path, [rule], {"bucket": "1", "changelog-producer": "lookup", "sequence.field": "n"})
    tables = PipelineTables(config, "tidemark-shop-test")
    first, old, new = ({"id": 1, "part": part, "n": n} for part, n in ((1, 1), (0, 2), (1, 3)))
    batch = records(timed(6, "u", 1, new, old), timed(5, "u", 1, old, first))

    processed(tables, [batch.slice(n, 1) for n in range(2)], task_settings(tmp_path, decoder=config.decoder))

    rows = sorted(open_table(tables, "items").to_arrow().to_pylist(), key=lambda row: row["part"])
    assert [(row["part"], row["n"], row["deleted_at"]) for row in rows] == [(0, 3, at(6)), (1, 3, None)]


def test_a_filter_reads_the_old_row_of_a_delete_where_the_changelog_is_the_input(tmp_path: Path) -> None:
    rule = {**RULE, "where": "body = 'on'", "before": "full"}
    config = shop_config(tmp_path, [rule], {"bucket": "1", "changelog-producer": "input"})
    tables = PipelineTables(config, "tidemark-shop-test")
    on, off = {"id": 1, "n": 1, "body": "on"}, {"id": 2, "n": 2, "body": "off"}
    batch = records(
        timed(5, "c", 1, on), timed(6, "c", 2, off), timed(7, "d", 1, None, on), timed(8, "d", 2, None, off)
    )

    processed(tables, [batch], task_settings(tmp_path, decoder=config.decoder))

    assert content(open_table(tables, "items")) == {1: {**on, "deleted_at": at(7)}}


def test_a_changed_key_leaves_the_old_row_as_deleted_and_takes_its_large_values_along(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, [RULE], **{"changelog-producer": "lookup"})
    rows = records(
        timed(5, "c", 1, {"id": 1, "body": "large"}),
        timed(6, "d", 1, None, {"id": 1, "body": ""}),
        timed(6, "c", 2, {"id": 2, "body": TOAST}),
    ).to_pylist()
    rows[1]["headers"] = [{"key": "__debezium.newkey", "value": b'{"id":2}'}]
    rows[2]["headers"] = [{"key": "__debezium.oldkey", "value": b'{"id":1}'}]
    batch = type(records()).from_pylist(rows, schema=records().schema)

    reported_batches(tables, [batch], tmp_path)

    assert content(open_table(tables, "items")) == {
        1: {"id": 1, "body": "large", "deleted_at": at(6)},
        2: {"id": 2, "body": "large", "deleted_at": None},
    }


@pytest.mark.parametrize("size", [1, 3])
def test_a_delete_that_comes_again_leaves_the_row_its_values(tmp_path: Path, size: int) -> None:
    """As a killed connector sends it, and as `rewrite-with-tombstone` does."""
    gone = timed(2000, "d", 1, None, {"id": 1, "n": 0})
    events = [timed(1000, "c", 1, {"id": 1, "n": 7}), gone, gone]
    tables = pipeline_tables(tmp_path, [RULE])

    batches = [records(*events[n : n + size], first_offset=n) for n in range(0, 3, size)]
    reported_batches(tables, batches, tmp_path)

    assert content(open_table(tables, "items")) == {1: {"id": 1, "n": 7, "deleted_at": at(2000)}}


def test_a_delete_without_a_time_has_that_of_its_record(tmp_path: Path) -> None:
    named = {**RULE, "history": {"soft_delete": {"column": "gone"}}}
    tables = pipeline_tables(tmp_path, [named])

    reported_batches(tables, [records(event("c", 1, {"id": 1}), event("d", 1, None, {"id": 1}))], tmp_path)

    assert content(open_table(tables, "items")) == {1: {"id": 1, "gone": at(0)}}


def test_a_table_that_exists_gets_the_column(tmp_path: Path) -> None:
    before = pipeline_tables(tmp_path, [{**RULE, "history": None}])
    reported_batches(before, [records(event("c", 1, {"id": 1}), event("c", 2, {"id": 2}))], tmp_path)

    tables = pipeline_tables(tmp_path, [RULE])
    reported_batches(tables, [records(timed(7, "d", 2, None, {"id": 2}), first_offset=2)], tmp_path, 1)

    rows = content(open_table(tables, "items"))
    assert rows == {1: {"id": 1, "deleted_at": None}, 2: {"id": 2, "deleted_at": at(7)}}


def test_a_column_of_the_source_that_has_the_name_is_refused(tmp_path: Path) -> None:
    first = records(event("c", 1, {"id": 1, "deleted_at": "x"}))
    with pytest.raises(ConfigError, match="`history: soft_delete` stores its own values under this name"):
        reported_batches(pipeline_tables(tmp_path / "new", [RULE]), [first], tmp_path)
    reported_batches(pipeline_tables(tmp_path, [{**RULE, "history": None}]), [first], tmp_path)
    with pytest.raises(ConfigError, match="has deleted_at as STRING"):
        reported_batches(pipeline_tables(tmp_path, [RULE]), [records(event("c", 2, {"id": 2}))], tmp_path, 1)


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ({"history": "soft"}, "expected soft_delete, scd2,"),
        ({"mode": "append"}, "`history` needs the keys of rows, and a table with `mode: append` has none"),
        ({"schema_changes": {"truncate": "apply"}}, "deletes rows that soft_delete keeps"),
        ({"options": {"merge-engine": "aggregation"}}, "soft_delete needs 'merge-engine' = deduplicate"),
        ({"columns": {"types": {"deleted_at": "STRING"}}}, "`history: soft_delete` stores its own values"),
        ({"columns": {"mask": {"deleted_at": "redact"}}}, "`history: soft_delete` stores its own values"),
        ({"columns": {"replace": {"deleted_at": "1"}}}, "`history: soft_delete` stores its own values"),
        ({"order_by": "source_position", "columns": {"types": {"_tidemark_position": "INT"}}}, "`order_by: source_pos"),
        ({"columns": {"rename": {"gone": "deleted_at"}}}, "`history: soft_delete` stores its own values"),
        ({"where": "n > 1", "options": {"sequence.field": "n"}}, "remove the option 'sequence.field', or use scd2"),
        ({"where": "n > 1", "order_by": "source_position"}, "remove `order_by`, or use scd2"),
        ({"options": {"sequence.field": "n", "tidemark.keep-deletes": "1 d"}}, "no deletes that the option could keep"),
        ({"options": {"sequence.field": "n,deleted_at"}}, "`history: soft_delete` fills and no record has"),
        (
            {"history": None, "where": "n > 1", "options": {"sequence.field": "_tidemark_deleted_at"}},
            "`tidemark.keep-deletes` fills and no record has",
        ),
        ({"history": {"soft_delete": {}, "scd2": {}}}, "expected one of soft_delete and scd2"),
    ],
)
def test_what_cannot_be_right_is_refused(tmp_path: Path, rule: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        shop_config(tmp_path, [{**RULE, **rule}], {})


def test_a_table_ordered_by_the_column_of_deletes_is_refused(tmp_path: Path) -> None:
    plain = {**RULE, "history": None, "columns": {"types": {"deleted_at": "TIMESTAMP_LTZ(3)"}}}
    first = records(event("c", 1, {"id": 1, "deleted_at": 1}))
    ordered = {"options": {"sequence.field": "deleted_at"}}
    reported_batches(pipeline_tables(tmp_path, [{**plain, **ordered}]), [first], tmp_path)
    with pytest.raises(ConfigError, match=r"exists: option 'sequence\.field' orders rows by column 'deleted_at'"):
        reported_batches(pipeline_tables(tmp_path, [RULE]), [records(event("c", 2, {"id": 2}))], tmp_path, 1)


def test_defaults_cannot_order_rows_by_the_column_of_deletes(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="`history: soft_delete` fills and no record has"):
        shop_config(tmp_path, [RULE], {"sequence.field": "deleted_at"})


@pytest.mark.parametrize("options", [{}, {"sequence.field": "n"}], ids=str)
@pytest.mark.parametrize("size", [1, 2, 9])
def test_a_row_that_is_deleted_again_keeps_the_time_of_its_first_delete(
    tmp_path: Path, options: dict[str, str], size: int
) -> None:
    """As by the tombstone behind a delete, or by a record of the row that comes late."""
    key_alone = {"id": 1, "n": 0, "body": ""}
    events = [timed(10, "c", 1, {"id": 1, "n": 5, "body": "first"})]
    events += [timed(20, "d", 1, None, key_alone), timed(30, "d", 1, None, key_alone)]
    if options:
        events += [timed(4, "u", 1, {"id": 1, "n": 3, "body": "late"}), timed(40, "d", 1, None, key_alone)]
    events += [timed(10, "c", 2, {"id": 2, "n": 5, "body": "x"}), timed(20, "d", 2, None, {**key_alone, "id": 2})]
    events += [timed(30, "c", 2, {"id": 2, "n": 6, "body": "y"}), timed(40, "d", 2, None, {**key_alone, "id": 2})]
    events += [timed(20, "d", 3, None, {**key_alone, "id": 3}), timed(30, "d", 3, None, {**key_alone, "id": 3})]
    whole, tables = records(*events), pipeline_tables(tmp_path, [RULE], **options)

    reported_batches(tables, [whole.slice(start, size) for start in range(0, len(events), size)], tmp_path)

    found = content(open_table(tables, "items"))
    assert {key: row["deleted_at"] for key, row in found.items()} == {1: at(20), 2: at(40), 3: at(20)}
    assert found[1]["body"] == "first"
