"""Keys of refused rows are told, whatever they are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_table.errors import MalformedRecord
from tests.support.bucket_harness import BucketHarness, context


@pytest.mark.parametrize("engine", ["first-row", "partial-update"])
@pytest.mark.parametrize(
    ("sql", "key", "told"),
    [
        ("DATE", 2_932_897, "'10000-01-01'"),
        ("TIMESTAMP(6)", 400_000_000_000_000_000, "'14645-06-30 15:06:40.000000'"),
        ("DATE", 1, r"datetime\.date\(1970, 1, 2\)"),
        ("INT", 7, "7"),
    ],
)
def test_a_refused_delete_is_told_with_its_key(tmp_path: Path, engine: str, sql: str, key: int, told: str) -> None:
    bucket = BucketHarness(context([("k", sql), ("v", "INT")], ["k"], {"merge-engine": engine}), tmp_path)
    schema = bucket.ctx.schema.arrow_schema
    rows = bucket.table([])
    columns = [pa.array([key, key], schema.field("k").type), pa.array([1, 2], pa.int32()), pa.array([0, 3], pa.int8())]
    writer = bucket.new_writer()

    with pytest.raises(MalformedRecord, match=f"k'?(:| =) {told}"):
        writer.write(pa.table(columns, rows.column_names))
        writer.prepare_commit()
