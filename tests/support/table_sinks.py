"""A sink of a small table on a disk in memory, and the result of a batch's task for it."""

from __future__ import annotations

from pathlib import Path

from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO
from paimon_table.table import Table
from paimon_table.write.bucket_writer import BucketWriter
from sinks.commit.table_sink import TableSink
from sinks.write.bucket_task import WriteTask
from tests.support.table_driver import TableDriver, new_table

BUCKET = BucketId(EMPTY_ROW, 0)


def table(disk: MemoryDisk, **options: str) -> Table:
    given = {name.replace("_", "-"): value for name, value in options.items()}
    return new_table("/w/t", [("k", "INT"), ("v", "STRING")], ["k"], (), given, MemoryFileIO(disk))


def sink(of: Table) -> TableSink:
    return TableSink("lake.t", of, "shop", "checkpoint", resumes=True)


def rows(*keys: int) -> list[list[object]]:
    return [["+I", key, "a"] for key in keys]


def message(target: TableSink, batch_id: int, tmp_path: Path, *keys: int) -> CommitMessage:
    """The result of a batch's task for these keys."""
    target.refresh()
    driver = TableDriver(target.table, tmp_path)
    task = WriteTask(batch_id, (target.target(batch_id, None),), str(tmp_path))
    writer = task.open_writer(task.targets[0], BUCKET)
    assert isinstance(writer, BucketWriter)
    writer.write(driver.arrow(rows(*keys)))
    return writer.prepare_commit()
