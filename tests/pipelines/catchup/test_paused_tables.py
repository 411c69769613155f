"""A table that cannot be written waits at its position while the others go on; caught up, it has all of it once."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.errors import CommitConflict, CommitOutcomeUnknown, CorruptFile, SchemaChangeRefused, TidemarkError
from paimon_table.patience import Patience
from paimon_table.table import Table
from pipelines.batch import attempts
from pipelines.catchup.reading import Step
from pipelines.checkpoint.book import Cause
from pipelines.report.table_report import all_snapshots
from sinks import faults
from sinks.commit.table_sink import TableSink
from sinks.write.bucket_task import WriteTask
from sources.changes import RECORD_SCHEMA
from sources.kafka.settings import KafkaSettings
from sources.kafka.slices import KafkaSlices
from sources.topics import TopicSelection
from tests.support.changelog import replay_strictly
from tests.support.events import History, records_of
from tests.support.item_batches import event, records
from tests.support.paused_pipeline import Killed, PausedPipeline, killed_at, position

SUMS = {
    "merge-engine": "aggregation",
    "fields.default-aggregate-function": "sum",
}
"""Options of a table in which a row that is applied twice shows."""

COUNT = 40
LATER = 15
"""From this record on rows have one more column."""


TAKES: dict[str, Any] = {"match": {"table": "sums"}, "into": "lake.sums", "options": SUMS}
REFUSES = {**TAKES, "schema_changes": {"add": "pause"}}
ORDERS = {"match": {"table": "orders"}, "into": "lake.orders"}
CUSTOMERS = {"match": {"table": "customers"}, "into": "lake.customers"}


def _sum_records() -> pa.RecordBatch:
    rows = [{"id": n % 5, "amount": 1, **({"later": 1} if n >= LATER else {})} for n in range(COUNT)]
    return _on_topic(records(*(event("c", row["id"], row, table="sums") for row in rows)), "shop.public.sums")


def _on_topic(batch: pa.RecordBatch, topic: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{**row, "topic": topic} for row in batch.to_pylist()], schema=RECORD_SCHEMA)


def _mixed() -> tuple[pa.RecordBatch, History, History]:
    """Records of three tables by turns, and what two of them hold in the end."""
    orders, customers = History("orders", seed=1, keys=9).extend(COUNT), History("customers", seed=2).extend(COUNT)
    parts = [_sum_records().to_pylist(), records_of(orders).to_pylist(), records_of(customers).to_pylist()]
    rows = [part[n] for n in range(max(map(len, parts))) for part in parts if n < len(part)]
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA), orders, customers


def _expected_sums() -> dict[int, tuple[int, int | None]]:
    every = range(COUNT)
    return {
        key: (sum(n % 5 == key for n in every), sum(n % 5 == key and n >= LATER for n in every)) for key in range(5)
    }


def _check(pipeline: PausedPipeline, orders: History, customers: History) -> None:
    assert {k: (r["amount"], r["later"]) for k, r in pipeline.rows("lake.sums").items()} == _expected_sums()
    for history in (orders, customers):
        identifier = f"lake.{history.table}"
        assert pipeline.rows(identifier) == history.rows
        changes = [rows for _, rows in pipeline.table(identifier).changes()]
        assert replay_strictly(changes, ["id"]) == {(key,): row for key, row in history.rows.items()}


@pytest.mark.slow
def test_a_refused_change_pauses_its_table_alone_and_a_restart_catches_it_up(tmp_path: Path) -> None:
    source, orders, customers = _mixed()
    first = PausedPipeline(tmp_path, source, [REFUSES, ORDERS, CUSTOMERS])
    first.run()

    (mark,) = first.paused.pauses.values()
    assert (mark.table, mark.cause) == ("lake.sums", Cause.FAILED)
    assert "column later: `schema_changes: {add: pause}`" in mark.reason
    assert first.rows("lake.orders") == orders.rows
    assert sum(r["amount"] for r in first.rows("lake.sums").values()) < COUNT
    assert first.reports[-1].paused == {"lake.sums": mark.reason}
    assert sum(report.counts.tables_behind for report in first.reports) > 0

    second = PausedPipeline(tmp_path, source, [TAKES, ORDERS, CUSTOMERS])
    second.caught_up()

    assert second.behind == {}
    _check(second, orders, customers)


@pytest.mark.slow
def test_a_table_is_caught_up_while_the_stream_goes_on(tmp_path: Path) -> None:
    source, orders, customers = _mixed()
    first = PausedPipeline(tmp_path, source, [TAKES, ORDERS, CUSTOMERS])
    first.run(3)
    first.pause("lake.sums")
    first.pause("lake.orders")
    first.run(6)
    assert sorted(first.behind) == ["lake.orders", "lake.sums"]

    first.caught_up("lake.orders", batch_between=True)
    assert sorted(first.behind) == ["lake.sums"]
    first.caught_up("lake.sums", batch_between=True)
    first.run()

    assert first.behind == {}
    _check(first, orders, customers)


@pytest.mark.slow
def test_a_table_joins_a_stream_that_never_rests(tmp_path: Path) -> None:
    source, orders, customers = _mixed()
    first = PausedPipeline(tmp_path, source, [TAKES, ORDERS, CUSTOMERS], slice_size=20)
    first.run(1)
    first.pause("lake.sums")
    first.run(3)

    assert first.catches_up_in("lake.sums") <= 2
    first.run()

    assert first.behind == {}
    _check(first, orders, customers)


@pytest.mark.slow
def test_a_slice_that_was_planned_and_not_done_counts_among_the_records_that_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, _orders, _customers = _mixed()
    first = PausedPipeline(tmp_path, source, [TAKES, ORDERS, CUSTOMERS], slice_size=20)
    first.run(1)
    first.pause("lake.sums")
    first.run(3)
    before = first.catch_up("lake.sums").records_left
    with killed_at(monkeypatch, 1), pytest.raises(Killed):
        first.caught_up("lake.sums")

    again = PausedPipeline(tmp_path, source, [TAKES, ORDERS, CUSTOMERS], slice_size=20)
    assert before
    assert again.catch_up("lake.sums").records_left == before


@pytest.mark.slow
def test_what_is_refused_again_stays_paused_where_it_is(tmp_path: Path) -> None:
    source, orders, customers = _mixed()
    PausedPipeline(tmp_path, source, [REFUSES, ORDERS, CUSTOMERS]).run()
    second = PausedPipeline(tmp_path, source, [REFUSES, ORDERS, CUSTOMERS])

    with pytest.raises(SchemaChangeRefused):
        second.caught_up()
    third = PausedPipeline(tmp_path, source, [TAKES, ORDERS, CUSTOMERS])
    third.caught_up()

    _check(third, orders, customers)


@pytest.mark.slow
def test_with_stop_a_refused_change_ends_the_pipeline(tmp_path: Path) -> None:
    source, _orders, _customers = _mixed()
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({**REFUSES, "on_table_failure": "stop"}, {}),
        (REFUSES, {"on_table_failure": "stop"}),
    ]
    for number, (rule, keys) in enumerate(cases):
        pipeline = PausedPipeline(tmp_path / str(number), source, [rule, ORDERS, CUSTOMERS], **keys)
        with pytest.raises(SchemaChangeRefused, match="column later"):
            pipeline.run()
        assert pipeline.behind == {}


@pytest.mark.slow
def test_a_truncated_table_is_paused_and_goes_on_once_truncates_are_skipped(tmp_path: Path) -> None:
    rows = [event("c", n, {"id": n}) for n in range(25)]
    rows[13] = event("t", 0)
    pipeline = PausedPipeline(tmp_path, records(*rows), [{"match": {"table": "items"}, "into": "lake.items"}])
    pipeline.run()
    assert "the source table was truncated" in pipeline.behind["lake.items"]
    assert "the source table was truncated" in pipeline.paused.pauses["lake.items"].public_reason

    rules = [{"match": {"table": "items"}, "into": "lake.items", "schema_changes": {"truncate": "skip"}}]
    again = PausedPipeline(tmp_path, records(*rows), rules)
    again.caught_up()

    assert sorted(again.rows("lake.items")) == [n for n in range(25) if n != 13]


@pytest.mark.crash
def test_killed_anywhere_nothing_is_lost_or_applied_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every crash point of two processes: one in which tables fall behind, one in which they are caught up."""
    source, orders, customers = _mixed()
    step, points = 1, 0
    while True:
        root = tmp_path / str(step)
        with killed_at(monkeypatch, step) as was_killed:
            try:
                _story(root, source)
            except Killed:
                points += 1
        if not was_killed():
            break
        finished = _story(root, source)
        assert finished.behind == {}, f"crash point {step}"
        _check(finished, orders, customers)
        step += STRIDE
    assert points > 8


