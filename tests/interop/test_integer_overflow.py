"""Sums and products beyond their integer type: the table stays readable and writable, and equals that of Java."""

from pathlib import Path

import pytest

from paimon_table.table import Table
from paimon_table.types import parse_type
from paimon_table.validation.schema_evolution import WidenColumn
from tests.interop.java_paimon import JavaPaimon
from tests.support.plain_values import sorted_rows
from tests.support.table_driver import TableDriver


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_a_table_whose_sums_wrapped_around_goes_on(producer: str, tmp_path: Path, java: JavaPaimon) -> None:
    # given two tables, one written by Tidemark
    columns = [("k", "INT"), ("s", "TINYINT"), ("p", "BIGINT")]
    options = {"bucket": "1", "merge-engine": "aggregation", "changelog-producer": producer}
    options |= {"fields.s.aggregate-function": "sum", "fields.p.aggregate-function": "product"}
    paths = [str(tmp_path / name) for name in ("tidemark", "java")]
    for path in paths:
        java.create_table(path, columns, ["k"], options=options)
    driver = TableDriver(Table.open(paths[0]), tmp_path / "lookup")

    # when commits that are each fine leave the range together
    for identifier, row in enumerate((["+I", 1, 100, 2**62], ["+I", 1, 100, 3], ["+I", 1, -7, 5]), start=1):
        driver.commit([row], full_compact=identifier == 3)
        java.write(paths[1], [row], identifier=identifier, compact=identifier == 3)
        assert driver.content() == sorted_rows(row[1:] for row in java.read(paths[1]))

    # then the column can be made wider, and new rows count in it
    assert driver.content() == [[1, -63, -(2**62)]]
    driver.evolve([WidenColumn("s", parse_type("INT"))])
    driver.commit([["+I", 1, 1000, 1]])
    assert driver.content() == [[1, 937, -(2**62)]]
