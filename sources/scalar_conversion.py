"""The exact rules by which one JSON value becomes a value of a Paimon type.

This is the meaning that docs/TYPES.md describes. The vectorised conversions decide the plain cases alone and ask here
whenever a value is in doubt, so both give the same answers.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import struct
from dataclasses import dataclass
from decimal import Context, Decimal, DecimalException
from typing import Any

from paimon_table.types import BINARIES, CHARACTERS, INTEGERS, TIMESTAMPS, DataType, Root, timestamp_unit
from sources.changes import DecoderOptions
from sources.encodings import AUTO, Encoding, Kind
from sources.iso_time import (
    NANOS_PER_DAY,
    NANOS_PER_SECOND,
    format_date,
    format_time,
    format_timestamp,
    parse_date,
    parse_time,
    parse_timestamp,
)

INTEGER_BITS = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}
_UNITS = {"ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_SPECIAL_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_INFINITIES = {"infinity": 1, "+infinity": 1, "-infinity": -1}
EXTREMES = (-(1 << 63), (1 << 63) - 1)
_DECIMAL_TEXT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INTEGER_TEXT = re.compile(r"-?\d+", re.ASCII)
_BASE64_TEXT = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", re.ASCII)
AMBIGUOUS_DECIMALS = {"auto-base64": "base64", "auto-text": "text"}
"""``auto`` with the column's other values having told what digits alone mean."""
_LARGEST_EXPONENT = 400
_LARGEST_SCALE = 20_000
_EXACT = Context(prec=100_000, Emax=999_999, Emin=-999_999)
"""Context in which no number that gets here is rounded."""


class Unconvertible(Exception):
    """A value does not fit its column; the text names the kind of the value and the type."""


@dataclass(frozen=True, slots=True)
class _Date:
    days: int


@dataclass(frozen=True, slots=True)
class _TimeOfDay:
    nanos: int


@dataclass(frozen=True, slots=True)
class _Moment:
    nanos: int
    zoned: bool | None
    """None: an epoch number, which is UTC for instants and wall clock for local timestamps."""


