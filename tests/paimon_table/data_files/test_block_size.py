"""``file.block-size``: how large the row groups of Parquet and the stripes of ORC become."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from tests.support.table_driver import TableDriver, new_table

ROWS = 8_000
"""About 900 KB in a file, since texts of random digits hardly compress."""


def driver_of(path: Path, options: dict[str, str]) -> TableDriver:
    columns = [("id", "INT"), ("noise", "STRING")]
    table = new_table(path / "table", columns, ["id"], options={"file.compression": "none", **options})
    return TableDriver(table, path / "lookup")


def write_rows(driver: TableDriver) -> None:
    noise = np.random.default_rng(1).bytes(50 * ROWS).hex()
    driver.commit([["+I", i, noise[100 * i : 100 * i + 100]] for i in range(ROWS)], full_compact=True)


def block_sizes(path: Path, file_format: str) -> list[int]:
    """Rows of each row group or stripe of the table's largest file."""
    file = max((path / "table").rglob(f"*.{file_format}"), key=lambda file: file.stat().st_size)
    if file_format == "orc":
        orc = po.ORCFile(file)
        return [orc.read_stripe(i).num_rows for i in range(orc.nstripes)]
    metadata = pq.read_metadata(file)
    return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]


@pytest.mark.slow
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_row_groups_have_the_size_that_the_option_says(tmp_path: Path, file_format: str) -> None:
    driver = driver_of(tmp_path, {"file.format": file_format, "file.block-size": "128 kb"})

    write_rows(driver)

    sizes = block_sizes(tmp_path, file_format)
    assert sum(sizes) == ROWS
    assert all(900 < rows < 1_400 for rows in sizes[:-1])
    assert sorted(int(str(row[0])) for row in driver.content()) == list(range(ROWS))


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_without_the_option_such_rows_are_one_block(tmp_path: Path, file_format: str) -> None:
    driver = driver_of(tmp_path, {"file.format": file_format})

    write_rows(driver)

    assert block_sizes(tmp_path, file_format) == [ROWS]


def test_smaller_blocks_follow_what_rows_take_in_the_file(tmp_path: Path) -> None:
    """Rows that take little in the file, but much in memory, are many in one row group."""
    driver = driver_of(tmp_path, {"file.block-size": "32 kb"})
    driver.commit([["+I", i, "same text " * 20] for i in range(ROWS)], full_compact=True)

    sizes = block_sizes(tmp_path, "parquet")

    assert sizes[0] < 500 and all(a <= 20 * b for a, b in pairwise(sizes))
    assert max(sizes) > 5 * sizes[0]
