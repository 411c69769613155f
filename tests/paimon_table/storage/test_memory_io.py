"""The file system for crash tests behaves like a disk and dies where it is told to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from paimon_table.errors import CommitOutcomeUnknown
from paimon_table.storage.memory_io import MemoryFileIO, SimulatedCrash


def test_it_reads_what_was_written() -> None:
    io = MemoryFileIO()
    io.write("/a/b/c", b"1")
    io.write("/a/b/c", b"2")
    io.write_all([("/a/b/d", b"3")])
    with io.open_output("/a/e") as stream:
        stream.write(b"45")
    assert (io.read("/a/b/c"), io.open_input("/a/e").read(), io.size_bytes("/a/e")) == (b"2", b"45", 2)
    assert (io.list_names("/a"), io.list_names("/a/b"), io.list_names("/x")) == (["b", "e"], ["c", "d"], [])
    io.delete("/a/e")
    assert not io.exists("/a/e")
    with pytest.raises(FileNotFoundError):
        io.read("/a/e")


def test_published_file_is_never_replaced() -> None:
    io = MemoryFileIO()
    assert (io.publish("/p", b"1"), io.publish("/p", b"2"), io.read("/p")) == (True, False, b"1")


def test_failed_stream_leaves_no_file() -> None:
    io = MemoryFileIO()
    with pytest.raises(KeyError), io.open_output("/a") as stream:
        stream.write(b"1")
        raise KeyError
    assert io.disk.files == {}


def test_crash_comes_after_the_given_operation_and_ends_the_process() -> None:
    io = MemoryFileIO(crash_after=2)
    io.write("/a", b"1")
    with pytest.raises(SimulatedCrash):
        io.write("/b", b"2")
    with pytest.raises(SimulatedCrash):
        io.exists("/a")
    assert MemoryFileIO(io.disk.after_power_cut()).list_names("/") == ["a", "b"]


def test_crash_takes_what_was_not_durable() -> None:
    io = MemoryFileIO(crash_after=3)
    io.write("/hint", b"1", durable=False)
    with pytest.raises(SimulatedCrash), io.open_output("/data") as stream:
        stream.write(b"1")
        io.exists("/x")
    assert set(io.disk.files) == {"/hint", "/data"}
    assert io.disk.after_power_cut().files == {}


def test_streamed_files_survive_a_crash_once_they_are_synced() -> None:
    io = MemoryFileIO()
    io.write("/hint", b"1", durable=False)
    with io.open_output("/data") as stream:
        stream.write(b"2")
    assert io.disk.after_power_cut().files == {}
    io.sync()
    assert io.disk.after_power_cut().files == {"/data": b"2"}


@pytest.mark.parametrize("outcome", ["done", "not done"])
def test_lost_answers(outcome: str) -> None:
    io = MemoryFileIO(lose_answer=lambda path: outcome)
    with pytest.raises(CommitOutcomeUnknown):
        io.publish("/p", b"1")
    assert io.exists("/p") == (outcome == "done")


def test_each_operation_that_changes_the_disk_is_noted_and_no_other() -> None:
    io = MemoryFileIO()

    def streamed() -> None:
        with io.open_output("/d/stream") as stream:
            stream.write(b"rows")

    steps: list[tuple[Callable[[], object], list[bool]]] = [
        (lambda: io.write("/d/a", b"1"), [True]),
        (lambda: io.read("/d/a"), [False]),
        (lambda: io.write("/d/a", b"2", durable=False), [True]),
        (lambda: io.write_all([("/d/b", b"1"), ("/d/c", b"1")]), [True, True]),
        (lambda: io.publish("/d/b", b"2"), [False]),
        (lambda: io.publish("/d/e", b"1"), [True]),
        (lambda: io.exists("/d/a"), [False]),
        (streamed, [True, True]),
        (io.sync, [True]),
        (io.sync, []),
        (lambda: io.list_files("/d"), [False]),
        (lambda: io.size_bytes("/d/b"), [False]),
        (lambda: io.delete("/d/none"), [False]),
        (lambda: io.delete_tree("/d"), [True] * 5),
    ]
    for number, (step, changes) in enumerate(steps):
        before = io.operations
        step()
        noted = [operation in io.changes for operation in range(before + 1, io.operations + 1)]
        assert noted == changes, number
