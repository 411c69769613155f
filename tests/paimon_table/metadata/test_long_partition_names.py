"""Partition values that no directory can be named after are refused before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.errors import MalformedRecord
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.rows.binary_row import serialize_row
from paimon_table.storage.file_io import LocalFileIO
from paimon_table.types import parse_type
from tests.support.bucket_harness import BucketHarness, context


def partition_of(tmp_path: Path, value: str) -> BucketHarness:
    columns = [("k", "INT"), ("city", "STRING")]
    ctx = context(columns, ["k", "city"], {}, LocalFileIO(), str(tmp_path / "table"), ["city"])
    partition = serialize_row([value], [parse_type("STRING")])
    return BucketHarness(ctx, tmp_path / "lookup", bucket=BucketId(partition, 0))


def test_a_value_that_gives_too_long_a_name_is_malformed(tmp_path: Path) -> None:
    value = "Å" * 126
    bucket = partition_of(tmp_path, value)

    with pytest.raises(MalformedRecord, match=r"partition column 'city' of .*table: .* 257 bytes .* at most 255"):
        bucket.commit([("+I", 1, value)])

    assert not (tmp_path / "table").exists()


def test_the_longest_name_is_written(tmp_path: Path) -> None:
    value = "x" * 250
    bucket = partition_of(tmp_path, value)

    bucket.commit([("+I", 1, value)])

    assert bucket.content() == [(1, value)]
    assert (tmp_path / "table" / f"city={value}" / "bucket-0").is_dir()
