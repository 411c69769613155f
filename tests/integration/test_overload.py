"""A machine that is too busy to start a process in time delays a pipeline, and does not end it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from paimon_table.table import Table
from tests.support.events import History, write_dump
from tests.support.pipeline_run import run_once, write_pipeline

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SLOW_PYTHON = """\
#!/usr/bin/env bash
case "$*" in
*streaming_source_runner*) mkdir {directory}/was-slow 2>/dev/null && sleep 14 ;;
esac
exec {python} "$@"
"""


def test_a_source_that_does_not_come_up_in_time_is_started_again(tmp_path: Path) -> None:
    history = History("orders", seed=6).extend(200)
    write_dump(tmp_path / "dumps", [history])
    file = write_pipeline(tmp_path, tmp_path / "dumps")
    python = tmp_path / "python"
    python.write_text(SLOW_PYTHON.format(directory=tmp_path, python=sys.executable))
    python.chmod(0o755)

    done = run_once(file, env={"PYSPARK_PYTHON": str(python)})

    assert done.returncode == 0, done.stderr
    assert "the machine is overloaded" in done.stderr and "trying again" in done.stderr
    assert "Traceback" not in done.stderr and (tmp_path / "was-slow").is_dir()
    rows = Table.open(f"{tmp_path}/warehouse/lake.db/orders").to_arrow().to_pylist()
    assert {row["id"]: row for row in rows} == history.rows
