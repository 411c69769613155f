"""Writing a scenario with one implementation and reading the table with all."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from paimon_table.table import Table
from paimon_table.types import DataField
from paimon_table.validation.schema_evolution import (
    AddColumn,
    DropColumn,
    RenameColumn,
    SchemaChange,
    WidenColumn,
)
from tests.interop.java_paimon import JavaPaimon
from tests.interop.python_readers import PythonReaders
from tests.interop.scenarios import Change, Scenario, Step
from tests.support.plain_values import Plain, rows_plain, sorted_rows
from tests.support.table_driver import TableDriver, new_table

Rows = list[list[Plain]]


def create_by_tidemark(scenario: Scenario, path: Path) -> None:
    new_table(path, scenario.columns, scenario.primary_key, scenario.partition_by, scenario.options)


def create_by_java(java: JavaPaimon, scenario: Scenario, path: Path) -> None:
    java.create_table(str(path), scenario.columns, scenario.primary_key, scenario.partition_by, scenario.options)


def write_by_tidemark(path: Path, steps: Sequence[Step], user: str = "tidemark", first_identifier: int = 1) -> None:
    """Continue the table; a step without rows that compacts is a commit of its own."""
    lookup_dir = path.parent / f"{path.name}-lookup"
    driver = TableDriver(Table.open(str(path)), lookup_dir, user, first_identifier)
    for step in steps:
        if step.alter:
            driver.evolve([_schema_change(change) for change in step.alter])
        elif step.rows:
            driver.commit(step.rows, full_compact=step.compact)
        else:
            driver.compact()


def _schema_change(change: Change) -> SchemaChange:
    what, name, *rest = change
    if what == "drop":
        return DropColumn(name)
    (to,) = rest
    if isinstance(to, str):
        return RenameColumn(name, to)
    return AddColumn(name, to) if what == "add" else WidenColumn(name, to)


def write_by_java(
    java: JavaPaimon, path: Path, steps: Sequence[Step], user: str = "java", first_identifier: int = 1
) -> None:
    identifiers = itertools.count(first_identifier)
    for step in steps:
        if step.alter:
            java.alter(str(path), *step.alter)
        else:
            java.write(str(path), step.rows, user, next(identifiers), compact=step.compact)


@dataclass(frozen=True, slots=True)
class Readers:
    """The independent readers together with Tidemark's own scan."""

    java: JavaPaimon
    python: PythonReaders

    def assert_equal(self, path: Path, scenario: Scenario, snapshot_id: int | None = None) -> Rows:
        """Assert that all readers see the same rows, of the latest or of an earlier snapshot; returns them, sorted."""
        table = Table.open_for_reading(str(path))
        fields = _fields_at(table, snapshot_id)
        travel = {} if snapshot_id is None else {"scan.snapshot-id": str(snapshot_id)}
        expected = sorted_rows(row[1:] for row in self.java.read(str(path), travel))
        contents = {"tidemark": TableDriver(table, path.parent).content(snapshot_id)}
        for name, read in (("pypaimon", self.python.pypaimon), ("rust", self.python.rust)):
            if name not in scenario.skipped_readers:
                contents[name] = _plain(read(str(path), snapshot_id), fields)
        for reader, rows in contents.items():
            assert rows == expected, f"{reader} differs from Java in {_difference(rows, expected)}"
        return expected


def _fields_at(table: Table, snapshot_id: int | None) -> Sequence[DataField]:
    if snapshot_id is None:
        return table.schema.fields
    return table.context.schemas[table.snapshots.read(snapshot_id).schema_id].fields


def _plain(rows: pa.Table | None, fields: Sequence[DataField]) -> Rows:
    return [] if rows is None else sorted_rows(rows_plain(rows, fields))


def _difference(rows: Rows, expected: Rows) -> str:
    extra = [row for row in rows if row not in expected]
    missing = [row for row in expected if row not in rows]
    return f"{len(extra)} extra rows {extra[:3]} and {len(missing)} missing rows {missing[:3]}"