STRIDE = 11
"""Every eleventh crash point: the steps of a slice repeat, in another order of points each time."""


def _story(root: Path, source: pa.RecordBatch) -> PausedPipeline:
    """Two tables fall behind, then all that is behind is caught up beside the stream; may begin anywhere."""
    before = PausedPipeline(root, source, [REFUSES, ORDERS, CUSTOMERS], batch_size=30, slice_size=25)
    if before.stream.next_batch < 4:
        before.run(1)
        if before.stream.next_batch == 1 and "lake.orders" not in before.behind:
            before.pause("lake.orders")
        before.run(4 - before.stream.next_batch)
    after = PausedPipeline(root, source, [TAKES, ORDERS, CUSTOMERS], batch_size=30, slice_size=25)
    after.caught_up(batch_between=True)
    after.run()
    after.caught_up()
    return after


ITEMS = {"match": {"table": "items"}, "into": "lake.items"}


def _two_tables() -> pa.RecordBatch:
    """Records of items and sums by turns, 30 of each."""
    items = records(*(event("c", n, {"id": n}) for n in range(30))).to_pylist()
    sums = _on_topic(
        records(*(event("c", n % 5, {"id": n % 5, "amount": 1}, table="sums") for n in range(30))), "shop.public.sums"
    ).to_pylist()
    return pa.RecordBatch.from_pylist(
        [row for pair in zip(items, sums, strict=True) for row in pair], schema=RECORD_SCHEMA
    )


