"""Local files of a run lie where no other user can read them, change them or put others in their place."""

from __future__ import annotations

import fcntl
import logging
import os
import pickle
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from paimon_table.errors import ConfigError, SinkUnavailable
from paimon_table.storage.private_directory import (
    SharedDirectory,
    ensure_private,
    make_file,
    open_own,
    private_root,
    process_directory,
)
from sinks.exchange.spool import Spool

STRANGER = 54321
"""A user id that is not ours."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of other users")


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[Path]:
    """A directory that is open to everybody, as /tmp is."""
    old = os.umask(0)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    yield shared
    os.umask(old)


def mode(path: Path | str) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def own_name() -> str:
    return f"tidemark-{os.geteuid()}"


def run_python(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_everything_is_closed_to_others_whatever_the_umask(parent: Path) -> None:
    directory = Path(process_directory(str(parent)))
    make_file(f"{directory}/a")
    ensure_private(f"{directory}/b/c")
    spool = Spool.open(str(parent))
    spool.give("value", [1])

    found = [parent / own_name(), *(parent / own_name()).rglob("*")]
    assert len(found) >= 7
    assert {path.name: oct(mode(path)) for path in found if mode(path) & 0o077} == {}
    assert process_directory(str(parent)) == str(directory), "one per process"
    assert directory.name.startswith(f"{os.getpid()}-")


@needs_root
def test_a_directory_of_another_user_is_not_used(parent: Path, caplog: pytest.LogCaptureFixture) -> None:
    taken = parent / own_name()
    taken.mkdir(mode=0o777)
    os.chown(taken, STRANGER, STRANGER)

    with caplog.at_level(logging.WARNING):
        spool = Spool.open(str(parent))
    spool.give("plan", "ours")

    assert list(taken.iterdir()) == []
    assert Path(spool.directory).parents[1].name.startswith(f"{own_name()}-") and mode(Path(spool.directory)) == 0o700
    assert f"belongs to user {STRANGER}" in caplog.text and str(taken) in caplog.text


def test_a_directory_that_others_could_have_filled_is_not_used(parent: Path, caplog: pytest.LogCaptureFixture) -> None:
    (parent / own_name()).mkdir(mode=0o777)
    with caplog.at_level(logging.WARNING):
        root = private_root(str(parent))
    assert Path(root).name.startswith(f"{own_name()}-") and mode(root) == 0o700
    assert "open to others (mode 0777)" in caplog.text


def test_links_are_not_followed(parent: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (parent / own_name()).symlink_to(elsewhere)
    directory = process_directory(str(parent))
    assert list(elsewhere.iterdir()) == [] and not Path(directory).is_relative_to(parent / own_name())

    Path(f"{directory}/link").symlink_to(tmp_path / "target")
    with pytest.raises(FileExistsError):
        make_file(f"{directory}/link")
    with pytest.raises(OSError, match="symbolic links"):
        open_own(f"{directory}/link")
    with pytest.raises(SinkUnavailable, match="is a link"):
        ensure_private(f"{directory}/link")


def test_a_directory_where_others_may_rename_is_left_for_the_systems_one(
    tmp_path: Path, parent: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loose = tmp_path / "loose"
    loose.mkdir()
    loose.chmod(0o777)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(parent))
    with caplog.at_level(logging.WARNING):
        assert Path(private_root(str(loose / "below"))).parent == parent
    assert f"{loose} can be written by other users and has no sticky bit" in caplog.text

    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(loose))
    with pytest.raises(ConfigError, match=r"no sticky bit.*Set spark\.local\.dir"):
        private_root(str(loose / "again"))


@needs_root
def test_what_another_user_wrote_is_never_unpickled(parent: Path) -> None:
    spool = Spool.open(str(parent))
    planted = Path(spool.directory, "plan")
    planted.write_bytes(pickle.dumps("theirs"))
    planted.chmod(0o600)
    os.chown(planted, STRANGER, STRANGER)
    with pytest.raises(SinkUnavailable, match="another user"):
        spool.given("plan")
    os.chown(planted, os.geteuid(), os.getegid())
    planted.chmod(0o666)
    with pytest.raises(SinkUnavailable, match="another user"):
        spool.given("plan")


@needs_root
def test_a_root_that_another_user_put_in_place_of_a_removed_one_is_refused(parent: Path) -> None:
    spool = Spool.open(str(parent))
    os.rename(parent / own_name(), parent / "moved")
    (parent / own_name()).mkdir(mode=0o777)
    os.chown(parent / own_name(), STRANGER, STRANGER)
    with pytest.raises(SinkUnavailable, match=f"{own_name()} belongs to user {STRANGER}, so Tidemark does not use it"):
        spool.give("plan", 1)


def test_a_shared_directory_is_checked_where_it_is_used(parent: Path) -> None:
    shared = pickle.loads(pickle.dumps(SharedDirectory(str(parent), "application-7")))
    assert list(parent.iterdir()) == []
    assert shared.path() == str(parent / own_name() / "application-7") and mode(shared.path()) == 0o700


def test_what_a_killed_process_left_is_removed_and_what_is_in_use_stays(parent: Path) -> None:
    code = (
        "from paimon_table.storage.private_directory import SharedDirectory\n"
        f"print(SharedDirectory({str(parent)!r}, NAME).path(), flush=True); input()"
    )
    killed, living = (run_python(code.replace("NAME", repr(name))) for name in ("killed", "used"))
    directories = []
    for process in (killed, living):
        assert process.stdout is not None
        directories.append(Path(process.stdout.readline().strip()))
        make_file(f"{directories[-1]}/rows")
    killed.kill()
    killed.wait()

    SharedDirectory(str(parent), "used").path()

    assert [directory.exists() for directory in directories] == [False, True]
    living.communicate("\n")


def test_cleaners_of_temporary_files_find_the_directory_of_a_process_locked(parent: Path) -> None:
    """systemd-tmpfiles leaves what is below a directory with a lock, however old it is."""
    directory = SharedDirectory(str(parent), "kept").path()
    cleaner = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(cleaner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(cleaner)


@pytest.mark.slow
def test_many_processes_that_start_at_once_keep_what_is_theirs(parent: Path) -> None:
    code = (
        "from paimon_table.storage.private_directory import process_directory, make_file\n"
        f"d = process_directory({str(parent)!r}); make_file(d + '/mine'); print(d, flush=True); input()"
    )
    processes = [run_python(code) for _ in range(6)]
    directories = {process.stdout.readline().strip() for process in processes if process.stdout}
    assert len(directories) == 6 and all(Path(directory, "mine").exists() for directory in directories)
    for process in processes:
        process.communicate("\n")
    assert not any(Path(directory).exists() for directory in directories), "each removes its own"
