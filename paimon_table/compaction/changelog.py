"""Derives changelog rows from the row before and the row after.

Implements Paimon's lookup changelog, for every merge engine.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.options.table_options import TableOptions
from paimon_table.row_kind import SEQUENCE_NUMBER, VALUE_KIND, RowKind, are_adds
from paimon_table.rows.gather import concat, gather
from paimon_table.rows.row_equality import equal_rows
from paimon_table.rows.words import Indices


def derive_changelog(before: pa.Table, before_row: Indices, after: pa.Table, options: TableOptions) -> pa.Table:
    """Changelog rows of the keys of ``after`` (one row per key, sorted by key), -U before +U, sorted by key.

    ``before_row[i]`` is the row of ``before`` with the key's earlier state, -1 for none; a retract on either side means
    that the key does not exist there. Rows keep their sequence numbers; -U and -D carry the values before.
    """
    existed = before_row >= 0
    existed[existed] = _is_add(before)[before_row[existed]]
    exists = _is_add(after)
    updated = existed & exists
    if options.row_deduplicate and updated.any():
        keys = np.flatnonzero(updated)
        ignored = {SEQUENCE_NUMBER, VALUE_KIND, *options.row_deduplicate_ignore_fields}
        columns = [name for name in after.column_names if name not in ignored]
        updated[keys] = ~equal_rows(gather(before, before_row[keys]), gather(after, keys), columns)
    old_kind = np.where(exists, RowKind.UPDATE_BEFORE, RowKind.DELETE)
    new_kind = np.where(existed, RowKind.UPDATE_AFTER, RowKind.INSERT)
    shown = np.stack([updated | (existed & ~exists), updated | (exists & ~existed)], axis=1).ravel()
    source = np.stack([before_row, before.num_rows + np.arange(after.num_rows)], axis=1).ravel()[shown]
    kinds = np.stack([old_kind, new_kind], axis=1).ravel()[shown].astype(np.int8)
    if len(source) == 0:
        return after.schema.empty_table()
    rows = gather(concat([before, after]) if before.num_rows else after, source)
    return rows.set_column(rows.schema.get_field_index(VALUE_KIND), rows.schema.field(VALUE_KIND), pa.array(kinds))


def _is_add(rows: pa.Table) -> npt.NDArray[np.bool_]:
    return are_adds(rows.column(VALUE_KIND).to_numpy())
