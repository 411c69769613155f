"""Tables that have many rows before a benchmark begins: those of the throughput benchmark's events."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.events import COLUMN_TYPES
from paimon_table.row_kind import VALUE_KIND
from tests.support.table_driver import TableDriver, new_table

_ROWS = 500_000
"""Of one commit."""


def fill_table(path: Path, options: Mapping[str, str], rows: int, apart: int) -> None:
    """Make a table of orders and write ``rows`` rows, in random order of their keys, which are multiples of
    ``apart``."""
    columns = [(name, f"{sql} NOT NULL" if name == "id" else sql) for name, sql in COLUMN_TYPES.items()]
    table = new_table(path, columns, ["id"], options=options)
    keys = np.random.default_rng(rows).permutation(rows) * apart
    with tempfile.TemporaryDirectory(prefix="tidemark-fill-", dir=path.parent) as lookup:
        driver = TableDriver(table, Path(lookup), keeps_writers=True)
        for first in range(0, rows, _ROWS):
            driver.commit_arrow(_orders(keys[first : first + _ROWS]))


def _orders(keys: np.ndarray) -> pa.Table:
    texts = pa.array(keys).cast(pa.string())
    moments = pa.array(1_700_000_000_000_000 - keys, pa.timestamp("us"))
    columns = {
        "id": pa.array(keys, pa.int64()),
        "customer_id": pa.array(keys % 5000, pa.int64()),
        "status": pa.array(["created", "paid", "packed", "shipped"]).take(pa.array(keys % 4)),
        "amount": pa.array((keys % 10_000).astype(np.int32)).cast(pa.decimal128(12, 2)).cast(pa.decimal128(10, 2)),
        "quantity": pa.array(keys % 50, pa.int32()),
        "note": pc.binary_join_element_wise("order", texts, "before the first event", " "),
        "created_at": moments,
        "updated_at": moments,
        "is_paid": pa.array(keys % 2 == 1),
        "address": pc.binary_join_element_wise(texts, "Long Street", " "),
        VALUE_KIND: pa.array(np.zeros(len(keys), np.int8)),
    }
    return pa.table(columns)
