"""ANALYZE: what statistics say of rows, and the snapshot that names them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_table.errors import ConfigError
from paimon_table.history.expiry import plan_expiry
from paimon_table.history.retention import Limits
from paimon_table.maintenance.analysis import analyze
from paimon_table.maintenance.column_statistics import MOST_HASHES, ColumnStatistics
from paimon_table.maintenance.job import Job
from paimon_table.metadata.snapshot import CommitKind
from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.table import Table
from paimon_table.types import DataField, arrow_type, parse_type
from paimon_table.validation.schema_evolution import AddColumn
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.support.table_driver import TableDriver, new_table

COLUMNS = [("k", "INT"), ("s", "STRING"), ("d", "DECIMAL(20, 2)"), ("a", "ARRAY<INT>")]


def analyzed(table: Table, tmp_path: Path, *columns: str) -> dict[str, Any]:
    done = analyze(table, Job(WriterEnvironment(str(tmp_path / "job"))), columns or None)
    assert done is not None
    name = table.snapshots.read(done.snapshot_id).statistics
    document: dict[str, Any] = json.loads(table.io.read(table.paths.statistics_file(name or "")))
    return document


@pytest.fixture
def driver(tmp_path: Path) -> TableDriver:
    driver = TableDriver(new_table(tmp_path / "t", COLUMNS, ["k"], io=MemoryFileIO()), tmp_path / "lookup")
    driver.commit([["+I", 1, "äö", "-0.50", [1]], ["+I", 2, None, None, None], ["+I", 3, "x", "7.25", []]])
    driver.commit([["+U", 1, "äöü", "-0.50", [1]], ["-D", 2, None, None, None]])
    return driver


def test_statistics_are_of_the_rows_that_readers_see(driver: TableDriver, tmp_path: Path) -> None:
    found = analyzed(driver.table, tmp_path)
    assert (found["snapshotId"], found["schemaId"], found["mergedRecordCount"]) == (2, 0, 2)
    assert found["colStats"] == {
        "k": {"colId": 0, "distinctCount": 2, "min": "1", "max": "3", "nullCount": 0, "avgLen": 4, "maxLen": 4},
        "s": {"colId": 1, "distinctCount": 2, "nullCount": 0, "avgLen": 2, "maxLen": 3},
        "d": {
            "colId": 2, "distinctCount": 2, "min": "-0.50", "max": "7.25", "nullCount": 0, "avgLen": 16, "maxLen": 16
        },
        "a": {"colId": 3, "nullCount": 0},
    }  # fmt: skip
    stored = sum(file.file_size_bytes for files in driver.state().files.values() for file in files)
    assert found["mergedRecordSize"] == stored * 2 // 5


def test_the_snapshot_changes_nothing_else_and_statistics_stay_until_the_schema_changes(
    driver: TableDriver, tmp_path: Path
) -> None:
    before, rows = driver.state(), driver.content()
    assert list(analyzed(driver.table, tmp_path, "k", "s")["colStats"]) == ["k", "s"]
    snapshot = driver.table.snapshots.read(3)
    assert (snapshot.commit_kind, snapshot.delta_record_count) == (CommitKind.ANALYZE, 0)
    assert (driver.state().files, driver.content()) == (before.files, rows)
    assert [change.rows for change in driver.changes(3, 3) if change.rows] == []

    driver.commit([["+I", 4, None, None, None]])
    assert driver.table.snapshots.read(4).statistics == snapshot.statistics
    driver.evolve([AddColumn("more", parse_type("INT"))])
    driver.commit([["+I", 5, None, None, None, 1]])
    assert driver.table.snapshots.read(5).statistics is None


def test_expired_statistics_are_removed(driver: TableDriver, tmp_path: Path) -> None:
    analyzed(driver.table, tmp_path)
    analyzed(driver.table, tmp_path)
    old, new = (driver.table.snapshots.read(number).statistics for number in (3, 4))
    assert old != new
    planned = plan_expiry(driver.table.context, Limits(least=1, most=1, time_ms=1, at_once=10), 10**15)
    paths = planned.removal.files + planned.removal.metadata
    assert any(str(path).endswith(f"statistics/{old}") for path in paths)
    assert not any(str(path).endswith(f"statistics/{new}") for path in paths)


def test_wrong_columns_and_tables_without_snapshots(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", COLUMNS, ["k"], io=MemoryFileIO())
    job = Job(WriterEnvironment(str(tmp_path / "job")))
    assert analyze(table, job) is None
    with pytest.raises(ConfigError, match="has no column 'kk'; "):
        analyze(table, job, ["kk"])
    assert not table.io.list_names(f"{table.paths.root}/statistics")


@pytest.mark.parametrize(
    ("sql", "values", "least", "most"),
    [
        ("DOUBLE", [1.5, float("nan"), -float("inf")], "-Infinity", "NaN"),
        ("FLOAT", [0.1, 1e20], "0.1", "1e+20"),
        ("DOUBLE", [float("nan")], "NaN", "NaN"),
        ("BOOLEAN", [True, None, True], "true", "true"),
        ("DATE", [19000, -1], "-1", "19000"),
        ("TIMESTAMP(3)", [-1, 1234567890123], "1969-12-31 23:59:59.999", "2009-02-13 23:31:30.123"),
        ("TIMESTAMP(9)", [1], "1970-01-01 00:00:00.000000001", "1970-01-01 00:00:00.000000001"),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", [0], "1970-01-01 00:00:00.000000", "1970-01-01 00:00:00.000000"),
        ("DECIMAL(38, 10)", ["0.0000000001"], "0.0000000001", "0.0000000001"),
        ("BIGINT", [None], None, None),
    ],
    ids=str,
)
def test_extremes_are_texts_that_java_reads(sql: str, values: list[Any], least: str | None, most: str | None) -> None:
    field = DataField(0, "c", parse_type(sql))
    whole = ColumnStatistics(field)
    for value in values:
        arrow = pa.array([value]).cast(pa.int32()) if sql == "DATE" else pa.array([value])
        whole.add(pa.chunked_array([arrow.cast(arrow_type(field.type))]))
    told = whole.to_json()
    assert (told.get("min"), told.get("max")) == (least, most)
    assert told["nullCount"] == values.count(None)


@pytest.mark.parametrize("sql", ["BIGINT", "STRING", "DOUBLE", "DECIMAL(20, 0)"])
@pytest.mark.parametrize("count", [MOST_HASHES, 300_000])
def test_many_different_values_are_estimated_and_few_counted(sql: str, count: int) -> None:
    field = DataField(0, "c", parse_type(sql))
    found = ColumnStatistics(field)
    values = pa.array(np.arange(count))
    for part in (values.slice(0, count // 2), values.slice(count // 3)):
        found.add(pa.chunked_array([part.cast(arrow_type(field.type))]))
    told = int(str(found.to_json()["distinctCount"]))
    assert told == count if count <= MOST_HASHES else abs(told - count) < count * 0.03
