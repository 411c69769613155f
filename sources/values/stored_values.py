"""Storing values of a known kind in a Paimon type: exactly or not at all.

The results have the form that ``stored_arrays`` takes. Everything here raises Unconvertible for what does not fit.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace
from decimal import Decimal, DecimalException
from typing import Any

from paimon_table.types import BINARIES, CHARACTERS, INTEGERS, TIMESTAMPS, DataType, Root, timestamp_unit
from sources.values.iso_time import NANOS_PER_DAY, NANOS_PER_SECOND, format_date, format_time, format_timestamp
from sources.values.json_values import EXACT, Unconvertible, describe, text_of_value

INTEGER_BITS = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}
UNITS = {"ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
"""Parts of a second by the name of an Arrow unit."""

SPECIAL_FLOATS = {
    "nan": math.nan,
    **dict.fromkeys(("infinity", "+infinity", "inf", "+inf", "positive_infinity"), math.inf),
    **dict.fromkeys(("-infinity", "-inf", "negative_infinity"), -math.inf),
}
"""Texts, in small letters, of numbers that JSON cannot express, as Java, PostgreSQL and Debezium write them."""
_LARGEST_EXPONENT = 400


@dataclass(frozen=True, slots=True)
class Date:
    days: int


@dataclass(frozen=True, slots=True)
class TimeOfDay:
    nanos: int


@dataclass(frozen=True, slots=True)
class Moment:
    nanos: int
    zoned: bool | None
    """None: an epoch number, which is UTC for instants and wall clock for local timestamps."""


def store_temporal(value: Date | TimeOfDay | Moment, target: DataType) -> Any:
    if isinstance(value, Date):
        return _store_date(value, target)
    if isinstance(value, TimeOfDay):
        return _store_time(value, target)
    return _store_moment(value, target)


def _store_date(value: Date, target: DataType) -> Any:
    if target.root is Root.DATE:
        if not -(1 << 31) <= value.days < 1 << 31:
            raise Unconvertible(f"epoch day {value.days} is out of the range of {target}")
        return value.days
    if target.root in TIMESTAMPS:
        return _store_moment(Moment(value.days * NANOS_PER_DAY, False), target)
    if target.root in CHARACTERS:
        return store_text(format_date(value.days), target)
    if target.root in INTEGERS:
        return store_integer(value.days, target, value.days)
    raise Unconvertible(f"a date does not fit {target}")


def _store_time(value: TimeOfDay, target: DataType) -> Any:
    shown = format_time(value.nanos)
    if target.root is Root.TIME:
        if not 0 <= value.nanos < NANOS_PER_DAY:
            raise Unconvertible(f"time {shown} is out of the range of {target}; STRING and BIGINT hold it")
        if value.nanos % 1_000_000:
            raise Unconvertible(f"time {shown} is finer than the milliseconds that {target} stores")
        return value.nanos // 1_000_000
    if target.root in CHARACTERS:
        return store_text(shown, target)
    raise Unconvertible(f"time {shown} does not fit {target}")


def _store_moment(value: Moment, target: DataType) -> Any:
    if target.root in TIMESTAMPS:
        return _timestamp(value.nanos, target)
    shown = format_timestamp(value.nanos, bool(value.zoned))
    if target.root in CHARACTERS:
        return store_text(shown, target)
    if target.root is Root.DATE and value.nanos % NANOS_PER_DAY == 0:
        return _store_date(Date(value.nanos // NANOS_PER_DAY), target)
    raise Unconvertible(f"timestamp {shown} does not fit {target}")


def _timestamp(nanos: int, target: DataType) -> int:
    precision = target.precision or 0
    if nanos % 10 ** (9 - precision):
        finest = replace(target, precision=9, nullable=True)
        shown = format_timestamp(nanos, False)
        raise Unconvertible(f"timestamp {shown} is finer than {target}; STRING or {finest} of a new table holds it")
    stored = nanos // (NANOS_PER_SECOND // UNITS[timestamp_unit(precision)])
    if not -(1 << 63) <= stored < 1 << 63:
        raise Unconvertible(f"timestamp {format_timestamp(nanos, False)} is out of the range of {target}")
    return stored


def store_text(text: str, target: DataType) -> str:
    if target.length is not None and len(text) > target.length:
        raise Unconvertible(f"string of {len(text)} characters is longer than {target}")
    return text


def store_bytes(data: bytes, target: DataType, value: Any) -> Any:
    if target.root in BINARIES:
        if target.length is not None and len(data) > target.length:
            raise Unconvertible(f"{len(data)} bytes are longer than {target}")
        return data
    if target.root in CHARACTERS and isinstance(value, str | bytes):
        return store_text(text_of_value(value, target), target)
    raise Unconvertible(f"bytes do not fit {target}")


def store_decimal(number: Decimal, target: DataType) -> Any:
    if target.root is Root.DECIMAL:
        return store_as_decimal(number, target)
    if target.root in CHARACTERS:
        return store_text(format(number, "f"), target)
    if target.root in INTEGERS and is_integral(number):
        return store_integer(int(number), target, number)
    if target.root in (Root.FLOAT, Root.DOUBLE):
        return store_float(float(number), number, target)
    raise Unconvertible(f"{describe(number)} does not fit {target}")


def store_as_decimal(number: Decimal, target: DataType) -> Decimal:
    precision, scale = target.precision or 0, target.scale or 0
    if not number.is_finite():
        raise Unconvertible(f"{describe(number)} does not fit {target}")
    if number and (number.adjusted() >= precision - scale or number.adjusted() < -_LARGEST_EXPONENT):
        raise Unconvertible(f"{describe(number)} does not fit {target}")
    try:
        stored = number.quantize(Decimal(1).scaleb(-scale), context=EXACT)
    except DecimalException:
        raise Unconvertible(f"{describe(number)} does not fit {target}") from None
    if stored != number:
        raise Unconvertible(f"{describe(number)} has more fraction digits than {target}")
    return stored


def is_integral(value: Decimal | float) -> bool:
    if isinstance(value, Decimal):
        return value.is_finite() and value.adjusted() < _LARGEST_EXPONENT and value == value.to_integral_value()
    return value.is_integer()


def store_integer(number: int, target: DataType, shown: Any) -> int:
    limit = 1 << (INTEGER_BITS[target.root] - 1)
    if not -limit <= number < limit:
        raise Unconvertible(f"{describe(shown)} is out of the range of {target.root}")
    return number


def store_float(number: float, value: Any, target: DataType) -> float:
    if math.isinf(number) and not (isinstance(value, float) or str(value).lower() in SPECIAL_FLOATS):
        raise Unconvertible(f"{describe(value)} is out of the range of {target.root}")
    if target.root is Root.DOUBLE:
        stored = number
    else:
        try:
            stored = struct.unpack("f", struct.pack("f", number))[0]
        except OverflowError:
            stored = math.copysign(math.inf, number)
        if math.isinf(stored) and not math.isinf(number):
            raise Unconvertible(f"{describe(value)} is out of the range of {target.root}")
    return stored
