"""Late rows: rows that arrived after a newer row of their key, by the ``sequence.field`` of the table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_table.merge.sort import KeyGroups, KeyOrder
from paimon_table.row_kind import SEQUENCE_NUMBER


def late_row_count(order: KeyOrder, rows: pa.Table, groups: KeyGroups) -> int:
    """The number of late rows in one merge; 0 if arrival alone decides which row is newer."""
    if not order.sequence_names or len(groups.starts) == len(groups.indices):
        return 0
    sizes = np.diff(np.append(groups.starts, len(groups.indices)))
    shared = np.repeat(sizes > 1, sizes)
    arrival = rows.column(SEQUENCE_NUMBER).to_numpy()[groups.indices[shared]]
    # Numbers that rise from key to key, so the least one from a row on belongs to its own key.
    rank = np.unique(arrival, return_inverse=True)[1] + groups.key_number()[shared] * len(arrival)
    least = np.minimum.accumulate(rank[::-1])[::-1]
    return int((least < rank).sum())
