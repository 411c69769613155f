"""Finds files that cannot have a matching row, from the guarantees of their metadata.

A guarantee is an Arrow expression that is true for every row of a file: partition values, key and value ranges. Arrow
simplifies the predicate under the guarantee; a file stays unless the predicate becomes false for all of its rows.
Ranges of FLOAT and DOUBLE columns guarantee nothing, because NaN is outside every Arrow range.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as fs

from paimon_table.data_files.altered_values import bounds_given_back, may_alter, may_alter_type
from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.metadata.entry_row import EntryRow
from paimon_table.metadata.manifest import ManifestFileMeta
from paimon_table.rows.binary_row import deserialize_row, python_value, raw_field, raw_fields
from paimon_table.schema.table_schema import TableSchema
from paimon_table.types import DataField, Root, arrow_type

ANYTHING = pc.scalar(True)
"""The empty guarantee."""

_GROUP = 64
"""The number of files that are tested together."""

_UNRANGED = frozenset({Root.FLOAT, Root.DOUBLE, Root.ARRAY, Root.MAP, Root.MULTISET, Root.ROW})


def may_match(predicate: pc.Expression, guarantees: Sequence[pc.Expression], schema: pa.Schema) -> list[bool]:
    """For each guarantee, whether rows that fulfil it can satisfy the predicate.

    Raises ConfigError if the predicate names unknown columns or compares values of different types.
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


def matching_files(
    predicate: pc.Expression, ranges: Sequence[RangeColumn], count: int, schema: TableSchema
) -> list[bool]:
    """For each of ``count`` files, by its ranges, whether it can have rows that satisfy the predicate.

    Neighbouring files in the order of a column are tested together. Most groups match as a whole or not at all, which
    saves a test per file. The results equal those of a test per file.
    """
    arrow_schema = schema.arrow_schema
    groups = _groups(ranges, count)
    guarantees = [_guarantee((column.field, column.united(group)) for column in ranges) for group in groups]
    some = may_match(predicate, guarantees, arrow_schema)
    others = may_match(~predicate, guarantees, arrow_schema)
    kept = [False] * count
    mixed: list[int] = []
    for group, may_be, may_not_be in zip(groups, some, others, strict=True):
        if may_be and may_not_be:
            mixed += group
        for number in group if may_be else ():
            kept[number] = True
    alone = [_guarantee((column.field, column.of(number)) for column in ranges) for number in mixed]
    for number, may_be in zip(mixed, may_match(predicate, alone, arrow_schema), strict=True):
        kept[number] = may_be
    return kept


def _groups(ranges: Sequence[RangeColumn], count: int) -> list[list[int]]:
    """Neighbours in the order of the first column with ranges; files of a group have ranges of the same columns.

    A file with only NULLs in a column must not share a group with others, because neither a comparison nor its opposite
    is true.
    """
    alike: dict[tuple[Form, ...], list[int]] = {}
    for number, forms in enumerate(zip(*(column.forms() for column in ranges), strict=True)):
        alike.setdefault(forms, []).append(number)
    groups = []
    for forms, numbers in alike.items() if ranges else [((), list(range(count)))]:
        if Form.RANGED in forms:
            numbers.sort(key=ranges[forms.index(Form.RANGED)].lows.__getitem__)
        groups += [numbers[at : at + _GROUP] for at in range(0, len(numbers), _GROUP)]
    return groups


def referenced_columns(predicate: pc.Expression, schema: pa.Schema) -> tuple[str, ...]:
    """The columns without which Arrow cannot evaluate the predicate, in schema order."""
    may_match(predicate, [ANYTHING], schema)
    rows = schema.empty_table()
    return tuple(name for name in schema.names if not _evaluates(predicate, rows.drop_columns([name])))


def ranged_columns_only(schema: TableSchema, names: Sequence[str]) -> bool:
    """Whether the ranges of these columns are reliable: a NaN is outside of a file's range."""
    return all(schema.field(name).type.root not in _UNRANGED for name in names)


