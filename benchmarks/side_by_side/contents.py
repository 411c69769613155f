"""Whether a table or a changelog has the content that follows from the events, whichever system wrote or read it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.side_by_side.columns import KEY
from benchmarks.side_by_side.reads import ROW_KIND

_ARRIVAL = "_arrival"


def difference(expected: pa.Table, found: pa.Table) -> str | None:
    """The first thing that is wrong with ``found``, or None if both hold the same rows in any order of the keys.

    ``expected`` is ordered by key. Rows of one key, as in a changelog, have to come in the same order. Columns of
    ``found`` may come in any order, and its times with a zone.
    """
    missing = [name for name in expected.column_names if name not in found.column_names]
    if missing:
        return f"the table has no column {', '.join(missing)}"
    rows = by_key(_in_form_of(expected.schema, found))
    if rows.num_rows != expected.num_rows:
        return f"the table has {rows.num_rows} rows instead of {expected.num_rows}"
    if rows.equals(expected):
        return None
    for name in expected.column_names:
        if rows[name].equals(expected[name]):
            continue
        pairs = zip(rows[KEY].to_pylist(), rows[name].to_pylist(), expected[name].to_pylist(), strict=True)
        key, value, wanted = next(pair for pair in pairs if pair[1] != pair[2])
        return f"column {name} of {KEY} {key} is {value!r} instead of {wanted!r}"
    return "the rows differ"


def by_key(rows: pa.Table) -> pa.Table:
    """Ordered by key; rows of one key stay in their order."""
    numbered = rows.append_column(_ARRIVAL, pa.array(np.arange(rows.num_rows)))
    order = [(KEY, "ascending"), (_ARRIVAL, "ascending")]
    return numbered.sort_by(order).drop_columns([_ARRIVAL]).combine_chunks()


def changes_difference(expected: pa.Table, changes: pa.Table) -> str | None:
    """The fault of a whole changelog whose last rows are ``expected``, or None.

    ``changes`` is ordered by key. Each -U and -D has to name the row that is there, and each row has one way to come.
    """
    ids, kinds = changes[KEY].to_numpy(), np.array(changes[ROW_KIND].to_pylist(), dtype="U2")
    begins = np.append(True, ids[1:] != ids[:-1])
    before = np.where(begins, "", np.roll(kinds, 1))
    allowed = {"+I": ("", "-D"), "-U": ("+I", "+U"), "+U": ("-U",), "-D": ("+I", "+U")}
    fits = np.zeros(len(kinds), np.bool_)
    for kind, those in allowed.items():
        fits |= (kinds == kind) & np.isin(before, those)
    if not fits.all():
        at = int(np.argmin(fits))
        return f"{kinds[at]} of {KEY} {ids[at]} comes after {before[at] or 'nothing'}"
    old = np.flatnonzero(np.isin(kinds, ("-U", "-D")))
    rows = changes.drop_columns([ROW_KIND])
    wrong = difference(rows.take(pa.array(old - 1)).combine_chunks(), rows.take(pa.array(old)))
    if wrong is not None:
        return f"an old row is not the one that was there: {wrong}"
    is_last = np.append(begins[1:], True)
    if "-U" in kinds[is_last]:
        return "a -U has no +U"
    left = rows.filter(pc.and_(pa.array(is_last), pa.array(kinds != "-D")))
    wrong = difference(expected, left)
    return None if wrong is None else f"the changes do not end with the rows of the table: {wrong}"


def _in_form_of(schema: pa.Schema, found: pa.Table) -> pa.Table:
    columns = []
    for field in schema:
        column = found[field.name]
        if pa.types.is_timestamp(column.type) and column.type.tz is not None:
            column = column.cast(pa.timestamp(column.type.unit))
        columns.append(column.cast(field.type))
    return pa.table(columns, schema=schema)
