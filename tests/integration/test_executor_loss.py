"""Two executors in processes of their own, one of which is killed midway: the tables do not notice."""

from __future__ import annotations

import re
from pathlib import Path

import psutil
import pytest

from paimon_table.table import Table
from tests.stack.class_archive import jvm_options
from tests.support.changelog import replay_strictly
from tests.support.events import History, write_dump
from tests.support.pipeline_run import run_once, running, wait_until, write_pipeline
from tests.support.waiting import seconds

pytestmark = pytest.mark.spark
TWO_EXECUTORS = f"local-cluster[2,1,1024]\n  spark.executor.extraJavaOptions: '{jvm_options()}'"
"""Their JVMs start as the driver's does."""


def test_a_killed_executor_loses_and_doubles_nothing(tmp_path: Path) -> None:
    history = History("orders", seed=10).extend(2_500)
    write_dump(tmp_path / "dumps", [history])
    file = write_pipeline(tmp_path, tmp_path / "dumps", max_records=500, master=TWO_EXECUTORS)
    log = tmp_path / "tidemark.log"

    table_path = f"{tmp_path}/warehouse/lake.db/orders"

    def rows() -> dict[int, object]:
        return {row["id"]: row for row in Table.open(table_path).to_arrow().to_pylist()}

    with running(file, log) as process:
        wait_until(lambda: "batch 1:" in log.read_text() or process.poll() is not None, 180, "the second batch")
        executors = [p for p in psutil.Process(process.pid).children(recursive=True) if is_executor(p)]
        assert len(executors) == 2, f"executors run apart from the driver: {executors}\n{log.read_text()}"
        executors[0].kill()
        wait_until(lambda: rows() == history.rows or process.poll() is not None, 240, "the last batch")
        process.terminate()
        assert process.wait(timeout=seconds(90)) == 0, log.read_text()
    assert rows() == history.rows
    replay_strictly((changes for _, changes in Table.open(table_path).changes()), ["id"])
    assert len(re.findall(r"batch \d+:", log.read_text())) >= 2


def test_rows_that_move_outlive_an_executor_and_the_driver(tmp_path: Path) -> None:
    """Blobs go through Spark's own shuffle; with an executor its index of keys is gone, with the driver all of them."""
    history = History("orders", seed=11, regions=4).extend(1_300)
    write_dump(tmp_path / "dumps", [history])
    rule = "  - { match: { table: orders }, into: lake.orders, partition_by: [region] }\n"
    buckets = "bucket: -1, dynamic-bucket.initial-buckets: 2, dynamic-bucket.target-row-num: 40"
    file = write_pipeline(tmp_path, tmp_path / "dumps", 300, master=TWO_EXECUTORS, buckets=buckets, rules=rule)
    log = tmp_path / "tidemark.log"

    with running(file, log) as process:
        wait_until(lambda: "batch 1:" in log.read_text() or process.poll() is not None, 180, "the second batch")
        executors = [p for p in psutil.Process(process.pid).children(recursive=True) if is_executor(p)]
        executors[0].kill()
        wait_until(
            lambda: "batch 3:" in log.read_text() or process.poll() is not None, 240, "two batches behind the loss"
        )
        assert process.poll() is None, log.read_text()
    restarted = run_once(file)
    assert restarted.returncode == 0, restarted.stderr

    table = Table.open(f"{tmp_path}/warehouse/lake.db/orders")
    content = table.to_arrow().to_pylist()
    assert {row["id"]: row for row in content} == history.rows
    assert len(content) == len(history.rows), "a key is in two partitions"
    assert set(replay_strictly((changes for _, changes in table.changes()), ["id"])) == {(key,) for key in history.rows}


def is_executor(process: psutil.Process) -> bool:
    try:
        return "CoarseGrainedExecutorBackend" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False
