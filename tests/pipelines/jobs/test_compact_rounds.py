"""`tidemark compact WAREHOUSE`: many tables, once or again and again."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from paimon_table import Table, WriterEnvironment
from paimon_table.maintenance.expiration import Surroundings
from paimon_table.maintenance.job import Job
from paimon_table.storage.counting_io import CountingFileIO
from paimon_table.storage.file_io import LocalFileIO
from pipelines.jobs.compact_rounds import TIDIED_AGAIN_MS, Chosen, Rounds
from tests.support.command import TIDEMARK, tidemark
from tests.support.table_driver import TableDriver, new_table
from tests.support.waiting import seconds

WRITE_ONLY = {"write-only": "true", "bucket": "2"}


def table(tmp_path: Path, name: str, options: Mapping[str, str] = WRITE_ONLY, commits: int = 6) -> TableDriver:
    database, _, short = name.partition(".")
    path = tmp_path / f"w/{database}.db/{short}"
    made = new_table(path, [("k", "INT"), ("v", "INT")], ["k"], options=options)
    driver = TableDriver(made, tmp_path / "lookup" / short)
    write(driver, commits)
    return driver


def write(driver: TableDriver, commits: int) -> None:
    for value in range(commits):
        driver.commit([["+I", key, value] for key in range(10)])


def levels(driver: TableDriver) -> set[int]:
    return {file.level for files in Table.open(driver.table.paths.root).state().files.values() for file in files}


def is_compacted(driver: TableDriver) -> bool:
    """Whether no bucket has as many runs as its strategy compacts."""
    state = Table.open(driver.table.paths.root).state()
    return all(sum(file.level == 0 for file in files) < 5 for files in state.files.values())


@pytest.mark.slow
def test_tables_that_nobody_else_compacts_are_compacted(tmp_path: Path) -> None:
    first, second = (
        table(tmp_path, "lake.a"),
        table(tmp_path, "other.b", {**WRITE_ONLY, "changelog-producer": "lookup"}),
    )
    late = table(tmp_path, "lake.late", {**WRITE_ONLY, "changelog-producer": "full-compaction"}, commits=1)
    waiting = table(tmp_path, "lake.waiting", {"bucket": "-2"}, commits=3)
    assert waiting.content() == []
    own = table(tmp_path, "lake.own", {"bucket": "2"}, commits=2)
    done = tidemark("compact", tmp_path / "w")
    assert done.returncode == 0, done.stderr
    assert "lake.a: compacted, 12 files of " in done.stdout
    assert "other.b: compacted for its readers, 12 files of " in done.stdout
    assert "lake.late: compacted for its readers, 2 files of " in done.stdout
    assert "lake.waiting: postponed rows got their buckets, " in done.stdout
    assert done.stdout.endswith("5 tables looked at, 4 compacted\n")
    assert 0 not in levels(first) | levels(second) | levels(late) and levels(own) == {0}
    assert first.content() == second.content() == [[key, 5] for key in range(10)]
    assert sorted(row for part in late.changes() for row in part.rows) == [["+I", key, 0] for key in range(10)]
    assert len(waiting.content()) == 10
    assert tidemark("compact", tmp_path / "w").stdout.endswith("5 tables looked at, 0 compacted\n")


@pytest.mark.slow
def test_a_dry_run_says_what_a_round_would_compact(tmp_path: Path) -> None:
    first = table(tmp_path, "lake.a")
    table(tmp_path, "lake.late", commits=1)
    table(tmp_path, "lake.full", {**WRITE_ONLY, "changelog-producer": "full-compaction"}, commits=1)
    table(tmp_path, "lake.own", {"bucket": "2"})
    before = sorted(path for path in tmp_path.rglob("*"))
    done = tidemark("compact", tmp_path / "w", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "lake.a: would compact 2 buckets:"
    assert "lake.full: would compact 2 buckets:" in done.stdout.splitlines()
    assert done.stdout.splitlines()[-1] == "lake.late: nothing to compact"
    assert sorted(path for path in tmp_path.rglob("*")) == before and levels(first) == {0}
    both = tidemark("compact", tmp_path / "w", "--dry-run", "--watch")
    assert both.returncode == 2 and "--dry-run shows one round: remove --watch" in both.stderr
    shutil.rmtree(tmp_path / "w/lake.db/late/manifest")
    (tmp_path / "w/lake.db/late/manifest").write_text("")
    damaged = tidemark("compact", tmp_path / "w", "--dry-run")
    assert damaged.returncode == 1 and "lake.a: would compact" in damaged.stdout and "lake.late" in damaged.stderr


@pytest.mark.slow
def test_write_only_tables_are_tidied_too(tmp_path: Path) -> None:
    """Their pipelines leave that to the job, as they leave compactions."""
    options = {**WRITE_ONLY, "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}
    driver, own = table(tmp_path, "lake.a", options), table(tmp_path, "lake.own", {**options, "write-only": "false"})
    done = tidemark("compact", tmp_path / "w", "--tables", "lake.*")
    assert "lake.a: 5 snapshots expired with 0 files of 0 bytes\n" in done.stdout, done.stdout + done.stderr
    assert driver.table.snapshots.earliest_id() == 6 and own.table.snapshots.earliest_id() == 1
    assert driver.content() == [[key, 5] for key in range(10)]


def test_a_table_that_nobody_writes_expires_by_time(tmp_path: Path) -> None:
    """At most every ten minutes: a round in between asks for its newest snapshot and no more."""
    options = {**WRITE_ONLY, "snapshot.num-retained.min": "1", "snapshot.time-retained": "1 h"}
    driver = table(tmp_path, "lake.a", options)
    clock = [driver.table.snapshots.read(1).time_ms]
    counted, said = CountingFileIO(LocalFileIO()), list[str]()
    surroundings = Surroundings(clock_ms=lambda: clock[0])
    new_job = Job(WriterEnvironment(str(tmp_path / "scratch")))
    rounds = Rounds(
        counted, str(tmp_path / "w"), Chosen(()), False, new_job, said.append, said.append, lambda: None, surroundings
    )
    assert rounds.go_round() == 1
    assert rounds.go_round() == 0
    newest = driver.table.snapshots.latest_id()
    assert driver.table.snapshots.earliest_id() == 1

    clock[0] += TIDIED_AGAIN_MS - 1
    before = len(counted.requests)
    rounds.go_round()
    assert len(counted.requests) - before <= 8
    clock[0] += 2 * 3_600_000
    rounds.go_round()

    assert driver.table.snapshots.earliest_id() == driver.table.snapshots.latest_id() == newest
    assert any("snapshots expired" in text for text in said)


def test_patterns_choose_whatever_else_compacts_the_table(tmp_path: Path) -> None:
    one, other = table(tmp_path, "lake.orders_a", {"bucket": "1"}, 2), table(tmp_path, "lake.lines", {"bucket": "1"}, 2)
    done = tidemark("compact", tmp_path / "w", "--tables", "lake.orders_*", "--tables", "nothing.*", "--full")
    assert (done.returncode, levels(one), levels(other)) == (0, {5}, {0}), done.stdout
    refused = tidemark("compact", tmp_path / "w", "--tables", "lake.order", "--tables", "x.?")
    assert refused.returncode == 2 and "has no table with a name like lake.order or x.?" in refused.stderr
    assert tidemark("compact", tmp_path / "nothing").returncode == 2
    assert tidemark("compact", tmp_path / "w", "--watch", "--interval", "soon").returncode == 2


@pytest.mark.slow
def test_trouble_with_one_table_does_not_stop_the_others(tmp_path: Path) -> None:
    damaged, missing, whole = table(tmp_path, "lake.a"), table(tmp_path, "lake.b"), table(tmp_path, "lake.c")
    Path(f"{damaged.table.paths.root}/snapshot/snapshot-6").write_text("{")
    for path in Path(missing.table.paths.root).rglob("*.parquet"):
        path.unlink()
    done = tidemark("compact", tmp_path / "w")
    assert done.returncode == 1
    assert "lake.a: " in done.stderr and "is not readable as a snapshot" in done.stderr
    assert "lake.b: " in done.stderr and done.stderr.count("the other tables continue") == 2
    assert done.stdout.endswith("3 tables looked at, 1 compacted, 2 could not be compacted\n")
    assert 0 not in levels(whole)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_watch_follows_what_is_written_until_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    first, damaged = table(tmp_path, "lake.a"), table(tmp_path, "lake.damaged")
    Path(f"{damaged.table.paths.root}/snapshot/snapshot-6").write_text("{")
    process = subprocess.Popen(
        [*TIDEMARK, "compact", str(tmp_path / "w"), "--watch", "--interval", "300ms"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _wait(process, lambda: is_compacted(first))
        second = table(tmp_path, "lake.later")
        _wait(process, lambda: is_compacted(second))
        write(first, 12)
        _wait(process, lambda: is_compacted(first))
        process.send_signal(number)
        out, err = process.communicate(timeout=seconds(30))
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert out.endswith("stopped\n") and err.count("lake.damaged: ") == 1
    for driver in (first, second):
        left = {path.name for path in Path(driver.table.paths.root).rglob("*.parquet")}
        named = {
            entry.file_name
            for number in range(1, (driver.table.snapshots.latest_id() or 0) + 1)
            for files in driver.table.state(driver.table.snapshots.read(number)).files.values()
            for entry in files
        }
        assert left == named


@pytest.mark.slow
def test_a_watch_waits_for_the_first_table(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*TIDEMARK, "compact", str(tmp_path / "w"), "--watch", "--interval", "300ms"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert "every 0.3 s" in process.stdout.readline()
        first = table(tmp_path, "lake.a")
        _wait(process, lambda: is_compacted(first))
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=seconds(30))
    finally:
        process.kill()
    assert process.returncode == 0 and err.count("has no table in it") == 1


def _wait(process: subprocess.Popen[str], is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds(60)
    while not is_done():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_a_job_that_is_killed_leaves_the_table_and_files_that_remove_orphans_takes(tmp_path: Path) -> None:
    """SIGKILL at whatever moment; the next job does the work, nothing is lost and nothing stays."""
    driver = table(tmp_path, "lake.a")
    root = Path(driver.table.paths.root)
    driver.commit([["+I", key, key] for key in range(300_000)])
    content = driver.content()
    before = set(root.rglob("*"))
    process = subprocess.Popen([*TIDEMARK, "compact", str(tmp_path / "w"), "--full"], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + seconds(60)
    while process.poll() is None and set(root.rglob("*.parquet")) <= before:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    process.kill()
    process.wait()
    assert TableDriver(Table.open(str(root)), tmp_path / "again").content() == content
    assert tidemark("compact", tmp_path / "w", "--full").returncode == 0
    assert levels(driver) == {5}
    done = tidemark("table", "remove-orphans", root, "--older-than", "0ms", "--nobody-writes")
    assert done.returncode == 0
    newest = Table.open(str(root))
    ids = range(1, (newest.snapshots.latest_id() or 0) + 1)
    states = [newest.state(newest.snapshots.read(number)) for number in ids]
    named = {file.file_name for state in states for files in state.files.values() for file in files}
    assert {path.name for path in root.rglob("*.parquet")} == named
    assert TableDriver(newest, tmp_path / "third").content() == content


def test_machines_get_an_object_for_each_line(tmp_path: Path) -> None:
    table(tmp_path, "lake.a")
    damaged = table(tmp_path, "lake.b", commits=1)
    for manifest in Path(damaged.table.paths.root, "manifest").glob("manifest-list-*"):
        manifest.unlink()

    done = tidemark("compact", tmp_path / "w", "--log-format", "json")

    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert (done.returncode, done.stdout) == (1, "")
    told = {(event["level"], event.get("table")) for event in events}
    assert told == {("info", "lake.a"), ("warning", "lake.b"), ("info", None)}
    assert events[-1]["message"] == "2 tables looked at, 1 compacted, 1 could not be compacted"
