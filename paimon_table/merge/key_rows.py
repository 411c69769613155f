"""Positions of rows in merge order: marked rows, and the last row of each key."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.merge.sort import KeyGroups
from paimon_table.rows.words import Indices

Mask = npt.NDArray[np.bool_]
Kinds = npt.NDArray[np.int8]


def valid_mask(column: pa.Array | pa.ChunkedArray) -> Mask:
    """Which values are not NULL."""
    if column.null_count == 0:
        return np.ones(len(column), np.bool_)
    valid: Mask = np.asarray(column.is_valid())
    return valid


def last_marked(marks: Mask, starts: Indices) -> Indices:
    """Position of the last mark of each key that begins at ``starts``; -1 without a mark."""
    # A running maximum of the marked positions, which is several times faster than one reduction per key.
    newest_mark = np.maximum.accumulate(np.where(marks, np.arange(len(marks)), -1))
    last: Indices = newest_mark[np.append(starts[1:], len(marks))[: len(starts)] - 1]
    last[last < starts] = -1
    return last


def any_marked(marks: Mask, starts: Indices) -> Mask:
    """For each key that begins at ``starts``, whether any of its positions is marked."""
    found: Mask = last_marked(marks, starts) >= 0
    return found


def only_positions(groups: KeyGroups, keep: Mask) -> tuple[KeyGroups, Mask]:
    """The groups with only the kept positions, and which keys still have rows."""
    if len(groups.starts) == 0:
        return groups, np.zeros(0, np.bool_)
    counts = np.add.reduceat(keep, groups.starts, dtype=np.int64)
    left = counts[counts > 0]
    return KeyGroups(groups.indices[keep], np.cumsum(left) - left), counts > 0
