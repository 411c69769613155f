"""The place of deletes in a table with sequence columns: the delete half of an update has the sequence of the update.

An update deletes its old row if it moves the row to another key, or out of a filter. The old image has an older
sequence than the update, so the delete takes the sequence of the new image. A late update then deletes no newer row.
A delete of the source stays without: ``sinks.write.deletes`` gives it the sequence of the row that it meets.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.row_kind import VALUE_KIND, RowKind
from sources.change_columns import OFFSET_COLUMN, ORDERED_COLUMN, UNAVAILABLE_COLUMN

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class DeleteOrder:
    """Per row the row that has its sequence values, and whether it is a delete that has a sequence."""

    row_of: npt.NDArray[np.int64]
    told: Mask

    def placed(self, rows: pa.Table, sequence: Collection[str]) -> pa.Table:
        """``rows`` with these sequence columns in deletes of updates, and with the column that marks the deletes."""
        if not self.told.any():
            return rows
        columns = {rows.schema.get_field_index(name): name for name in sequence}
        for position, name in columns.items():
            rows = rows.set_column(position, name, rows.column(name).take(pa.array(self.row_of)))
        if UNAVAILABLE_COLUMN in rows.column_names:
            unsent = [positions or [] for positions in rows.column(UNAVAILABLE_COLUMN).to_pylist()]
            placed = list(unsent)
            for row in np.flatnonzero(self.told).tolist():
                of_update = columns.keys() & set(unsent[self.row_of[row]])
                placed[row] = sorted({*unsent[row]} - columns.keys() | of_update)
            hidden = pa.array(placed, pa.list_(pa.int16()))
            rows = rows.set_column(rows.schema.get_field_index(UNAVAILABLE_COLUMN), UNAVAILABLE_COLUMN, hidden)
        return rows.append_column(ORDERED_COLUMN, pa.array(self.told))


def delete_order(
    offsets: npt.NDArray[np.int64], kinds: npt.NDArray[np.int8], deletes: Mask | None = None
) -> DeleteOrder:
    """``kinds`` are those of the events. ``deletes`` are the rows that delete in the table, if a rule decides this."""
    deletes = kinds == RowKind.DELETE if deletes is None else deletes
    row_of = np.arange(len(kinds))
    if not deletes.any():
        return DeleteOrder(row_of, deletes)
    told = deletes & ~np.isin(kinds, (RowKind.DELETE, RowKind.UPDATE_BEFORE))
    old, new = pairs(offsets, kinds)
    is_gone = deletes[old]
    row_of[old[is_gone]] = new[is_gone]
    told[old[is_gone]] = True
    return DeleteOrder(row_of, told)


def in_order(rows: pa.Table, sequence: Collection[str]) -> pa.Table:
    """Change rows whose deletes have the order of their updates."""
    order = delete_order(np.asarray(rows.column(OFFSET_COLUMN)), np.asarray(rows.column(VALUE_KIND)))
    return order.placed(rows, sequence)


def pairs(
    offsets: npt.NDArray[np.int64], kinds: npt.NDArray[np.int8]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows with the old and the new image of one record."""
    retracts = np.isin(kinds, (RowKind.DELETE, RowKind.UPDATE_BEFORE))
    first = np.zeros(len(kinds), np.bool_)
    first[:-1] = retracts[:-1] & ~retracts[1:] & (offsets[:-1] == offsets[1:])
    old = np.flatnonzero(first)
    return old, old + 1
