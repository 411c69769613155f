"""Faults that are put into the product one at a time, each by breaking one rule of it: the machine has to find them.

Each has a patch and a history in which the rule counts, played with the machine's own rules: right with the product as
it is, wrong with the patch. ``python -m tests.model --fault NAME`` lets the machine find the history by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import pytest

from pipelines.bad_records.facts import TableJudge
from pipelines.bad_records.log import QuarantineLog
from pipelines.catchup.reading import InStream
from pipelines.checkpoint.book import Book
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.reached import Reached
from sinks.commit.own_position import OwnPosition
from sinks.commit.table_sink import TableSink
from sources.kafka.offset_ranges import offsets_of, text_of
from sources.kafka.slices import KafkaSlices
from sources.positions import Place
from tests.model.judged import ONE
from tests.model.machine import PipelineMachine

SUMS, ORDERS = "lake.sums", "lake.orders"


@dataclass(frozen=True, slots=True)
class SeededFault:
    """A rule of the product that does not hold any more, and a history that shows it."""

    patch: Callable[[pytest.MonkeyPatch], None]
    history: Callable[[PipelineMachine], None]


def _no_floors(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TableSink, "_floors", property(lambda _sink: {}))


def _a_lost_checkpoint(machine: PipelineMachine) -> None:
    """The log has read less than the sums, which then meet records of theirs again."""
    machine.produce(source="sums", keys=[0, 2], deletes=False)
    machine.check_at_rest()
    machine.lose_checkpoint()
    machine.produce(source="sums", keys=[0, 2], deletes=False)
    machine.check_at_rest()


def _no_look_at_positions(patch: pytest.MonkeyPatch) -> None:
    _no_floors(patch)
    patch.setattr(OwnPosition, "has_rows", lambda *_args: False)


def _a_kill_behind_the_append(machine: PipelineMachine) -> None:
    machine.produce(source="sums", keys=[0, 2], deletes=False)
    machine.kill_at(point="after-append")
    machine.run(work=["batch"], most=20)
    assert not machine.pipeline.is_running, "the process was to be killed"
    machine.check_at_rest()


def _forgotten_pauses(patch: pytest.MonkeyPatch) -> None:
    read = Book.__init__

    def forgetting(book: Book, checkpoint: Checkpoint) -> None:
        read(book, checkpoint)
        entries = {name: replace(entry, pause=None) for name, entry in book.tables.items()}
        book._contents = book.contents.with_tables(entries)

    patch.setattr(Book, "__init__", forgetting)


def _a_pause_over_a_restart(machine: PipelineMachine) -> None:
    machine.pause(table=SUMS, source="sums")
    machine.produce(source="sums", keys=[0], deletes=False)
    machine.run(work=["batch"], most=20)
    machine.kill()
    machine.resume(table=SUMS)
    machine.check_at_rest()


def _nothing_is_applied(patch: pytest.MonkeyPatch) -> None:
    append = QuarantineLog.append
    patch.setattr(QuarantineLog, "append", lambda log, entry: append(log, entry) if entry.kind == "sealed" else -1)
    patch.setattr(TableJudge, "committed", lambda *_args: None)


def _rollbacks_open_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TableJudge, "holds", lambda *_args: True)


def _a_mended_record(machine: PipelineMachine) -> None:
    machine.produce_bad(source="sums", partition=0)
    machine.check_at_rest()
    machine.mend_rules()
    machine.retry(meanwhile=[])
    machine.check_at_rest()


def _a_rollback_behind_a_retry(machine: PipelineMachine) -> None:
    """The record comes behind one that the table keeps: the stream does not read it again."""
    machine.produce_bad(source="sums", partition=0)
    machine.check_at_rest()
    machine.mend_rules()
    machine.check_at_rest()
    before = len(machine.pipeline.snapshot_ids(SUMS))
    machine.retry(meanwhile=[])
    machine.check_at_rest()
    machine.roll_back(table=SUMS, back=len(machine.pipeline.snapshot_ids(SUMS)) - before)
    machine.check_at_rest()


def _one_record_late(patch: pytest.MonkeyPatch) -> None:
    right: property = vars(InStream)["reached"]

    def late(to: InStream) -> Reached:
        reached: Reached = right.__get__(to)
        if to._pause.reached is not None or reached.position is None:
            return reached
        later = {place: at + 1 for place, at in offsets_of(reached.position).items()}
        return replace(reached, position=text_of(later))

    patch.setattr(InStream, "reached", property(late))


def _a_pause(machine: PipelineMachine) -> None:
    machine.pause(table=SUMS, source="sums")
    machine.produce(source="sums", keys=[0, 2], deletes=False)
    machine.run(work=["batch"], most=20)
    machine.resume(table=SUMS)
    machine.check_at_rest()


def _added_partitions_skipped(patch: pytest.MonkeyPatch) -> None:
    right = KafkaSlices._range
    Range = tuple[dict[Place, int], dict[Place, int]]

    def skipping(slices: KafkaSlices, begin: str | None, limit: str, topics: Collection[str] | None) -> Range:
        begins, ends = right(slices, begin, limit, topics)
        known: Mapping[Place, int] = begins if begin is None else offsets_of(begin)
        return {place: at if place in known else ends[place] for place, at in begins.items()}, ends

    patch.setattr(KafkaSlices, "_range", skipping)


def _a_partition_added_in_a_pause(machine: PipelineMachine) -> None:
    machine.pause(table=SUMS, source="sums")
    machine.add_partition(topic=ONE)
    machine.produce(source="sums", keys=[1], deletes=False)
    machine.run(work=["batch"], most=20)
    machine.resume(table=SUMS)
    machine.check_at_rest()


def _rollbacks_unnoticed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("pipelines.catchup.standing.lacks_commits", lambda _table: False)


def _a_rollback(machine: PipelineMachine) -> None:
    machine.produce(source="sums", keys=[0, 2], deletes=False)
    machine.check_at_rest()
    machine.roll_back(table=SUMS, back=2)
    machine.check_at_rest()


FAULTS: dict[str, SeededFault] = {
    "rows below the position are not dropped": SeededFault(_no_floors, _a_lost_checkpoint),
    "a batch that runs again does not look at positions": SeededFault(_no_look_at_positions, _a_kill_behind_the_append),
    "a start forgets which tables are paused": SeededFault(_forgotten_pauses, _a_pause_over_a_restart),
    "a record that was applied stays open": SeededFault(_nothing_is_applied, _a_mended_record),
    "a rollback behind a retry loses its records": SeededFault(_rollbacks_open_nothing, _a_rollback_behind_a_retry),
    "catching up begins one record late": SeededFault(_one_record_late, _a_pause),
    "catching up skips partitions that were added": SeededFault(
        _added_partitions_skipped, _a_partition_added_in_a_pause
    ),
    "a start does not notice tables that were rolled back": SeededFault(_rollbacks_unnoticed, _a_rollback),
}
