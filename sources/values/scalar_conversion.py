"""The exact rules by which one JSON value becomes a value of a Paimon type: the meaning that docs/TYPES.md describes.

The vectorised conversions decide only the plain cases and use these rules for doubtful values, so both give the same
results.
"""

from __future__ import annotations

import re
from decimal import Decimal, DecimalException
from typing import Any

from paimon_table.types import BINARIES, CHARACTERS, INTEGERS, TIMESTAMPS, DataType, Root, timestamp_unit
from sources.values.encodings import AUTO, Encoding, Kind
from sources.values.iso_time import NANOS_PER_SECOND, days_of, parse_date, parse_time, parse_timestamp
from sources.values.json_values import (
    BASE64_TEXT,
    NUMBER_TEXT,
    Unconvertible,
    decimal_form,
    describe,
    read_bytes,
    read_characters,
    read_decimal,
    read_variable_decimal,
    text_of_value,
    unfit,
)
from sources.values.stored_values import (
    SPECIAL_FLOATS,
    UNITS,
    Date,
    Moment,
    TimeOfDay,
    is_integral,
    store_as_decimal,
    store_bytes,
    store_decimal,
    store_float,
    store_integer,
    store_temporal,
    store_text,
)
from sources.values.value_forms import ValueForms

EXTREMES = (-(1 << 63), (1 << 63) - 1)
"""The smallest and largest timestamp: Debezium's form of PostgreSQL's -infinity and infinity."""

INFINITE_MILLIS = (-9_223_372_036_832_400_000, 9_223_372_036_825_200_000)
"""The same in milliseconds since 1970: a timestamp of at most 3 digits, or any with ``time.precision.mode`` connect."""

REAL_DAYS = (-2_440_550, 2_145_042_905)
"""The first and the last date of PostgreSQL, whose range is the widest. Days outside are its infinities."""

_OF_OTHER_SIGN = frozenset(
    [-2_147_472_692, *range(-622_191_235, -622_191_232), *(days_of(292_269_055, 12, day) for day in (1, 2, 3))]
)
"""Debezium's forms of the date infinity that are negative, and of -infinity that are positive.

They overflowed, or lost BC. The time zone of Connect moves them by a day.
"""

_INFINITIES = {"infinity": EXTREMES[1], "+infinity": EXTREMES[1], "-infinity": EXTREMES[0]}
_INFINITE_NANOS = tuple(millis * 1_000_000 for millis in INFINITE_MILLIS)
_LONGEST_INTEGER = 1000
_INTEGER_TEXT = re.compile(r"-?\d+", re.ASCII)


