"""SIGTERM and Ctrl-C finish the running batch and stop cleanly; the next start goes on where it stopped."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
from collections.abc import Iterator
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


@contextlib.contextmanager
def _after_three_batches(directory: Path, history: History) -> Iterator[tuple[Path, Path, subprocess.Popen[bytes]]]:
    """The pipeline file, the log and the process of a run that has many batches of the history before it.

    These follow one another at once, for each leaves records for the next.
    """
    write_dump(directory / "dumps", [history])
    file = write_pipeline(directory, directory / "dumps", max_records=100)
    file.write_text(file.read_text().replace("interval: 1s", "interval: 1h"))
    log = directory / "tidemark.log"
    with running(file, log) as process:
        wait_until(lambda: "batch 2:" in log.read_text() or process.poll() is not None, 120, "the third batch")
        yield file, log, process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_cleanly_between_batches(tmp_path: Path, number: signal.Signals) -> None:
    history = History("orders", seed=9).extend(3_000)
    with _after_three_batches(tmp_path, history) as (file, log, process):
        process.send_signal(number)
        assert process.wait(timeout=seconds(60)) == 0, log.read_text()
    assert "Traceback" not in log.read_text()

    commits = sorted(int(p.name) for p in (tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    newest = Table.open(f"{tmp_path}/warehouse/lake.db/orders").snapshots.latest()
    assert newest is not None
    assert newest.commit_identifier == commits[-1], "the running batch was finished"
    assert newest.commit_kind is CommitKind.COMPACT, "with its compactions"
    assert run_once(file).returncode == 0
    rows = Table.open(f"{tmp_path}/warehouse/lake.db/orders").to_arrow().to_pylist()
    assert {row["id"]: row for row in rows} == history.rows


def test_a_signal_to_all_processes_stops_cleanly_whichever_gets_it_first(tmp_path: Path) -> None:
    """As systemd's default and `kill -- -PGID` do; the JVM and the workers would end in the middle of a batch."""
    history = History("orders", seed=12).extend(3_000)
    with _after_three_batches(tmp_path, history) as (file, log, process):
        others = psutil.Process(process.pid).children(recursive=True)
        assert len(others) >= 3, "JVM, daemon, workers"
        for other in others:
            with contextlib.suppress(psutil.NoSuchProcess):
                other.terminate()
        seen = log.read_text().count(" records in ")
        wait_until(lambda: log.read_text().count(" records in ") >= seen + 2 or process.poll() is not None, 120, "more")
        process.terminate()
        assert process.wait(timeout=seconds(60)) == 0, log.read_text()
        assert psutil.wait_procs(others, timeout=seconds(20))[1] == []
    assert "Traceback" not in log.read_text() and "ERROR" not in log.read_text()

    assert run_once(file).returncode == 0
    rows = Table.open(f"{tmp_path}/warehouse/lake.db/orders").to_arrow().to_pylist()
    assert {row["id"]: row for row in rows} == history.rows


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


def test_a_compaction_that_fails_beside_an_idle_query_ends_the_run_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "local"))
    history = History("orders", seed=10).extend(300)
    write_dump(tmp_path / "dumps", [history])
    file = write_pipeline(tmp_path, tmp_path / "dumps")
    file.write_text(f"{file.read_text()}on_table_failure: stop\n")
    assert run_once(file).returncode == 0
    bucket = tmp_path / "warehouse" / "lake.db" / "orders" / "bucket-0"
    for data_file in bucket.glob("data-*"):
        data_file.unlink()
    shutil.rmtree(tmp_path / "local")  # lookup files hold the same rows
    write_dump(tmp_path / "later", [History("orders", seed=10).extend(310)])
    (later,), (dump,) = (tmp_path / "later").iterdir(), (tmp_path / "dumps").iterdir()
    later.rename(dump)  # the dump has grown
    log = tmp_path / "tidemark.log"

    with running(file, log) as process:
        assert process.wait(timeout=seconds(120)) == 1, log.read_text()

    assert "table lake.orders, bucket 0" in log.read_text()
    assert "is missing" in log.read_text()
    assert "Traceback" not in log.read_text()


def test_a_jvm_that_is_killed_is_told_and_loses_nothing(tmp_path: Path) -> None:
    history = History("orders", seed=11).extend(1_000)
    with _after_three_batches(tmp_path, history) as (file, log, process):
        (jvm,) = [child for child in psutil.Process(process.pid).children() if "java" in child.name()]
        jvm.kill()
        assert process.wait(timeout=seconds(60)) == 1, log.read_text()
    assert "JVM has ended" in log.read_text() and "start again" in log.read_text()
    assert "Traceback" not in log.read_text() and "Exception occurred" not in log.read_text()

    assert run_once(file).returncode == 0
    table = Table.open(f"{tmp_path}/warehouse/lake.db/orders")
    assert {row["id"]: row for row in table.to_arrow().to_pylist()} == history.rows
    assert len(replay_strictly([rows for _, rows in table.changes()], ["id"])) == len(history.rows)
