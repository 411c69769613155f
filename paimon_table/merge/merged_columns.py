"""Assembles merged rows column by column: each value comes from a version of its key, or was computed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import MalformedRecord
from paimon_table.merge.key_rows import Mask
from paimon_table.row_kind import SEQUENCE_NUMBER, VALUE_KIND, RowKind, are_retracts
from paimon_table.rows.chunks import one_array
from paimon_table.rows.words import Indices


@dataclass(slots=True)
class MergedColumns:
    """The value columns of merged keys, one entry per key."""

    is_deleted: Mask
    newest: Indices
    """The row that gives the key its sequence number."""
    sources: dict[str, Indices] = field(default_factory=dict)
    """For each column, the row of its value, -1 for NULL."""
    computed: dict[str, pa.Array] = field(default_factory=dict)
    """Computed values."""

    def overlay(self, keys: Mask, other: MergedColumns) -> None:
        """Replace all columns of some keys by those of ``other``, which has exactly these keys."""
        at = np.flatnonzero(keys)
        self.is_deleted[at] = other.is_deleted
        for name, source in other.sources.items():
            # Columns may share one array of sources.
            self.sources[name] = self.sources[name].copy()
            self.sources[name][at] = source
        for name, values in other.computed.items():
            self.computed[name] = values if keys.all() else overlaid(self.computed[name], at, values)


def overlaid(base: pa.Array, at: Indices, values: pa.Array) -> pa.Array:
    """``base`` with the values at some positions replaced."""
    index = np.arange(len(base))
    index[at] = len(base) + np.arange(len(at))
    return pa.concat_arrays([base, values]).take(pa.array(index))


def take_or_null(column: pa.Array | pa.ChunkedArray, source: Indices) -> pa.Array:
    """The values of these rows, NULL for row -1, as one array."""
    missing = source < 0
    index = pa.array(source, mask=missing) if missing.any() else pa.array(source)
    return one_array(pc.take(column, index, boundscheck=False))


def merged_table(rows: pa.Table, passing: Indices, keys: Mask, merged: MergedColumns) -> pa.Table:
    """One row per key, in key order: keys in ``keys`` get their ``merged`` row, others keep their row in ``passing``.

    Merged rows are +I or -D. Raises MalformedRecord if a NOT NULL column of a live row is NULL.
    """
    at = np.flatnonzero(keys)
    every = len(at) == len(keys)

    def all_keys(source: Indices) -> Indices:
        if every:
            return source
        combined = passing.copy()
        combined[at] = source
        return combined

    kinds = rows.column(VALUE_KIND).to_numpy()[passing]
    kinds[at] = np.where(merged.is_deleted, RowKind.DELETE, RowKind.INSERT)
    columns: list[pa.Array] = []
    newest = all_keys(merged.newest)
    for column_field in rows.schema:
        name = column_field.name
        if name == VALUE_KIND:
            column = pa.array(kinds)
        elif name == SEQUENCE_NUMBER:
            column = take_or_null(rows.column(name), newest)
        elif name in merged.computed:
            values = merged.computed[name]
            column = values if every else overlaid(take_or_null(rows.column(name), passing), at, values)
        else:
            column = take_or_null(rows.column(name), all_keys(merged.sources[name]))
        if not column_field.nullable and column.null_count:
            column = _without_nulls(column, column_field, rows, newest, are_retracts(kinds))
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=rows.schema)


def _without_nulls(column: pa.Array, named: pa.Field, rows: pa.Table, newest: Indices, is_deleted: Mask) -> pa.Array:
    """Replaces NULLs in deleted rows, whose values no reader sees; raises MalformedRecord for other NULLs."""
    filled = overlaid(column, np.flatnonzero(is_deleted), take_or_null(rows.column(named.name), newest[is_deleted]))
    if filled.null_count:
        raise MalformedRecord(
            f"merging leaves no value in column {named.name!r}, which is NOT NULL: {filled.null_count} rows were "
            "retracted, or came without a sequence of its sequence group. Make the column nullable"
        )
    return filled
