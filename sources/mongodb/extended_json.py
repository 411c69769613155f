"""MongoDB's Extended JSON: from parsed text to plain values, and to its relaxed and canonical forms.

Both forms of version 2 are read, and the strict form of version 1, which older connectors write. An object that only
looks like one of the forms is a document.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal, DecimalException
from typing import Any, NamedTuple

from paimon_table.types import BINARIES, CHARACTERS, DataType, Root
from sources.values.iso_time import format_timestamp, parse_timestamp
from sources.values.typed_texts import BytesText, DoubleText, InstantText

_UUID_SUBTYPE = 4
_UUID_BYTES = 16
_INT = (-(1 << 31), (1 << 31) - 1)
_LONG = (-(1 << 63), (1 << 63) - 1)
_LAST_ISO_MS = 253_402_300_799_999
"""The last millisecond of the year 9999: later dates, and those before 1970, have no text in the relaxed form."""
_NANOS_PER_MS = 1_000_000
_EPOCH = datetime(1970, 1, 1)
_PYTHON_MS = (-62_135_596_800_000, _LAST_ISO_MS)
"""The years 1 to 9999."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class Scalar(NamedTuple):
    """One value that Extended JSON writes as an object.

    ``content`` of an ``oid``, ``decimal`` or ``symbol`` is text, of ``int``, ``long`` and ``date`` (milliseconds) an
    integer, of a ``double`` a float, of a ``binary`` its bytes.
    """

    kind: str
    content: Any
    subtype: int = 0


# ---------------------------------------------------------------- reading


def scalar_of(value: Mapping[str, Any]) -> Scalar | None:
    """The scalar of an object; None for a document, and for forms without a plain value (regular expressions)."""
    if not 1 <= len(value) <= 2:
        return None
    name = next(iter(value))
    alone = _ALONE.get(name)
    try:
        if alone is None:
            return _read_binary(value) if name in ("$binary", "$type") else None
        if len(value) > 1:
            return None
        kind, content = alone[0], alone[1](value[name])
        return Scalar("binary", content, _UUID_SUBTYPE) if kind == "uuid" else Scalar(kind, content)
    except (ValueError, TypeError, OverflowError, DecimalException):
        return None


def _text(content: Any) -> str:
    if not isinstance(content, str):
        raise TypeError
    return content


def _read_int(content: Any) -> int:
    number = _read_long(content)
    if not _INT[0] <= number <= _INT[1]:
        raise ValueError
    return number


def _read_long(content: Any) -> int:
    if isinstance(content, bool) or not isinstance(content, str | int):
        raise TypeError
    number = int(content)
    if not _LONG[0] <= number <= _LONG[1]:
        raise ValueError
    return number


def _read_decimal(content: Any) -> str:
    Decimal(_text(content))
    return str(content)


def _read_date(content: Any) -> int:
    if isinstance(content, dict):
        if content.keys() != {"$numberLong"}:
            raise ValueError
        return _read_long(content["$numberLong"])
    if not isinstance(content, str):
        return _read_long(content)
    moment = parse_timestamp(content)
    if moment is None:
        raise ValueError
    return moment[0] // _NANOS_PER_MS


def _read_binary(value: Mapping[str, Any]) -> Scalar | None:
    content, subtype = value["$binary"], value.get("$type", "00")
    if isinstance(content, dict):
        if len(value) > 1 or content.keys() != {"base64", "subType"}:
            return None
        content, subtype = content["base64"], content["subType"]
    elif value.keys() != {"$binary", "$type"}:
        return None
    try:
        return Scalar("binary", base64.b64decode(_text(content), validate=True), int(_text(subtype), 16))
    except binascii.Error:
        return None


_ALONE: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "$oid": ("oid", _text),
    "$numberInt": ("int", _read_int),
    "$numberLong": ("long", _read_long),
    "$numberDouble": ("double", float),
    "$numberDecimal": ("decimal", _read_decimal),
    "$date": ("date", _read_date),
    "$uuid": ("uuid", lambda content: uuid.UUID(_text(content)).bytes),
    "$symbol": ("symbol", _text),
    "$undefined": ("undefined", bool),
}
"""The forms of one field: the kind, and what reads the content."""


# ---------------------------------------------------------------- plain values


