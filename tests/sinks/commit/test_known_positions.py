"""The positions in a table are read once: a later look reads what is newer, unless the table is another one by then."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from paimon_table.metadata.snapshot import SnapshotStore, to_json
from paimon_table.storage.counting_io import CountingFileIO
from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.table import Table
from sinks.commit.known_positions import KnownPositions
from sinks.commit.positions import PIPELINE_PROPERTY, FedBy, Position, position_of, to_properties
from sinks.commit.table_sink import TableSink
from tests.support.builders import committer, data_file
from tests.support.builders import message as commit_message
from tests.support.table_driver import new_table
from tests.support.waiting import seconds

SNAPSHOTS = 40
SOURCE = FedBy("items", "shop", "public", "items")


def properties(pipeline: str, offset: int) -> dict[str, str]:
    position = Position(f"tidemark-{pipeline}", {("items", 0): offset}).fed_by(SOURCE, ("id",))
    return to_properties(pipeline, position)


@dataclass(slots=True)
class Many:
    """A table that has many snapshots of a writer that is no pipeline."""

    io: CountingFileIO
    table: Table
    written: int = 0

    def commit(self, user: str, count: int = 1, of_pipeline: dict[str, str] | None = None) -> None:
        writer = committer(self.table, user)
        for _ in range(count):
            self.written += 1
            added = commit_message(new_files=[data_file(f"f{self.written}")], total_buckets=1)
            writer.commit(self.written, [added], of_pipeline or {})

    def roll_back_to(self, snapshot_id: int) -> None:
        store = self.table.snapshots
        for gone in range(snapshot_id + 1, (store.latest_id() or 0) + 1):
            self.io.delete(store.paths.snapshot_file(gone))
        store.write_latest_hint(snapshot_id)

    def reads(self) -> int:
        """Of snapshots, since the last call."""
        found = sum(kind == "read" and "/snapshot/snapshot-" in path for kind, path in self.io.requests)
        self.io.requests.clear()
        return found


@pytest.fixture
def many() -> Many:
    io = CountingFileIO(MemoryFileIO())
    found = Many(io, new_table("/w/t", [("k", "INT"), ("v", "STRING")], ["k"], io=io))
    found.commit("java", SNAPSHOTS)
    found.reads()
    return found


def told(table: Table, *wanted: str) -> dict[str, Position]:
    """What the snapshots say down to where all of ``wanted`` have been met."""
    found: dict[str, Position] = {}
    for snapshot in table.snapshots.newest_first():
        name = snapshot.properties.get(PIPELINE_PROPERTY, "")
        position = position_of(snapshot, name)
        if position is not None:
            found.setdefault(name, position)
        if {*wanted} <= found.keys():
            break
    return found


def offsets(known: KnownPositions, *pipelines: str) -> dict[str, int]:
    return {name: position.offsets["items", 0] for name, position in known.newest(*pipelines).items()}


def test_a_second_look_reads_what_is_newer_and_the_newest_one_seen(many: Many) -> None:
    known = KnownPositions(many.table.snapshots)
    assert offsets(known, "shop") == {}
    assert many.reads() == SNAPSHOTS

    many.commit("a", of_pipeline=properties("other", 3))
    many.commit("java", 2)
    many.reads()

    assert offsets(known, "shop") == {"other": 3}
    assert many.reads() == 4
    assert offsets(known, "shop") == {"other": 3}
    assert many.reads() == 1


@pytest.mark.parametrize(("back_to", "since"), [(5, 0), (5, 20), (20, 21), (20, 40), (40, 3)])
def test_after_a_rollback_all_is_read_again(many: Many, back_to: int, since: int) -> None:
    many.commit("a", of_pipeline=properties("other", 7))
    known = KnownPositions(many.table.snapshots)
    assert offsets(known, "shop") == {"other": 7}

    many.roll_back_to(back_to)
    many.commit("b", since)
    many.reads()

    assert offsets(known, "shop") == {}
    assert many.reads() >= back_to + since


def test_a_rollback_to_what_was_seen_takes_nothing_away(many: Many) -> None:
    many.commit("a", of_pipeline=properties("other", 7))
    known = KnownPositions(many.table.snapshots)
    known.newest("shop")
    many.commit("a", 3, properties("other", 9))
    assert offsets(known, "shop") == {"other": 9}
    many.roll_back_to(SNAPSHOTS + 1)
    assert offsets(known, "shop") == {"other": 7}


@pytest.mark.parametrize("count", [1, SNAPSHOTS, SNAPSHOTS + 1, SNAPSHOTS + 5])
def test_of_a_table_made_anew_all_is_read_again(many: Many, count: int) -> None:
    many.commit("a", of_pipeline=properties("other", 7))
    known = KnownPositions(many.table.snapshots)
    known.newest("shop")

    many.io.delete_tree("/w/t")
    many.table = new_table("/w/t", [("k", "INT"), ("v", "STRING")], ["k"], io=many.io)
    many.commit("b", of_pipeline=properties("second", 2))
    many.commit("b", count - 1)

    assert offsets(known, "shop") == {"second": 2}


def test_snapshots_without_a_uuid_are_told_apart(many: Many) -> None:
    """Those of earlier versions of Paimon."""
    store = many.table.snapshots

    def without_uuid() -> None:
        newest = store.latest()
        assert newest is not None
        many.io.write(store.paths.snapshot_file(newest.id), to_json(replace(newest, uuid=None)).encode())

    many.commit("a", of_pipeline=properties("other", 7))
    without_uuid()
    known = KnownPositions(store)
    assert offsets(known, "shop") == {"other": 7}
    many.roll_back_to(SNAPSHOTS)
    many.commit("a", of_pipeline=properties("other", 5))
    without_uuid()
    assert offsets(known, "shop") == {"other": 5}


def test_positions_are_those_that_a_new_look_finds_whatever_was_looked_for_before(many: Many) -> None:
    for pipeline, offset in (("first", 1), ("second", 2), ("shop", 3), ("third", 4)):
        many.commit("a", of_pipeline=properties(pipeline, offset))
        many.commit("java", 3)
    known = KnownPositions(many.table.snapshots)
    for wanted in (("shop",), ("shop", "second"), ("shop",), ("third",), ("shop", "gone"), ("shop", "first")):
        assert known.newest(*wanted) == told(many.table, *wanted), wanted
    many.reads()
    known.newest("shop", "gone")
    assert many.reads() == 1


def test_a_wider_look_goes_on_below_what_was_read(many: Many) -> None:
    many.commit("a", of_pipeline=properties("shop", 3))
    many.commit("java", 20)
    known = KnownPositions(many.table.snapshots)
    known.newest("shop")
    many.reads()
    assert offsets(known, "shop", "gone") == {"shop": 3}
    assert many.reads() <= SNAPSHOTS + 1


def test_what_has_expired_meanwhile_is_no_damage(many: Many) -> None:
    known = KnownPositions(many.table.snapshots)
    known.newest("shop")
    many.commit("a", of_pipeline=properties("other", 7))
    many.commit("java", 3)
    for expired in range(1, SNAPSHOTS + 3):
        many.io.delete(many.table.snapshots.paths.snapshot_file(expired))
    assert offsets(known, "shop") == {}
    assert offsets(known, "shop", "other") == {}


def opened(many: Many) -> TableSink:
    return TableSink("lake.t", many.table, "shop", "tidemark-shop", resumes=True)


def first_batch(sink: TableSink, offset: int = 1) -> None:
    added = commit_message(new_files=[data_file("mine")], total_buckets=1)
    sink.commit(0, [added], {("items", 0): offset}, lambda _: None, None)


def test_a_first_commit_behind_others_reads_what_these_have_brought(many: Many) -> None:
    sink = opened(many)
    assert many.reads() <= SNAPSHOTS + 2
    looks: list[object] = []
    sink.check_first(lambda: looks.append(sink.read_by_others(SOURCE)))
    assert many.reads() <= 2

    many.commit("a", of_pipeline=properties("other", 7))
    many.reads()
    first_batch(sink)

    assert looks == [{}, {"other": {0: 7}}]
    assert many.reads() <= 12


@pytest.mark.parametrize("since", [1, 30])
def test_a_first_commit_behind_a_rollback_counts_what_is_there_now(many: Many, since: int) -> None:
    many.commit("a", of_pipeline=properties("other", 7))
    sink = opened(many)
    looks: list[object] = []
    sink.check_first(lambda: looks.append(sink.read_by_others(SOURCE)))

    many.roll_back_to(20)
    many.commit("b", since, properties("second", 4))
    sink.refresh()
    sink.target(0, None)  # the batch is planned on what is there now
    first_batch(sink)

    assert looks == [{"other": {0: 7}}, {"second": {0: 4}}]


@dataclass(slots=True)
class SideBySide(CountingFileIO):
    """Storage that answers for old snapshots once it was asked for two of them."""

    both: threading.Barrier = field(default_factory=lambda: threading.Barrier(2))
    held: Sequence[int] = (30, 29)

    def read(self, path: str) -> bytes:
        if path.endswith(tuple(f"/snapshot-{n}" for n in self.held)):
            self.both.wait(seconds(30))
        return CountingFileIO.read(self, path)


def test_snapshots_far_back_are_read_side_by_side(many: Many) -> None:
    store = SnapshotStore(SideBySide(many.io), many.table.paths)
    assert KnownPositions(store).newest("shop") == {}
    assert many.reads() == SNAPSHOTS


def test_a_position_that_is_near_is_found_with_few_reads(many: Many) -> None:
    many.commit("a", of_pipeline=properties("shop", 3))
    many.reads()
    assert offsets(KnownPositions(many.table.snapshots), "shop") == {"shop": 3}
    assert many.reads() == 1
