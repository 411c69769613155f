"""Executor side: put back the values that the source left out of an update (Debezium: unchanged TOAST columns).

A row whose ``_UNAVAILABLE`` names a column takes that column from the row of the same key that came before it: an
earlier change of this batch, else the table's current row. A key that has neither gets NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.bucket_writer import BucketWriter
from paimon_table.data_file import VALUE_KIND, RowKind
from sinks.target import UNAVAILABLE

Key = tuple[Any, ...]


def fill_unavailable(rows: pa.Table, key_names: Sequence[str], writer: BucketWriter) -> pa.Table:
    """``rows`` (arrival order, with ``_UNAVAILABLE``) without that column and with its gaps filled."""
    gaps = rows.column(UNAVAILABLE).combine_chunks()
    rows = rows.drop_columns([UNAVAILABLE])
    affected = pc.fill_null(pc.greater(pc.list_value_length(gaps), 0), False).to_numpy(zero_copy_only=False)
    if not affected.any():
        return rows
    keys = _keys(rows, key_names)
    wanted = {keys[i] for i in np.flatnonzero(affected)}
    members = [i for i, key in enumerate(keys) if key in wanted]
    names = [rows.schema.field(p).name for p in sorted({p for g in gaps.to_pylist() for p in g or ()})]
    current = _current_rows(rows.take(pa.array(np.flatnonzero(affected))).select(list(key_names)), names, writer)
    columns = {name: rows.column(name).to_pylist() for name in names}
    kinds = rows.column(VALUE_KIND).to_pylist()
    for i in members:
        before = current.get(keys[i], {})
        for position in gaps[i].as_py() or ():
            name = rows.schema.field(position).name
            columns[name][i] = before.get(name)
        if kinds[i] in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            current[keys[i]] = {name: columns[name][i] for name in names}
        elif kinds[i] == RowKind.DELETE:
            current.pop(keys[i], None)
    for name in names:
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(at), pa.array(columns[name], rows.schema.field(at).type))
    return rows


def _keys(rows: pa.Table, key_names: Sequence[str]) -> list[Key]:
    return list(zip(*(rows.column(name).to_pylist() for name in key_names), strict=True))


def _current_rows(keys: pa.Table, names: Sequence[str], writer: BucketWriter) -> dict[Key, Mapping[str, Any]]:
    """Per key the values of ``names`` in the table's current row; absent keys are left out."""
    found = writer.lookup_rows(keys)
    values = zip(*(found.column(name).to_pylist() for name in names), strict=True)
    rows = (dict(zip(names, row, strict=True)) for row in values)
    return dict(zip(_keys(found, keys.column_names), rows, strict=True))
