"""Compares the values of rows, row by row.

NULL equals NULL, NaN equals NaN, -0.0 differs from 0.0; maps are equal if they have the same entries in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.rows.python_values import identity_of, to_python
from paimon_table.rows.words import normal_form

Mask = npt.NDArray[np.bool_]


def equal_rows(left: pa.Table, right: pa.Table, columns: Sequence[str]) -> Mask:
    """For each row, whether both tables, of equal length, have the same values in these columns."""
    equal = np.ones(left.num_rows, np.bool_)
    nested = [name for name in columns if pa.types.is_nested(left.schema.field(name).type)]
    for name in columns:
        if name not in nested:
            equal &= equal_values(left.column(name), right.column(name))
    for name in nested:
        rows = np.flatnonzero(equal)
        pairs = zip(*(_comparable(side.column(name).take(pa.array(rows))) for side in (left, right)), strict=True)
        equal[rows] = [a == b for a, b in pairs]
    return equal


def equal_values(left: pa.ChunkedArray, right: pa.ChunkedArray) -> Mask:
    """As ``equal_rows``, for two columns of an atomic type."""
    a, b = normal_form(left), normal_form(right)
    equal = pc.equal(a, b)
    if a.null_count or b.null_count:
        equal = pc.fill_null(equal, pc.and_(a.is_null(), b.is_null()))
    mask: Mask = equal.to_numpy(zero_copy_only=False)
    return mask


def _comparable(column: pa.ChunkedArray) -> list[Any]:
    """Nested values as Python values whose == compares in this way."""
    values = [value for chunk in column.chunks for value in to_python(chunk)]
    identity = identity_of(column.type)
    return values if identity is None else [identity(value) for value in values]