def _evaluates(predicate: pc.Expression, rows: pa.Table) -> bool:
    try:
        rows.filter(predicate)
    except pa.ArrowInvalid:
        return False
    return True


# ---------------------------------------------------------------- guarantees


def partition_guarantee(partition: bytes, schema: TableSchema) -> pc.Expression:
    """The guarantee that every row of a partition has its values, even if the directory has the default name."""
    fields = schema.partition_fields
    values = deserialize_row(partition, [f.type for f in fields])
    return _all(
        pc.field(f.name).is_null() if value is None else pc.field(f.name) == _literal(value, f)
        for f, value in zip(fields, values, strict=True)
        if value is None or f.type.root not in _UNRANGED
    )


def manifest_guarantee(manifest: ManifestFileMeta, schema: TableSchema) -> pc.Expression:
    """The guarantee that every partition of a manifest is in the ranges of its list entry."""
    stats, fields = manifest.partition_stats, schema.partition_fields
    ranges = []
    for at, field in enumerate(fields):
        nulls = stats.null_counts[at] if at < len(stats.null_counts) else None
        ends = _ends(stats.min_values, stats.max_values, at, len(fields), field)
        ranges.append((field, ColumnRange(*ends, nulls)))
    return _guarantee(ranges)


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a column's range in a row of statistics with this many columns."""

    field: DataField
    at: int | None
    """None: files of this kind lack the column, so all of its values are NULL."""
    arity: int


def key_places(schema: TableSchema, names: Collection[str]) -> tuple[Place, ...]:
    """The places in ``key_stats`` of the named key columns.

    Key ranges cover every version of the keys in a file, so they may prune files before the merge.
    """
    fields = schema.key_fields
    return tuple(Place(field, at, len(fields)) for at, field in enumerate(fields) if field.name in names)


def value_places(
    schema: TableSchema, file_schema: TableSchema, kept: Sequence[str] | None, names: Collection[str]
) -> tuple[Place, ...]:
    """The places in ``value_stats`` of the named columns; only for files that need no merge, because other files may
    have newer rows.

    Statistics are in the schema of the file, of its columns ``kept`` (None: all). Columns whose type has changed
    guarantee nothing.
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


@dataclass(frozen=True, slots=True)
class FileStats:
    """The statistics of files of one kind from their manifests, file by file."""

    file_names: Sequence[str]
    row_counts: Sequence[int]
    lows: Sequence[bytes]
    """Serialized rows."""
    highs: Sequence[bytes]
    null_counts: Sequence[Sequence[int | None] | None]


def key_stats(rows: Sequence[EntryRow]) -> FileStats:
    """The key statistics of these files."""
    return FileStats(
        [row.file_name for row in rows],
        [row.row_count for row in rows],
        [row.key_low for row in rows],
        [row.key_high for row in rows],
        [row.key_null_counts for row in rows],
    )


def value_stats(rows: Sequence[EntryRow]) -> FileStats:
    """The value statistics of these files, which must have one schema and statistics of the same columns."""
    return FileStats(
        [row.file_name for row in rows],
        [row.row_count for row in rows],
        [row.value_low for row in rows],
        [row.value_high for row in rows],
        [row.value_null_counts for row in rows],
    )


def ranges_of(stats: FileStats, places: Iterable[Place]) -> tuple[RangeColumn, ...]:
    """The statistics of these columns."""
    return tuple(_column(stats, place) for place in places)


def _guarantee(ranges: Iterable[tuple[DataField, ColumnRange]]) -> pc.Expression:
    """The guarantee that every row of a file has its values in these ranges."""
    return _all(one.expression(field) for field, one in ranges)


# ---------------------------------------------------------------- ranges


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """The bounds of a column's values, in the internal form of rows; None: unknown."""

    low: Any = None
    high: Any = None
    null_count: int | None = None
    """None: unknown."""
    is_null: bool = False
    """All of them are NULL."""
    is_altered: bool = False
    """Whether values in the file may differ from its metadata."""

    def expression(self, field: DataField) -> pc.Expression:
        """The guarantee for the column in every row of the file."""
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


