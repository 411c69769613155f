"""JSON values as parsed: describing them, and reading their bytes, decimals and texts.

Binary formats have bytes where JSON has base64 text: such a value is ``bytes``, and needs no decoding.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from decimal import Context, Decimal
from typing import Any

from paimon_table.types import DataType, Root
from sources.values.value_forms import NO_TEXTS

EXACT = Context(prec=200_000, Emax=999_999, Emin=-999_999)
"""Context in which no number that gets here is rounded."""

LARGEST_SCALE = 20_000
"""Scales beyond it, in either direction, belong to no number of a database."""

_MOST_DIGITS = 160_000
"""The limits of numbers in databases: PostgreSQL's have up to 131072 digits before the point and 16383 after it."""
_DIGITS = {Root.FLOAT: 39, Root.DOUBLE: 309, Root.TINYINT: 3, Root.SMALLINT: 5, Root.INT: 10, Root.BIGINT: 19}
_BITS_PER_DIGIT = 3.33
BASE64_TEXT = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", re.ASCII)


NUMBER_TEXT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
"""A number in plain notation or with an exponent."""
_WORD = re.compile(r"[a-z]+", re.ASCII)
_SIGNED_WORDS = ("nan", "snan", "inf", "infinity")
NO_NUMBER = frozenset(
    [
        *(sign + word for sign in ("", "+", "-") for word in _SIGNED_WORDS),
        *("positive_infinity", "negative_infinity", "null", "none", "true", "false"),
    ]
)
"""Lowercase words that writers use for a decimal without a number; a word of four or eight letters is also base64."""


class Unconvertible(Exception):
    """A value does not fit its column; the text names the kind of the value and the type."""


def unfit(value: Any, target: DataType) -> Unconvertible:
    return Unconvertible(f"{describe(value)} does not fit {target}")


def describe(value: Any) -> str:
    """Kind and shortened content of a JSON value, for reasons."""
    match value:
        case bool():
            return "a boolean"
        case int() | Decimal() | float():
            is_finite = isinstance(value, int) or Decimal(value).is_finite()
            return f"number {_short(str(value))}" if is_finite else "a number that is not finite"
        case str():
            return f"string {json.dumps(_short(value), ensure_ascii=False)}"
        case dict():
            return f"object {_short(json_text(value))}"
        case bytes():
            return f"{len(value)} bytes"
        case _:
            return f"array {_short(json_text(value))}"


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


_HEX_MARK = "\\x"
"""How PostgreSQL and CockroachDB begin bytes in hexadecimal digits; no base64 does."""


def read_bytes(value: Any, binary_format: str) -> bytes:
    """The bytes that a string encodes in ``binary_format``, or in hexadecimal digits after a mark.

    Bytes from a binary format stay unchanged. With ``NO_TEXTS`` no string encodes bytes.
    """
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise Unconvertible(f"{describe(value)} does not hold bytes")
    if binary_format == NO_TEXTS:
        raise Unconvertible(f"{describe(value)} is text, not bytes")
    try:
        if value.startswith(_HEX_MARK):
            return bytes.fromhex(value.removeprefix(_HEX_MARK))
        if binary_format == "hex":
            return bytes.fromhex(value)
        if binary_format == "base64-url-safe":
            return base64.b64decode(value, altchars=b"-_", validate=True)
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise Unconvertible(f"{describe(value)} is not {binary_format}") from None


def read_characters(value: Any) -> bytes:
    """The bytes of a string with one character per byte (ISO-8859-1)."""
    if not isinstance(value, str):
        raise Unconvertible(f"{describe(value)} does not hold bytes")
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        raise Unconvertible(f"{describe(value)} has a character that is not a byte") from None


def read_decimal(value: str | bytes, scale: int, target: DataType) -> Decimal:
    """The number of a scale whose unscaled two's complement bytes a base64 string holds, or ``value`` is.

    A number of more digits than ``target`` could hold is refused before it is worked out, which takes time with the
    square of its length.
    """
    if not value or (isinstance(value, str) and not BASE64_TEXT.fullmatch(value)):
        raise Unconvertible(f"{describe(value)} is not the base64 form of a decimal")
    if abs(scale) > LARGEST_SCALE:
        raise Unconvertible(f"a decimal of scale {scale} is beyond the range of any database")
    data = base64.b64decode(value) if isinstance(value, str) else value
    unscaled = int.from_bytes(data, "big", signed=True)
    if unscaled.bit_length() > _BITS_PER_DIGIT * (_most_digits(target) + max(scale, 0) + 1):
        raise Unconvertible(f"a decimal of {len(data)} bytes has more digits than {target} holds")
    return Decimal(unscaled).scaleb(-scale, EXACT)


def _most_digits(target: DataType) -> int:
    """How many digits before the point a number in a column of this type may have."""
    if target.root is Root.DECIMAL:
        return (target.precision or 0) - (target.scale or 0)
    return _DIGITS.get(target.root, _MOST_DIGITS)


def read_variable_decimal(value: Any, target: DataType) -> Decimal:
    """The number of ``{"scale": int, "value": base64}``."""
    if not is_variable_decimal(value):
        raise Unconvertible(f"{describe(value)} is not a decimal of the form scale, value")
    return read_decimal(value["value"], value["scale"], target)


def is_variable_decimal(value: Any) -> bool:
    """Whether an object is Debezium's form of a number of variable scale."""
    return (
        isinstance(value, dict)
        and value.keys() == {"scale", "value"}
        and isinstance(value["scale"], int)
        and isinstance(value["value"], str | bytes)
        and bool(value["value"])
        and (isinstance(value["value"], bytes) or BASE64_TEXT.fullmatch(value["value"]) is not None)
    )


def text_of_value(value: Any, target: DataType) -> str:
    """Text of any JSON value: strings unchanged, decimals of variable scale in plain notation, others as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if is_variable_decimal(value):
        return format(read_variable_decimal(value, target), "f")
    return json_text(value)


def json_text(value: Any) -> str:
    """Compact JSON text of a parsed value, with all digits of its numbers."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(k)}:{json_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        value = base64.b64encode(value).decode("ascii")
    return json.dumps(value, ensure_ascii=False)


def decimal_form(value: str) -> str:
    """The only possible form of a decimal's text: ``text``, ``base64``, or ``ambiguous``.

    Ambiguous are numbers that are also base64, and lower-case letters, which may be a word. A text that is neither is
    ``text``: it is not base64, whatever it means.
    """
    if not value or BASE64_TEXT.fullmatch(value) is None or value.lower() in NO_NUMBER:
        return "text"
    return "ambiguous" if NUMBER_TEXT.fullmatch(value) or _WORD.fullmatch(value) else "base64"
