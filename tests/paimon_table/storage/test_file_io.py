"""Local storage: atomic publish, replacement, durability order, and the choice of storage by URI."""

from __future__ import annotations

import errno
import os
import pickle
import resource
import signal
import stat
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from paimon_table.errors import CommitOutcomeUnknown, ConfigError
from paimon_table.storage import file_io
from paimon_table.storage.disk_syncs import sync_path
from paimon_table.storage.file_io import FoundFile, LocalFileIO, file_io_for


@pytest.fixture
def io() -> LocalFileIO:
    return LocalFileIO()


def test_published_file_is_never_replaced(io: LocalFileIO, tmp_path: Path) -> None:
    path = f"{tmp_path}/snapshot/snapshot-1"
    assert io.publish(path, b"mine")
    assert not io.publish(path, b"theirs")
    assert io.read(path) == b"mine"
    assert io.list_names(f"{tmp_path}/snapshot") == ["snapshot-1"]


def publish_own_name(path: str, number: int) -> bool:
    return LocalFileIO().publish(path, str(number).encode() * 1000)


@pytest.mark.slow
def test_exactly_one_of_many_processes_publishes(tmp_path: Path) -> None:
    with ProcessPoolExecutor(4) as processes:
        for snapshot in range(20):
            path = f"{tmp_path}/snapshot-{snapshot}"
            won = list(processes.map(publish_own_name, [path] * 4, range(4)))
            assert sum(won) == 1
            assert LocalFileIO().read(path) == str(won.index(True)).encode() * 1000


@pytest.mark.slow
def test_streamed_files_and_their_directories_are_on_disk_after_sync(
    io: LocalFileIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    io.sync()  # what other tests left
    synced: list[str] = []
    fsync = os.fsync

    def slow_fsync(descriptor: int) -> None:
        time.sleep(0.05)
        fsync(descriptor)
        synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), tmp_path))

    paths = [f"{tmp_path}/{bucket}/{name}" for bucket in ("b0", "b1") for name in "xyz"]
    for directory in ("b0", "b1"):
        io.mkdirs(f"{tmp_path}/{directory}")
    monkeypatch.setattr(os, "fsync", slow_fsync)
    for path in paths:
        with io.open_output(path) as stream:
            stream.write(b"abc")
    io.delete(paths[0])
    io.sync()
    assert sorted(synced[:6]) == ["b0/x (deleted)", "b0/y", "b0/z", "b1/x", "b1/y", "b1/z"]
    assert synced[6:] == ["b0", "b1"], "names last, and each directory once"
    io.sync()
    assert len(synced) == 8


