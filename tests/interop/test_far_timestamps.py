"""TIMESTAMP(9) in files of Java: years that 64 bits cannot hold are refused, times before 1970 are right."""

from pathlib import Path

import pyarrow.compute as pc
import pytest

from paimon_table.errors import UnsupportedFeature
from paimon_table.table import Table
from tests.interop.java_paimon import JavaPaimon
from tests.support.plain_values import sorted_rows
from tests.support.table_driver import TableDriver

COLUMNS = (("k", "INT"), ("t", "TIMESTAMP(9)"), ("l", "ARRAY<TIMESTAMP(9) WITH LOCAL TIME ZONE>"))
OLD = "1969-12-31 23:59:58.123456789"
NEAR = [
    ["+I", 1, OLD, [OLD, None, "1700-01-01 01:02:03.000000001"]],
    ["+I", 2, "1677-09-21 00:12:43.145224192", []],
    ["+I", 3, "2262-04-11 23:47:16.854775807", None],
    ["+I", 4, None, ["1970-01-01 00:00:00.000000000"]],
]
FAR = ["+I", 5, "2300-01-01 00:00:00.000000001", None]


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_years_beyond_2262_are_refused_and_others_are_right(file_format: str, tmp_path: Path, java: JavaPaimon) -> None:
    # given a table of Java with times before 1970, and then one of the year 2300
    path = str(tmp_path / "t")
    java.create_table(path, COLUMNS, ["k"], options={"bucket": "1", "file.format": file_format})
    java.write(path, NEAR)
    driver = TableDriver(Table.open(path), tmp_path / "lookup")
    assert sorted_rows(driver.content()) == sorted_rows(row[1:] for row in NEAR)
    java.write(path, [FAR], identifier=2)

    # when the far value is read, tested or compacted
    table = Table.open(path)
    refusals = []
    for attempt in (
        lambda: table.to_arrow(),
        lambda: table.to_arrow(["k"], pc.field("t").is_valid()),
        lambda: TableDriver(table, tmp_path / "lookup").commit([], full_compact=True),
    ):
        with pytest.raises(UnsupportedFeature) as refusal:
            attempt()
        refusals.append(str(refusal.value))

    # then it is named, nothing is rewritten, and columns without such values can be read
    for text in refusals:
        assert "bucket-0/data-" in text and "column 't' holds 2300-01-01 00:00:00.000000001" in text
    assert table.to_arrow(["k"]).num_rows == 5
    assert sorted_rows(java.read(path)) == sorted_rows([*NEAR, FAR])