def convert_value(value: Any, encoding: Encoding, target: DataType, forms: ValueForms) -> Any:
    """The stored form (see ``stored_arrays``) of one JSON value; None stays None. Raises Unconvertible.

    JSON numbers come as int, Decimal or float; objects as dict; arrays as list.
    """
    if value is None:
        return None
    match encoding.kind:
        case Kind.AUTO:
            return _convert_plain(value, target, forms)
        case Kind.TEXT:
            return _convert_plain(value, target, forms.of_texts)
        case Kind.ARRAY:
            return _convert_list(value, encoding.element or AUTO, target, forms)
        case Kind.MAP:
            return _convert_map(value, encoding, target, forms)
        case Kind.STRUCT:
            return _convert_struct(value, encoding, target, forms)
        case Kind.BYTES:
            return store_bytes(read_bytes(value, "base64"), target, value)
        case Kind.FORMATTED:
            return store_bytes(read_bytes(value, forms.binary_format), target, value)
        case Kind.LATIN1:
            return store_bytes(read_characters(value), target, value)
        case Kind.DECIMAL if isinstance(value, str | bytes):
            return store_decimal(read_decimal(value, encoding.scale, target), target)
        case Kind.DECIMAL:
            return _convert_plain(value, target, forms)
        case Kind.UNSIGNED:
            is_wrapped = isinstance(value, int) and -(1 << 63) <= value < 0
            return _convert_plain(value + (1 << 64) if is_wrapped else value, target, forms)
        case Kind.VARIABLE_DECIMAL:
            return store_decimal(read_variable_decimal(value, target), target)
        case Kind.DATE | Kind.TIME | Kind.TIMESTAMP if target.root in INTEGERS:
            return _convert_plain(value, target, forms)
        case Kind.DATE:
            return _epoch_day(_integer(value, "epoch day"), target, forms)
        case Kind.TIME:
            nanos = _integer(value, "time of day") * (NANOS_PER_SECOND // encoding.unit)
            return store_temporal(TimeOfDay(nanos), target)
        case Kind.TIMESTAMP:
            return _epoch_moment(_integer(value, "epoch number"), encoding.unit, target, forms)


# ---------------------------------------------------------------- values without schema


def _convert_plain(value: Any, target: DataType, forms: ValueForms) -> Any:
    root = target.root
    if root in CHARACTERS:
        return store_text(text_of_value(value, target), target)
    if root is Root.BOOLEAN:
        return _plain_boolean(value, target)
    if root in INTEGERS:
        return _plain_integer(value, target)
    if root in (Root.FLOAT, Root.DOUBLE):
        return _plain_float(value, target)
    if root is Root.DECIMAL:
        return _plain_decimal(value, target, forms)
    if root in BINARIES:
        return store_bytes(read_bytes(value, forms.binary_format), target, value)
    if root in (Root.DATE, Root.TIME) or root in TIMESTAMPS:
        return _plain_temporal(value, target, forms)
    if root is Root.ARRAY:
        return _convert_list(value, AUTO, target, forms)
    if root is Root.ROW:
        return _convert_struct(value, Encoding(Kind.STRUCT), target, forms)
    return _convert_map(value, Encoding(Kind.MAP), target, forms)


def _plain_boolean(value: Any, target: DataType) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    if value in ("true", "false"):
        return bool(value == "true")
    raise unfit(value, target)


def _plain_integer(value: Any, target: DataType) -> int:
    if isinstance(value, str) and len(value) <= _LONGEST_INTEGER and _INTEGER_TEXT.fullmatch(value):
        return store_integer(int(value), target, value)
    if isinstance(value, int) and not isinstance(value, bool):
        return store_integer(value, target, value)
    if isinstance(value, Decimal | float) and is_integral(value):
        return store_integer(int(value), target, value)
    raise unfit(value, target)


def _plain_float(value: Any, target: DataType) -> float:
    if isinstance(value, str):
        if value.lower() in SPECIAL_FLOATS:
            return SPECIAL_FLOATS[value.lower()]
        if not NUMBER_TEXT.fullmatch(value):
            raise unfit(value, target)
        number = float(value)
    elif isinstance(value, bool) or not isinstance(value, int | Decimal | float):
        raise unfit(value, target)
    else:
        try:
            number = float(value)
        except OverflowError:
            raise Unconvertible(f"{describe(value)} is out of the range of {target.root}") from None
    return store_float(number, value, target)


def _plain_decimal(value: Any, target: DataType, forms: ValueForms) -> Decimal:
    if isinstance(value, dict):
        return store_as_decimal(read_variable_decimal(value, target), target)
    if isinstance(value, str):
        return store_as_decimal(_decimal_of_string(value, target, forms), target)
    if isinstance(value, bool) or not isinstance(value, int | Decimal | float):
        raise unfit(value, target)
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    return store_as_decimal(number, target)


def _decimal_of_string(value: str, target: DataType, forms: ValueForms) -> Decimal:
    form = forms.decimal_format
    if form not in ("base64", "text"):
        form = forms.form_of_decimal(decimal_form(value))
    if form == "text" and NUMBER_TEXT.fullmatch(value):
        try:
            return Decimal(value)
        except DecimalException:
            raise unfit(value, target) from None
    if form == "base64" and value and BASE64_TEXT.fullmatch(value):
        return read_decimal(value, target.scale or 0, target)
    if form == "ambiguous":
        raise Unconvertible(
            f"{describe(value)} may be base64 or text of {target}: send embedded schemas, or declare decimal_format"
            " (base64 or text) for the column, and retry the record"
        )
    if forms.decimal_format == "base64":
        raise Unconvertible(
            f"{describe(value)} is not base64, which decimal_format declares; if the connector has"
            " decimal.handling.mode=string, set decimal_format: text"
        )
    raise unfit(value, target)


def _plain_temporal(value: Any, target: DataType, forms: ValueForms) -> Any:
    if isinstance(value, str):
        return _temporal_of_text(value, target, forms)
    if isinstance(value, bool) or not isinstance(value, int):
        raise unfit(value, target)
    if target.root is Root.DATE:
        return _epoch_day(value, target, forms)
    unit = epoch_unit(target, forms)
    if target.root is Root.TIME:
        return store_temporal(TimeOfDay(value * (NANOS_PER_SECOND // unit)), target)
    return _epoch_moment(value, unit, target, forms)


def _epoch_day(value: int, target: DataType, forms: ValueForms) -> Any:
    """Debezium writes days in 32 bits, so a larger number has another unit and is no infinity."""
    if not -(1 << 31) <= value < 1 << 31:
        return store_temporal(Date(value), target)
    return _day(value, target, forms)


def _day(value: int, target: DataType, forms: ValueForms) -> Any:
    if REAL_DAYS[0] <= value <= REAL_DAYS[1] or target.root is not Root.DATE:
        return store_temporal(Date(value), target)
    if forms.infinity == "null":
        return None
    is_largest = (value > 0) != (value in _OF_OTHER_SIGN)
    return _finite(value, (1 << 31) - 1 if is_largest else -(1 << 31), target, forms)


def _epoch_moment(value: int, unit: int, target: DataType, forms: ValueForms) -> Any:
    """Debezium writes PostgreSQL's infinities as the largest and the smallest 64-bit number, or as INFINITE_MILLIS."""
    is_infinite = value in EXTREMES or (unit == UNITS["ms"] and value in INFINITE_MILLIS)
    if is_infinite and target.root in TIMESTAMPS:
        return _infinite(value, EXTREMES[value > 0], target, forms)
    return store_temporal(Moment(value * (NANOS_PER_SECOND // unit), None), target)


def epoch_unit(target: DataType, forms: ValueForms) -> int:
    """Parts of a second that an epoch number without schema counts, for a TIME or TIMESTAMP column."""
    if forms.time_precision == "connect":
        return UNITS["ms"]
    return UNITS[timestamp_unit(target.precision or 0)]


def _temporal_of_text(text: str, target: DataType, forms: ValueForms) -> Any:
    if target.root is Root.DATE:
        days = parse_date(text)
        if days is None:
            raise unfit(text, target)
        return _day(days, target, forms)
    if target.root is Root.TIME:
        nanos = parse_time(text)
        if nanos is None:
            raise unfit(text, target)
        return store_temporal(TimeOfDay(nanos), target)
    if text in _INFINITIES:
        return _infinite(text, _INFINITIES[text], target, forms)
    moment = parse_timestamp(text)
    if moment is None:
        raise unfit(text, target)
    nanos, zoned = moment
    if nanos in _INFINITE_NANOS:
        return _infinite(text, EXTREMES[nanos > 0], target, forms)
    if target.root is Root.TIMESTAMP_LTZ and not zoned:
        raise Unconvertible(f"{describe(text)} has no time zone, {target} needs one")
    return store_temporal(Moment(nanos, zoned), target)


def _infinite(value: int | str, extreme: int, target: DataType, forms: ValueForms) -> int | None:
    if forms.infinity == "null":
        return None
    extreme = _finite(value, extreme, target, forms)
    return extreme // 1000 if timestamp_unit(target.precision or 0) == "ms" else extreme


def _finite(value: int | str, extreme: int, target: DataType, forms: ValueForms) -> int:
    """The largest or smallest value of the type, unless the record is to stay out."""
    if forms.infinity == "quarantine":
        raise Unconvertible(f"{describe(value)} is not a value of {target} (infinity: quarantine)")
    return extreme


# ---------------------------------------------------------------- nested values


def _convert_list(value: Any, element: Encoding, target: DataType, forms: ValueForms) -> Any:
    if target.root in CHARACTERS:
        return store_text(text_of_value(value, target), target)
    if not isinstance(value, list) or target.element is None or target.root is not Root.ARRAY:
        raise unfit(value, target)
    return [_nested(item, element, target.element, forms) for item in value]


def _nested(value: Any, encoding: Encoding, target: DataType, forms: ValueForms) -> Any:
    stored = convert_value(value, encoding, target, forms)
    if stored is None and not target.nullable:
        raise Unconvertible(f"NULL inside a value whose elements are {target}")
    return stored


def _convert_struct(value: Any, encoding: Encoding, target: DataType, forms: ValueForms) -> Any:
    if target.root in CHARACTERS:
        return store_text(text_of_value(value, target), target)
    if not isinstance(value, dict) or target.root is not Root.ROW:
        raise unfit(value, target)
    encodings = dict(encoding.fields)
    names = {f.name for f in target.fields}
    lost = next((name for name, item in value.items() if name not in names and item is not None), None)
    if lost is not None:
        raise Unconvertible(f"object has a field {lost!r} that {target} lacks")
    return tuple(_nested(value.get(f.name), encodings.get(f.name, AUTO), f.type, forms) for f in target.fields)


def _convert_map(value: Any, encoding: Encoding, target: DataType, forms: ValueForms) -> Any:
    if target.root in CHARACTERS:
        return store_text(text_of_value(value, target), target)
    pairs = list(value.items()) if isinstance(value, dict) else value
    if target.root is not Root.MAP or target.key is None or target.value is None or not _are_pairs(pairs):
        raise unfit(value, target)
    key, item = encoding.key or AUTO, encoding.element or AUTO
    found = [
        (_nested(k, key, target.key.with_nullable(False), forms), _nested(v, item, target.value, forms))
        for k, v in pairs
    ]
    if len({repr(k) for k, _ in found}) < len(found):
        raise Unconvertible(f"array of pairs has a key twice, and {target} has each key once")
    return found


def _are_pairs(pairs: Any) -> bool:
    return isinstance(pairs, list) and all(isinstance(p, list | tuple) and len(p) == 2 for p in pairs)


def _integer(value: Any, what: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise Unconvertible(f"{describe(value)} is no {what}")
