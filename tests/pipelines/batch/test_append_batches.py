"""Rules with ``mode: append``: what each record adds to a table without primary key, and what becomes of changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.errors import ConfigError, SchemaChangeRefused
from paimon_table.metadata.snapshot import CommitKind
from paimon_table.schema.table_schema import create_schema
from paimon_table.table import Table
from paimon_table.types import parse_type
from pipelines.batch import decode_task
from pipelines.batch.batch import process_batch
from pipelines.batch.batch_report import BatchReport
from pipelines.batch.compactions import Compactions
from pipelines.batch.job_result import unpack
from pipelines.batch.local_exchange import LocalExchange
from pipelines.batch.plan import BatchRun, plan_batch
from pipelines.tables.tables import PipelineTables
from sinks.exchange.blob import from_record_batch
from sinks.exchange.spool import Spool
from tests.support.clicks import MAY, event, inserts, reasons, records, rule
from tests.support.local_batches import pipeline_tables, processed, reported_batches, run_batches, task_settings

either_order = pytest.mark.parametrize("is_one_job", [False, True], ids=["two jobs", "one job"])
UNSENT = "__debezium_unavailable_value"


def tables_of(
    directory: Path, rules: list[dict[str, object]] | None = None, write_only: str = "false"
) -> PipelineTables:
    return pipeline_tables(directory, rules or [rule()], **{"bucket": "-1", "write-only": write_only})


def rows_of(directory: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = Table.open(str(directory / "warehouse" / "lake.db" / "clicks")).to_arrow().to_pylist()
    return rows


@either_order
def test_every_record_adds_a_row_though_it_has_no_key(tmp_path: Path, is_one_job: bool) -> None:
    tables = tables_of(tmp_path)
    twice = [event("r", {"id": 1, "text": "a"}), event("c", {"id": 1, "text": "a"})]
    (report,) = processed(tables, [records(*twice)], task_settings(tmp_path), is_one_job=is_one_job)
    table = tables.sinks["lake.clicks"].table
    assert (table.schema.primary_keys, table.schema.options["bucket"]) == ((), "-1")
    assert rows_of(tmp_path) == [{"id": 1, "text": "a"}] * 2
    assert report.counts.with_rows == 2
    assert [t.row_count for t in report.tables] == [2]


@pytest.mark.slow
@either_order
def test_each_decode_task_writes_its_rows_into_one_file(tmp_path: Path, is_one_job: bool) -> None:
    tables = tables_of(tmp_path)
    parts = [records(*inserts(count, first), first_offset=first) for count, first in ((9000, 0), (5000, 9000))]
    report = _brought_in(tables, parts, tmp_path, is_one_job=is_one_job)
    assert _rows_of_files(tables) == [5000, 9000]
    assert sorted(row["id"] for row in rows_of(tmp_path)) == [*range(14_000)]
    assert report.counts.with_rows == 14_000


@pytest.mark.slow
@either_order
def test_beside_a_table_with_a_key_a_large_batch_is_shared_among_the_write_tasks(
    tmp_path: Path, is_one_job: bool
) -> None:
    keyed: dict[str, object] = {
        "match": {"table": "orders"},
        "into": "lake.orders",
        "mode": "upsert",
        "options": {"bucket": "1"},
    }
    tables = tables_of(tmp_path, [rule(), keyed])
    order = records(event("c", {"id": 1}, table="orders", key={"id": 1}), first_offset=20_000)
    _brought_in(tables, [records(*inserts(20_000)), order], tmp_path, slots=3, is_one_job=is_one_job)
    assert _rows_of_files(tables) == [4096, 20_000 - 3 * 4096, 8192]
    assert sorted(row["id"] for row in rows_of(tmp_path)) == [*range(20_000)]
    assert tables.sinks["lake.orders"].table.to_arrow().num_rows == 1


@pytest.mark.parametrize("held_bytes", [0, 64 << 20], ids=["in the spool", "in memory"])
def test_rows_wait_for_their_file_in_memory_or_in_the_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held_bytes: int
) -> None:
    monkeypatch.setattr(decode_task, "_HELD_BYTES", held_bytes)
    tables, settings, spool = tables_of(tmp_path), task_settings(tmp_path), Spool.open(str(tmp_path))
    processed(tables, [records(*inserts(1))], settings)
    plan = plan_batch(tables, BatchRun(1), replace(settings, spool=spool))
    spool.give("of-the-batch", plan.write)
    parts = [records(*inserts(3000, first), first_offset=first) for first in (1, 3001)]
    out = replace(plan.decode, write="of-the-batch")(parts)
    result = unpack(blob.data for batch in out for blob in from_record_batch(batch))
    assert [file.row_count for message in result.messages(0) for file in message.new_files] == [6000]
    assert sum(report.record_count for report in result.reports) == 6000


def _brought_in(
    tables: PipelineTables, tasks: list[pa.RecordBatch], directory: Path, *, slots: int = 2, is_one_job: bool
) -> BatchReport:
    """One batch, each part of which another task decodes."""
    compactions, reports = Compactions(), list[BatchReport]()
    exchange = LocalExchange(tasks, is_one_job=is_one_job)
    process_batch(BatchRun(0), tables, task_settings(directory, slots=slots), exchange, compactions, reports.append)
    compactions.wait()
    return reports[0]


def _rows_of_files(tables: PipelineTables) -> list[int]:
    ((bucket, files),) = tables.sinks["lake.clicks"].state.files.items()
    assert bucket.bucket == 0
    return sorted(file.row_count for file in files)


@pytest.mark.slow
def test_small_files_are_packed_beside_the_batches(tmp_path: Path) -> None:
    tables = tables_of(tmp_path)
    run_batches(tables, [records(*inserts(2, 2 * batch), first_offset=2 * batch) for batch in range(14)], tmp_path)
    sink = tables.sinks["lake.clicks"]
    kinds = [s.commit_kind for s in sink.table.snapshots.between(None, None)]
    assert kinds.count(CommitKind.APPEND) == 14
    assert CommitKind.COMPACT in kinds
    assert sum(map(len, sink.state.files.values())) < 8
    assert sorted(row["id"] for row in rows_of(tmp_path)) == [*range(28)]
    changes = [row["id"] for _, rows in sink.table.changes() for row in rows.to_pylist()]
    assert sorted(changes) == [*range(28)]


def test_a_write_only_table_is_not_compacted(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, write_only="true")
    run_batches(tables, [records(*inserts(1, batch), first_offset=batch) for batch in range(9)], tmp_path)
    assert sum(map(len, tables.sinks["lake.clicks"].state.files.values())) == 9


@pytest.mark.slow
def test_buckets_keep_the_order_of_each_topic_partition(tmp_path: Path) -> None:
    options = {"bucket": "2", "bucket-key": "id"}
    tables = tables_of(tmp_path, [rule(options=options)])
    batches = [
        records(*(event("c", {"id": n % 5, "n": batch * 40 + n}) for n in range(40)), first_offset=batch * 40)
        for batch in range(12)
    ]
    run_batches(tables, batches, tmp_path)
    seen: dict[int, list[int]] = {}
    for row in rows_of(tmp_path):
        seen.setdefault(row["id"], []).append(row["n"])
    assert seen == {key: [n for n in range(480) if n % 40 % 5 == key] for key in range(5)}
    assert sum(map(len, tables.sinks["lake.clicks"].state.files.values())) < 24


# ---------------------------------------------------------------- updates and deletes


@pytest.mark.parametrize("op", ["u", "d"])
def test_changes_stop_the_pipeline_where_nothing_else_is_said(tmp_path: Path, op: str) -> None:
    tables = tables_of(tmp_path)
    change = event(op, {"id": 1} if op == "u" else None, {"id": 1})
    with pytest.raises(SchemaChangeRefused, match=rf"offset 2: op {op}: .*`on_change: log`"):
        run_batches(tables, [records(*inserts(2), change)], tmp_path)
    assert not (tmp_path / "warehouse" / "lake.db" / "clicks" / "snapshot").exists()


def test_changes_are_left_out_and_counted(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, [rule(on_change="skip")])
    changes = [event("u", {"id": 0}), event("d", None, {"id": 1}), (None, None)]
    _, (report,) = reported_batches(tables, [records(*inserts(2), *changes)], tmp_path)
    assert [row["id"] for row in rows_of(tmp_path)] == [0, 1]
    assert report.counts.skipped == {"updates and deletes": 2, "tombstones": 1}
    assert report.counts.accounted == 5


@pytest.mark.parametrize("count", [1, 40], ids=["parsed whole", "split"])
def test_a_log_stores_every_event_with_its_place(tmp_path: Path, count: int) -> None:
    tables = tables_of(tmp_path, [rule(on_change="log")])
    events = [
        *(event("r", {"id": n, "text": "{"}, ms=n) for n in range(count)),
        event("u", {"id": 0, "text": ',"source":{"ts_ms":5}'}, {"id": 0, "text": "a"}, ms=1000),
        event("d", None, {"id": 0, "text": None}, ms=None),
        event("d", None, None, {"id": 7}),
        (None, None),
    ]
    _, (report,) = reported_batches(tables, [records(*events, first_offset=10, partition=3)], tmp_path)
    rows = rows_of(tmp_path)
    names = ["event_kind", "event_op", "event_time", "event_topic", "event_partition", "event_offset", "id", "text"]
    assert [*rows[0]] == names
    tail = [[*row.values()] for row in rows[count:]]
    place = ["shop.public.clicks", 3]
    assert tail == [
        ["+U", "u", MAY.replace(second=1), *place, 10 + count, 0, ',"source":{"ts_ms":5}'],
        ["-D", "d", None, *place, 11 + count, 0, None],
        ["-D", "d", MAY, *place, 12 + count, 7, None],
    ]
    assert [(row["event_kind"], row["event_op"], row["id"]) for row in rows[:count]] == [
        ("+I", "r", n) for n in range(count)
    ]
    assert [row["event_time"].microsecond for row in rows[:count]] == [n * 1000 for n in range(count)]
    assert report.counts.with_rows == count + 3
    assert report.counts.tombstones == 1


def test_a_log_stores_the_old_row_of_an_update_where_the_source_sends_it_whole(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, [rule(on_change="log", before="full")])
    run_batches(tables, [records(event("u", {"id": 1, "n": 2}, {"id": 1, "n": 1}))], tmp_path)
    assert [(row["event_kind"], row["event_offset"], row["n"]) for row in rows_of(tmp_path)] == [
        ("-U", 0, 1),
        ("+U", 0, 2),
    ]


def test_a_delete_without_row_and_key_goes_to_quarantine(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, [rule(on_change="log")])
    quarantine = run_batches(tables, [records(*inserts(1), event("d"))], tmp_path)
    assert len(rows_of(tmp_path)) == 1
    assert "neither an old row in before nor a message key" in reasons(quarantine)[0]


def test_values_that_were_not_sent_come_from_before_or_stay_null(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tables = tables_of(tmp_path, [rule(on_change="log")])
    updates = [
        event("u", {"id": 1, "text": UNSENT}, {"id": 1, "text": "old"}),
        event("u", {"id": 2, "text": UNSENT}),
    ]
    run_batches(tables, [records(*inserts(1), *updates)], tmp_path)
    assert [row["text"] for row in rows_of(tmp_path)] == ["t0", "old", None]
    assert "table lake.clicks: NULL was written for 1 value(s) that the source did not send" in caplog.text
    assert "'text': 1" in caplog.text


def test_truncates_follow_the_policy_of_the_format(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, [rule(on_change="log")])
    with pytest.raises(SchemaChangeRefused, match="truncated"):
        run_batches(tables, [records(*inserts(1), event("t"))], tmp_path)


def test_a_column_named_like_those_of_the_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'event_op'.*rename the column"):
        run_batches(tables_of(tmp_path, [rule(on_change="log")]), [records(event("c", {"event_op": 1}))], tmp_path)
    tables = tables_of(tmp_path / "later", [rule(on_change="log")])
    late = records(event("c", {"id": 2, "event_op": 1}), first_offset=1)
    quarantine = run_batches(tables, [records(*inserts(1)), late], tmp_path / "later")
    assert "column event_op:" in reasons(quarantine)[0]
    assert len(rows_of(tmp_path / "later")) == 1


# ---------------------------------------------------------------- schema changes, restarts, other tables


@pytest.mark.parametrize("on_change", ["skip", "log"])
def test_columns_come_and_types_grow(tmp_path: Path, on_change: str) -> None:
    tables = tables_of(tmp_path, [rule(on_change=on_change)])
    later = [event("c", {"id": 1 << 40, "text": "b", "more": 1.5})]
    run_batches(tables, [records(*inserts(1)), records(*later, first_offset=1)], tmp_path)
    rows = [{name: row[name] for name in ("id", "text", "more")} for row in rows_of(tmp_path)]
    assert rows == [{"id": 0, "text": "t0", "more": None}, {"id": 1 << 40, "text": "b", "more": 1.5}]


@either_order
def test_a_batch_that_runs_again_adds_its_rows_once(tmp_path: Path, is_one_job: bool) -> None:
    tables = tables_of(tmp_path)
    processed(tables, [records(*inserts(3))], task_settings(tmp_path), is_one_job=is_one_job)
    again = PipelineTables(tables.config, tables.commit_user)
    processed(again, [records(*inserts(3))], task_settings(tmp_path), is_one_job=is_one_job)
    assert [row["id"] for row in rows_of(tmp_path)] == [0, 1, 2]


def test_a_new_checkpoint_does_not_add_rows_again(tmp_path: Path) -> None:
    tables = tables_of(tmp_path)
    run_batches(tables, [records(*inserts(3))], tmp_path)
    other = PipelineTables(tables.config, "another-checkpoint")
    _, reports = reported_batches(other, [records(*inserts(5))], tmp_path)
    assert [row["id"] for row in rows_of(tmp_path)] == [0, 1, 2, 3, 4]
    assert reports[0].counts.already_stored == 3


def test_partitions_need_not_be_part_of_a_key(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, [rule(partition_by=["day"])])
    days = [event("c", {"id": n, "day": f"2024-01-0{n % 3 + 1}"}) for n in range(9)]
    run_batches(tables, [records(*days)], tmp_path)
    assert len({bucket.partition for bucket in tables.sinks["lake.clicks"].state.files}) == 3
    assert sorted(row["id"] for row in rows_of(tmp_path)) == [*range(9)]


def test_several_source_tables_may_meet(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, [rule(match={"table": "clicks|views"}, on_change="log")])
    run_batches(tables, [records(*inserts(1), event("c", {"id": 9}, table="views"))], tmp_path)
    assert sorted(row["id"] for row in rows_of(tmp_path)) == [0, 9]


def test_a_topic_without_keys_is_told_of_the_mode(tmp_path: Path) -> None:
    upsert: dict[str, object] = {"match": {"table": "clicks"}, "into": "lake.clicks", "mode": "upsert"}
    with pytest.raises(ConfigError, match=r"its messages have no key.*`mode: append`"):
        run_batches(pipeline_tables(tmp_path, [upsert]), [records(*inserts(1))], tmp_path)


def test_tables_of_the_other_mode_are_left_alone(tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse" / "lake.db"
    columns = [("id", parse_type("BIGINT")), ("text", parse_type("STRING"))]
    Table.create(str(warehouse / "clicks"), create_schema(columns, ["id"], [], {"bucket": "1"}))
    with pytest.raises(ConfigError, match=r"exists with primary key \(id\)"):
        run_batches(tables_of(tmp_path), [records(*inserts(1))], tmp_path)
    Table.create(str(warehouse / "plain"), create_schema(columns, [], [], {"bucket": "-1"}))
    upsert: dict[str, object] = {"match": {"table": "clicks"}, "into": "lake.plain"}
    log = rule(into="lake.plain", on_change="log")
    for wrong, words in ((upsert, "Set `mode: append`"), (log, "stores event_kind STRING")):
        with pytest.raises(ConfigError, match=words):
            run_batches(tables_of(tmp_path, [wrong]), [records(*inserts(1))], tmp_path)
    run_batches(tables_of(tmp_path, [rule(into="lake.plain")]), [records(*inserts(1))], tmp_path)
    assert Table.open(str(warehouse / "plain")).to_arrow().num_rows == 1
