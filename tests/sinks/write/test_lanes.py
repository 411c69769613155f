"""A write task whose lanes are given buckets by what the table holds, not by their number."""

from __future__ import annotations

import errno
import os
import pickle
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_table import open_assigner
from paimon_table.bucket_assignment.lanes import Lane
from paimon_table.errors import MachineFailure
from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.index_file import HASH, IndexChange, IndexFileMeta
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO
from paimon_table.storage.outages import storage_failure
from pipelines.tables.table_failure import is_of_table
from sinks.commit.table_sink import TableSink
from sinks.exchange.blob import Blob, encode_rows
from sinks.write import bucket_task
from sinks.write.bucket_task import SlotWriter, WriteResult, WriteTask
from tests.support.table_driver import TableDriver, new_table
from tests.support.table_sinks import rows, sink, table


class OddAndEven:
    """Even keys lie in bucket 0, odd ones in bucket 1, whatever the lane; an index file notes that."""

    def assign(self, lane: Lane, rows: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        odd = pc.bit_wise_and(rows.column("k"), 1)
        for number in (0, 1):
            yield BucketId(lane.partition, number), rows.filter(pc.equal(odd, number))

    def find(self, lane: Lane, keys: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        return self.assign(lane, keys)

    def appended(self, messages: Sequence[CommitMessage]) -> None:
        pass

    def find_former(self, lane: Lane, keys: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        return self.find(lane, keys)

    def prepare_append(self, bucket: BucketId) -> IndexChange:
        name = f"index-of-{bucket.bucket}"
        return _noted(name)

    def prepare_others(self, lane: Lane) -> Iterator[tuple[BucketId, IndexChange]]:
        yield BucketId(lane.partition, 5), _noted("index-of-5")


def _noted(name: str) -> IndexChange:
    return IndexChange(after=(IndexFileMeta(index_type=HASH, file_name=name, file_size_bytes=4, row_count=1),))


def test_a_lane_becomes_several_buckets_with_their_index_in_one_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = MemoryDisk()
    target = sink(table(disk, bucket="2"))
    driver = TableDriver(target.table, tmp_path)
    changes = driver.arrow(rows(1, 2, 3, 4))
    monkeypatch.setattr(bucket_task, "open_assigner", lambda ctx, live, environment: OddAndEven())
    task = WriteTask(0, (target.target(0, None),), str(tmp_path))
    blob = Blob(0, 0, Lane(EMPTY_ROW, 7), "t", 0, 0, changes.num_rows, encode_rows(changes))

    results = [pickle.loads(result) for result in SlotWriter(task, [blob]).append()]

    (written,) = [result for result in results if isinstance(result, WriteResult)]
    assert written.row_count == 4
    assert [m.bucket.bucket for m in written.messages] == [0, 1, 5]
    assert [[f.row_count for f in m.new_files] for m in written.messages] == [[2], [2], []]
    target.commit(0, written.messages, {}, lambda step: None, None)
    assert [entry.file.file_name for entry in target.state.index] == ["index-of-0", "index-of-1", "index-of-5"]
    assert sorted(bucket.bucket for bucket in target.state.files) == [0, 1]


@pytest.mark.parametrize(("root", "together"), [("s3://w", 2), ("/w", 1)])
def test_tables_of_some_megabytes_wait_for_a_store_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str, together: int
) -> None:
    disk, lock, running, most = MemoryDisk(), threading.Lock(), 0, 0
    text, columns = "a" * (3 << 20), [("k", "INT"), ("v", "STRING")]
    sinks = [
        TableSink(
            f"lake.{name}",
            new_table(f"{root}/{name}", columns, ["k"], (), {"bucket": "1"}, MemoryFileIO(disk)),
            "shop",
            "checkpoint",
            resumes=True,
        )
        for name in "ab"
    ]
    blobs = []
    for number, one in enumerate(sinks):
        changes = TableDriver(one.table, tmp_path).arrow([["+I", 1, text]])
        blobs.append(Blob(0, number, Lane(EMPTY_ROW, 0), "t", 0, 0, 1, encode_rows(changes)))
    both = threading.Barrier(2)

    def noted(*args: Any) -> Any:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        if together == 2:
            both.wait(30)
        with lock:
            running -= 1
        return open_assigner(*args)

    monkeypatch.setattr(bucket_task, "open_assigner", noted)
    task = WriteTask(0, tuple(one.target(0, None) for one in sinks), str(tmp_path))

    results = [pickle.loads(result) for result in SlotWriter(task, blobs).append()]

    assert [one.target for one in results if isinstance(one, WriteResult)] == [0, 1]
    assert most == together


def test_a_local_disk_without_room_ends_the_job_and_pauses_no_table(tmp_path: Path) -> None:
    task = WriteTask(4, (sink(table(MemoryDisk(), bucket="2")).target(4, None),), str(tmp_path))

    def fails() -> WriteResult:
        raise MachineFailure("a lookup file cannot be written to /local")

    with pytest.raises(MachineFailure, match=r"table lake\.t, bucket 1: a lookup file cannot be written") as raised:
        task.answer(0, 1, fails)
    assert not is_of_table(raised.value)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_what_meets_every_table_ends_the_job_and_names_the_bucket(tmp_path: Path, number: int) -> None:
    task = WriteTask(4, (sink(table(MemoryDisk(), bucket="2")).target(4, None),), str(tmp_path))

    def fails() -> WriteResult:
        raise OSError(number, os.strerror(number))

    with pytest.raises(OSError, match=f"table lake.t, bucket 1: {os.strerror(number)}") as raised:
        task.answer(0, 1, fails)
    assert raised.value.errno == number
    assert not is_of_table(raised.value)
    assert not is_of_table(storage_failure(raised.value)), "the driver has told it by then"
