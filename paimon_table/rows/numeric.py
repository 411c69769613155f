"""Shared parts of sum and product: their types, the ranges of integers, exact decimals."""

from __future__ import annotations

import logging
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import cache
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from paimon_table.errors import MalformedRecord
from paimon_table.types import INTEGERS, DataType, Root

log = logging.getLogger(__name__)

NUMERIC = frozenset({*INTEGERS, Root.FLOAT, Root.DOUBLE, Root.DECIMAL})
_BITS = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}
EXACT = Context(prec=300, rounding=ROUND_HALF_UP)
"""Wide enough for products and finite quotients of decimals of 38 digits."""
SAFE = 1 - 1e-9
"""The share of a limit up to which a float estimate proves that nothing overflows."""


def largest(t: DataType) -> int:
    """The largest integer of the type, or the largest unscaled value of the decimal type."""
    if t.root is Root.DECIMAL:
        assert t.precision is not None
        return int(10**t.precision) - 1
    return (1 << (_BITS[t.root] - 1)) - 1


def wrapped(column: str, t: DataType, value: int) -> int:
    """The value, or the part of it that fits the bits of the integer type."""
    high = largest(t)
    if -high - 1 <= value <= high:
        return value
    warn_of_overflow(column, t)
    return (value + high + 1) % (2 * high + 2) - high - 1


def warn_if_beyond(column: str, t: DataType, estimated: npt.NDArray[np.float64]) -> None:
    """Call ``warn_of_overflow`` if an estimated result is certainly out of the range of the type."""
    high = largest(t)
    if ((estimated > high / SAFE) | (estimated < -(high + 1) / SAFE)).any():
        warn_of_overflow(column, t)


@cache
def warn_of_overflow(column: str, t: DataType) -> None:
    """Warn once per process that results in the column are wrong."""
    log.warning(
        "column %r: an aggregated value exceeded the range of %s and wrapped around, as in Java. Give the column a "
        "wider type and write the rows of these keys again",
        column,
        t,
    )


def refuse(column: str, operation: str, reason: str) -> NoReturn:
    """Raise an error: the operation has no result."""
    raise MalformedRecord(f"column {column!r}: {operation}: {reason}; correct the rows")


def fitting(t: DataType, value: Decimal) -> Decimal | None:
    """The value rounded half up to the scale of the decimal type; None if the type has too few digits for it."""
    assert t.precision is not None and t.scale is not None
    unit, bound = _decimal_bounds(t.precision, t.scale)
    rounded = EXACT.quantize(value, unit)
    return rounded if -bound < rounded < bound else None


@cache
def _decimal_bounds(precision: int, scale: int) -> tuple[Decimal, Decimal]:
    """The unit of the last digit, and the smallest positive value that is too large."""
    return Decimal((0, (1,), -scale)), Decimal((0, (1,), precision - scale))


def as_float(t: DataType, value: Any) -> float:
    """The value rounded to the precision of FLOAT or DOUBLE."""
    with np.errstate(all="ignore"):
        return float(np.float32(value)) if t.root is Root.FLOAT else float(value)
