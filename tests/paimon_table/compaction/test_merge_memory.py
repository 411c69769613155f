"""How much memory compactions and scans of many overlapping runs take when rows are much larger than their files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_table.merge.sort import KeyOrder
from paimon_table.mergetree.run_chunks import run_chunks
from paimon_table.mergetree.sections import partition
from paimon_table.rows.batch_size import BATCH_BYTES
from paimon_table.scan.scan import TableScan
from paimon_table.scan.splits import Split
from paimon_table.storage.file_io import LocalFileIO
from tests.support.bucket_harness import BucketHarness, context

_RUNS = 18
_ROWS = 4_000
_TEXT = "x" * 3_000
_CHUNK_BYTES = 16 << 20
_LIMIT_BYTES = 4 * (_CHUNK_BYTES + _RUNS * BATCH_BYTES)
"""Four times the rows of a chunk, which can have a batch of each run more than it should."""


def _bucket(root: Path, file_format: str) -> BucketHarness:
    columns = (("k", "INT"), ("text", "STRING"))
    options = {"file.format": file_format, "num-sorted-run.compaction-trigger": "100"}
    ctx = context(columns, ["k"], options, LocalFileIO(), str(root / "table"))
    bucket = BucketHarness(ctx, root / "lookup", environment={"chunk_bytes": _CHUNK_BYTES})
    for run in range(_RUNS):
        bucket.commit([("+I", key * _RUNS + run, _TEXT) for key in range(_ROWS)])
    assert [file.level for file in bucket.files] == [0] * _RUNS
    assert all(file.file_size_bytes * 50 < _ROWS * len(_TEXT) for file in bucket.files)
    return bucket


def _compact(bucket: BucketHarness) -> int:
    return sum(file.row_count for file in bucket.commit([], full=True).compact_after)


def _scan(bucket: BucketHarness) -> int:
    order = KeyOrder(bucket.ctx.schema, bucket.ctx.options)
    split = Split(bucket=bucket.bucket, sections=partition(bucket.files, order.file_key), deletion_files=())
    return sum(rows.num_rows for rows in TableScan.make(bucket.ctx).read(split))


@contextmanager
def _measured() -> Iterator[pa.MemoryPool]:
    """A pool that counts what is allocated from now on."""
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(pool)
    try:
        yield pool
    finally:
        pa.set_memory_pool(usual)


@pytest.mark.slow
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_memory_follows_the_chunk_size_however_well_rows_compress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_format: str
) -> None:
    monkeypatch.setattr("paimon_table.scan.split_reader.run_chunks", partial(run_chunks, chunk_bytes=_CHUNK_BYTES))
    bucket = _bucket(tmp_path, file_format)
    for merge in (_scan, _compact):
        with _measured() as pool:
            assert merge(bucket) == _RUNS * _ROWS
            assert pool.max_memory() < _LIMIT_BYTES, merge


@pytest.mark.slow
def test_memory_of_a_batch_follows_the_write_buffer(tmp_path: Path) -> None:
    """Rows of a batch lie in mapped files; what is made of them goes to disk part by part."""
    buffer_bytes = 4 << 20
    ctx = context((("k", "INT"), ("text", "STRING")), ["k"], {}, LocalFileIO(), str(tmp_path / "table"))
    bucket = BucketHarness(ctx, tmp_path / "lookup", environment={"write_buffer_bytes": buffer_bytes})
    rows = bucket.table([("+I", key * 7_919 % 30_011, _TEXT) for key in range(30_000)])
    assert rows.nbytes > 20 * buffer_bytes
    with _measured() as pool, pytest.MonkeyPatch.context() as patch:
        patch.setattr("paimon_table.write.bucket_writer.KEPT_BYTES", buffer_bytes)
        writer = bucket.new_writer()
        writer.write(rows)
        message = writer.prepare_append()
        assert pool.max_memory() < 10 * buffer_bytes
    assert sum(file.row_count for file in message.new_files) == 30_000
