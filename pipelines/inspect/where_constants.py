"""Comparisons of a column with the constants of `--where`, which get the type of the column.

Whole numbers are compared exactly: ``id > 2.5`` and ``id < 1e30`` are right. NaN equals NaN, and has no place in the
order of numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import time
from decimal import ROUND_FLOOR, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_ZONE = re.compile(r"(?:Z|[-+]\d\d:?\d\d)$")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"(\d\d?):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?")
_EQUAL, _UNEQUAL = {"=", "=="}, {"!=", "<>"}
_UNKNOWN = pc.scalar(pa.scalar(None, pa.bool_()))


class Unfit(Exception):
    """The constant does not fit the comparison; the text continues a sentence, or is empty."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant as it was written: ``kind`` is text, number, bytes or boolean, ``text`` has no quotes."""

    kind: str
    text: str


def compared(field: pc.Expression, target: pa.DataType, sign: str, constant: Constant) -> pc.Expression:
    """``field``, a column of type ``target``, compared with the constant. Raises Unfit."""
    if pa.types.is_integer(target):
        return _compared_number(field, target, sign, _number(constant))
    value = _typed(constant, target)
    if not _is_nan(value):
        return _arrow_comparison(field, sign, value)
    if sign in _EQUAL:
        return field.is_nan()
    if sign in _UNEQUAL:
        return ~field.is_nan()
    raise Unfit("NaN is neither smaller nor larger than a number; compare with = 'NaN' or != 'NaN'")


def is_among(field: pc.Expression, target: pa.DataType, constants: Sequence[Constant]) -> pc.Expression:
    """Whether the column has one of the values; NULL for NULL. Raises Unfit."""
    if pa.types.is_integer(target):
        numbers = [_number(constant) for constant in constants]
        values = [pa.scalar(int(number), target) for number in numbers if _is_value(number, target)]
    else:
        values = [_typed(constant, target) for constant in constants]
        if pa.types.is_floating(target) and any(value.as_py() == 0 for value in values):
            # Arrow's lists distinguish the two zeros, which its comparisons and SQL do not.
            values += [pa.scalar(zero, target) for zero in (0.0, -0.0)]
    return field.isin(pa.array(values, target)) | (field.is_null() & _UNKNOWN)


def value_of(constant: Constant, target: pa.DataType) -> pa.Scalar[Any]:
    """The constant as a value of the type. Raises Unfit."""
    if not pa.types.is_integer(target):
        return _typed(constant, target)
    number = _number(constant)
    if not _is_value(number, target):
        raise Unfit
    return pa.scalar(int(number), target)


# ---------------------------------------------------------------- whole numbers


def _number(constant: Constant) -> Decimal:
    try:
        number = Decimal(constant.text)
    except InvalidOperation:
        raise Unfit from None
    if not number.is_finite() or constant.kind == "bytes":
        raise Unfit
    return number


def _is_value(number: Decimal, target: pa.DataType) -> bool:
    lowest, highest = _range(target)
    return lowest <= number <= highest and number == _floor(number)


def _compared_number(field: pc.Expression, target: pa.DataType, sign: str, number: Decimal) -> pc.Expression:
    if _is_value(number, target):
        return _arrow_comparison(field, sign, pa.scalar(int(number), target))
    lowest, highest = _range(target)
    no_row, every_row = field != field, field == field
    if sign in _EQUAL:
        return no_row
    if sign in _UNEQUAL:
        return every_row
    is_less = sign.startswith("<")
    if number < lowest or number > highest:
        return every_row if is_less == (number > highest) else no_row
    below = pa.scalar(int(_floor(number)), target)
    return field <= pc.scalar(below) if is_less else field > pc.scalar(below)


def _range(target: pa.DataType) -> tuple[int, int]:
    highest = (1 << (target.bit_width - 1)) - 1
    return -highest - 1, highest


def _floor(number: Decimal) -> Decimal:
    """Only of numbers in the range of 64 bits."""
    return number.to_integral_value(ROUND_FLOOR)


# ---------------------------------------------------------------- other types


def _typed(constant: Constant, target: pa.DataType) -> pa.Scalar[Any]:
    kind, text = constant.kind, constant.text
    if pa.types.is_binary(target):
        return pa.scalar(_bytes(constant), target)
    if kind == "bytes":
        raise Unfit
    if pa.types.is_boolean(target) and text not in ("true", "false"):
        raise Unfit
    if pa.types.is_time(target):
        return pa.scalar(_time(text), target)
    if pa.types.is_timestamp(target) and _DAY.fullmatch(text):
        text += "T00:00:00"
    if pa.types.is_timestamp(target) and target.tz is not None and _ZONE.search(text) is None:
        text += "Z"
    try:
        value = pa.scalar(text, pa.string()).cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise Unfit from None
    if pa.types.is_floating(target) and math.isinf(value.as_py()) and re.search(r"\d", text):
        raise Unfit("it is outside the range of the column; for infinite values write 'inf' or '-inf'")
    return value


def _bytes(constant: Constant) -> bytes:
    if constant.kind == "text":
        return constant.text.encode()
    if constant.kind != "bytes":
        raise Unfit("write bytes as X'00ff' or as a text in single quotes")
    try:
        return bytes.fromhex(constant.text)
    except ValueError:
        raise Unfit("bytes are pairs of hexadecimal digits, as in X'00ff'") from None


def _time(text: str) -> time:
    match = _TIME.fullmatch(text)
    if match is None:
        raise Unfit("write times as '10:15', '10:15:30' or '10:15:30.123'")
    hour, minute, second, fraction = match.groups()
    digits = (fraction or "").rstrip("0")
    if len(digits) > 3:
        raise Unfit("it has more than three fractional digits of a second, but the column holds at most three")
    try:
        return time(int(hour), int(minute), int(second or 0), int(digits.ljust(6, "0")))
    except ValueError:
        raise Unfit("a day has the times '00:00:00' to '23:59:59.999'") from None


def _is_nan(value: pa.Scalar[Any]) -> bool:
    return pa.types.is_floating(value.type) and math.isnan(value.as_py())


def _arrow_comparison(field: pc.Expression, sign: str, constant: pa.Scalar[Any]) -> pc.Expression:
    value = pc.scalar(constant)
    match sign:
        case "=" | "==":
            return field == value
        case "!=" | "<>":
            return field != value
        case "<":
            return field < value
        case "<=":
            return field <= value
        case ">":
            return field > value
        case _:
            return field >= value
