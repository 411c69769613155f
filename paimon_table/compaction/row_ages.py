"""Rows that compactions leave out because of their age, by a time in one of their columns.

``record-level.expire-time`` implements Paimon's RecordLevelExpire: rows without a time stay. Expired rows disappear
without a changelog; scans show them until then. Java also drops deletes by their time, and shows the older row again
until a compaction reaches it. Here a delete of a whole row stays until it has removed the row.

``tidemark.keep-deletes`` keeps each -D for a time after it was written. Paimon drops a -D in the compaction to the
highest level. With ``sequence.field``, an older row that arrives later would then restore the deleted row. Readers see
no difference: a file states its number of deletes, and merging a file with deletes drops them.

A file that needs no merge is rewritten only if its statistics show rows to drop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import UnsupportedFeature
from paimon_table.lookup.lookup_file import Hits
from paimon_table.merge.function import without_retracts
from paimon_table.mergetree.run_chunks import ReadBatches
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.table_context import TableContext
from paimon_table.options.table_options import DELETE_TIME, TableOptions
from paimon_table.row_kind import VALUE_KIND, RowKind, are_adds
from paimon_table.rows.binary_row import deserialize_row
from paimon_table.schema.table_schema import TableSchema
from paimon_table.timestamps import UNITS_PER_SECOND
from paimon_table.types import TIMES_OF_ROWS, TIMESTAMPS, DataField, DataType, Root, arrow_type

_FIRST_MILLIS = 10**12
"""From this value on a BIGINT counts milliseconds, below it seconds."""


@dataclass(frozen=True, slots=True)
class _Limit:
    """The column with the time, and the first second that stays."""

    column: DataField
    oldest_s: int
    schemas: Mapping[int, TableSchema]

    def are_young(self, rows: pa.Table, *, without_time: bool) -> pa.ChunkedArray:
        times = _seconds(rows.column(self.column.name), self.column.type)
        return pc.fill_null(pc.greater_equal(times, self.oldest_s), without_time)

    def is_young(self, file: DataFileMeta) -> bool | None:
        """Whether all rows of a file with a time are young enough; None if its statistics do not show it."""
        schema = self.schemas[file.schema_id]
        names = file.value_stats_cols
        covered = schema.fields if names is None else tuple(schema.field(name) for name in names)
        position = next((i for i, f in enumerate(covered) if f.id == self.column.id), None)
        if position is None or covered[position].type.root not in TIMES_OF_ROWS:
            return None
        least_values = file.value_stats.min_values
        if int.from_bytes(least_values[:4], "big") != len(covered):
            return None
        try:
            least = deserialize_row(least_values, [f.type.with_nullable(True) for f in covered])[position]
        except UnsupportedFeature:
            return None  # a timestamp that rows in memory cannot represent; reading the column reports it
        return None if least is None else _second(least, covered[position].type) >= self.oldest_s


@dataclass(frozen=True, slots=True)
class RowAges:
    """The rows that a table drops at one moment because of their age."""

    rows: _Limit | None = None
    """The limit for rows; None: rows do not expire."""
    deletes: _Limit | None = None
    """The limit for kept deletes; None: deletes are not kept."""
    expires_deletes: bool = True
    """Whether deletes expire like other rows."""

    def live(self, rows: pa.Table) -> pa.Table:
        """The stored rows that have not expired."""
        kept = self._live(rows)
        return rows if kept is None else rows.filter(kept)

    def live_hits(self, hits: Hits) -> Hits:
        """The looked-up rows, without those that have expired."""
        kept = self._live(hits.rows)
        return hits if kept is None else Hits(hits.positions[kept.to_numpy()], hits.rows.filter(kept))

    def reading(self, read: ReadBatches) -> ReadBatches:
        """``read`` without the rows that have expired."""
        if self.rows is None:
            return read

        def live(file: DataFileMeta, batch_rows: int) -> Iterator[pa.Table]:
            return (self.live(rows) for rows in read(file, batch_rows))

        return live

    def remaining(self, rows: pa.Table) -> pa.Table:
        """Rows for the lowest run of a bucket: the adds, and the deletes that stay."""
        if self.deletes is None:
            return without_retracts(rows)
        kinds = rows.column(VALUE_KIND).to_numpy()
        kept = are_adds(kinds)
        if kept.all():
            return rows
        is_new = np.asarray(self.deletes.are_young(rows, without_time=False))
        return rows.filter(pa.array(kept | ((kinds == RowKind.DELETE) & is_new)))

    def has_expired(self, file: DataFileMeta) -> bool:
        """Whether the statistics of the file show rows that have expired."""
        return self.rows is not None and self.rows.is_young(file) is False

    def is_all_live(self, file: DataFileMeta) -> bool:
        """Whether the statistics of the file show that none of its rows has expired."""
        return self.rows is None or self.rows.is_young(file) is True

    def may_have_gone(self, file: DataFileMeta) -> bool:
        """Whether a file may have deletes to drop."""
        return file.delete_row_count != 0 and (self.deletes is None or self.deletes.is_young(file) is not True)

    def has_gone(self, file: DataFileMeta) -> bool:
        """Whether the statistics of the file show expired rows, or kept deletes whose time has passed."""
        return self.has_expired(file) or (self.deletes is not None and self.deletes.is_young(file) is False)

    def _live(self, rows: pa.Table) -> pa.ChunkedArray | None:
        """Which rows stay; None if all rows stay."""
        if self.rows is None:
            return None
        kept = self.rows.are_young(rows, without_time=True)
        if not self.expires_deletes:
            kept = pc.or_(kept, pc.equal(rows.column(VALUE_KIND), RowKind.DELETE))
        return None if pc.all(kept, min_count=0).as_py() else kept


def row_ages(ctx: TableContext, now_ms: int) -> RowAges:
    """The ages of a table at a moment: rows expire by whole seconds as in Java, deletes never before their time."""
    options, rows, deletes = ctx.options, None, None
    if options.record_expire_time_ms is not None and options.record_time_field is not None:
        oldest_s = now_ms // 1000 - options.record_expire_time_ms // 1000
        rows = _Limit(ctx.schema.field(options.record_time_field), oldest_s, ctx.schemas)
    if options.keep_deletes_ms is not None and ctx.schema.has_column(DELETE_TIME):
        deletes = _Limit(ctx.schema.field(DELETE_TIME), (now_ms - options.keep_deletes_ms) // 1000, ctx.schemas)
    return RowAges(rows, deletes, _expires_deletes(options))


def _expires_deletes(options: TableOptions) -> bool:
    """Whether deletes expire: not if a delete removes the whole row, because keeping it loses nothing."""
    removes = options.aggregation_remove_record_on_delete or options.partial_update_remove_record_on_delete
    return options.merge_engine != "deduplicate" and not removes


def _seconds(column: pa.ChunkedArray | pa.Array, t: DataType) -> pa.ChunkedArray | pa.Array:
    """Seconds since the epoch, as Java counts them; NULL stays NULL."""
    numbers = column.cast(pa.int64())
    if t.root in TIMESTAMPS:
        return pc.divide(numbers, UNITS_PER_SECOND[column.type.unit])
    if t.root is Root.BIGINT:
        return pc.if_else(pc.greater_equal(numbers, _FIRST_MILLIS), pc.divide(numbers, 1000), numbers)
    return numbers


def _second(value: Any, t: DataType) -> int:
    second: int = _seconds(pa.array([value], arrow_type(t)), t)[0].as_py()
    return second
