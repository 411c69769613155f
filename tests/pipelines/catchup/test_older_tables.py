"""A table that is older than the checkpoint gets what it lacks once, from where it stands itself."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.errors import ConfigError, CorruptFile, RolledBack
from paimon_table.history.rollback import plan_rollback, roll_back
from pipelines.catchup.reading import Step
from pipelines.checkpoint.book import FILE, Cause
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.storage import catalog_of
from pipelines.tables.earlier_tables import MOST_TAKEN_UP
from pipelines.tables.own_tables import OwnTables
from sinks import faults
from sources.changes import RECORD_SCHEMA
from sources.dumps.settings import DumpSettings
from sources.dumps.slices import DumpSlices
from sources.positions import Place
from tests.support.changelog import replay_strictly
from tests.support.events import History, records_of
from tests.support.item_batches import event, records
from tests.support.paused_pipeline import Killed, ListSlices, PausedPipeline, killed_at

RULES = [
    {"match": {"table": "orders"}, "into": "lake.orders"},
    {"match": {"table": "items"}, "into": "lake.items"},
]


@pytest.fixture
def histories() -> list[History]:
    return [History(name, seed=seed, partitions=1, keys=9).extend(14) for seed, name in enumerate(("orders", "items"))]


def interleaved(histories: list[History]) -> pa.RecordBatch:
    by_turns = zip_longest(*(records_of(history).to_pylist() for history in histories))
    return pa.RecordBatch.from_pylist([row for rows in by_turns for row in rows if row], schema=RECORD_SCHEMA)


def process(root: Path, histories: list[History]) -> PausedPipeline:
    return PausedPipeline(root, interleaved(histories), RULES)


def directory(root: Path, table: str) -> Path:
    return root / "warehouse" / "lake.db" / table


def check(pipeline: PausedPipeline, histories: list[History]) -> None:
    for history in histories:
        identifier = f"lake.{history.table}"
        assert pipeline.rows(identifier) == history.rows
        changes = [rows for _, rows in pipeline.table(identifier).changes()]
        assert replay_strictly(changes, ["id"]) == {(key,): row for key, row in history.rows.items()}


def restored(root: Path, histories: list[History]) -> None:
    """Let the pipeline read all, then put an older copy of one table in its place."""
    first = process(root, histories)
    first.run(1)
    shutil.copytree(directory(root, "orders"), root / "copy")
    first.run()
    shutil.rmtree(directory(root, "orders"))
    shutil.copytree(root / "copy", directory(root, "orders"))


@pytest.mark.slow
def test_a_table_restored_from_a_backup_is_caught_up_from_where_it_stands(
    tmp_path: Path, histories: list[History]
) -> None:
    restored(tmp_path, histories)
    second = process(tmp_path, histories)
    (mark,) = second.paused.pauses.values()
    assert mark.cause is Cause.FAILED and mark.topics == (histories[0].topic,)
    assert "commits of the pipeline: restored from a backup, or rolled back" in mark.reason

    second.caught_up()
    check(second, histories)
    assert not process(tmp_path, histories).behind


@pytest.mark.slow
def test_a_start_notes_all_tables_in_one_write_and_a_batch_in_one(
    tmp_path: Path, histories: list[History], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    write = Checkpoint.write
    monkeypatch.setattr(Checkpoint, "write", lambda self, *a: (written.append(a[0]), write(self, *a)))

    def writes() -> int:
        count = written.count(FILE)
        written.clear()
        return count

    first = process(tmp_path, histories)
    first.run(2)
    writes()
    first.run(1)
    assert writes() == 1
    first.run()
    for name in ("orders", "items"):
        context = first.table(f"lake.{name}").context
        roll_back(context, plan_rollback(context, 2))
    writes()
    assert set(process(tmp_path, histories).behind) == {"lake.items", "lake.orders"}
    assert writes() == 1
    assert set(process(tmp_path, histories).behind) == {"lake.items", "lake.orders"}
    assert writes() == 0


@pytest.mark.slow
def test_a_kill_at_any_step_of_it_loses_and_doubles_nothing(
    tmp_path: Path, histories: list[History], monkeypatch: pytest.MonkeyPatch
) -> None:
    restored(tmp_path, histories)
    step, is_done = 0, False
    while not is_done:
        step += 1
        root = tmp_path / f"at-{step}"
        for name in ("warehouse", "checkpoint"):
            shutil.copytree(tmp_path / name, root / name)
        with killed_at(monkeypatch, step) as was_killed:
            with contextlib.suppress(Killed):
                process(root, histories).caught_up()
            is_done = not was_killed()
        again = process(root, histories)
        again.caught_up()
        check(again, histories)
    assert step > 5


@pytest.mark.slow
def test_a_rollback_beside_a_running_pipeline_is_noticed_by_it(tmp_path: Path, histories: list[History]) -> None:
    first = process(tmp_path, histories)
    first.run(2)
    table = first.table("lake.items")
    roll_back(table.context, plan_rollback(table.context, 1))
    with pytest.raises(RolledBack, match=r"lake\.items was rolled back while pipeline shop wrote it"):
        first.run()

    second = process(tmp_path, histories)
    assert set(second.behind) == {"lake.items"}
    second.caught_up()
    second.run()
    check(second, histories)


@pytest.mark.slow
def test_a_table_that_was_rolled_back_is_caught_up(tmp_path: Path, histories: list[History]) -> None:
    first = process(tmp_path, histories)
    first.run()
    table = first.table("lake.items")
    roll_back(table.context, plan_rollback(table.context, 2))

    second = process(tmp_path, histories)
    assert list(second.behind) == ["lake.items"]
    second.caught_up()
    check(second, histories)


@pytest.mark.slow
def test_a_table_restored_from_before_its_first_commit_is_filled_from_the_first_record(
    tmp_path: Path, histories: list[History]
) -> None:
    first = process(tmp_path, histories)
    first.run()
    for name in ("snapshot", "manifest", "tidemark"):
        shutil.rmtree(directory(tmp_path, "orders") / name)

    second = process(tmp_path, histories)
    assert list(second.behind) == ["lake.orders"]
    second.caught_up()
    check(second, histories)


@pytest.mark.slow
def test_a_paused_table_that_is_restored_stays_paused_and_goes_on_where_it_stands(
    tmp_path: Path, histories: list[History]
) -> None:
    first = process(tmp_path, histories)
    first.run(1)
    shutil.copytree(directory(tmp_path, "orders"), tmp_path / "copy")
    first.run(1)
    first.pause("lake.orders")
    first.run()
    shutil.rmtree(directory(tmp_path, "orders"))
    shutil.copytree(tmp_path / "copy", directory(tmp_path, "orders"))

    second = process(tmp_path, histories)
    assert second.paused.pauses["lake.orders"].cause is Cause.ASKED
    second.caught_up()
    check(second, histories)


def sum_records(*topics: str) -> pa.RecordBatch:
    """Records of items and of these topics by turns, each adding 1 to a row of its own."""
    parts = [records(*(event("c", n, {"id": n, "amount": 1}, table=t) for n in range(60))).to_pylist() for t in topics]
    named = [[{**row, "topic": f"shop.public.{t}"} for row in rows] for t, rows in zip(topics, parts, strict=True)]
    rows = [row for at_once in zip(*named, strict=True) for row in at_once]
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


ITEMS = {"match": {"table": "items"}, "into": "lake.items"}
SUM_OPTIONS = {"merge-engine": "aggregation", "fields.default-aggregate-function": "sum"}
SUMS = {"match": {"table": "sums", "topic": "shop.public.sums"}, "into": "lake.sums", "options": SUM_OPTIONS}


def summing(root: Path, *rules: Mapping[str, Any]) -> PausedPipeline:
    return PausedPipeline(root, sum_records("items", "sums"), rules or [SUMS, ITEMS], otherwise="skip")


def back_to(pipeline: PausedPipeline, number: int, *, aside: bool) -> None:
    """Roll lake.sums back to what a batch, or a slice beside the stream, left there."""
    context = pipeline.table("lake.sums").context
    found = [s for s in context.snapshots.newest_first() if s.commit_identifier == number]
    of = [s.id for s in found if ("+" in s.commit_user) is aside]
    roll_back(context, plan_rollback(context, max(of)))


def check_sums(pipeline: PausedPipeline) -> None:
    pipeline.caught_up()
    pipeline.run()
    assert {key: row["amount"] for key, row in pipeline.rows("lake.sums").items()} == dict.fromkeys(range(60), 1)


@pytest.mark.slow
@pytest.mark.parametrize("slices", [6, None], ids=["half way", "caught up"])
@pytest.mark.parametrize("goes_on", [False, True], ids=["stopped", "running"])
def test_a_rollback_of_what_came_beside_the_stream_is_noticed(
    tmp_path: Path, slices: int | None, goes_on: bool
) -> None:
    summing(tmp_path).run(2)
    first = summing(tmp_path)
    first.pause("lake.sums")
    first.run()
    catch_up = first.catch_up("lake.sums")
    for _ in range(slices or 99):
        if catch_up.step() is Step.DONE:
            break
    back_to(first, 2, aside=True)
    if goes_on and slices is not None:
        with contextlib.suppress(RolledBack):
            catch_up.step()
    check_sums(summing(tmp_path))


@pytest.mark.slow
def test_a_rollback_of_a_paused_table_is_noticed_when_it_is_resumed(tmp_path: Path) -> None:
    pipeline = summing(tmp_path)
    pipeline.run(4)
    pipeline.pause("lake.sums")
    pipeline.run(1)
    back_to(pipeline, 1, aside=False)
    check_sums(pipeline)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["rolled back", "dropped", "dropped while away"])
def test_a_table_that_is_being_filled_begins_again(tmp_path: Path, how: str) -> None:
    fill = {**SUMS, "backfill": True}
    summing(tmp_path, ITEMS).run()
    first = summing(tmp_path, fill, ITEMS)
    catch_up = first.catch_up("lake.sums")
    for _ in range(8):
        catch_up.step()
    if how == "dropped while away":
        summing(tmp_path, ITEMS)
    if how == "rolled back":
        back_to(first, 3, aside=True)
    else:
        shutil.rmtree(directory(tmp_path, "sums"))
    check_sums(summing(tmp_path, fill, ITEMS))


@pytest.mark.slow
def test_a_table_that_is_older_and_away_keeps_its_place(tmp_path: Path) -> None:
    named = {**SUMS, "match": {"table": "sums", "schema": "public"}, "into": "lake.{table}"}
    first = summing(tmp_path, named, ITEMS)
    first.run(4)
    back_to(first, 1, aside=False)
    away = summing(tmp_path, {**named, "match": {"table": "sums", "schema": "other"}}, ITEMS)
    assert "lake.sums" in away.paused.ruleless
    away.run(2)
    check_sums(summing(tmp_path, named, ITEMS))


@pytest.mark.slow
@pytest.mark.parametrize("batches", [0, 1], ids=["before its first batch", "behind it"])
def test_a_rollback_of_what_earlier_processes_committed_is_noticed(tmp_path: Path, batches: int) -> None:
    """The newest snapshot is a compaction, so that nothing of the table was looked through at the start."""
    compacting = {**SUMS, "options": {**SUM_OPTIONS, "changelog-producer": "lookup"}}
    summing(tmp_path, compacting, ITEMS).run(3)
    running = summing(tmp_path, compacting, ITEMS)
    running.run(batches)
    back_to(running, 0, aside=False)
    with pytest.raises(RolledBack, match=r"lake\.sums was rolled back while pipeline shop wrote it"):
        running.run()
    check_sums(summing(tmp_path, compacting, ITEMS))


@pytest.mark.slow
def test_a_table_that_is_opened_late_is_counted(tmp_path: Path) -> None:
    """What its snapshots tell then is less than the checkpoint knows."""
    names = [f"t{n}" for n in range(MOST_TAKEN_UP + 2)]
    rules = [{**SUMS, "match": {"table": name}, "into": f"lake.{name}"} for name in names]

    def process() -> PausedPipeline:
        return PausedPipeline(tmp_path, sum_records(*names), rules, batch_size=10 * len(names))

    process().run(2)
    running = process()
    late = next(name for name in names if f"lake.{name}" not in running.tables.sinks)
    context = running.table(f"lake.{late}").context
    roll_back(context, plan_rollback(context, 1))
    with pytest.raises(RolledBack, match=f"lake.{late} was rolled back"):
        running.run()
    assert list(process().behind) == [f"lake.{late}"]


@pytest.mark.slow
def test_a_rollback_to_what_another_writer_left_is_one(tmp_path: Path) -> None:
    first = summing(tmp_path)
    first.run(1)
    commit = first.table("lake.sums").new_commit("another")
    shutil.rmtree(directory(tmp_path, "sums") / "snapshot")
    commit.refresh()
    commit.commit(0, [], {}, also_empty=True)
    again = summing(tmp_path)
    assert list(again.behind) == ["lake.sums"]
    check_sums(again)


@pytest.mark.slow
def test_a_batch_counts_before_it_is_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark closes it then."""
    first = summing(tmp_path)
    first.run(3)

    def killed(point: str, _batch: int) -> None:
        if point == "before-compact":
            raise Killed

    with monkeypatch.context() as patched, contextlib.suppress(Killed):
        patched.setattr(faults, "reached", killed)
        first.run(1)
    first.close_batch(3)
    back_to(first, 2, aside=False)
    assert list(summing(tmp_path).behind) == ["lake.sums"]
    check_sums(summing(tmp_path))


