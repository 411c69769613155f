"""Converts values of a case and of a table into a common form, in which equal values are equal.

A table's values come as ``row_output`` prints them. The author of a case may write a decimal as number or text, with or
without trailing zeros. A time may have a blank or a T, and any zone. A value that does not fit its column's type equals
no value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

_ISO = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?\s*(Z|[+-]\d\d:?\d\d)?", re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def comparable(value: Any, t: pa.DataType) -> Hashable:
    """The form of a value of type ``t``."""
    if value is None:
        return None
    found = _of_nested(value, t) if pa.types.is_nested(t) else _of_scalar(value, t)
    return ("not a value of the type", str(t), repr(value)) if found is None else found


def _of_scalar(value: Any, t: pa.DataType) -> Hashable | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if pa.types.is_boolean(t):
        return value if isinstance(value, bool) else None
    if pa.types.is_integer(t):
        return int(value) if is_number and isinstance(value, int) else None
    if pa.types.is_decimal(t):
        return _decimal(value) if is_number or isinstance(value, str) else None
    if pa.types.is_floating(t):
        return _float(value, t) if is_number or isinstance(value, str) else None
    if not isinstance(value, str):
        return None
    if pa.types.is_timestamp(t):
        return _timestamp(value, has_zone=t.tz is not None)
    if pa.types.is_date(t):
        return _parsed(date.fromisoformat, value)
    return str(value) if not pa.types.is_time(t) else _parsed(time.fromisoformat, value)


def _of_nested(value: Any, t: pa.DataType) -> Hashable | None:
    if pa.types.is_struct(t) and isinstance(value, dict):
        known = {t.field(i).name: t.field(i).type for i in range(t.num_fields)}
        if not {*value} <= {*known}:
            return None
        return tuple((name, comparable(value.get(name), of)) for name, of in known.items())
    if pa.types.is_map(t):
        pairs = [*value.items()] if isinstance(value, dict) else _pairs(value)
        if pairs is None:
            return None
        return frozenset((comparable(k, t.key_type), comparable(v, t.item_type)) for k, v in pairs)
    if pa.types.is_list(t) and isinstance(value, list):
        return tuple(comparable(item, t.value_type) for item in value)
    return None


def _pairs(value: Any) -> list[tuple[Any, Any]] | None:
    if isinstance(value, list) and all(isinstance(one, dict) and one.keys() == {"key", "value"} for one in value):
        return [(one["key"], one["value"]) for one in value]
    return None


def _decimal(value: Any) -> Hashable | None:
    try:
        return Decimal(str(getattr(value, "written", value)))
    except InvalidOperation:
        return None


def _float(value: Any, t: pa.DataType) -> Hashable | None:
    try:
        number = float(value)
    except ValueError:
        return None
    narrow = float(np.float32(number)) if t.bit_width == 32 else number
    return "NaN" if narrow != narrow else narrow


def _timestamp(text: str, *, has_zone: bool) -> Hashable:
    """Nanoseconds since 1970; texts that are not an ISO time, such as infinity, stay as they are."""
    found = _ISO.fullmatch(text.strip())
    if found is None or (found[4] and not has_zone):
        return text
    moment = _parsed(datetime.fromisoformat, f"{found[1]}T{found[2]}{(found[4] or 'Z').upper()}")
    if not isinstance(moment, datetime):
        return text
    return (moment - _EPOCH) // timedelta(seconds=1) * 1_000_000_000 + int((found[3] or "0").ljust(9, "0"))


def _parsed(parse: Callable[[str], Hashable], text: str) -> Hashable | None:
    try:
        return parse(text)
    except ValueError:
        return None
