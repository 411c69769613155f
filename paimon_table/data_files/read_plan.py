"""Maps the columns of a data file to the columns of the table's current schema.

Implements schema evolution of the Paimon format for reading. Columns are matched by their field ids, columns that a
file lacks are null, and system columns of tables that do not store them are computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_table.errors import CorruptFile, UnsupportedFeature
from paimon_table.formats.file_format import MissingColumn
from paimon_table.formats.key_value_layout import SYSTEM_FIELDS
from paimon_table.metadata.data_file import DataFileMeta, FileSource
from paimon_table.metadata.table_context import TableContext
from paimon_table.row_kind import SEQUENCE_NUMBER, VALUE_KIND
from paimon_table.schema.mapping import conform_column
from paimon_table.types import DataField, arrow_schema, arrow_type

SYSTEM_COLUMNS = (pa.field(SEQUENCE_NUMBER, pa.int64(), False), pa.field(VALUE_KIND, pa.int8(), False))
"""The columns of rows in memory before their values."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """How the columns of one file become the requested columns of the current schema."""

    requested: tuple[DataField, ...]
    schema: pa.Schema
    """The schema of the rows that ``apply`` returns."""
    written: dict[str, DataField]
    """For each requested column that the file has: its column in the file."""
    constants: dict[str, pa.Scalar]
    """Values of partition columns."""
    sequence_number: int | None
    """The sequence number of all rows, if it replaces the stored numbers."""
    unkeyed: tuple[DataField, ...] = ()
    """For a file without row kinds: a column to count its rows by."""

    @classmethod
    def make(
        cls, ctx: TableContext, file: DataFileMeta, columns: Sequence[str] | None, partition: Sequence[Any]
    ) -> ReadPlan:
        """The plan for the named columns, or all of the current schema; ``partition`` as for ``read_key_value_file``.

        Raises CorruptFile for a file with a schema that the table lacks, UnsupportedFeature for a file whose rows have
        no order.
        """
        schema = ctx.schema
        file_schema = schema if file.schema_id == schema.id else ctx.schemas.get(file.schema_id)
        if file_schema is None:
            raise CorruptFile(
                f"{file.file_name} was written with schema {file.schema_id}, which the table does not have. "
                "Restore the schema file, or open the table again if the schema is newer"
            )
        requested = schema.fields if columns is None else tuple(schema.field(name) for name in columns)
        partition_values = zip(schema.partition_fields, partition, strict=True) if partition else ()
        constants = {f.name: pa.scalar(value, arrow_type(f.type)) for f, value in partition_values}
        by_id = {f.id: f for f in file_schema.fields}
        written = {f.name: by_id[f.id] for f in requested if f.id in by_id and f.name not in constants}
        result = pa.schema([*SYSTEM_COLUMNS, *arrow_schema(requested)])
        unkeyed = () if schema.primary_keys else file_schema.fields[:1]
        return cls(requested, result, written, constants, _common_sequence_number(ctx, file), unkeyed)

    @property
    def physical_columns(self) -> tuple[DataField, ...]:
        """The columns to read, under the names and types of the file."""
        if self.unkeyed:
            return tuple(self.written.values()) or self.unkeyed
        return (*SYSTEM_FIELDS, *self.written.values())

    def apply(self, physical: pa.Table) -> pa.Table:
        """Converts rows with ``physical_columns`` into the requested columns; raises MissingColumn if one is
        missing."""
        columns = [self._sequence_numbers(physical), self._kinds(physical)]
        there = frozenset(physical.column_names)
        targets = self.schema.types[len(SYSTEM_COLUMNS) :]
        columns += [self._column(physical, there, f, t) for f, t in zip(self.requested, targets, strict=True)]
        return pa.Table.from_arrays(columns, schema=self.schema)

    def _sequence_numbers(self, physical: pa.Table) -> pa.ChunkedArray:
        if self.sequence_number is None:
            return physical.column(SEQUENCE_NUMBER)
        numbers = pa.repeat(pa.scalar(self.sequence_number, pa.int64()), physical.num_rows)
        return pa.chunked_array([numbers])

    def _kinds(self, physical: pa.Table) -> pa.ChunkedArray:
        if not self.unkeyed:
            return physical.column(VALUE_KIND)
        return pa.chunked_array([pa.array(np.zeros(physical.num_rows, np.int8))])

    def _column(
        self, physical: pa.Table, there: frozenset[str], wanted: DataField, target: pa.DataType
    ) -> pa.ChunkedArray:
        constant = self.constants.get(wanted.name)
        if constant is not None:
            return pa.chunked_array([pa.repeat(constant, physical.num_rows)], target)
        written = self.written.get(wanted.name)
        if written is None:
            return pa.chunked_array([pa.nulls(physical.num_rows, target)], target)
        if written.name not in there:
            raise MissingColumn(f"it lacks column {written.name!r} of its schema")
        column = physical.column(written.name)
        if written.type is wanted.type and column.type == target:
            return column
        return conform_column(column, written, wanted)


def _common_sequence_number(ctx: TableContext, file: DataFileMeta) -> int | None:
    """The sequence number of all rows of a file; None if the rows have their own numbers.

    With ``sequence.snapshot-ordering`` it is the snapshot id, which orders all rows of a flush.
    """
    if not ctx.schema.primary_keys:
        return file.min_sequence_number
    if not ctx.options.snapshot_ordering:
        return None
    if file.file_source is None:
        raise UnsupportedFeature(
            f"{file.file_name}: its metadata does not state whether a flush or a compaction wrote it, so "
            "'sequence.snapshot-ordering' cannot order its rows. Write the rows into a new table"
        )
    return file.min_sequence_number if file.file_source == FileSource.APPEND else None
