"""Each thread waits for its own files, and hears of their failures only."""

from __future__ import annotations

import os
import resource
import threading
from pathlib import Path

import pytest

from paimon_table.storage.disk_syncs import DiskSyncs
from tests.support.waiting import seconds


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Files called slow are synced when the event is set, files called bad fail."""
    release, fsync = threading.Event(), os.fsync

    def held_fsync(descriptor: int) -> None:
        name = os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))
        if name.startswith("slow"):
            assert release.wait(seconds(30))
        if name.startswith("bad"):
            raise OSError("disk on fire")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", held_fsync)
    return release


def _file(directory: Path, name: str) -> str:
    (directory / name).write_bytes(b"x")
    return str(directory / name)


def test_another_thread_does_not_take_the_wait_away(tmp_path: Path, held: threading.Event) -> None:
    syncs = DiskSyncs()
    syncs.add(_file(tmp_path, "slow"))
    other = threading.Thread(target=lambda: (syncs.add(_file(tmp_path, "quick")), syncs.wait()))
    other.start()
    other.join(seconds(30))
    assert not other.is_alive(), "it has nothing slow to wait for"

    threading.Timer(0.05, held.set).start()
    syncs.wait()

    assert held.is_set(), "the wait ended before the slow file was durable"


def test_a_failure_reaches_the_thread_whose_file_it_is(tmp_path: Path, held: threading.Event) -> None:
    syncs = DiskSyncs()
    syncs.add(_file(tmp_path, "bad"))
    failures: list[BaseException] = []

    def other() -> None:
        try:
            syncs.add(_file(tmp_path, "good"))
            syncs.wait()
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join(seconds(30))
    assert not failures
    with pytest.raises(OSError, match="on fire"):
        syncs.wait()


def test_many_files_do_not_use_up_the_descriptors(tmp_path: Path) -> None:
    syncs = DiskSyncs()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 100, limits[1]))
    try:
        for number in range(400):
            syncs.add(_file(tmp_path, f"f{number}"))
        syncs.wait()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_child_process_has_nothing_pending_and_can_sync(tmp_path: Path, held: threading.Event) -> None:
    syncs = DiskSyncs()
    syncs.add(_file(tmp_path, "slow"))
    with syncs._lock:
        child = os.fork()
        if child == 0:
            try:
                syncs.add(_file(tmp_path, "quick"))
                syncs.wait()
                os._exit(0)
            except BaseException:
                os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    held.set()
    syncs.wait()
