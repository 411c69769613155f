"""Executor side: a delete in a table with a ``sequence.field`` gets the sequence of the row that it deletes.

Only the key of a deleted row's image is reliable. With PostgreSQL's default replica identity the source sends only the
key, and Debezium invents the rest: a zero for a NOT NULL version. Such a delete would sort before the row and have no
effect. So the sequence columns of a delete count as not sent, and get the values of the row before it. At an equal
sequence the later arrival wins, which is the delete.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.row_kind import VALUE_KIND, RowKind
from sinks.exchange.target import ORDERED, UNAVAILABLE


def without_sequence_of_deletes(rows: pa.Table, sequence_fields: Sequence[str], key: Sequence[str]) -> pa.Table:
    """``rows`` with the sequence columns of deletes added to the columns in ``_UNAVAILABLE``.

    Columns of the primary key ``key`` always have true values and are not added. Neither are columns of deletes that
    are updates in the source.
    """
    positions = [rows.schema.get_field_index(name) for name in sequence_fields if name not in key]
    deletes = np.asarray(pc.equal(rows.column(VALUE_KIND), RowKind.DELETE))
    if ORDERED in rows.column_names:
        deletes = deletes & ~np.asarray(rows.column(ORDERED))
        rows = rows.drop_columns([ORDERED])
    if not positions or not deletes.any():
        return rows
    known = rows.column(UNAVAILABLE).to_pylist() if UNAVAILABLE in rows.column_names else [[]] * len(rows)
    gaps = [
        sorted({*(named or ()), *positions}) if is_delete else named
        for named, is_delete in zip(known, deletes.tolist(), strict=True)
    ]
    column = pa.array(gaps, pa.list_(pa.int16()))
    if UNAVAILABLE in rows.column_names:
        return rows.set_column(rows.schema.get_field_index(UNAVAILABLE), UNAVAILABLE, column)
    return rows.append_column(UNAVAILABLE, column)