def convert_value(value: Any, encoding: Encoding, target: DataType, options: DecoderOptions) -> Any:
    """The stored form (see ``stored_arrays``) of one JSON value; None stays None. Raises Unconvertible.

    JSON numbers come as int, Decimal or float; objects as dict; arrays as list.
    """
    if value is None:
        return None
    match encoding.kind:
        case Kind.AUTO:
            return _convert_plain(value, target, options)
        case Kind.ARRAY:
            return _convert_list(value, encoding.element or AUTO, target, options)
        case Kind.MAP:
            return _convert_map(value, encoding, target, options)
        case Kind.STRUCT:
            return _convert_struct(value, encoding, target, options)
        case Kind.BYTES:
            return _store_bytes(read_bytes(value, options), target, value)
        case Kind.DECIMAL if isinstance(value, str):
            return _store_decimal(_unscaled(value, options).scaleb(-encoding.scale, _EXACT), target)
        case Kind.DECIMAL:
            return _convert_plain(value, target, options)
        case Kind.VARIABLE_DECIMAL:
            return _store_decimal(read_variable_decimal(value, options), target)
        case Kind.DATE | Kind.TIME | Kind.TIMESTAMP if target.root in INTEGERS:
            return _convert_plain(value, target, options)
        case Kind.DATE:
            return _store_typed(_Date(_integer(value, "epoch day")), target)
        case Kind.TIME:
            nanos = _integer(value, "time of day") * (NANOS_PER_SECOND // encoding.unit)
            return _store_typed(_TimeOfDay(nanos), target)
        case Kind.TIMESTAMP:
            return _epoch_moment(_integer(value, "epoch number"), encoding.unit, target, options)


# ---------------------------------------------------------------- values without schema


def _convert_plain(value: Any, target: DataType, options: DecoderOptions) -> Any:
    root = target.root
    if root in CHARACTERS:
        return _store_text(text_of_value(value, options), target)
    if root is Root.BOOLEAN:
        return _plain_boolean(value, target)
    if root in INTEGERS:
        return _plain_integer(value, target)
    if root in (Root.FLOAT, Root.DOUBLE):
        return _plain_float(value, target)
    if root is Root.DECIMAL:
        return _plain_decimal(value, target, options)
    if root in BINARIES:
        return _store_bytes(read_bytes(value, options), target, value)
    if root in (Root.DATE, Root.TIME) or root in TIMESTAMPS:
        return _plain_temporal(value, target, options)
    if root is Root.ARRAY:
        return _convert_list(value, AUTO, target, options)
    if root is Root.ROW:
        return _convert_struct(value, Encoding(Kind.STRUCT), target, options)
    return _convert_map(value, Encoding(Kind.MAP), target, options)


def _plain_boolean(value: Any, target: DataType) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    if value in ("true", "false"):
        return bool(value == "true")
    raise unfit(value, target)


def _plain_integer(value: Any, target: DataType) -> int:
    if isinstance(value, str) and _INTEGER_TEXT.fullmatch(value):
        return _in_range(int(value), target, value)
    if isinstance(value, int) and not isinstance(value, bool):
        return _in_range(value, target, value)
    if isinstance(value, Decimal | float) and _is_integral(value):
        return _in_range(int(value), target, value)
    raise unfit(value, target)


def _is_integral(value: Decimal | float) -> bool:
    if isinstance(value, Decimal):
        return value.is_finite() and value.adjusted() < _LARGEST_EXPONENT and value == value.to_integral_value()
    return value.is_integer()


def _in_range(number: int, target: DataType, shown: Any) -> int:
    limit = 1 << (INTEGER_BITS[target.root] - 1)
    if not -limit <= number < limit:
        raise Unconvertible(f"{describe(shown)} is out of the range of {target.root}")
    return number


def _plain_float(value: Any, target: DataType) -> float:
    if isinstance(value, str):
        if value in _SPECIAL_FLOATS:
            return _SPECIAL_FLOATS[value]
        if not _DECIMAL_TEXT.fullmatch(value):
            raise unfit(value, target)
        number = float(value)
    elif isinstance(value, bool) or not isinstance(value, int | Decimal | float):
        raise unfit(value, target)
    else:
        try:
            number = float(value)
        except OverflowError:
            raise Unconvertible(f"{describe(value)} is out of the range of {target.root}") from None
    return _checked_float(number, value, target)


def _checked_float(number: float, value: Any, target: DataType) -> float:
    if math.isinf(number) and not (isinstance(value, float) or str(value) in _SPECIAL_FLOATS):
        raise Unconvertible(f"{describe(value)} is out of the range of {target.root}")
    if target.root is Root.DOUBLE:
        stored = number
    else:
        try:
            stored = struct.unpack("f", struct.pack("f", number))[0]
        except OverflowError:
            raise Unconvertible(f"{describe(value)} is out of the range of {target.root}") from None
    if isinstance(value, int) and int(stored) != value:
        raise Unconvertible(f"{describe(value)} has more digits than {target.root} holds")
    return stored


def _plain_decimal(value: Any, target: DataType, options: DecoderOptions) -> Decimal:
    if isinstance(value, dict):
        return _store_decimal_type(read_variable_decimal(value, options), target)
    if isinstance(value, str):
        return _store_decimal_type(_decimal_of_string(value, target, options), target)
    if isinstance(value, bool) or not isinstance(value, int | Decimal | float):
        raise unfit(value, target)
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    return _store_decimal_type(number, target)


def _decimal_of_string(value: str, target: DataType, options: DecoderOptions) -> Decimal:
    form = options.decimal_format
    if form not in ("base64", "text"):
        form = decimal_form(value)
    if form == "ambiguous":
        form = AMBIGUOUS_DECIMALS.get(options.decimal_format, "ambiguous")
    if form == "text" and _DECIMAL_TEXT.fullmatch(value):
        try:
            return Decimal(value)
        except DecimalException:
            raise unfit(value, target) from None
    if form == "base64" and _BASE64_TEXT.fullmatch(value) and value:
        return _unscaled(value, options).scaleb(-(target.scale or 0), _EXACT)
    if form == "ambiguous":
        raise Unconvertible(
            f"{describe(value)} may be base64 or text of {target}: set decimal_format to base64 or text"
        )
    raise unfit(value, target)


def decimal_form(value: str) -> str:
    """``base64``, ``text``, or ``ambiguous`` for digits that could be either; says nothing about well-formedness."""
    if not value or len(value) % 4 or "." in value or "-" in value:
        return "text"
    return "ambiguous" if value.isascii() and value.isdigit() else "base64"


def _plain_temporal(value: Any, target: DataType, options: DecoderOptions) -> Any:
    if isinstance(value, str):
        return _temporal_of_text(value, target, options)
    if isinstance(value, bool) or not isinstance(value, int):
        raise unfit(value, target)
    if target.root is Root.DATE:
        return _store_typed(_Date(value), target)
    unit = epoch_unit(target, options)
    if target.root is Root.TIME:
        return _store_typed(_TimeOfDay(value * (NANOS_PER_SECOND // unit)), target)
    return _epoch_moment(value, unit, target, options)


def _epoch_moment(value: int, unit: int, target: DataType, options: DecoderOptions) -> Any:
    """Debezium writes PostgreSQL's infinities as the largest and the smallest 64-bit number."""
    if value in EXTREMES and options.infinity != "extreme" and target.root in TIMESTAMPS:
        return _infinite(value, target, options)
    return _store_typed(_Moment(value * (NANOS_PER_SECOND // unit), None), target)


def epoch_unit(target: DataType, options: DecoderOptions) -> int:
    """Parts of a second that an epoch number without schema counts, for a TIME or TIMESTAMP column."""
    if options.time_precision == "connect":
        return _UNITS["ms"]
    return _UNITS[timestamp_unit(target.precision or 0)]


def _temporal_of_text(text: str, target: DataType, options: DecoderOptions) -> Any:
    if target.root is Root.DATE:
        days = parse_date(text)
        if days is None:
            raise unfit(text, target)
        return _store_typed(_Date(days), target)
    if target.root is Root.TIME:
        nanos = parse_time(text)
        if nanos is None:
            raise unfit(text, target)
        return _store_typed(_TimeOfDay(nanos), target)
    if text in _INFINITIES:
        return _infinite(text, target, options)
    moment = parse_timestamp(text)
    if moment is None:
        raise unfit(text, target)
    nanos, zoned = moment
    if target.root is Root.TIMESTAMP_LTZ and not zoned:
        raise Unconvertible(f"{describe(text)} has no time zone, {target} needs one")
    return _store_typed(_Moment(nanos, zoned), target)


def _infinite(value: Any, target: DataType, options: DecoderOptions) -> int | None:
    if options.infinity == "null":
        return None
    if options.infinity == "quarantine":
        raise Unconvertible(f"{describe(value)} is not a value of {target} (infinity: quarantine)")
    extreme = EXTREMES[1] if _INFINITIES[value] > 0 else EXTREMES[0]
    return extreme // 1000 if timestamp_unit(target.precision or 0) == "ms" else extreme


# ---------------------------------------------------------------- nested values


def _convert_list(value: Any, element: Encoding, target: DataType, options: DecoderOptions) -> Any:
    if target.root in CHARACTERS:
        return _store_text(text_of_value(value, options), target)
    if not isinstance(value, list) or target.element is None or target.root is not Root.ARRAY:
        raise unfit(value, target)
    return [_nested(item, element, target.element, options) for item in value]


def _nested(value: Any, encoding: Encoding, target: DataType, options: DecoderOptions) -> Any:
    stored = convert_value(value, encoding, target, options)
    if stored is None and not target.nullable:
        raise Unconvertible(f"NULL inside a value whose elements are {target}")
    return stored


def _convert_struct(value: Any, encoding: Encoding, target: DataType, options: DecoderOptions) -> Any:
    if target.root in CHARACTERS:
        return _store_text(text_of_value(value, options), target)
    if not isinstance(value, dict) or target.root is not Root.ROW:
        raise unfit(value, target)
    encodings = dict(encoding.fields)
    names = {f.name for f in target.fields}
    lost = next((name for name, item in value.items() if name not in names and item is not None), None)
    if lost is not None:
        raise Unconvertible(f"object has a field {lost!r} that {target} lacks")
    return tuple(_nested(value.get(f.name), encodings.get(f.name, AUTO), f.type, options) for f in target.fields)


def _convert_map(value: Any, encoding: Encoding, target: DataType, options: DecoderOptions) -> Any:
    if target.root in CHARACTERS:
        return _store_text(text_of_value(value, options), target)
    pairs = list(value.items()) if isinstance(value, dict) else value
    if target.root is not Root.MAP or target.key is None or target.value is None or not _are_pairs(pairs):
        raise unfit(value, target)
    key, item = encoding.key or AUTO, encoding.element or AUTO
    return [
        (_nested(k, key, target.key.with_nullable(False), options), _nested(v, item, target.value, options))
        for k, v in pairs
    ]


def _are_pairs(pairs: Any) -> bool:
    return isinstance(pairs, list) and all(isinstance(p, list | tuple) and len(p) == 2 for p in pairs)


# ---------------------------------------------------------------- reading encoded values


def _integer(value: Any, what: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise Unconvertible(f"{describe(value)} is no {what}")


def read_bytes(value: Any, options: DecoderOptions) -> bytes:
    """The bytes that a string stands for, by ``binary_format``."""
    if not isinstance(value, str):
        raise Unconvertible(f"{describe(value)} does not hold bytes")
    try:
        if options.binary_format == "hex":
            return bytes.fromhex(value)
        if options.binary_format == "base64-url-safe":
            return base64.b64decode(value, altchars=b"-_", validate=True)
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise Unconvertible(f"{describe(value)} is not {options.binary_format}") from None


def _unscaled(value: str, options: DecoderOptions) -> Decimal:
    if not value or not _BASE64_TEXT.fullmatch(value):
        raise Unconvertible(f"{describe(value)} is not the base64 form of a decimal")
    return Decimal(int.from_bytes(base64.b64decode(value), "big", signed=True))


def read_variable_decimal(value: Any, options: DecoderOptions) -> Decimal:
    """The number of ``{"scale": int, "value": base64}``."""
    if not is_variable_decimal(value):
        raise Unconvertible(f"{describe(value)} is not a decimal of the form scale, value")
    return _unscaled(value["value"], options).scaleb(-value["scale"], _EXACT)


def is_variable_decimal(value: Any) -> bool:
    """Whether an object is Debezium's form of a number of variable scale."""
    return (
        isinstance(value, dict)
        and value.keys() == {"scale", "value"}
        and isinstance(value["scale"], int)
        and abs(value["scale"]) <= _LARGEST_SCALE
        and isinstance(value["value"], str)
        and bool(value["value"])
        and _BASE64_TEXT.fullmatch(value["value"]) is not None
    )


def text_of_value(value: Any, options: DecoderOptions) -> str:
    """Text of any JSON value: strings as they are, decimals of variable scale in plain notation, others as JSON."""
    if isinstance(value, str):
        return value
    if is_variable_decimal(value):
        return format(read_variable_decimal(value, options), "f")
    return json_text(value)


def json_text(value: Any) -> str:
    """Compact JSON text of a parsed value, with all digits of its numbers."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(k)}:{json_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if isinstance(value, Decimal):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


# ---------------------------------------------------------------- storing


def _store_typed(value: _Date | _TimeOfDay | _Moment, target: DataType) -> Any:
    if isinstance(value, _Date):
        return _store_date(value, target)
    if isinstance(value, _TimeOfDay):
        return _store_time(value, target)
    return _store_moment(value, target)


def _store_date(value: _Date, target: DataType) -> Any:
    if target.root is Root.DATE:
        if not -(1 << 31) <= value.days < 1 << 31:
            raise Unconvertible(f"epoch day {value.days} is out of the range of {target}")
        return value.days
    if target.root in TIMESTAMPS:
        return _store_moment(_Moment(value.days * NANOS_PER_DAY, False), target)
    if target.root in CHARACTERS:
        return _store_text(format_date(value.days), target)
    if target.root in INTEGERS:
        return _in_range(value.days, target, value.days)
    raise Unconvertible(f"a date does not fit {target}")


def _store_time(value: _TimeOfDay, target: DataType) -> Any:
    shown = format_time(value.nanos) if 0 <= value.nanos <= NANOS_PER_DAY else f"{value.nanos} ns"
    if target.root is Root.TIME:
        if not 0 <= value.nanos < NANOS_PER_DAY:
            raise Unconvertible(f"time {shown} is out of the range of {target}")
        if value.nanos % 1_000_000:
            raise Unconvertible(f"time {shown} is finer than the milliseconds that {target} stores")
        return value.nanos // 1_000_000
    if target.root in CHARACTERS and 0 <= value.nanos <= NANOS_PER_DAY:
        return _store_text(shown, target)
    raise Unconvertible(f"time {shown} does not fit {target}")


def _store_moment(value: _Moment, target: DataType) -> Any:
    if target.root in TIMESTAMPS:
        return _timestamp(value.nanos, target)
    shown = format_timestamp(value.nanos, bool(value.zoned))
    if target.root in CHARACTERS:
        return _store_text(shown, target)
    if target.root is Root.DATE and value.nanos % NANOS_PER_DAY == 0:
        return _store_date(_Date(value.nanos // NANOS_PER_DAY), target)
    raise Unconvertible(f"timestamp {shown} does not fit {target}")


def _timestamp(nanos: int, target: DataType) -> int:
    precision = target.precision or 0
    if nanos % 10 ** (9 - precision):
        raise Unconvertible(f"timestamp {format_timestamp(nanos, False)} is finer than {target}")
    stored = nanos // (NANOS_PER_SECOND // _UNITS[timestamp_unit(precision)])
    if not -(1 << 63) <= stored < 1 << 63:
        raise Unconvertible(f"timestamp {format_timestamp(nanos, False)} is out of the range of {target}")
    return stored


def _store_text(text: str, target: DataType) -> str:
    if target.length is not None and len(text) > target.length:
        raise Unconvertible(f"string of {len(text)} characters is longer than {target}")
    return text


def _store_bytes(data: bytes, target: DataType, value: Any) -> Any:
    if target.root in BINARIES:
        if target.length is not None and len(data) > target.length:
            raise Unconvertible(f"{len(data)} bytes are longer than {target}")
        return data
    if target.root in CHARACTERS and isinstance(value, str):
        return _store_text(value, target)
    raise Unconvertible(f"bytes do not fit {target}")


def _store_decimal(number: Decimal, target: DataType) -> Any:
    if target.root is Root.DECIMAL:
        return _store_decimal_type(number, target)
    if target.root in CHARACTERS:
        return _store_text(format(number, "f"), target)
    if target.root in INTEGERS and _is_integral(number):
        return _in_range(int(number), target, number)
    if target.root in (Root.FLOAT, Root.DOUBLE):
        return _checked_float(float(number), number, target)
    raise Unconvertible(f"{describe(number)} does not fit {target}")


def _store_decimal_type(number: Decimal, target: DataType) -> Decimal:
    precision, scale = target.precision or 0, target.scale or 0
    if not number.is_finite():
        raise Unconvertible(f"{describe(number)} does not fit {target}")
    if number and (number.adjusted() >= precision - scale or number.adjusted() < -_LARGEST_EXPONENT):
        raise Unconvertible(f"{describe(number)} does not fit {target}")
    try:
        stored = number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    except DecimalException:
        raise Unconvertible(f"{describe(number)} does not fit {target}") from None
    if stored != number:
        raise Unconvertible(f"{describe(number)} has more fraction digits than {target}")
    return stored


def unfit(value: Any, target: DataType) -> Unconvertible:
    return Unconvertible(f"{describe(value)} does not fit {target}")


def describe(value: Any) -> str:
    """Kind and shortened content of a JSON value, for reasons."""
    match value:
        case bool():
            return f"boolean {str(value).lower()}"
        case int() | Decimal() | float():
            return f"number {_short(str(value))}"
        case str():
            return f"string {_short(json.dumps(value, ensure_ascii=False))}"
        case dict():
            return f"object {_short(json_text(value))}"
        case _:
            return f"array {_short(json_text(value))}"


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
