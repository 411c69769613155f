"""Rows that compactions leave out because of their age (``record-level.expire-time``).

Implements Paimon's RecordLevelExpire: the time of a row is in one of its columns, and rows without a time stay. A file
that need not be merged is rewritten only if its statistics show old rows. They leave without a word in the changelog;
scans show them until then.

Java forgets deletes by their time as well, and shows the row below again until a compaction reaches it. Here a delete
that removes a whole row stays until it has done so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.compaction.row_times import least_second, seconds
from paimon_table.lookup.lookup_file import Hits
from paimon_table.mergetree.run_chunks import ReadBatches
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.table_context import TableContext
from paimon_table.options.table_options import TableOptions
from paimon_table.row_kind import VALUE_KIND, RowKind
from paimon_table.schema.table_schema import TableSchema
from paimon_table.types import DataField


@dataclass(frozen=True, slots=True)
class RecordExpiry:
    """The age of rows at one moment; ``oldest_s`` is the first second whose rows are still kept."""

    field: DataField
    """The column with the time."""
    oldest_s: int
    keeps_deletes: bool
    schemas: Mapping[int, TableSchema]

    def live(self, rows: pa.Table) -> pa.Table:
        """The stored rows that have not expired."""
        kept = self._kept(rows)
        return rows if kept is None else rows.filter(kept)

    def live_hits(self, hits: Hits) -> Hits:
        """The looked-up rows, without those that have expired."""
        kept = self._kept(hits.rows)
        return hits if kept is None else Hits(hits.positions[kept.to_numpy()], hits.rows.filter(kept))

    def reading(self, read: ReadBatches) -> ReadBatches:
        """``read`` without the rows that have expired."""

        def live(file: DataFileMeta, batch_rows: int) -> Iterator[pa.Table]:
            return (self.live(rows) for rows in read(file, batch_rows))

        return live

    def has_expired(self, file: DataFileMeta) -> bool:
        """Whether the statistics of the file show rows that have expired."""
        least_s = self._least_s(file)
        return least_s is not None and least_s < self.oldest_s

    def is_all_live(self, file: DataFileMeta) -> bool:
        """Whether the statistics of the file say that none of its rows has expired."""
        least_s = self._least_s(file)
        return least_s is not None and least_s >= self.oldest_s

    def _kept(self, rows: pa.Table) -> pa.ChunkedArray | None:
        """Which rows stay; None if all rows stay."""
        kept = pc.fill_null(
            pc.greater_equal(seconds(rows.column(self.field.name), self.field.type), self.oldest_s), True
        )
        if self.keeps_deletes:
            kept = pc.or_(kept, pc.equal(rows.column(VALUE_KIND), RowKind.DELETE))
        return None if pc.all(kept, min_count=0).as_py() else kept

    def _least_s(self, file: DataFileMeta) -> int | None:
        """The second of the oldest row of the file; None when its statistics do not show it."""
        return least_second(file, self.field, self.schemas)


def record_expiry(ctx: TableContext, now_ms: int) -> RecordExpiry | None:
    """How the rows of a table expire at a moment; None when they do not."""
    options = ctx.options
    if options.record_expire_time_ms is None or options.record_time_field is None:
        return None
    oldest_s = now_ms // 1000 - options.record_expire_time_ms // 1000
    return RecordExpiry(ctx.schema.field(options.record_time_field), oldest_s, _keeps_deletes(options), ctx.schemas)


def _keeps_deletes(options: TableOptions) -> bool:
    """Whether a delete removes the whole row, so that it gives nothing back to hold on to it."""
    removes = options.aggregation_remove_record_on_delete or options.partial_update_remove_record_on_delete
    return options.merge_engine == "deduplicate" or removes
