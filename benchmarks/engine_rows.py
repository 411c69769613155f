"""Rows of the engine benchmark, computed from their number alone, so that JavaWriter.java makes the same ones.

Ten columns, about 100 bytes: a random INT key, 3 BIGINT, 2 DOUBLE, 3 STRING of 25 bytes, 1 INT. Column c of row i is a
function of ``mixed(i, c)``, the finalizer of SplitMix64 over 64-bit words.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.row_kind import VALUE_KIND

COLUMNS = (
    ("k", "INT"),
    ("b1", "BIGINT"),
    ("b2", "BIGINT"),
    ("b3", "BIGINT"),
    ("d1", "DOUBLE"),
    ("d2", "DOUBLE"),
    ("s1", "STRING"),
    ("s2", "STRING"),
    ("s3", "STRING"),
    ("n", "INT"),
)
STREAMS = (frozenset({"b1", "b2", "d1", "s1"}), frozenset({"b3", "d2", "s2", "s3", "n"}))
"""Columns that even and odd rows leave NULL when rows come in two halves, as in a partial update of two streams."""

_PREFIX = b"customer number: "
_DIGITS = 8
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)

Words = npt.NDArray[np.uint64]


def mixed(rows: Words, column: int) -> Words:
    """64 random-looking bits of each (row, column)."""
    with np.errstate(over="ignore"):
        z = (rows * np.uint64(16) + np.uint64(column + 1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def rows_of(first: int, count: int, keys: int, in_halves: bool) -> pa.Table:
    """Rows ``first`` to ``first + count`` as inserts, over the keys 0 to ``keys`` - 1."""
    numbers = np.arange(first, first + count, dtype=np.uint64)
    columns = {name: _column(name, sql, numbers, position, keys) for position, (name, sql) in enumerate(COLUMNS)}
    if in_halves:
        for parity, names in enumerate(STREAMS):
            left_out = pa.array(numbers % np.uint64(2) == parity)
            for name in names:
                column = columns[name]
                columns[name] = pc.if_else(left_out, pa.scalar(None, column.type), column)
    columns[VALUE_KIND] = pa.array(np.zeros(count, np.int8))
    return pa.table(columns)


def _column(name: str, sql: str, rows: Words, position: int, keys: int) -> pa.Array:
    bits = mixed(rows, position)
    if name == "k":
        return pa.array(((bits >> np.uint64(33)) % np.uint64(keys)).astype(np.int32))
    if sql == "INT":
        return pa.array((bits >> np.uint64(40)).astype(np.int32))
    if sql == "BIGINT":
        return pa.array((bits >> np.uint64(24)).astype(np.int64))
    if sql == "DOUBLE":
        return pa.array((bits >> np.uint64(11)).astype(np.float64) * 2.0**-53)
    return _texts(bits)


def _texts(bits: Words) -> pa.Array:
    """A fixed prefix and the first 8 hexadecimal digits of each word."""
    count, width = len(bits), len(_PREFIX) + _DIGITS
    data = np.empty((count, width), np.uint8)
    data[:, : len(_PREFIX)] = np.frombuffer(_PREFIX, np.uint8)
    for digit in range(_DIGITS):
        data[:, len(_PREFIX) + digit] = _HEX[(bits >> np.uint64(60 - 4 * digit)) & np.uint64(15)]
    offsets = np.arange(count + 1, dtype=np.int32) * width
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(data))
