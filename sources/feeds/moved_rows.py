"""Rows that an update moved to another primary key, where it does not bring all columns: which key each had before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.row_kind import VALUE_KIND, RowKind
from paimon_table.rows.python_values import column_values, key_text
from sources.change_columns import OFFSET_COLUMN, OTHER_KEY_COLUMN, UNAVAILABLE_COLUMN
from sources.changes import ChangeBatch, SourceTable
from sources.decode_target import DecodeTarget, Goal


def with_other_keys(change: ChangeBatch, targets: Mapping[SourceTable, Goal]) -> ChangeBatch:
    """The change with the column of other keys: if a moved row lacks values, the row under its old key has them."""
    target, rows = targets.get(change.source), change.rows
    if not isinstance(target, DecodeTarget) or not target.primary_key or UNAVAILABLE_COLUMN not in rows.column_names:
        return change
    kinds, offsets = np.asarray(rows.column(VALUE_KIND)), np.asarray(rows.column(OFFSET_COLUMN))
    lengths = pc.list_value_length(rows.column(UNAVAILABLE_COLUMN))
    has_gaps = np.asarray(pc.fill_null(pc.greater(lengths, 0), False))
    moved = np.zeros(len(kinds), np.bool_)
    moved[1:] = (kinds[1:] == RowKind.INSERT) & (kinds[:-1] == RowKind.DELETE) & (offsets[1:] == offsets[:-1])
    arrived = np.flatnonzero(moved & has_gaps)
    if not len(arrived):
        return change
    texts: list[str | None] = [None] * len(kinds)
    pairs = pa.array(np.column_stack([arrived - 1, arrived]).reshape(-1))
    keys = rows.select(list(target.primary_key)).take(pairs)
    old_and_new = [key_text(key) for key in zip(*map(column_values, keys.columns), strict=True)]
    for number, old, new in zip(arrived.tolist(), old_and_new[::2], old_and_new[1::2], strict=True):
        texts[number - 1], texts[number] = new, old
    return replace(change, rows=rows.append_column(OTHER_KEY_COLUMN, pa.array(texts, pa.string())))