@pytest.mark.slow
def test_tables_without_rows_dropped_ones_and_those_of_no_rule_are_none_of_them(
    tmp_path: Path, histories: list[History]
) -> None:
    first = process(tmp_path, histories)
    first.run()
    assert not process(tmp_path, histories).behind
    shutil.rmtree(directory(tmp_path, "orders"))
    assert not process(tmp_path, histories).behind
    items = first.table("lake.items")
    roll_back(items.context, plan_rollback(items.context, 2))
    assert not PausedPipeline(tmp_path, interleaved(histories), RULES[:1]).behind


class AsFiles(ListSlices):
    """Offsets of tables do not tell where to go on, as with dump files."""

    def position_at_offsets(self, offsets: Mapping[Place, int]) -> str | None:
        return DumpSlices(DumpSettings("*")).position_at_offsets(offsets)


@pytest.mark.slow
def test_dump_files_cannot_be_read_again_from_there(tmp_path: Path, histories: list[History]) -> None:
    restored(tmp_path, histories)
    again = process(tmp_path, histories)
    known = OwnTables(again.config, catalog_of(again.config)).positions().known
    more = {name: replace(of, commits=known[name].commit_count + 3) for name, of in again.book.tables.items()}
    again.book.put({name: replace(of, pause=None) for name, of in more.items()})

    standings = replace(again.standings, slices=AsFiles(again.records))
    assert {name for name, _ in standings.paused_at_start()} == {"lake.items", "lake.orders"}
    with pytest.raises(ConfigError, match=r"lacks the last 3 commits .* Move the checkpoint directory away"):
        standings.note_all()


