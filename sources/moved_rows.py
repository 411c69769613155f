"""Updates that move a row to another key of the table: the key of the row before and after, from the row images.

It matters if the new image leaves values out (unchanged TOAST columns) that the old image lacks too: the row under the
old key has them. Debezium writes a change of its message key as two records instead, see
``sources.debezium_json.moved_keys``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.row_kind import VALUE_KIND, RowKind
from paimon_table.rows.python_values import column_values, key_text
from sources.change_columns import OFFSET_COLUMN, OTHER_KEY_COLUMN, UNAVAILABLE_COLUMN
from sources.delete_order import pairs


def with_other_keys(rows: pa.Table, primary_key: Sequence[str]) -> pa.Table:
    """Change rows of the table, with the other keys of both images where a moved row lacks values."""
    if not primary_key or UNAVAILABLE_COLUMN not in rows.column_names:
        return rows
    kinds = np.asarray(rows.column(VALUE_KIND))
    has_gaps = np.asarray(pc.fill_null(pc.greater(pc.list_value_length(rows.column(UNAVAILABLE_COLUMN)), 0), False))
    old, new = pairs(np.asarray(rows.column(OFFSET_COLUMN)), kinds)
    is_moved = (kinds[old] == RowKind.DELETE) & (kinds[new] == RowKind.INSERT) & has_gaps[new]
    if not is_moved.any():
        return rows
    old, new = old[is_moved], new[is_moved]
    keys = rows.select(list(primary_key)).take(pa.array(np.concatenate([old, new])))
    texts: list[str | None] = [None] * len(kinds)
    if OTHER_KEY_COLUMN in rows.column_names:
        texts = rows.column(OTHER_KEY_COLUMN).to_pylist()
        rows = rows.drop_columns([OTHER_KEY_COLUMN])
    others = np.concatenate([new, old]).tolist()
    for other, key in zip(others, zip(*map(column_values, keys.columns), strict=True), strict=True):
        texts[other] = key_text(key)
    return rows.append_column(OTHER_KEY_COLUMN, pa.array(texts, pa.string()))