def test_a_streamed_file_that_cannot_be_synced_is_noticed(
    io: LocalFileIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError("disk on fire")

    io.sync()  # what other tests left
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with io.open_output(f"{tmp_path}/x") as stream:
            stream.write(b"abc")
        with pytest.raises(OSError, match="on fire"):
            io.sync()
    io.sync()


def test_publish_syncs_the_content_before_the_name_and_the_directory_after(
    io: LocalFileIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, link = os.fsync, os.link
    io.mkdirs(str(tmp_path))

    def traced_fsync(descriptor: int) -> None:
        steps.append("sync " + os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")).split(".")[0])
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", traced_fsync)
    monkeypatch.setattr(os, "link", lambda a, b: (steps.append("link"), link(a, b)))
    io.publish(f"{tmp_path}/snapshot-1", b"x")
    assert steps == ["sync ", "link", f"sync {tmp_path.name}"]


@pytest.mark.parametrize("use", ["write", "publish", "open_output"])
def test_directories_that_a_killed_process_made_are_made_durable_once(
    io: LocalFileIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(file_io, "sync_path", lambda path: (synced.append(path), sync_path(path)))
    monkeypatch.setattr(file_io, "_DURABLE_DIRECTORIES", set())
    (tmp_path / "table" / "bucket-0").mkdir(parents=True)
    for number in range(2):
        path = f"{tmp_path}/table/bucket-0/file-{number}"
        if use == "open_output":
            with io.open_output(path) as stream:
                stream.write(b"x")
        else:
            getattr(io, use)(path, b"x")
    assert synced.count(str(tmp_path)) == synced.count(f"{tmp_path}/table") == 1
    assert synced.index(str(tmp_path)) < synced.index(f"{tmp_path}/table")


def test_lost_answer_of_a_network_file_system_is_recognised_as_own(
    io: LocalFileIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def link_then_fail(source: str, target: str) -> None:
        link(source, target)
        raise FileExistsError(target)

    monkeypatch.setattr(os, "link", link_then_fail)
    assert io.publish(f"{tmp_path}/snapshot-1", b"x")


def test_failing_directory_sync_leaves_the_outcome_unknown(
    io: LocalFileIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str) -> None:
        raise OSError("disk on fire")

    monkeypatch.setattr(file_io, "sync_path", fail)
    with pytest.raises(CommitOutcomeUnknown, match="read it before retrying"):
        io.publish(f"{tmp_path}/snapshot-1", b"x")


def test_file_system_without_hard_links_is_refused(
    io: LocalFileIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(source: str, target: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(ConfigError, match="does not support hard links"):
        io.publish(f"{tmp_path}/snapshot-1", b"x")
    assert io.list_names(str(tmp_path)) == []


def test_written_file_replaces_the_older_one_at_once(io: LocalFileIO, tmp_path: Path) -> None:
    path = f"{tmp_path}/a/b/LATEST"
    io.write(path, b"1")
    before = os.stat(path).st_ino
    io.write(path, b"22", durable=False)
    assert (io.read(path), io.size_bytes(path)) == (b"22", 2)
    assert os.stat(path).st_ino != before
    assert io.list_names(f"{tmp_path}/a/b") == ["LATEST"]


def test_write_all_refuses_to_replace(io: LocalFileIO, tmp_path: Path) -> None:
    io.write_all([(f"{tmp_path}/m/a", b"1"), (f"{tmp_path}/m/b", b"2")])
    assert io.list_names(f"{tmp_path}/m") == ["a", "b"]
    with pytest.raises(FileExistsError):
        io.write_all([(f"{tmp_path}/m/a", b"3")])


def test_streamed_file_is_complete_or_gone(io: LocalFileIO, tmp_path: Path) -> None:
    path = f"{tmp_path}/bucket-0/data-1.parquet"
    with io.open_output(path) as stream:
        stream.write(b"abc")
        assert stream.tell() == 3
    with io.open_input(path) as stream:
        stream.seek(1)
        assert stream.read() == b"bc"
    with pytest.raises(KeyError), io.open_output(f"{path}2") as stream:
        stream.write(b"abc")
        raise KeyError
    assert io.list_names(f"{tmp_path}/bucket-0") == ["data-1.parquet"]


def test_missing_things(io: LocalFileIO, tmp_path: Path) -> None:
    assert io.list_names(f"{tmp_path}/none") == []
    assert not io.exists(f"{tmp_path}/none")
    io.delete(f"{tmp_path}/none")
    with pytest.raises(FileNotFoundError):
        io.read(f"{tmp_path}/none")
    with pytest.raises(FileNotFoundError):
        io.open_input(f"{tmp_path}/none")


@pytest.mark.slow
def test_storage_is_chosen_by_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert file_io_for("file:///a/b%20c/") == (LocalFileIO(), "/a/b c")
    assert file_io_for("/a/b c/../d") == (LocalFileIO(), "/a/d")
    assert file_io_for("x/y") == (LocalFileIO(), f"{tmp_path}/x/y")
    io, path = file_io_for("s3a://bucket/key/", {"s3.endpoint": "http://127.0.0.1:1", "s3.region": "r"})
    assert path == "s3://bucket/key"
    assert pickle.loads(pickle.dumps(io)) == io


@pytest.mark.parametrize("uri", ["hdfs://h/x", "file://host/x", "gs://b/x"])
def test_other_schemes_are_refused(uri: str) -> None:
    with pytest.raises(ConfigError):
        file_io_for(uri)


@pytest.mark.parametrize("path", ["C:\\data", "d:/data", "\\\\host\\data"])
def test_windows_paths_are_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="Windows paths do not work here"):
        file_io_for(path)


def test_unknown_storage_option_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"s3\.secret-key"):
        file_io_for("s3://b/x", {"s3.secret": "x"})


def test_private_files_are_closed_to_others_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        io = LocalFileIO(private=True)
        io.write(f"{tmp_path}/a/b/one", b"1")
        io.write_all([(f"{tmp_path}/a/two", b"2")])
        assert io.publish(f"{tmp_path}/a/three", b"3")
        LocalFileIO().write(f"{tmp_path}/open", b"5")
    finally:
        os.umask(old)
    made = sorted(path for path in tmp_path.rglob("*") if path.name != "open")
    assert [path.name for path in made] == ["a", "b", "one", "three", "two"]
    assert [path.name for path in made if path.stat().st_mode & 0o077] == []
    assert (tmp_path / "open").stat().st_mode & 0o777 == 0o666


def test_files_and_empty_directories_are_deleted_together(tmp_path: Path) -> None:
    io = LocalFileIO()
    paths = [str(tmp_path / "d" / "e" / str(n)) for n in range(3)]
    io.write_all([(path, b"x") for path in paths])
    assert abs(io.modified_ms(paths[0]) - time.time() * 1000) < 60_000

    assert not io.delete_if_empty(str(tmp_path / "d" / "e"))
    io.delete_all([*paths, str(tmp_path / "none")])
    assert io.delete_if_empty(str(tmp_path / "d" / "e"))
    assert io.delete_if_empty(str(tmp_path / "d" / "e"))
    assert not (tmp_path / "d" / "e").exists()
    assert (tmp_path / "d").exists()


def test_files_are_listed_with_sizes_and_times(io: LocalFileIO, tmp_path: Path) -> None:
    """Neither directories nor links are files."""
    io.write_all([(f"{tmp_path}/d/{name}", b"x" * size) for name, size in (("b", 2), ("a", 1))])
    io.write_all([(f"{tmp_path}/d/sub/c", b"x")])
    os.symlink(f"{tmp_path}/d/a", f"{tmp_path}/d/link")
    os.utime(f"{tmp_path}/d/a", (1_000, 1_000))
    first, second = io.list_files(f"{tmp_path}/d")
    assert first == FoundFile("a", 1, 1_000_000)
    assert (second.name, second.size_bytes) == ("b", 2)
    assert second.modified_ms == io.modified_ms(f"{tmp_path}/d/b")
    assert io.list_files(f"{tmp_path}/none") == []


def test_a_write_that_finds_no_room_names_its_file_and_leaves_nothing(io: LocalFileIO, tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OSError) as whole:
            io.write(f"{tmp_path}/whole", bytes(5000))
        with pytest.raises(OSError):
            io.write_all([(f"{tmp_path}/one", bytes(5000))])
        with pytest.raises(OSError):
            io.publish(f"{tmp_path}/published", bytes(5000))
        with pytest.raises(OSError) as streamed, io.open_output(f"{tmp_path}/streamed") as stream:
            stream.write(bytes(5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, previous)

    assert f"{tmp_path}/.whole" in str(whole.value)
    assert str(streamed.value).endswith(f"'{tmp_path}/streamed'")
    assert {whole.value.errno, streamed.value.errno} == {errno.EFBIG}
    assert list(tmp_path.iterdir()) == []


def test_directories_of_files_closed_to_writers_are_closed_too(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        LocalFileIO(closed_to_writers=True).write(str(tmp_path / "a" / "b" / "c"), b"x")
    finally:
        os.umask(old)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b", "a/b/c")]
    assert modes == [0o755, 0o755, 0o644]
