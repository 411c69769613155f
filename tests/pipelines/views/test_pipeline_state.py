"""What there is to see of a pipeline after real batches, and what it costs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipelines.batch.batch_report import BatchReport, TableReport
from pipelines.catchup.shown_standing import Standing
from pipelines.views.bad_counts import GROUPS_KEPT, OTHER_REASONS, OTHER_TABLES
from pipelines.views.pipeline_state import POINT_EVERY_S, PipelineState
from pipelines.views.table_counts import Opened, OutOfStream
from pipelines.views.table_views import Beside, EventKind, Phase
from sinks.write.unsent import Became
from sources.changes import DecodeCounts
from sources.lag import Lag
from sources.loss import Losses
from tests.support.item_batches import TOPIC, event, records
from tests.support.local_batches import ALL_TABLES, pipeline_tables, reported_batches, run_batches
from tests.support.source_items import items as inserts


class Clock:
    def __init__(self, now_s: float = 1000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


class Source:
    """A source whose lag the test knows."""

    def __init__(self) -> None:
        self.lag = Lag()
        self.losses = Losses()
        self.silent_s: float | None = None
        self.group_failure_count = 0
        self.unread_bytes: int | None = None


def report(batch_id: int, started_s: float = 0.0, ended_s: float = 2.0, **given: object) -> BatchReport:
    numbers: Mapping[str, object] = {"record_count": 10, "counts": DecodeCounts(with_rows=10), "tables": (), **given}
    return BatchReport(batch_id, seconds={}, task_seconds={}, started_s=started_s, ended_s=ended_s, **numbers)  # type: ignore[arg-type]


def test_batches_are_seen_with_what_they_brought_to_each_table(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, ALL_TABLES, **{"changelog-producer": "lookup"})
    state = PipelineState("shop", "checkpoint", Clock())
    state.config = tables.config
    first = records(*(event("c", key, {"id": key, "n": 1}) for key in (1, 2, 3)), ({"id": 4}, b"no JSON"))
    update = event("u", 1, {"id": 1, "n": 2}, {"id": 1, "n": 1})
    second = records(update, (None, None), event("c", 9, {"id": 9}, table="others"), first_offset=4)
    source = Source()
    state.look_at(source, lambda: tables.sinks)
    state.enter(Phase.RUNNING)
    for batch in reported_batches(tables, [first, second], tmp_path)[1]:
        state.begin(batch.batch_id)
        state.end(batch)
        source.lag.read_to(dict(batch.ends), batch.newest_s)

    # when it is looked at without any storage
    shutil.rmtree(tmp_path / "warehouse")
    seen = state.view()

    items, others = seen.tables
    assert (seen.phase, seen.records, seen.skipped) == (Phase.RUNNING, 7, {"tombstones": 1})
    assert [(bad.table, bad.put_aside, bad.open) for bad in seen.bad_records] == [("lake.items", 1, None)]
    assert (items.name, items.events, items.standing) == ("lake.items", 4, Standing.RUNNING)
    assert (others.name, others.events, others.rows) == ("lake.others", 1, 1)
    assert items.changelog_rows == 5  # three inserts, the row before the update and the one after it
    assert items.snapshot_id == 4 and items.snapshot_time_s is not None
    assert (items.shape.level0_runs, items.shape.backlog_buckets, items.shape.buckets) == (0, 0, 2)
    assert items.shape.files == sum(level.files for level in items.shape.levels.values()) >= 2
    assert seen.durations.count == 2 and {"decode", "append"} <= {*seen.step_seconds}
    assert [(batch.id, batch.records, batch.tables) for batch in seen.last_batches] == [(0, 4, 1), (1, 3, 2)]
    (place,) = source.lag.places(1000.0)
    assert (place.topic, place.next_offset) == (TOPIC, 7)


def test_files_that_wait_for_a_compaction_are_seen(tmp_path: Path) -> None:
    options = {"bucket": "1", "write-only": "true", "num-sorted-run.compaction-trigger": "3"}
    tables = pipeline_tables(tmp_path, ALL_TABLES, **options)
    batches = [records(event("c", key, {"id": key}), first_offset=key) for key in range(4)]
    state = PipelineState("shop")
    state.look_at(Source(), lambda: tables.sinks)
    for number, batch in enumerate(batches):
        reported_batches(tables, [batch], tmp_path, first_batch_id=number)
        shape = state.view().tables[0].shape
        assert (shape.level0_runs, shape.most_runs, shape.backlog_buckets) == (number + 1, number + 1, number >= 2)
    assert shape.stored_rows == 4 and shape.backlog_bytes == shape.size_bytes == shape.levels[0].size_bytes


def test_a_batch_that_takes_long_is_seen_since_it_began_first() -> None:
    clock = Clock()
    state = PipelineState("shop", now=clock)
    state.begin(7)
    clock.now_s += 30
    state.begin(7)
    assert (state.view().running_batch, state.view().running_since_s) == (7, 1000.0)
    state.end(report(7))
    assert state.view().running_batch is None


def test_no_batch_runs_while_the_pipeline_waits_for_its_storage() -> None:
    clock = Clock()
    state = PipelineState("shop", now=clock)
    state.begin(7)
    state.enter(Phase.WAITING, "storage does not answer")
    clock.now_s += 3600
    assert (state.view().running_batch, state.view().running_since_s) == (None, None)
    state.begin(7)
    assert (state.view().running_batch, state.view().running_since_s) == (7, clock.now_s)


def test_batches_that_overlap_share_no_seconds() -> None:
    state = PipelineState("shop")
    state.end(report(0, 0.0, 2.0))
    state.end(report(1, 1.0, 5.0).after(2.0))
    seen = state.view()
    assert [batch.seconds for batch in seen.last_batches] == [2.0, 3.0]
    assert (seen.durations.sum_s, seen.durations.at_most[2.5], seen.durations.at_most[5.0]) == (5.0, 1, 2)


def test_the_number_of_reasons_is_bounded() -> None:
    state = PipelineState("shop")
    for number in range(3):
        state.end(report(number, bad_kinds={("t", None, f"reason {number} {n}"): 2 for n in range(GROUPS_KEPT)}))
    counts = {(bad.table, bad.reason): bad.put_aside for bad in state.view().bad_records}
    assert len(counts) == GROUPS_KEPT + 1 and counts[OTHER_TABLES, OTHER_REASONS] == 4 * GROUPS_KEPT


def test_a_table_that_is_paused_says_why_and_since_when() -> None:
    clock = Clock()
    state = PipelineState("shop", now=clock)
    state.end(report(0, tables=(TableReport("lake.orders", 5, 5, 5),)))
    clock.now_s += 10
    state.put_table("lake.orders", Standing.PAUSED, OutOfStream("column id: BIGINT is narrower"))
    clock.now_s += 10
    state.put_table("lake.orders", Standing.PAUSED, OutOfStream("still"))
    (table,) = state.view().tables
    assert (table.standing, table.reason, table.since_s, table.events) == (Standing.PAUSED, "still", 1010.0, 5)
    state.put_table("lake.orders", Standing.CATCHING_UP, OutOfStream("resumed", since_s=7.0))  # as its mark says
    assert state.view().tables[0].since_s == 7.0
    state.put_table("lake.orders", Standing.RUNNING)
    assert state.view().tables[0].since_s is None


def test_a_paused_table_tells_how_many_records_of_its_topics_it_misses() -> None:
    state, source = PipelineState("shop"), Source()
    state.look_at(source, dict)
    source.lag.ends_at({("orders", 0): 100, ("orders", 1): 7, ("items", 0): 50}, 0.0)
    at = {("orders", 0): 60, ("items", 0): 1}
    state.put_table("lake.orders", Standing.PAUSED, OutOfStream("too narrow", behind_at=at, topics=("orders",)))
    assert state.view().tables[0].missed_records == 40 + 7  # a partition that came later is missed as a whole
    source.lag.ends_at({("orders", 0): 130, ("orders", 1): 7}, 1.0)
    (table,) = state.view().tables
    assert (table.missed_records, table.topics) == (77, ("orders",))

    state.put_table("lake.orders", Standing.RUNNING)
    assert state.view().tables[0].missed_records is None


def test_what_a_paused_table_misses_of_a_source_without_ends_is_not_known() -> None:
    state = PipelineState("shop")
    state.put_table("lake.orders", Standing.PAUSED, OutOfStream(behind_at={("orders", 0): 60}, topics=("orders",)))
    assert state.view().tables[0].missed_records is None


def test_a_change_of_a_schema_is_an_event_and_topics_are_told(tmp_path: Path) -> None:
    state, tables = PipelineState("shop"), pipeline_tables(tmp_path, ALL_TABLES)
    state.look_at(Source(), lambda: tables.sinks)
    run_batches(tables, [records(event("c", 1, {"id": 1}))], tmp_path)
    assert state.view().events == ()
    second = records(event("c", 2, {"id": 2, "note": "x", "qty": 1}), first_offset=1)
    run_batches(tables, [second], tmp_path, first_batch_id=1)
    (changed,) = state.view().events
    assert (changed.kind, changed.table) == (EventKind.SCHEMA, "lake.items")
    assert "+ note STRING" in changed.public_reason and "+ qty BIGINT" in changed.public_reason
    assert state.view().tables[0].topics == (TOPIC,)
    assert state.view().tables[0].schema_changes == {"add": 2}


def test_truncates_count_among_the_schema_changes() -> None:
    state = PipelineState("shop")
    for batch in range(3):
        state.end(report(batch, tables=(TableReport("lake.orders", 5, 5, 5, is_truncated=batch > 0),)))
    assert state.view().tables[0].schema_changes == {"truncate": 2}


def test_a_table_that_no_rule_writes_is_not_shown_as_running() -> None:
    state = PipelineState("shop")
    state.end(report(0, tables=(TableReport("lake.orders", 5, 5, 5), TableReport("lake.items", 5, 5, 5))))
    state.without_tables(["lake.orders", "lake.unknown"])
    assert [table.name for table in state.view().tables] == ["lake.items"]


def test_values_that_nobody_knows_are_added_up() -> None:
    state = PipelineState("shop")
    for batch, count in enumerate([0, 2, 3]):
        unsent = {("body", Became.NULL): count} if count else {}
        state.end(report(batch, tables=(TableReport("lake.orders", 5, 5, 5, unsent),)))
    (table,) = state.view().tables
    assert table.unsent == {("body", Became.NULL): 5}


def test_a_failure_stays() -> None:
    state = PipelineState("shop")
    state.enter(Phase.FAILED, "disk full")
    state.enter(Phase.ENDED)
    assert (state.view().phase, state.view().reason) == (Phase.FAILED, "disk full")


def test_points_over_time_have_records_and_lag_and_a_bounded_number() -> None:
    clock, source = Clock(), Source()
    state = PipelineState("shop", now=clock)
    state.look_at(source, dict)
    source.lag.read_to({("t", 0): 0, ("t", 1): 0})
    for number in range(2000):
        source.lag.ends_at({("t", 0): number, ("t", 1): 1}, clock.now_s)
        state.note_point()
        state.note_point()
        clock.now_s += POINT_EVERY_S
    points = state.view().history
    assert len(points) == 720 and points[-1].lag_records == 2000
    assert points[-1].time_s - points[0].time_s == pytest.approx(719 * POINT_EVERY_S)


def test_retries_are_counted_by_what_for() -> None:
    state = PipelineState("shop")
    state.retried("Kafka does not answer")
    state.end(report(0, retries={"commit conflict": 2}))
    assert state.view().retries == {"Kafka does not answer": 1, "commit conflict": 2}


def test_failures_to_commit_group_offsets_are_counted_over_all_sources_of_a_process() -> None:
    state, first, second = PipelineState("shop"), Source(), Source()
    first.group_failure_count, second.group_failure_count = 3, 2
    for source in (first, first, second):
        state.look_at(source, dict)
    assert state.view().group_failures == 5


def test_what_is_written_beside_the_stream_counts_and_shows_where_the_table_is(tmp_path: Path) -> None:
    clock, sinks = Clock(), dict[str, Opened]()
    state = PipelineState("shop", now=clock)
    state.look_at(Source(), lambda: sinks)
    tables = pipeline_tables(tmp_path, ALL_TABLES)
    run_batches(tables, [inserts("shop", 0, 1, 2)], tmp_path)
    sink = tables.sinks["lake.items"]
    sinks["lake.items"] = Opened(sink.table, sink.state)
    assert state.view().tables[0].snapshot_id == 1
    run_batches(tables, [inserts("shop", 2, 3)], tmp_path, first_batch_id=1)

    state.put_beside({"lake.items": Beside("replay", 7, 5, "shop.public.items-0: 7")})
    clock.now_s += 10
    slice_report = report(0, tables=(TableReport("lake.items", 3, 4, 2),), bad_kinds={("t", None, "bad"): 1})
    state.slice_done("lake.items", slice_report, Opened(sink.table, sink.state))

    (table,) = state.view().tables
    assert (table.events, table.rows, table.changelog_rows, table.snapshot_id) == (2, 3, 4, 2)
    assert table.beside == Beside("replay", 7, 5, "shop.public.items-0: 7", 3, 1010.0)
    assert [(bad.reason, bad.put_aside) for bad in state.view().bad_records] == [("bad", 1)]

    # when it has ended, the stream's next state is that of the table
    state.put_beside({})
    run_batches(tables, [inserts("shop", 3, 4)], tmp_path, first_batch_id=2)
    sinks["lake.items"] = Opened(sink.table, sink.state)
    (table,) = state.view().tables
    assert (table.beside, table.snapshot_id) == (None, 3)


def test_rows_of_a_rebuild_are_not_those_of_the_table(tmp_path: Path) -> None:
    state = PipelineState("shop")
    state.put_beside({"lake.items": Beside("rebuild", 7, None, "the first record")})
    state.slice_done("lake.items", report(0, tables=(TableReport("lake.items", 3, 0, 2),)), None)
    (table,) = state.view().tables
    assert (table.events, table.rows, table.snapshot_id) == (0, 0, 0)
    assert table.beside is not None and table.beside.rows == 3
