"""Building the file index of one data file while the file is written."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.file_index.bloom_filter import BloomFilterBuilder
from paimon_table.file_index.container import write_container
from paimon_table.file_index.hashing import hash64
from paimon_table.file_index.index_options import BLOOM_FILTER, BloomFilterColumn
from paimon_table.schema.table_schema import TableSchema
from paimon_table.types import DataType

INDEX_SUFFIX = ".index"
"""The suffix that turns the name of a data file into the name of its index file."""


def bloom_filter(values: pa.Array | pa.ChunkedArray, t: DataType, items: int, fpp: float) -> bytes:
    """The body of a bloom filter over the values of one column; NULLs are left out."""
    builder = BloomFilterBuilder(items, fpp)
    _add(builder, values, t)
    return builder.to_bytes()


class FileIndexBuilder:
    """The bloom filters of the indexed columns of one file."""

    def __init__(self, columns: Sequence[BloomFilterColumn], schema: TableSchema) -> None:
        self._columns = [(c, _value_type(c, schema), BloomFilterBuilder(c.items, c.fpp)) for c in columns]

    def add(self, rows: pa.Table) -> None:
        """Add rows, which have at least the indexed columns in the types of the schema."""
        for indexed, value_type, builder in self._columns:
            values = rows.column(indexed.column)
            if indexed.map_key is not None:
                values = pc.map_lookup(values, pa.scalar(indexed.map_key), "first")
            _add(builder, values, value_type)

    def to_bytes(self) -> bytes:
        """The container of all indexes."""
        return write_container({c.name: {BLOOM_FILTER: builder.to_bytes()} for c, _, builder in self._columns})


def _add(builder: BloomFilterBuilder, values: pa.Array | pa.ChunkedArray, t: DataType) -> None:
    for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
        builder.add(hash64(chunk.drop_null(), t))


def _value_type(indexed: BloomFilterColumn, schema: TableSchema) -> DataType:
    column_type = schema.field(indexed.column).type
    value_type = column_type if indexed.map_key is None else column_type.value
    assert value_type is not None
    return value_type
