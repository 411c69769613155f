"""Sizes of the batches in which files are read."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_table.data_files.key_value_file import iter_key_value_batches
from paimon_table.rows.batch_size import BATCH_BYTES, in_batches
from tests.support.bucket_harness import BucketHarness, context

_START = datetime(2024, 1, 1)
_ROWS = 20_000


def _batches(root: Path, file_format: str, texts: list[str], batch_rows: int = _ROWS) -> list[pa.Table]:
    columns = (("k", "INT"), ("at", "TIMESTAMP(6)" if file_format == "avro" else "TIMESTAMP(9)"), ("text", "STRING"))
    bucket = BucketHarness(context(columns, ["k"], {"file.format": file_format}), root / "lookup")
    bucket.commit([("+I", key, _START + timedelta(seconds=key), text) for key, text in enumerate(texts)])
    (file,) = bucket.files
    return list(iter_key_value_batches(bucket.ctx, bucket.directory, file, batch_rows=batch_rows))


@pytest.mark.slow
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_batches_of_rows_that_compress_well_are_small(tmp_path: Path, file_format: str) -> None:
    texts = ["long" * 500] * _ROWS

    batches = _batches(tmp_path, file_format, texts)

    assert max(batch.nbytes for batch in batches) < 1.1 * BATCH_BYTES
    assert len(batches) < 1.5 * 2_000 * _ROWS / BATCH_BYTES + 5
    rows = pa.concat_tables(batches)
    assert rows.column("k").to_pylist() == list(range(_ROWS))
    assert rows.column("at").cast(pa.timestamp("s")).to_pylist() == [
        _START + timedelta(seconds=i) for i in range(_ROWS)
    ]
    assert rows.column("text").to_pylist() == texts


@pytest.mark.slow
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_batches_shrink_where_rows_become_larger(tmp_path: Path, file_format: str) -> None:
    texts = ["short"] * (_ROWS // 2) + ["long" * 1_000] * (_ROWS // 2)

    batches = _batches(tmp_path, file_format, texts)

    assert max(batch.num_rows for batch in batches[-10:]) <= BATCH_BYTES / 4_000
    assert pa.concat_tables(batches).column("text").to_pylist() == texts


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_batches_have_no_more_rows_than_asked_for(tmp_path: Path, file_format: str) -> None:
    batches = _batches(tmp_path, file_format, ["a"] * _ROWS, batch_rows=3_000)

    assert max(batch.num_rows for batch in batches) <= 3_000
    assert len(batches) <= _ROWS / 3_000 + 4


def test_few_large_rows_among_small_ones_make_no_large_batch() -> None:
    texts = ["short"] * 5_000 + ["x" * (BATCH_BYTES // 4)] * 12 + [""] + ["y" * (2 * BATCH_BYTES)] + ["short"] * 5_000
    rows = pa.table({"number": range(len(texts)), "text": texts})

    batches = list(in_batches(rows, 4_000))

    assert pa.concat_tables(batches) == rows
    assert max(batch.num_rows for batch in batches) <= 4_000
    assert all(batch.nbytes <= 2 * BATCH_BYTES or batch.num_rows == 1 for batch in batches)
    assert len(batches) < 40
    assert list(in_batches(rows.slice(0, 0), 4_000)) == []
