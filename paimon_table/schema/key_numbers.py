"""Numbers of rows from their keys: hashes, and fixed buckets."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from paimon_table.rows.chunks import one_array
from paimon_table.rows.hashes import Hashes, assign_buckets, murmur_hash_columns
from paimon_table.schema.table_schema import TableSchema
from paimon_table.types import DataType


def bucket_numbers(schema: TableSchema, rows: pa.Table, bucket_count: int, function: str) -> Hashes:
    """The bucket of every row by its bucket key; ``function`` is the option bucket-function.type."""
    columns, types = _columns(schema, rows, schema.bucket_keys)
    return assign_buckets(columns, types, bucket_count, function)


def key_hashes(schema: TableSchema, rows: pa.Table) -> Hashes:
    """Paimon's hash of the trimmed primary key of every row."""
    return murmur_hash_columns(*_columns(schema, rows, schema.trimmed_primary_keys))


def whole_key_hashes(schema: TableSchema, rows: pa.Table) -> Hashes:
    """Paimon's hash of the primary key of every row, with partition columns."""
    return murmur_hash_columns(*_columns(schema, rows, schema.primary_keys))


def _columns(schema: TableSchema, rows: pa.Table, names: Iterable[str]) -> tuple[list[pa.Array], list[DataType]]:
    fields = [schema.field(name) for name in names]
    return [one_array(rows.column(field.name)) for field in fields], [field.type for field in fields]
