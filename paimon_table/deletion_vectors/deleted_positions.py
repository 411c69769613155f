"""Which rows of a data file are deleted although the file still has them.

A row is named by its position in the physical file, counted from 0 in file order.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class DeletedPositions(Protocol):
    """The deleted rows of one file."""

    def keep(self, start: int, count: int) -> npt.NDArray[np.bool_] | None:
        """For each of the ``count`` positions from ``start`` whether its row is live; None if all rows are."""
        ...


def without_deleted(rows: pa.Table, start: int, deleted: DeletedPositions | None) -> pa.Table:
    """The live ones of the rows at ``start`` and the following positions of their file."""
    kept = None if deleted is None else deleted.keep(start, rows.num_rows)
    return rows if kept is None else rows.filter(pa.array(kept))
