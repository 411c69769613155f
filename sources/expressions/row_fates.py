"""The fate of change rows under a filter and under computed keys: a pure decision on arrays.

A row that leaves the filter is deleted, one that enters is inserted, and an update under another key is a delete and
an insert. The old row of an update stands right before the new one, where the decoder gave it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.row_kind import RowKind
from sources.delete_order import pairs
from sources.expressions.rule_words import Leaving

Mask = npt.NDArray[np.bool_]

_INSERTS = pa.array(["c", "INSERT", "insert", "I"])
"""The sources' words for rows that did not exist before; other events with only a new row may be updates."""


@dataclass(frozen=True, slots=True)
class Fates:
    """Per row its kind, and whether it goes into the table; ``refused`` marks rows whose fate is unknown."""

    kinds: npt.NDArray[np.int8]
    kept: Mask
    refused: Mask


def fates_of(
    offsets: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.int8],
    is_match: Mask,
    lacking: Mask,
    moved: Mask | None,
    ops: pa.ChunkedArray | None,
    leaving: Leaving,
    *,
    wants_update_before: bool,
    is_ordered: bool = False,
) -> Fates:
    """``is_match`` says which rows the filter takes, ``moved`` which ones have another key than the next row.

    ``lacking`` marks old rows that are needed and have no values: an update counts as one without its old row.

    If the table orders its rows, a row that leaves under another key is a delete there too. It deletes an older row
    that the table has or may still get.
    """
    count = len(kinds)
    kinds, kept, refused = kinds.copy(), np.ones(count, np.bool_), np.zeros(count, np.bool_)
    old, new = pairs(offsets, kinds)
    is_whole = ~lacking[old] | (kinds[old] == RowKind.DELETE)
    kept[old[~is_whole]] = False
    old, new = old[is_whole], new[is_whole]
    refused[lacking & (kinds == RowKind.DELETE)] = True
    stays, leaves, enters = (
        is_match[old] & is_match[new],
        is_match[old] & ~is_match[new],
        ~is_match[old] & is_match[new],
    )
    if moved is not None:
        kinds[old[stays]] = np.where(moved[old[stays]], RowKind.DELETE, RowKind.UPDATE_BEFORE)
        kinds[new[stays]] = np.where(moved[old[stays]], RowKind.INSERT, RowKind.UPDATE_AFTER)
    if not wants_update_before:
        kept[old[stays & (kinds[old] == RowKind.UPDATE_BEFORE)]] = False
    has_moved = kinds[old] == RowKind.DELETE if moved is None else moved[old]
    kinds[old[leaves]] = RowKind.DELETE
    kept[new[leaves & ~(has_moved & is_ordered)]] = False
    kinds[new[leaves]] = RowKind.DELETE
    kept[old[enters]] = False
    kinds[new[enters]] = RowKind.INSERT
    kept[old[~is_match[old] & ~is_match[new]]] = False
    kept[new[~is_match[old] & ~is_match[new]]] = False
    alone = np.ones(count, np.bool_)
    alone[old] = alone[new] = False
    out = alone & ~is_match
    deletes = kinds == RowKind.DELETE
    kept[out & deletes] = False
    _decide_alone(np.flatnonzero(out & ~deletes), kinds, kept, refused, ops, leaving)
    return Fates(kinds, kept, refused)


def _decide_alone(
    rows: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.int8],
    kept: Mask,
    refused: Mask,
    ops: pa.ChunkedArray | None,
    leaving: Leaving,
) -> None:
    """New rows that the filter rejects and whose old row is missing."""
    if not len(rows):
        return
    inserts = np.zeros(len(rows), np.bool_)
    if ops is not None:
        inserts = np.asarray(pc.is_in(ops.take(pa.array(rows)), value_set=_INSERTS))
    match leaving:
        case Leaving.OMITTED:
            kept[rows] = False
        case Leaving.DELETED:
            kept[rows[inserts]] = False
            kinds[rows[~inserts]] = RowKind.DELETE
        case Leaving.REFUSED:
            updates = kinds[rows] == RowKind.UPDATE_AFTER
            kept[rows[~updates]] = False
            refused[rows[updates]] = True