class Form(IntEnum):
    """The known facts about a column's values in a file."""

    UNKNOWN = 0
    RANGED = 1
    NULL = 2
    """All of them are NULL."""


@dataclass(frozen=True, slots=True)
class RangeColumn:
    """The ranges of a column in many files, file by file; ``ColumnRange`` describes the parts."""

    field: DataField
    lows: Sequence[Any]
    highs: Sequence[Any]
    null_counts: Sequence[int | None]
    are_null: Sequence[bool]
    are_altered: Sequence[bool]

    def forms(self) -> list[Form]:
        """Per file, what kind of range its metadata gives."""
        unknown, ranged, null = Form  # access to enum members is slow
        return [
            null if is_null else unknown if low is None or high is None else ranged
            for is_null, low, high in zip(self.are_null, self.lows, self.highs, strict=True)
        ]

    def of(self, number: int) -> ColumnRange:
        """The range of one file."""
        return self.united([number])

    def united(self, numbers: Sequence[int]) -> ColumnRange:
        """The range of the rows of several files of one form."""
        first = numbers[0]
        if self.are_null[first]:
            return _ALL_NULL
        is_ranged = self.lows[first] is not None and self.highs[first] is not None
        return ColumnRange(
            min([self.lows[number] for number in numbers]) if is_ranged else None,
            max([self.highs[number] for number in numbers]) if is_ranged else None,
            0 if all(self.null_counts[number] == 0 for number in numbers) else None,
            is_altered=any(self.are_altered[number] for number in numbers),
        )


def _column(stats: FileStats, place: Place) -> RangeColumn:
    at, field, count = place.at, place.field, len(stats.row_counts)
    if at is None:
        nothing = [None] * count
        return RangeColumn(field, nothing, nothing, nothing, [True] * count, [False] * count)
    nulls = [None if counts is None or at >= len(counts) else counts[at] for counts in stats.null_counts]
    lows, highs = _bounds(stats, at, place.arity, field)
    alters = may_alter_type(field.type)
    return RangeColumn(
        field,
        lows,
        highs,
        nulls,
        [of_file == rows for of_file, rows in zip(nulls, stats.row_counts, strict=True)],
        [alters and may_alter(name, field.type) for name in stats.file_names],
    )


def _bounds(stats: FileStats, at: int, arity: int, field: DataField) -> tuple[Sequence[Any], Sequence[Any]]:
    """The least and the greatest values of a column in each file."""
    prefix = arity.to_bytes(4, "big")
    if field.type.root not in _UNRANGED and {row[:4] for rows in (stats.lows, stats.highs) for row in rows} == {prefix}:
        with suppress(UnsupportedFeature):
            return raw_fields(stats.lows, at, field.type), raw_fields(stats.highs, at, field.type)
    ends = [_ends(low, high, at, arity, field) for low, high in zip(stats.lows, stats.highs, strict=True)]
    return [low for low, _ in ends], [high for _, high in ends]


def _ends(low: bytes, high: bytes, at: int, arity: int, field: DataField) -> tuple[Any, Any]:
    if field.type.root in _UNRANGED or int.from_bytes(low[:4], "big") != arity:
        return None, None
    try:
        return raw_field(low, at, field.type), raw_field(high, at, field.type)
    except UnsupportedFeature:
        # A timestamp that rows in memory cannot represent; reading the column reports it.
        return None, None


def _literal(value: Any, field: DataField) -> pa.Scalar:
    return pa.array([value], arrow_type(field.type))[0]


def _all(parts: Any) -> pc.Expression:
    return reduce(and_, parts, ANYTHING)
