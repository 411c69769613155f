"""Fast selection of rows by row number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from paimon_table.rows.words import Indices


def gather(rows: pa.Table, indices: Indices) -> pa.Table:
    """The rows with these numbers, in this order, each column in one chunk; a contiguous range is not copied."""
    n = len(indices)
    if n == 0:
        return rows.schema.empty_table()
    if int(indices[-1]) - int(indices[0]) == n - 1 and bool(np.all(indices[1:] - indices[:-1] == 1)):
        return rows.slice(int(indices[0]), n)
    return rows.take(pa.array(indices))


def concat(tables: Sequence[pa.Table]) -> pa.Table:
    """One table of equal schemas, each column in one chunk."""
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables).combine_chunks()
