"""Two executors in processes of their own: one is killed midway, and the driver later. The tables do not notice."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path

import psutil
import pytest

from paimon_table.table import Table
from tests.stack.class_archive import jvm_options
from tests.support.changelog import replay_strictly
from tests.support.events import History
from tests.support.pipeline_run import run_once, running, wait_until, write_pipeline

pytestmark = pytest.mark.spark
TWO_EXECUTORS = f"local-cluster[2,1,1024]\n  spark.executor.extraJavaOptions: '{jvm_options()}'"
"""Their JVMs start as the driver's does."""


RULES = """\
  - { match: { table: orders }, into: lake.orders }
  - match: { table: moves }
    into: lake.moves
    partition_by: [region]
    options: { bucket: -1, dynamic-bucket.initial-buckets: 2, dynamic-bucket.target-row-num: 40 }
"""


def test_rows_outlive_an_executor_and_the_driver(tmp_path: Path) -> None:
    """Blobs go through Spark's own shuffle; with an executor its index of keys is gone, with the driver all of them."""
    histories = [History("orders", seed=10).extend(1_300), History("moves", seed=11, regions=4).extend(1_300)]
    mixed = [line for lines in zip_longest(*(history.lines() for history in histories)) for line in lines]
    (tmp_path / "dumps").mkdir()
    (tmp_path / "dumps" / "shop.jsonl").write_text("".join(f"{line}\n" for line in mixed if line is not None))
    file = write_pipeline(tmp_path, tmp_path / "dumps", 600, master=TWO_EXECUTORS, rules=RULES)
    log = tmp_path / "tidemark.log"

    with running(file, log) as process:
        wait_until(lambda: "batch 1:" in log.read_text() or process.poll() is not None, 180, "the second batch")
        executors = [p for p in psutil.Process(process.pid).children(recursive=True) if is_executor(p)]
        assert len(executors) == 2, f"executors run apart from the driver: {executors}\n{log.read_text()}"
        executors[0].kill()
        wait_until(
            lambda: "batch 3:" in log.read_text() or process.poll() is not None, 240, "two batches behind the loss"
        )
        assert process.poll() is None, log.read_text()
    restarted = run_once(write_pipeline(tmp_path, tmp_path / "dumps", 600, rules=RULES))
    assert restarted.returncode == 0, restarted.stderr

    for history in histories:
        table = Table.open(f"{tmp_path}/warehouse/lake.db/{history.table}")
        content = table.to_arrow().to_pylist()
        assert {row["id"]: row for row in content} == history.rows
        assert len(content) == len(history.rows), "a key is there twice"
        followed = replay_strictly((changes for _, changes in table.changes()), ["id"])
        assert followed == {(key,): row for key, row in history.rows.items()}


def is_executor(process: psutil.Process) -> bool:
    try:
        return "CoarseGrainedExecutorBackend" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False
