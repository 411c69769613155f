"""Defaults of columns: the values that replace NULL in a row.

Implements ``defaultValue`` of the schema files as Java's writer applies it: to rows of every kind, after the check of
NOT NULL columns, before everything else. The text is cast as Java casts a STRING. Texts that Java parses by special
rules, or by the time zone of its process, are refused.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import UnsupportedFeature
from paimon_table.rows.numeric import EXACT, fitting, largest
from paimon_table.schema.table_schema import TableSchema
from paimon_table.timestamps import UNITS_PER_SECOND
from paimon_table.types import INTEGERS, DataField, DataType, Root, arrow_type, timestamp_unit

_TRUE = frozenset({"t", "true", "y", "yes", "1"})
_FALSE = frozenset({"f", "false", "n", "no", "0"})
_INTEGER = re.compile(r"([+-]?)(?=[0-9.])([0-9]*)(?:\.[0-9]*)?", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})", re.ASCII)
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{1,3}))?)?", re.ASCII)
_MOMENT = re.compile(
    rf"{_DATE.pattern}(?:([ T])([0-9]{{1,2}}):([0-9]{{1,2}})(?::([0-9]{{1,2}})(?:\.([0-9]{{1,9}}))?)?)?"
)
_GREGORIAN = dt.date(1582, 10, 15)
_EPOCH = dt.datetime(1970, 1, 1)
_MILLIS_PER_DAY = 86_400_000


def column_defaults(schema: TableSchema) -> dict[str, pa.Scalar]:
    """The defaults of columns that apply to rows; NOT NULL columns refuse NULL before a default could apply.

    Raises UnsupportedFeature for a default that Tidemark cannot apply as Java does.
    """
    placing = {*schema.primary_keys, *schema.partition_keys, *schema.bucket_keys}
    defaults = {}
    for f in schema.fields:
        if f.default_value is None or not f.type.nullable:
            continue
        if f.name in placing:
            raise _refusal(f, "it would decide the partition or bucket of a row")
        scalar = pa.scalar(_value(f, f.default_value), arrow_type(f.type))
        if scalar.is_valid:
            defaults[f.name] = scalar
    return defaults


def with_defaults(rows: pa.Table, defaults: Mapping[str, pa.Scalar]) -> pa.Table:
    """The rows with defaults instead of NULL."""
    for name, default in defaults.items():
        position = rows.schema.get_field_index(name)
        if position >= 0 and rows.column(position).null_count:
            rows = rows.set_column(position, rows.schema.field(position), pc.fill_null(rows.column(position), default))
    return rows


def _refusal(f: DataField, reason: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"column {f.name!r} of type {f.type} has the default {f.default_value!r}: {reason}; remove the default with "
        "the engine that created the table, or write with that engine"
    )


def _value(f: DataField, text: str) -> Any:
    cast = _CASTS.get(f.type.root)
    if cast is None:
        raise _refusal(f, f"defaults of type {f.type.root} are not supported")
    if len(text) > 1 and text.startswith("'") and text.endswith("'"):
        text = text[1:-1]
    try:
        return cast(text, f.type)
    except (ValueError, OverflowError, decimal.InvalidOperation) as error:
        raise _refusal(f, f"Tidemark cannot parse this text as Java does ({error})") from error


# ---------------------------------------------------------------- casts; ValueError for other texts


def _boolean(text: str, t: DataType) -> bool:
    word = text.lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(f"{text!r} is not a truth value")
    return word in _TRUE


def _integer(text: str, t: DataType) -> int:
    found = _matched(_INTEGER, text)
    number = int(found[1] + (found[2] or "0"))
    if not -largest(t) - 1 <= number <= largest(t):
        raise ValueError(f"{text!r} is too large")
    return number


def _float(text: str, t: DataType) -> float:
    if text in {"NaN", "Infinity", "+Infinity", "-Infinity"}:
        return float(text)
    number = float(_matched(_NUMBER, text)[0])
    return number if t.root is Root.DOUBLE else _nearest_float(text, number)


def _nearest_float(text: str, number: float) -> float:
    """The FLOAT nearest to the number in the text; a conversion through DOUBLE would round twice."""
    exact = Fraction(Decimal(text))
    with np.errstate(over="ignore"):
        first = np.float32(number)
    if not np.isfinite(first):
        return float(first)
    around = (first, np.nextafter(first, np.float32(-np.inf)), np.nextafter(first, np.float32(np.inf)))
    return float(min(filter(np.isfinite, around), key=lambda c: (abs(Fraction(float(c)) - exact), c != first)))


def _decimal(text: str, t: DataType) -> Decimal | None:
    """The decimal; as in Java, NULL if the type has too few digits."""
    return fitting(t, EXACT.create_decimal(_matched(_NUMBER, text)[0]))


def _text(text: str, t: DataType) -> str:
    """The text, cut or filled with blanks to the length of the type."""
    length = t.length or 0
    return text[:length].ljust(length if t.root is Root.CHAR else 0)


def _bytes(text: str, t: DataType) -> bytes:
    length = t.length or 0
    return text.encode()[:length].ljust(length if t.root is Root.BINARY else 0, b"\0")


def _date(text: str, t: DataType) -> int:
    if text.isascii() and text.isdigit():
        return _integer(text, DataType(Root.INT))
    day = dt.date(*map(int, _matched(_DATE, text).groups()))
    if day < _GREGORIAN:
        raise ValueError("Java uses another calendar before 1582-10-15")
    return (day - _EPOCH.date()).days


def _time(text: str, t: DataType) -> int:
    if text.isascii() and text.isdigit():
        millis = int(text)
    else:
        hour, minute, second, fraction = _matched(_TIME, text).groups()
        whole = dt.time(int(hour), int(minute), int(second or 0))
        millis = ((whole.hour * 60 + whole.minute) * 60 + whole.second) * 1000 + int((fraction or "").ljust(3, "0"))
    if millis >= _MILLIS_PER_DAY:
        raise ValueError(f"{text!r} is not a time of day")
    return millis


def _timestamp(text: str, t: DataType) -> int:
    precision = t.precision or 0
    per_second = UNITS_PER_SECOND[timestamp_unit(precision)]
    if text.isascii() and text.isdigit():
        if precision not in (0, 3, 6, 9):
            raise ValueError(f"a number is not a timestamp of precision {precision}")
        return _within_64_bits(_integer(text, DataType(Root.BIGINT)) * (per_second if precision == 0 else 1))
    year, month, day, separator, hour, minute, second, fraction = _matched(_MOMENT, text).groups()
    if separator == " " and second is None:
        raise ValueError("the seconds are missing")
    moment = dt.datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0))
    digits = (fraction or "")[:precision].ljust(9, "0")
    whole = (moment - _EPOCH) // dt.timedelta(seconds=1)
    return _within_64_bits(whole * per_second + int(digits) * per_second // UNITS_PER_SECOND["ns"])


def _within_64_bits(number: int) -> int:
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError("it does not fit into 64 bits")
    return number


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} has another form")
    return found


_CASTS: dict[Root, Callable[[str, DataType], Any]] = {
    Root.BOOLEAN: _boolean,
    **dict.fromkeys(INTEGERS, _integer),
    Root.FLOAT: _float,
    Root.DOUBLE: _float,
    Root.DECIMAL: _decimal,
    Root.CHAR: _text,
    Root.VARCHAR: _text,
    Root.BINARY: _bytes,
    Root.VARBINARY: _bytes,
    Root.DATE: _date,
    Root.TIME: _time,
    Root.TIMESTAMP: _timestamp,
}
