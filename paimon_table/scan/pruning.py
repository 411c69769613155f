"""Which files cannot hold a matching row, decided from what their metadata guarantees.

A guarantee is an Arrow expression that is true for every row of a file: partition values, key and value ranges. Arrow
simplifies the predicate under the guarantee; a file stays unless the predicate becomes false for all of its rows.
Ranges of FLOAT and DOUBLE columns guarantee nothing, because NaN lies outside of every Arrow range.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as fs

from paimon_table.data_files.altered_values import bounds_given_back, may_alter
from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.data_file import DataFileMeta, SimpleStats
from paimon_table.rows.binary_row import deserialize_row
from paimon_table.schema.table_schema import TableSchema
from paimon_table.types import DataField, Root, arrow_type

ANYTHING = pc.scalar(True)
"""The guarantee that says nothing."""

_UNRANGED = frozenset({Root.FLOAT, Root.DOUBLE, Root.ARRAY, Root.MAP, Root.MULTISET, Root.ROW})


def may_match(predicate: pc.Expression, guarantees: Sequence[pc.Expression], schema: pa.Schema) -> list[bool]:
    """For each guarantee whether rows that obey it can satisfy the predicate.

    Raises ConfigError when the predicate names unknown columns or compares values of unlike types.
    """
    if not guarantees:
        return []
    candidates = ds.FileSystemDataset.from_paths(
        [str(number) for number in range(len(guarantees))],
        schema=schema,
        format=ds.ParquetFileFormat(),
        filesystem=fs.LocalFileSystem(),
        partitions=list(guarantees),
    )
    try:
        staying = {int(fragment.path) for fragment in candidates.get_fragments(filter=predicate)}
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise ConfigError(
            f"predicate {predicate} does not fit the table: {error}; columns are: {', '.join(schema.names)}"
        ) from error
    return [number in staying for number in range(len(guarantees))]


def referenced_columns(predicate: pc.Expression, schema: pa.Schema) -> tuple[str, ...]:
    """The columns that the predicate needs, in schema order: those without which Arrow cannot evaluate it."""
    may_match(predicate, [ANYTHING], schema)
    rows = schema.empty_table()
    return tuple(name for name in schema.names if not _evaluates(predicate, rows.drop_columns([name])))


def ranged_columns_only(schema: TableSchema, names: Sequence[str]) -> bool:
    """Whether ranges of these columns can be trusted: a NaN lies outside of the range that a file states."""
    return all(schema.field(name).type.root not in _UNRANGED for name in names)


def _evaluates(predicate: pc.Expression, rows: pa.Table) -> bool:
    try:
        rows.filter(predicate)
    except pa.ArrowInvalid:
        return False
    return True


# ---------------------------------------------------------------- guarantees


def partition_guarantee(bucket: BucketId, schema: TableSchema) -> pc.Expression:
    """Every row of a partition has the partition's values, also where the directory has the default name."""
    fields = schema.partition_fields
    values = deserialize_row(bucket.partition, [f.type for f in fields])
    return _all(
        pc.field(f.name).is_null() if value is None else pc.field(f.name) == _literal(value, f)
        for f, value in zip(fields, values, strict=True)
        if value is None or f.type.root not in _UNRANGED
    )


def key_guarantee(file: DataFileMeta, schema: TableSchema) -> pc.Expression:
    """Key ranges hold for every version of the keys in a file, so files may be pruned by them before the merge."""
    stats, fields = file.key_stats, schema.key_fields
    minimum, maximum = _bounds(stats, fields)
    nulls = stats.null_counts if len(stats.null_counts) == len(fields) else (None,) * len(fields)
    return _all(_range(file, f, low, high, n) for f, low, high, n in zip(fields, minimum, maximum, nulls, strict=True))


def value_guarantee(file: DataFileMeta, schema: TableSchema, file_schema: TableSchema) -> pc.Expression:
    """Ranges of the value columns; only good for files that need no merge, as other files may hold newer versions.

    Statistics are in the schema that the file was written with; columns whose type has changed since guarantee nothing,
    columns that the file does not know are NULL.
    """
    written = {f.id: f for f in file_schema.fields}
    names = file.value_stats_cols
    covered = file_schema.fields if names is None else tuple(file_schema.field(name) for name in names)
    position = {f.id: i for i, f in enumerate(covered)}
    minimum, maximum = _bounds(file.value_stats, covered)
    parts = []
    for field in schema.fields:
        old = written.get(field.id)
        if old is None:
            parts.append(pc.field(field.name).is_null())
        elif field.id in position and old.type.with_nullable(True) == field.type.with_nullable(True):
            at = position[field.id]
            nulls = file.value_stats.null_counts[at] if at < len(file.value_stats.null_counts) else None
            parts.append(_range(file, field, minimum[at], maximum[at], nulls))
    return _all(parts)


def _bounds(stats: SimpleStats, fields: Sequence[DataField]) -> tuple[Sequence[Any], Sequence[Any]]:
    types = [f.type.with_nullable(True) for f in fields]
    unknown: tuple[Any, ...] = (None,) * len(fields)
    if int.from_bytes(stats.min_values[:4], "big") != len(fields):
        return unknown, unknown
    try:
        return deserialize_row(stats.min_values, types), deserialize_row(stats.max_values, types)
    except UnsupportedFeature:
        # A timestamp that rows in memory cannot hold; whoever reads the column is told so.
        return unknown, unknown


def _range(file: DataFileMeta, field: DataField, low: Any, high: Any, nulls: int | None) -> pc.Expression:
    column = pc.field(field.name)
    if nulls == file.row_count:
        return column.is_null()
    if low is None or high is None or field.type.root in _UNRANGED:
        return column.is_valid() if nulls == 0 else ANYTHING
    least, greatest = _literal(low, field), _literal(high, field)
    if may_alter(file, field.type):
        least, greatest = bounds_given_back(least, greatest, field.type)
    between = (column >= least) & (column <= greatest)
    return between if nulls == 0 else between | column.is_null()


def _literal(value: Any, field: DataField) -> pa.Scalar:
    return pa.array([value], arrow_type(field.type))[0]


def _all(parts: Any) -> pc.Expression:
    return reduce(and_, parts, ANYTHING)
