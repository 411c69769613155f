"""A table of a real broker's topic is rebuilt beside a pipeline that runs, is killed, and goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paimon_table import CommitKind, Table
from sinks.faults import CRASH_VARIABLE
from tests.integration.orders_pipeline import events, row, running, written
from tests.stack.topics import Topics
from tests.support.command import Done, tidemark_process
from tests.support.pipeline_run import rows_so_far, wait_until
from tests.support.waiting import seconds

pytestmark = pytest.mark.stack

TOPIC = "rebuilt.public.orders"
PATIENT = """
from pipelines.control import guest
from tidemark.__main__ import main
guest.RESTART_S = {}
main()
"""
"""A command that waits for the restart of a run as long as a busy machine may take."""


def test_a_table_is_rebuilt_beside_its_pipeline_and_without_it(tmp_path: Path, kafka: Topics) -> None:
    kafka.create(TOPIC, 2)
    file = written(tmp_path, kafka.bootstrap_servers, TOPIC, options="changelog-producer: lookup")
    log = tmp_path / "log"
    root = f"{tmp_path}/warehouse/lake.db/orders"

    def rows() -> dict[int, Any]:
        return {r["id"]: r["n"] for r in rows_so_far(root)}

    def rebuild(*words: str, code: int = 0) -> Done:
        done = tidemark_process("replay", str(file), "--table", "lake.orders", "--rebuild", *words)
        assert done.returncode == code, done.stdout + done.stderr + log.read_text()
        return done

    def rebuilding(*words: str) -> tuple[subprocess.Popen[bytes], Path]:
        """The command in the background, and what it says."""
        said = tmp_path / "said"
        with said.open("wb") as out:
            command = [sys.executable, "-c", PATIENT.format(seconds(60)), "replay", str(file)]
            command += ["--table", "lake.orders", "--rebuild", *words]
            return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT), said

    kafka.produce(TOPIC, events([*map(row, range(2000)), *(row(key, -key) for key in range(0, 2000, 7))]))
    expected = {key: -key if key % 7 == 0 else key for key in range(2000)}
    with running(file, log, **{CRASH_VARIABLE: "rebuild-tagged"}) as process:
        wait_until(lambda: rows() == expected, 120, "the first rows")
        dropped = tidemark_process("table", "drop-partition", root, "--partition", "day=1", "--yes")
        assert dropped.returncode == 0, dropped.stderr
        command, said = rebuilding()
        assert process.wait(seconds(60)) < 0
    assert len(rows()) == 1500

    with running(file, log) as process:
        assert command.wait(seconds(120)) == 0, said.read_text() + log.read_text()
        assert "rebuilt table lake.orders: 2,000 rows, " in said.read_text()
        assert "starting Spark" not in said.read_text(), "it is a guest of the run that has come back"
        assert rows() == expected
        kafka.produce(TOPIC, events(map(row, range(2000, 2400))))
        expected |= {key: key for key in range(2000, 2400)}
        wait_until(lambda: rows() == expected, 120, "the rows behind the crash")
        kafka.produce(TOPIC, events([row(1, 111)]))
        expected[1] = 111
        wait_until(lambda: rows() == expected, 60, "a row behind the switch")
        kafka.delete_records(TOPIC, 100, partition=1)
        gone = f"topic {TOPIC} partition 1: offsets 0 to 99 are gone (retention, or deleted records)"
        assert gone in rebuild(code=2).stderr
        assert rows() == expected
        process.terminate()  # killed, it may leave a batch whose rows are there and which only its next start closes
        assert process.wait(seconds(60)) == 0
    kinds = [snapshot.commit_kind for snapshot in Table.open(root).snapshots.newest_first()]
    assert kinds.count(CommitKind.OVERWRITE) == 2  # the dropped partition, the switch

    command, said = rebuilding("--allow-missing")
    wait_until(lambda: "starting Spark" in said.read_text(), 60, "a command that holds the checkpoint")
    with running(file, log) as process:
        assert command.wait(seconds(180)) == 0, said.read_text() + log.read_text()
        process.terminate()
        assert process.wait(seconds(60)) == 0
    assert "pipeline again starts: it takes over the checkpoint" in said.read_text()
    assert (
        "which rebuilds lake.orders; it finishes its slice, then hands the checkpoint over to this run"
        in log.read_text()
    )
    assert log.read_text().rstrip().endswith("stopped; the next start continues from here")
    lost = {key for key in range(1, 200, 2) if key % 7} - {1}
    assert f"rebuilt table lake.orders: {2400 - len(lost):,} rows, 2,400 before" in said.read_text()
    assert rows() == {key: n for key, n in expected.items() if key not in lost}
