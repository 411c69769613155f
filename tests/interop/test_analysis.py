"""Statistics of Tidemark are what Java reads, and Java goes on from the snapshot that brings them."""

from __future__ import annotations

from pathlib import Path

from paimon_table.maintenance.analysis import analyze
from paimon_table.maintenance.job import Job
from paimon_table.table import Table
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.interop.java_paimon import JavaPaimon
from tests.support.plain_values import Plain, sorted_rows
from tests.support.table_driver import TableDriver, new_table

TYPES = {
    "k": "INT", "b": "BOOLEAN", "t": "TINYINT", "s": "SMALLINT", "l": "BIGINT", "f": "FLOAT", "d": "DOUBLE",
    "n": "DECIMAL(20, 3)", "c": "STRING", "y": "BYTES", "dt": "DATE", "tm": "TIME(3)", "ts": "TIMESTAMP(9)",
    "z": "TIMESTAMP(3) WITH LOCAL TIME ZONE", "a": "ARRAY<INT>",
}  # fmt: skip
ROW: list[Plain] = [
    1, True, -1, 300, 1 << 40, 0.5, 1e20, "12.500", "text", "0x0102", "2024-01-31", "01:02:03.004",
    "2024-01-01 00:00:00.000000001", "1969-12-31 23:59:59.999", [1],
]  # fmt: skip


def test_java_reads_the_statistics_and_goes_on(java: JavaPaimon, tmp_path: Path) -> None:
    path = tmp_path / "t"
    new_table(path, list(TYPES.items()), ["k"])
    driver = TableDriver(Table.open(str(path)), tmp_path / "lookup")
    driver.commit([["+I", *ROW], ["+I", 2, *[None] * (len(ROW) - 1)]])
    assert java.statistics(str(path)) is None
    assert analyze(Table.open(str(path)), Job(WriterEnvironment(str(tmp_path / "job")))) is not None

    # then Java finds what each column holds
    found = java.statistics(str(path))
    assert found is not None
    assert (found["snapshotId"], found["schemaId"], found["mergedRecordCount"]) == (1, 0, 2)
    texts = {name: (told.get("min"), told.get("max")) for name, told in found["colStats"].items()}
    assert texts["ts"] == ("2024-01-01 00:00:00.000000001",) * 2
    assert (texts["n"], texts["tm"], texts["dt"]) == (("12.500",) * 2, ("3723004",) * 2, ("19753",) * 2)
    assert all(told["nullCount"] == (0 if name == "k" else 1) for name, told in found["colStats"].items())

    # when Java commits, the statistics stay, and the rows are there
    java.write(str(path), [["+I", 3, *ROW[1:]]], identifier=2, compact=True)
    assert java.statistics(str(path)) == found
    assert driver.content() == sorted_rows(row[1:] for row in java.read(str(path)))
    java.alter(str(path), ("drop", "c"))
    java.write(str(path), [["+I", 4, *[None] * (len(ROW) - 2)]], identifier=3)
    assert java.statistics(str(path)) is None


def test_the_first_commit_writes_the_hints_that_java_writes(java: JavaPaimon, tmp_path: Path) -> None:
    for name in ("java", "tidemark"):
        java.create_table(str(tmp_path / name), [("k", "INT")], ["k"], options={"bucket": "1"})
    java.write(str(tmp_path / "java"), [["+I", 1]])
    TableDriver(Table.open(str(tmp_path / "tidemark")), tmp_path / "lookup").commit([["+I", 1]])
    hints = [
        {hint: (tmp_path / name / "snapshot" / hint).read_text() for hint in ("EARLIEST", "LATEST")}
        for name in ("java", "tidemark")
    ]
    assert hints[0] == hints[1] == {"EARLIEST": "1", "LATEST": "1"}
