"""Which files cannot hold a matching row, decided from what their metadata guarantees.

A guarantee is an Arrow expression that is true for every row of a file: partition values, key and value ranges. Arrow
simplifies the predicate under the guarantee; a file stays unless the predicate becomes false for all of its rows.
Ranges of FLOAT and DOUBLE columns guarantee nothing, because NaN lies outside of every Arrow range.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
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
from paimon_table.metadata.manifest import ManifestFileMeta
from paimon_table.rows.binary_row import deserialize_row, python_value, raw_field
from paimon_table.schema.table_schema import TableSchema
from paimon_table.types import DataField, Root, arrow_type

ANYTHING = pc.scalar(True)
"""The guarantee that says nothing."""

_GROUP = 64
"""Files that are tried together."""

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


def matching_files(predicate: pc.Expression, every: Sequence[Ranges], schema: TableSchema) -> list[bool]:
    """For each file, by its ranges, whether it can have rows that satisfy the predicate.

    Files next to each other in the order of their first column are tried together: most groups of them match as a
    whole, or not at all, which saves the look at each.
    """
    arrow_schema = schema.arrow_schema
    order = sorted(range(len(every)), key=lambda number: _place(every[number]))
    groups = [order[at : at + _GROUP] for at in range(0, len(order), _GROUP)]
    guarantees = [guarantee(united([every[number] for number in group]), schema) for group in groups]
    some = may_match(predicate, guarantees, arrow_schema)
    others = may_match(~predicate, guarantees, arrow_schema)
    kept = [False] * len(every)
    mixed: list[int] = []
    for group, may_be, may_not_be in zip(groups, some, others, strict=True):
        if may_be and may_not_be:
            mixed += group
        for number in group if may_be else ():
            kept[number] = True
    alone = may_match(predicate, [guarantee(every[number], schema) for number in mixed], arrow_schema)
    for number, may_be in zip(mixed, alone, strict=True):
        kept[number] = may_be
    return kept


def _place(ranges: Ranges) -> tuple[bool, Any]:
    first = next(iter(ranges.values()), None)
    return (False, 0) if first is None or first.low is None else (True, first.low)


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


def manifest_guarantee(manifest: ManifestFileMeta, schema: TableSchema) -> pc.Expression:
    """Every partition of a manifest is in the ranges that its list states."""
    stats, fields = manifest.partition_stats, schema.partition_fields
    ranges = {}
    for at, field in enumerate(fields):
        nulls = stats.null_counts[at] if at < len(stats.null_counts) else None
        ranges[field.name] = ColumnRange(*_ends(stats, at, len(fields), field), nulls)
    return guarantee(ranges, schema)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the range of a column stands in a row of statistics with so many columns."""

    field: DataField
    at: int | None
    """None: files of this kind do not know the column, so all of its values are NULL."""
    arity: int


def key_places(schema: TableSchema, names: Collection[str]) -> tuple[Place, ...]:
    """Of ``key_stats``, for those key columns that matter.

    Key ranges hold for every version of the keys in a file, so files may be pruned by them before the merge.
    """
    fields = schema.key_fields
    return tuple(Place(field, at, len(fields)) for at, field in enumerate(fields) if field.name in names)


def value_places(
    schema: TableSchema, file_schema: TableSchema, kept: Sequence[str] | None, names: Collection[str]
) -> tuple[Place, ...]:
    """Of ``value_stats``, for columns that matter; only good for files that need no merge: others may hold newer rows.

    Statistics are in the schema that the file was written with, of its columns ``kept`` (None: all). Columns whose type
    has changed since guarantee nothing.
    """
    written = {f.id: f for f in file_schema.fields}
    covered = file_schema.fields if kept is None else tuple(file_schema.field(name) for name in kept)
    position = {f.id: i for i, f in enumerate(covered)}
    places = []
    for field in (schema.field(name) for name in names):
        old = written.get(field.id)
        if old is None:
            places.append(Place(field, None, len(covered)))
        elif field.id in position and old.type.with_nullable(True) == field.type.with_nullable(True):
            places.append(Place(field, position[field.id], len(covered)))
    return tuple(places)


def ranges_of(file: DataFileMeta, stats: SimpleStats, places: Sequence[Place]) -> Ranges:
    """What ``stats`` of a file say of these columns."""
    return {place.field.name: _range(file, stats, place) for place in places}


def guarantee(ranges: Ranges, schema: TableSchema) -> pc.Expression:
    """Every row of a file has its values in these ranges."""
    return _all(one.expression(schema.field(name)) for name, one in ranges.items())


# ---------------------------------------------------------------- ranges


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """What the values of a column are between, in the internal form of rows; None: nobody knows."""

    low: Any = None
    high: Any = None
    null_count: int | None = None
    """None: nobody knows."""
    is_null: bool = False
    """All of them are NULL."""
    is_altered: bool = False
    """Whether the file may give values back as other ones than its metadata knows."""

    def expression(self, field: DataField) -> pc.Expression:
        column = pc.field(field.name)
        if self.is_null:
            return column.is_null()
        if self.low is None or self.high is None or field.type.root in _UNRANGED:
            return column.is_valid() if self.null_count == 0 else ANYTHING
        least, greatest = (_literal(python_value(raw, field.type), field) for raw in (self.low, self.high))
        if self.is_altered:
            least, greatest = bounds_given_back(least, greatest, field.type)
        between = (column >= least) & (column <= greatest)
        return between if self.null_count == 0 else between | column.is_null()


_ALL_NULL = ColumnRange(is_null=True)

Ranges = Mapping[str, ColumnRange]
"""By column; columns that are left out may have any values."""


def united(every: Sequence[Ranges]) -> Ranges:
    """Ranges that hold for the rows of several files."""
    return {name: _united([ranges[name] for ranges in every]) for name in every[0] if all(name in r for r in every)}


def _united(ranges: Sequence[ColumnRange]) -> ColumnRange:
    valued = [one for one in ranges if not one.is_null]
    if not valued:
        return ranges[0]
    is_known = all(one.low is not None and one.high is not None for one in valued)
    has_no_nulls = len(valued) == len(ranges) and all(one.null_count == 0 for one in valued)
    return ColumnRange(
        min(one.low for one in valued) if is_known else None,
        max(one.high for one in valued) if is_known else None,
        0 if has_no_nulls else None,
        is_altered=any(one.is_altered for one in valued),
    )


def _range(file: DataFileMeta, stats: SimpleStats, place: Place) -> ColumnRange:
    at, field = place.at, place.field
    if at is None:
        return _ALL_NULL
    nulls = stats.null_counts[at] if at < len(stats.null_counts) else None
    if nulls == file.row_count:
        return _ALL_NULL
    low, high = _ends(stats, at, place.arity, field)
    return ColumnRange(low, high, nulls, is_altered=may_alter(file, field.type))


def _ends(stats: SimpleStats, at: int, arity: int, field: DataField) -> tuple[Any, Any]:
    if field.type.root in _UNRANGED or int.from_bytes(stats.min_values[:4], "big") != arity:
        return None, None
    try:
        return raw_field(stats.min_values, at, field.type), raw_field(stats.max_values, at, field.type)
    except UnsupportedFeature:
        # A timestamp that rows in memory cannot hold; whoever reads the column is told so.
        return None, None


def _literal(value: Any, field: DataField) -> pa.Scalar:
    return pa.array([value], arrow_type(field.type))[0]


def _all(parts: Any) -> pc.Expression:
    return reduce(and_, parts, ANYTHING)
