"""What the disk has altered is reported with the file's name, or it changes nothing: data files of every format.

ORC and uncompressed Avro have no checksums; there the size, the number of rows and the decoders notice what they can.
"""

from __future__ import annotations

import datetime as dt
import random
import shutil
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_table.data_files.key_value_file import iter_key_value_batches
from paimon_table.errors import CorruptFile, TidemarkError
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.table_context import TableContext
from tests.support.data_files import bucket_dir, context, table, write

ROWS = 300
COLUMNS = {
    "id": "BIGINT", "name": "STRING", "count": "INT", "total": "DECIMAL(10, 2)", "at": "TIMESTAMP(6)",
    "done": "BOOLEAN", "tags": "ARRAY<STRING>",
}  # fmt: skip
CHECKED = [("parquet", "zstd"), ("parquet", "snappy"), ("parquet", "none"), ("avro", "zstd")]
UNCHECKED = [("orc", "zstd"), ("orc", "none"), ("avro", "null")]


class Written:
    """One data file, which can be damaged and read again."""

    def __init__(self, directory: Path, file_format: str, compression: str, rows: int = ROWS) -> None:
        self.ctx: TableContext = context(directory, COLUMNS, file_format=file_format, file_compression=compression)
        draw = random.Random(7)
        self.meta: DataFileMeta = write(self.ctx, table(self.ctx, [
            list(range(rows)),
            [draw.choice(["x", None, f"name {draw.randrange(10**6)}"]) for _ in range(rows)],
            [draw.choice([None, i]) for i in range(rows)],
            [Decimal(draw.randrange(10**6)) / 100 for _ in range(rows)],
            [dt.datetime(2024, 1, 1) + dt.timedelta(seconds=draw.randrange(10**7)) for _ in range(rows)],
            [draw.choice([True, False, None]) for _ in range(rows)],
            [None if i % 3 else ["a", None, str(i)] for i in range(rows)],
        ]))  # fmt: skip
        self.path = Path(bucket_dir(self.ctx), self.meta.file_name)
        self.bytes = self.path.read_bytes()
        self.rows = self.read()

    def read(self) -> pa.Table:
        return pa.concat_tables(iter_key_value_batches(self.ctx, bucket_dir(self.ctx), self.meta))

    def outcome(self, damaged: bytes) -> str:
        """What reading the damaged file leads to: an error with its name, the same rows, or other ones."""
        self.path.write_bytes(damaged)
        try:
            return "same" if self.read().equals(self.rows) else "other rows"
        except CorruptFile as error:
            assert str(self.path) in str(error)
            return "refused"
        except TidemarkError as error:  # a type in the footer that is none of the column's
            assert "cannot be read as" in str(error) or "holds a timestamp" in str(error)
            return "refused"


def flipped(data: bytes, bit: int) -> bytes:
    return data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]


def outcomes(written: Written, count: int, seed: int = 1) -> Counter[str]:
    bits = random.Random(seed).sample(range(8 * len(written.bytes)), count)
    return Counter(written.outcome(flipped(written.bytes, bit)) for bit in bits)


@pytest.mark.slow
@pytest.mark.parametrize(("file_format", "compression"), CHECKED)
def test_no_flipped_bit_gives_other_rows(tmp_path: Path, file_format: str, compression: str) -> None:
    found = outcomes(Written(tmp_path, file_format, compression), 600)

    print(f"{file_format} {compression}: {dict(found)}")
    assert found["other rows"] == 0
    assert found["refused"] > found["same"]


@pytest.mark.slow
def test_no_flipped_bit_of_a_footer_or_of_page_headers_gives_other_rows(tmp_path: Path) -> None:
    """Every single bit of a small file, most of which is footer."""
    written = Written(tmp_path, "parquet", "zstd", rows=5)

    found = Counter(written.outcome(flipped(written.bytes, bit)) for bit in range(0, 8 * len(written.bytes), 7))

    assert found["other rows"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(("file_format", "compression"), UNCHECKED)
def test_formats_without_checksums_are_read_or_refused(tmp_path: Path, file_format: str, compression: str) -> None:
    """Documented: these formats have no room for a checksum; most damage of ORC's and Avro's structure is noticed."""
    found = outcomes(Written(tmp_path, file_format, compression), 400)

    print(f"{file_format} {compression}: {dict(found)}")
    assert found["refused"] > 0
    assert found["refused"] + found["same"] + found["other rows"] == 400


@pytest.mark.parametrize(("file_format", "compression"), [*CHECKED, *UNCHECKED])
def test_a_file_of_another_size_is_refused_with_its_name(tmp_path: Path, file_format: str, compression: str) -> None:
    written = Written(tmp_path, file_format, compression)
    half = len(written.bytes) // 2

    for damaged in (b"", written.bytes[:half], written.bytes[:-1], written.bytes + b"\0", b"garbage" * 100):
        assert written.outcome(damaged) == "refused"
    noise = random.Random(3).randbytes(len(written.bytes))
    assert written.outcome(noise) == "refused"
    assert written.outcome(bytes(len(written.bytes))) == "refused"


@pytest.mark.parametrize(("file_format", "compression"), CHECKED)
def test_a_file_of_equal_size_under_another_name_is_refused(tmp_path: Path, file_format: str, compression: str) -> None:
    written = Written(tmp_path, file_format, compression)
    other = replace(written.meta, file_name=f"data-other-0.{file_format}")
    shutil.copy(written.path, written.path.with_name(other.file_name))

    with pytest.raises(CorruptFile, match=r"data-other-0\.\w+ is not readable"):
        list(iter_key_value_batches(written.ctx, bucket_dir(written.ctx), other))


def test_files_without_checksums_are_read(tmp_path: Path) -> None:
    """As Java writes them."""
    written = Written(tmp_path, "parquet", "zstd")
    stored = pq.ParquetFile(written.path).read()
    pq.write_table(stored, written.path, store_schema=False)
    written.meta = replace(written.meta, file_size_bytes=written.path.stat().st_size)

    assert written.read().equals(written.rows)


def test_the_number_of_rows_is_compared_with_the_manifest(tmp_path: Path) -> None:
    for file_format in ("parquet", "orc", "avro"):
        written = Written(tmp_path / file_format, file_format, "zstd")
        written.meta = replace(written.meta, row_count=ROWS + 1)

        assert written.outcome(written.bytes) == "refused"


def test_other_readers_see_nothing_of_the_checksums(tmp_path: Path) -> None:
    written = Written(tmp_path, "parquet", "zstd")

    rows = pq.read_table(written.path, page_checksum_verification=True).select(["id", "name", "tags"])

    assert rows.to_pylist() == written.rows.select(["id", "name", "tags"]).to_pylist()