@pytest.mark.slow
@pytest.mark.parametrize("damaged", ["manifest", "snapshot", "bucket-0"])
def test_damage_to_one_table_pauses_it_alone(tmp_path: Path, damaged: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which a start notices two at once, and its first batch the third."""
    monkeypatch.setattr(attempts, "STORAGE", Patience(0, 0, retries=1))
    source, rules = _two_tables(), [TAKES, ITEMS]
    PausedPipeline(tmp_path, source, rules).run(2)
    moved, aside = tmp_path / "warehouse" / "lake.db" / "sums" / damaged, tmp_path / "aside"
    moved.rename(aside)
    moved.write_text("no directory")

    again = PausedPipeline(tmp_path, source, rules)
    again.run()

    assert sorted(again.rows("lake.items")) == [*range(30)]
    assert list(again.behind) == ["lake.sums"]
    moved.unlink()
    aside.rename(moved)
    mended = PausedPipeline(tmp_path, source, rules)
    mended.caught_up()
    assert {key: row["amount"] for key, row in mended.rows("lake.sums").items()} == dict.fromkeys(range(5), 6)


@pytest.mark.slow
@pytest.mark.parametrize("damaged", ["manifest", "snapshot"])
@pytest.mark.parametrize("of_rule", [True, False], ids=["rule", "top level"])
def test_with_stop_a_table_that_cannot_be_opened_ends_the_start(tmp_path: Path, damaged: str, of_rule: bool) -> None:
    source, rules = _two_tables(), [TAKES, ITEMS]
    stop: dict[str, Any] = {"on_table_failure": "stop"}
    PausedPipeline(tmp_path, source, rules).run(2)
    moved = tmp_path / "warehouse" / "lake.db" / "sums" / damaged
    moved.rename(tmp_path / "aside")
    moved.write_text("no directory")

    stopping = [{**TAKES, **stop}, ITEMS] if of_rule else rules
    with pytest.raises((OSError, TidemarkError)):
        PausedPipeline(tmp_path, source, stopping, **({} if of_rule else stop)).run()
    going_on = PausedPipeline(tmp_path, source, rules)
    assert list(going_on.behind) == ["lake.sums"]
    other = [TAKES, {**ITEMS, **stop}]  # whose table is well
    assert list(PausedPipeline(tmp_path, source, other).behind) == ["lake.sums"]


@pytest.mark.slow
def test_a_commit_that_is_always_refused_pauses_its_table_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, rules = _two_tables(), [TAKES, ITEMS]
    pipeline = PausedPipeline(tmp_path, source, rules)
    pipeline.run(1)
    commit = TableSink.commit

    def refusing(sink: TableSink, *arguments: Any, **named: Any) -> Any:
        if sink.identifier == "lake.sums":
            raise CommitConflict("another job is always faster")
        return commit(sink, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(TableSink, "commit", refusing)
        patched.setattr(attempts, "OTHERS", Patience(0, 0, retries=1))
        pipeline.run()
    assert pipeline.behind == {"lake.sums": "another job is always faster"}
    assert sorted(pipeline.rows("lake.items")) == [*range(30)]

    pipeline.caught_up()

    assert {key: row["amount"] for key, row in pipeline.rows("lake.sums").items()} == dict.fromkeys(range(5), 6)
    assert _files_without_owner(tmp_path / "warehouse" / "lake.db" / "items", pipeline.table("lake.items")) == set()


def test_where_no_table_is_left_that_storage_takes_the_pipeline_stops(tmp_path: Path) -> None:
    source = _two_tables()
    pipeline = PausedPipeline(tmp_path, source, [ITEMS])
    pipeline.run(2)
    (tmp_path / "warehouse" / "lake.db" / "items" / "manifest").rename(tmp_path / "aside")

    with pytest.raises(CorruptFile):
        PausedPipeline(tmp_path, source, [ITEMS]).run()


@pytest.mark.slow
def test_a_new_table_is_filled_from_the_first_record_and_joins_the_stream(tmp_path: Path) -> None:
    source = _two_tables()
    PausedPipeline(tmp_path, source, [ITEMS]).run(3)

    rule = {**TAKES, "backfill": True}
    pipeline = PausedPipeline(tmp_path, source, [ITEMS, rule])
    pipeline.run(1)
    assert pipeline.paused.pauses["lake.sums"].cause is Cause.NEW
    pipeline.caught_up()
    pipeline.run()

    assert pipeline.behind == {}
    assert {key: row["amount"] for key, row in pipeline.rows("lake.sums").items()} == dict.fromkeys(range(5), 6)


def test_a_new_checkpoint_has_passed_only_what_tables_have(tmp_path: Path) -> None:
    """Not the records before its start: those that the topic no longer holds, or that `start` leaves out."""
    nobody = KafkaSlices(KafkaSettings("localhost:1", TopicSelection()), lambda: pytest.fail("asks"), lambda _: None)

    def has_passed() -> bool:
        process = PausedPipeline(tmp_path, _two_tables(), [ITEMS])
        process.checkpoint.note_start({("t", 0): 20})
        found = replace(process.standings, slices=nobody).has_passed("t", 0)
        process.checkpoint.forget_unused_start()
        return found

    assert not has_passed()

    PausedPipeline(tmp_path, _two_tables(), [ITEMS]).run(1)
    (tmp_path / "checkpoint/commits/0").unlink()
    assert not has_passed(), "a table has rows of this batch"

    shutil.rmtree(tmp_path / "checkpoint")
    assert has_passed()


@pytest.mark.slow
def test_without_backfill_a_new_table_has_new_records_only(tmp_path: Path) -> None:
    source = _two_tables()
    PausedPipeline(tmp_path, source, [ITEMS]).run(3)
    pipeline = PausedPipeline(tmp_path, source, [ITEMS, TAKES])
    pipeline.run()
    assert pipeline.behind == {}
    assert sum(row["amount"] for row in pipeline.rows("lake.sums").values()) == 15


def _files_without_owner(root: Path, table: Table) -> set[str]:
    """Data files that no snapshot has."""
    named = {file.file_name for files in table.state().files.values() for file in files}
    for snapshot in all_snapshots(table):
        named |= {f.file_name for files in table.state(snapshot).files.values() for f in files}
    return {path.name for path in root.rglob("data-*.parquet")} - named


@pytest.mark.slow
def test_rows_that_a_failed_commit_left_in_the_table_are_not_applied_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, rules = _two_tables(), [TAKES, ITEMS]
    pipeline = PausedPipeline(tmp_path, source, rules)
    pipeline.run(1)
    commit = TableSink.commit

    def of_unknown_outcome(sink: TableSink, *arguments: Any, **named: Any) -> Any:
        result = commit(sink, *arguments, **named)
        if sink.identifier == "lake.sums":
            raise CommitOutcomeUnknown("the directory could not be synced")
        return result

    with monkeypatch.context() as patched:
        patched.setattr(TableSink, "commit", of_unknown_outcome)
        patched.setattr(attempts, "STORAGE", Patience(0, 0, retries=0))
        pipeline.run(1)
    (mark,) = pipeline.paused.pauses.values()
    assert (mark.table, mark.batch, mark.begin, mark.after) == ("lake.sums", 1, position(10), position(20))
    assert _sums_of(pipeline) == 10

    pipeline.run()
    pipeline.caught_up()

    assert {key: row["amount"] for key, row in pipeline.rows("lake.sums").items()} == dict.fromkeys(range(5), 6)


@pytest.mark.slow
def test_a_compaction_that_fails_pauses_its_table_behind_the_rows_of_its_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, rules = _two_tables(), [TAKES, ITEMS]
    pipeline = PausedPipeline(tmp_path, source, rules)
    pipeline.run(1)
    compact = WriteTask.compact_bucket

    def damaged(task: WriteTask, target_index: int, *arguments: Any) -> Any:
        if task.targets[target_index].identifier == "lake.sums":
            raise CorruptFile("a data file is cut off")
        return compact(task, target_index, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(WriteTask, "compact_bucket", damaged)
        pipeline.run(2)
    (mark,) = pipeline.paused.pauses.values()
    assert (mark.table, mark.batch, mark.begin, mark.after) == ("lake.sums", 2, position(20), None)
    assert sorted(pipeline.rows("lake.items")) == [*range(15)]

    pipeline.run()
    pipeline.caught_up()

    assert {key: row["amount"] for key, row in pipeline.rows("lake.sums").items()} == dict.fromkeys(range(5), 6)
    changes = [rows for _, rows in pipeline.table("lake.sums").changes()]
    assert {row["amount"] for row in replay_strictly(changes, ["id"]).values()} == {6}


@pytest.mark.slow
def test_a_table_does_not_join_before_spark_has_closed_the_last_batch(tmp_path: Path) -> None:
    pipeline = PausedPipeline(tmp_path, _two_tables(), [TAKES, ITEMS])
    pipeline.run(2)
    pipeline.pause("lake.sums")
    pipeline.run(1)
    (tmp_path / "checkpoint" / "commits" / "2").unlink()

    catch_up = pipeline.catch_up("lake.sums")

    assert [catch_up.step() for _ in range(2)] == [Step.WAITING] * 2
    again = PausedPipeline(tmp_path, _two_tables(), [TAKES, ITEMS])
    again.caught_up()
    again.run()
    assert {key: row["amount"] for key, row in again.rows("lake.sums").items()} == dict.fromkeys(range(5), 6)


def _sums_of(pipeline: PausedPipeline) -> int:
    return sum(row["amount"] for row in pipeline.rows("lake.sums").values())


@pytest.mark.slow
def test_a_batch_that_spark_closes_while_a_table_is_about_to_join_is_read_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, orders, customers = _mixed()
    pipeline = PausedPipeline(tmp_path, source, [TAKES, ORDERS, CUSTOMERS])
    pipeline.run(2)
    pipeline.pause("lake.sums")
    with monkeypatch.context() as patched:
        patched.setattr(faults, "reached", lambda point, _: _end_at("before-closing", point))
        with pytest.raises(Killed):
            pipeline.run_batch()
    look = pipeline.checkpoint.offset_after

    def closed_after_the_look(batch_id: int) -> str:
        text = look(batch_id)
        pipeline.close_batch(2)
        return text

    with monkeypatch.context() as patched:
        patched.setattr(pipeline.checkpoint, "offset_after", closed_after_the_look)
        pipeline.catch_up("lake.sums").step()

    pipeline.caught_up()
    pipeline.run()
    _check(pipeline, orders, customers)


def _end_at(wanted: str, point: str) -> None:
    if point == wanted:
        raise Killed
