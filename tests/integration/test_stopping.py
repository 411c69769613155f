"""SIGTERM and Ctrl-C finish the running batch and stop cleanly; the next start goes on where it stopped."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
import pytest

from paimon_table.metadata.snapshot import CommitKind
from paimon_table.table import Table
from tests.support.changelog import replay_strictly
from tests.support.events import History, write_dump
from tests.support.pipeline_run import run_once, running, wait_until, write_pipeline
from tests.support.waiting import seconds

pytestmark = pytest.mark.spark
End = Callable[[subprocess.Popen[bytes], Path], None]


def _signal(number: signal.Signals) -> End:
    def end(process: subprocess.Popen[bytes], log: Path) -> None:
        process.send_signal(number)
        assert process.wait(timeout=seconds(60)) == 0, log.read_text()

    return end


def _signal_to_all(process: subprocess.Popen[bytes], log: Path) -> None:
    """As systemd's default and `kill -- -PGID` do; the JVM and the workers would end in the middle of a batch."""
    others = psutil.Process(process.pid).children(recursive=True)
    assert len(others) >= 3, "JVM, daemon, workers"
    for other in others:
        with contextlib.suppress(psutil.NoSuchProcess):
            other.terminate()
    _wait_for_batches(process, log, 2)
    process.terminate()
    assert process.wait(timeout=seconds(60)) == 0, log.read_text()
    assert psutil.wait_procs(others, timeout=seconds(20))[1] == []
    assert "ERROR" not in log.read_text()


def _death_of_the_jvm(process: subprocess.Popen[bytes], log: Path) -> None:
    (jvm,) = [child for child in psutil.Process(process.pid).children() if "java" in child.name()]
    jvm.kill()
    assert process.wait(timeout=seconds(60)) == 1, log.read_text()
    assert "JVM has ended" in log.read_text() and "start again" in log.read_text()
    assert "Exception occurred" not in log.read_text()


ENDS: Mapping[str, tuple[End, bool]] = {
    "SIGTERM": (_signal(signal.SIGTERM), True),
    "a killed JVM": (_death_of_the_jvm, False),
    "SIGINT": (_signal(signal.SIGINT), True),
    "a signal to all": (_signal_to_all, True),
}
"""How a run ends, and whether it finishes its batch before."""


def test_each_start_goes_on_where_the_one_before_was_ended(tmp_path: Path) -> None:
    """The batches follow one another at once, for each leaves records for the next.

    The last start meets a bucket whose files are gone.
    """
    history = History("orders", seed=9).extend(3_000)
    write_dump(tmp_path / "dumps", [history])
    file = write_pipeline(tmp_path, tmp_path / "dumps", max_records=100)
    file.write_text(file.read_text().replace("interval: 1s", "interval: 1h"))
    location = f"{tmp_path}/warehouse/lake.db/orders"

    for name, (end, finishes_its_batch) in ENDS.items():
        log = tmp_path / f"{name}.log"
        with running(file, log) as process:
            _wait_for_batches(process, log, 3)
            end(process, log)
        assert "Traceback" not in log.read_text()
        if finishes_its_batch:
            assert "stopped; the next start continues from here" in log.read_text()
            commits = sorted(int(p.name) for p in (tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
            newest = Table.open(location).snapshots.latest()
            assert newest is not None
            assert newest.commit_identifier == commits[-1], "the running batch was finished"
            assert newest.commit_kind is CommitKind.COMPACT, "with its compactions"

    table = Table.open(location)
    assert {row["id"]: row for row in table.to_arrow().to_pylist()} != history.rows, "each start left records"
    assert run_once(file).returncode == 0
    table = Table.open(location)
    assert {row["id"]: row for row in table.to_arrow().to_pylist()} == history.rows
    assert len(replay_strictly([rows for _, rows in table.changes()], ["id"])) == len(history.rows)
    _check_failing_compaction(tmp_path, file, history)


def _check_failing_compaction(root: Path, file: Path, history: History) -> None:
    """A compaction that fails beside an idle query ends the run in one line."""
    for data_file in (root / "warehouse" / "lake.db" / "orders" / "bucket-0").glob("data-*"):
        data_file.unlink()
    write_dump(root / "dumps", [history.extend(10)])  # the dump has grown
    file.write_text(f"{file.read_text()}on_table_failure: stop\n")
    log = root / "a failing compaction.log"

    with running(file, log) as process:
        assert process.wait(timeout=seconds(120)) == 1, log.read_text()

    assert "table lake.orders, bucket 0" in log.read_text()
    assert "is missing" in log.read_text()
    assert "Traceback" not in log.read_text()


def _wait_for_batches(process: subprocess.Popen[bytes], log: Path, more: int) -> None:
    def seen() -> int:
        return log.read_text().count(" records in ")

    wanted = seen() + more
    wait_until(lambda: seen() >= wanted or process.poll() is not None, 120, f"{more} batches")


def test_a_signal_while_spark_starts_stops_cleanly(tmp_path: Path) -> None:
    write_dump(tmp_path / "dumps", [History("orders", seed=12).extend(10)])
    file = write_pipeline(tmp_path, tmp_path / "dumps")
    log = tmp_path / "tidemark.log"
    with running(file, log) as process:
        wait_until(lambda: "starting Spark" in log.read_text(), 60, "the announcement of Spark")
        wait_until(lambda: bool(psutil.Process(process.pid).children()), 60, "the start of the JVM")
        for starting in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)][::-1]:
            with contextlib.suppress(psutil.NoSuchProcess):  # what starts a JVM ends when the JVM runs
                starting.terminate()
        assert process.wait(timeout=seconds(120)) == 0, log.read_text()
    assert "Traceback" not in log.read_text()
