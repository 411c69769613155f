"""Exact parsing of one JSON text: numbers keep all their digits, errors are named.

This is the slow path for texts that the vectorised parser does not take.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal, DecimalException
from typing import Any

from paimon_table.errors import MalformedRecord


def _float_constant(text: str) -> float:
    """NaN, Infinity and -Infinity, which some writers put into JSON."""
    return float(text)


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_float_constant)


_BYTE_ORDER_MARK = "\ufeff"

MOST_LEVELS = 100
"""Deeper nesting is refused, because the code that handles values recurses level by level."""


def _levels(value: Any) -> int:
    """How deep arrays and objects are nested."""
    levels = 0
    layer = [value]
    while layer := [v for v in layer if isinstance(v, list | dict)]:
        levels += 1
        layer = [item for v in layer for item in (v.values() if isinstance(v, dict) else v)]
    return levels


def parse_json(data: bytes) -> Any:
    """The JSON value of UTF-8 text; fractions and exponents come as Decimal. Raises MalformedRecord."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise MalformedRecord(f"value is not UTF-8 (byte {error.start})") from None
    return parse_text(text.removeprefix(_BYTE_ORDER_MARK))


def parse_text(text: str) -> Any:
    """Like ``parse_json``, for decoded text."""
    try:
        value = _DECODER.decode(text)
        if text.count("[") + text.count("{") > MOST_LEVELS and _levels(value) > MOST_LEVELS:
            raise MalformedRecord(f"value is nested deeper than {MOST_LEVELS} levels")
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False, default=str).encode("utf-8")
        return value
    except UnicodeEncodeError:
        raise MalformedRecord("value has half of a surrogate pair in a string") from None
    except json.JSONDecodeError as error:
        what = error.msg.removesuffix(" at")  # as in "Unterminated string starting at"
        raise MalformedRecord(f"value is not JSON: {what} at character {error.pos}") from None
    except (RecursionError, ValueError, DecimalException) as error:
        raise MalformedRecord(f"value is not usable JSON: {type(error).__name__}") from None


def parse_exactly(text: bytes) -> Any:
    """The JSON value of a text, or a MalformedRecord with the reason."""
    try:
        return parse_json(text)
    except MalformedRecord as error:
        return error


def scan_json(text: str, start: int) -> tuple[Any, int]:
    """The JSON value that begins at ``start`` and where it ends. Raises MalformedRecord."""
    try:
        return _DECODER.raw_decode(text, start)
    except (RecursionError, ValueError, DecimalException) as error:
        raise MalformedRecord(f"value is not usable JSON: {type(error).__name__}") from None


def value_at(value: Any, path: Sequence[str]) -> Any:
    """The value at a path; None if a field of the path is missing, or is neither an object nor the text of one."""
    for name in path:
        found = _object_in(value) if isinstance(value, str) else value
        if not isinstance(found, Mapping):
            return None
        value = found.get(name)
    return value


def _object_in(text: str) -> Any:
    try:
        return parse_text(text) if text.startswith("{") else None
    except MalformedRecord:
        return None