@pytest.mark.slow
def test_a_damaged_count_is_named(tmp_path: Path, histories: list[History]) -> None:
    process(tmp_path, histories).run(2)
    (tmp_path / "checkpoint" / FILE).write_text('{"pipeline": "shop", "tables": {"lake.orders": 3}}')
    with pytest.raises(CorruptFile, match=FILE):
        process(tmp_path, histories)


@pytest.mark.slow
def test_a_rollback_to_where_no_position_is_left_is_told(tmp_path: Path) -> None:
    """Another writer's snapshot, behind which those of the pipeline have expired: nobody knows what it lacks."""
    first = summing(tmp_path)
    first.run(1)
    context = first.table("lake.sums").context
    own = context.snapshots.latest_id() or 0
    commit = first.table("lake.sums").new_commit("another")
    commit.refresh()
    commit.commit(0, [], {}, also_empty=True)
    running = summing(tmp_path)
    running.run(2)
    for number in range(1, own + 1):
        (directory(tmp_path, "sums") / "snapshot" / f"snapshot-{number}").unlink()
    (directory(tmp_path, "sums") / "snapshot" / "EARLIEST").unlink(missing_ok=True)
    context = summing(tmp_path).table("lake.sums").context
    roll_back(context, plan_rollback(context, own + 1))
    with pytest.raises(ConfigError, match=r"lake\.sums was rolled back, or restored: it has the snapshots"):
        summing(tmp_path)


@pytest.mark.slow
def test_a_rollback_of_what_another_writer_committed_is_none(tmp_path: Path) -> None:
    """Also where the pipeline's own snapshots have expired meanwhile, as they do in a quiet table."""
    first = summing(tmp_path)
    first.run()
    own = first.table("lake.sums").context.snapshots.latest_id() or 0
    commit = first.table("lake.sums").new_commit("another")
    for number in range(3):
        commit.refresh()
        commit.commit(number, [], {}, also_empty=True)
    assert not summing(tmp_path).behind
    for number in range(1, own + 1):
        (directory(tmp_path, "sums") / "snapshot" / f"snapshot-{number}").unlink()
    (directory(tmp_path, "sums") / "snapshot" / "EARLIEST").unlink(missing_ok=True)
    context = first.table("lake.sums").context
    roll_back(context, plan_rollback(context, own + 1))
    assert not summing(tmp_path).behind
