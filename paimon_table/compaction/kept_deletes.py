"""Which deletes stay stored although nothing is left below them (``tidemark.keep-deletes``).

Paimon drops a -D in the compaction to the highest level. With ``sequence.field`` an older row that comes later would
then bring the deleted row back. A table with this option keeps each -D for a while after it was written. The time is in
a column of the -D itself. Readers are not concerned: a file says how many deletes it has, and those with deletes are
merged, which leaves them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.compaction.row_times import least_second, seconds
from paimon_table.merge.function import without_retracts
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.table_context import TableContext
from paimon_table.options.table_options import DELETE_TIME
from paimon_table.row_kind import VALUE_KIND, RowKind, are_adds
from paimon_table.schema.table_schema import TableSchema
from paimon_table.types import DataField


@dataclass(frozen=True, slots=True)
class KeptDeletes:
    """The deletes that stay at one moment; without a column none does. ``oldest_s``: the first second that counts."""

    column: DataField | None = None
    oldest_s: int = 0
    schemas: Mapping[int, TableSchema] = field(default_factory=dict)

    def remaining(self, rows: pa.Table) -> pa.Table:
        """Rows for a level with nothing below: the adds, and the deletes that stay."""
        if self.column is None:
            return without_retracts(rows)
        kinds = rows.column(VALUE_KIND).to_numpy()
        kept = are_adds(kinds)
        if kept.all():
            return rows
        times = seconds(rows.column(self.column.name), self.column.type)
        is_new = np.asarray(pc.fill_null(pc.greater_equal(times, self.oldest_s), False))
        return rows.filter(pa.array(kept | ((kinds == RowKind.DELETE) & is_new)))

    def may_have_gone(self, file: DataFileMeta) -> bool:
        """Whether a file may have deletes that do not stay."""
        if file.delete_row_count == 0:
            return False
        least_s = self._least_s(file)
        return least_s is None or least_s < self.oldest_s

    def have_gone(self, file: DataFileMeta) -> bool:
        """Whether the statistics of a file show kept deletes whose time is over."""
        least_s = self._least_s(file)
        return least_s is not None and least_s < self.oldest_s

    def _least_s(self, file: DataFileMeta) -> int | None:
        return None if self.column is None else least_second(file, self.column, self.schemas)


def kept_deletes(ctx: TableContext, now_ms: int) -> KeptDeletes:
    """The deletes of a table that stay at a moment."""
    kept_ms = ctx.options.keep_deletes_ms
    if kept_ms is None or not ctx.schema.has_column(DELETE_TIME):
        return KeptDeletes()
    return KeptDeletes(ctx.schema.field(DELETE_TIME), (now_ms - kept_ms) // 1000, ctx.schemas)