def plain(value: Any, t: DataType | None = None) -> Any:
    """The JSON value as the other formats would have it; ``t`` is the type of its column, if known.

    Documents, and in a text column all values other than text, become JSON text in the relaxed form.
    """
    if isinstance(value, dict):
        scalar = scalar_of(value)
        if scalar is None:
            return _plain_document(value, t)
        value = _plain_scalar(scalar, t)
    elif isinstance(value, list):
        return _plain_list(value, t)
    elif isinstance(value, Decimal | float):
        value = plain_double(float(value))
    if t is None or t.root not in CHARACTERS or value is None or isinstance(value, str):
        return value
    return text_of(value)


def _plain_document(value: Mapping[str, Any], t: DataType | None) -> Any:
    if t is None or t.root in CHARACTERS:
        return text_of(relaxed(value))
    if t.root is Root.ROW:
        types = {f.name: f.type for f in t.fields}
        return {name: plain(item, types.get(name)) for name, item in value.items()}
    if t.root is Root.MAP:
        return {name: plain(item, t.value) for name, item in value.items()}
    return relaxed(value)


def _plain_list(value: list[Any], t: DataType | None) -> Any:
    if t is not None and t.root in CHARACTERS:
        return text_of(relaxed(value))
    element = None if t is None else t.element
    return [plain(item, element) for item in value]


_PLAIN_ALREADY = frozenset({"int", "long", "oid", "decimal", "symbol"})


def _plain_scalar(scalar: Scalar, t: DataType | None) -> Any:
    if scalar.kind in _PLAIN_ALREADY:
        return scalar.content
    match scalar.kind:
        case "double":
            return plain_double(scalar.content)
        case "date":
            return InstantText(_iso_text(scalar.content))
        case "binary":
            is_uuid = scalar.subtype == _UUID_SUBTYPE and len(scalar.content) == _UUID_BYTES
            if is_uuid and (t is None or t.root not in BINARIES):
                return str(uuid.UUID(bytes=scalar.content))
            return BytesText(base64.b64encode(scalar.content).decode("ascii"))
        case _:
            return None


def plain_double(number: float) -> float | str:
    """A number, or Debezium's word for one that JSON lacks."""
    if math.isfinite(number):
        return number
    return DoubleText("NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity")


# ---------------------------------------------------------------- writing


def text_of(value: Any) -> str:
    """Compact JSON text."""
    return _ENCODER.encode(value)


def _iso_text(ms: int) -> str:
    """A moment in UTC as MongoDB writes it: with milliseconds unless they are zero."""
    if not _PYTHON_MS[0] <= ms <= _PYTHON_MS[1]:
        return format_timestamp(ms * _NANOS_PER_MS, zoned=True)
    moment = _EPOCH + timedelta(milliseconds=ms)
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds") + "Z"


def relaxed(value: Any) -> Any:
    """A parsed value of either form in the relaxed form."""
    return _written(value, _relaxed_scalar)


def canonical(value: Any) -> Any:
    """A parsed value of either form in the canonical form. A plain integer has the smallest type that holds it."""
    return _written(value, _canonical_scalar)


def _written(value: Any, of_scalar: Callable[[Scalar], Any]) -> Any:
    match value:
        case dict():
            scalar = scalar_of(value)
            if scalar is not None:
                return of_scalar(scalar)
            return {name: _written(item, of_scalar) for name, item in value.items()}
        case list():
            return [_written(item, of_scalar) for item in value]
        case Decimal() | float():
            return of_scalar(Scalar("double", float(value)))
        case int() if not isinstance(value, bool):
            return of_scalar(Scalar("int" if _INT[0] <= value <= _INT[1] else "long", value))
        case _:
            return value


def _relaxed_scalar(scalar: Scalar) -> Any:
    if scalar.kind in ("int", "long") or (scalar.kind == "double" and math.isfinite(scalar.content)):
        return scalar.content
    if scalar.kind == "date" and 0 <= scalar.content <= _LAST_ISO_MS:
        return {"$date": _iso_text(scalar.content)}
    return _canonical_scalar(scalar)


def _canonical_scalar(scalar: Scalar) -> Any:
    content = scalar.content
    match scalar.kind:
        case "int":
            return {"$numberInt": str(content)}
        case "long":
            return {"$numberLong": str(content)}
        case "double":
            return {"$numberDouble": str(plain_double(content))}
        case "decimal":
            return {"$numberDecimal": content}
        case "date":
            return {"$date": {"$numberLong": str(content)}}
        case "binary":
            encoded = base64.b64encode(content).decode("ascii")
            return {"$binary": {"base64": encoded, "subType": f"{scalar.subtype:02x}"}}
        case _:
            return {f"${scalar.kind}": content}
