"""Rows of a partial-update table as tuples, and the result of one merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from paimon_table.data_files.bucket_files import row_schema
from paimon_table.merge.partial_update import PartialUpdate, partial_update
from paimon_table.merge.sort import KeyOrder
from paimon_table.options.option_parsing import options_of
from paimon_table.options.table_options import TableOptions
from paimon_table.row_kind import RowKind
from paimon_table.schema.table_schema import TableSchema, create_schema
from paimon_table.types import parse_type

Row = tuple[Any, ...]
"""Kind as +I -U +U -D, then the values."""

_KINDS = {kind.short: int(kind) for kind in RowKind}
SHORT = [kind.short for kind in RowKind]


@dataclass(frozen=True, slots=True)
class EngineTable:
    """A table with key ``k INT`` and the engine that merges its rows."""

    schema: TableSchema
    options: TableOptions

    @staticmethod
    def make(columns: str, options: Mapping[str, str] | None = None) -> EngineTable:
        """``columns`` are those after the key: ``name`` for INT, ``name:TYPE``, ``name:TYPE!`` for NOT NULL."""
        named = [part.partition(":") for part in columns.split()]
        types = [(name, (text or "INT").replace("!", " NOT NULL")) for name, _, text in named]
        fields = [("k", parse_type("INT")), *((name, parse_type(text)) for name, text in types)]
        given = {"bucket": "1", "merge-engine": "partial-update", **(options or {})}
        schema = create_schema(fields, ["k"], options=given)
        return EngineTable(schema, options_of(schema))

    @property
    def engine(self) -> PartialUpdate:
        return partial_update(self.schema, self.options)

    def rows(self, rows: Sequence[Row], first_number: int = 0) -> pa.Table:
        """The rows in arrival order."""
        arrow = row_schema(self.schema)
        numbers = range(first_number, first_number + len(rows))
        columns = [pa.array(numbers, pa.int64()), pa.array([_KINDS[row[0]] for row in rows], pa.int8())]
        columns += [pa.array([row[i + 1] for row in rows], arrow.field(i + 2).type) for i in range(len(arrow) - 2)]
        return pa.Table.from_arrays(columns, schema=arrow)

    def merge_table(self, rows: pa.Table, single_passes: bool = True, fold: bool = False) -> pa.Table:
        """One merge of rows with sequence numbers."""
        order = KeyOrder(self.schema, self.options)
        return replace(self.engine, always_folds=fold).merge(rows, order.sort(rows), single_passes)

    def merge(self, rows: Sequence[Row], single_passes: bool = True, fold: bool = False) -> list[Row]:
        """The result of one merge of rows in arrival order."""
        return plain(self.merge_table(self.rows(rows), single_passes, fold))


def plain(rows: pa.Table) -> list[Row]:
    """Kind and values of each row."""
    values = [column.to_pylist() for column in rows.columns[1:]]
    return [(SHORT[row[0]], *row[1:]) for row in zip(*values, strict=True)]
