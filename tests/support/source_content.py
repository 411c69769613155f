"""Compares tables of a pipeline with the final content of a capture's source tables."""

from __future__ import annotations

from collections.abc import Iterable

from paimon_table.table import Table
from pipelines.tables.tables import PipelineTables
from tests.support.replay import final_rows, plain_rows


def open_table(tables: PipelineTables, name: str) -> Table:
    return Table.open(f"{tables.config.catalog.warehouse}/lake.db/{name}")


def assert_equals_source(table: Table, scenario: str, name: str, key: Iterable[str], without: set[str]) -> None:
    types = {f.name: f.type for f in table.schema.fields if f.name not in without}
    names = list(key)
    expected = {tuple(row[k] for k in names): row for row in final_rows(scenario, name, types)}
    actual = {tuple(row[k] for k in names): row for row in plain_rows(table.to_arrow())}
    assert actual.keys() == expected.keys()
    for where, row in expected.items():
        assert {n: actual[where][n] for n in row} == row
