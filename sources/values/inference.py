"""Paimon types from JSON values, where a topic has no schema and the user declared no type.

Conservative: the type holds every value seen, and later values of the same source column either fit it or widen it
without loss. Integers are BIGINT (Debezium writes fractions and exponents for floating point columns, so an integer
column stays one), or DECIMAL(38, 0) beyond 64 bits. "NaN" and its like among fractions are DOUBLE. Objects are STRING
with their JSON text: a ROW could not take the next object that has another shape, text takes every one. Strings stay
STRING even when they look like dates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from paimon_table.schema.type_widening import common_type
from paimon_table.types import DataType, Root, string
from sources.values.iso_time import parse_timestamp
from sources.values.typed_texts import TypedText

_BIGINT = DataType(Root.BIGINT)
_BIG_DECIMAL = DataType(Root.DECIMAL, precision=38, scale=0)
_DOUBLE = DataType(Root.DOUBLE)
_BOOLEAN = DataType(Root.BOOLEAN)
_STRING = string()
_EXACT_IN_DOUBLE = 1 << 53
SPECIAL_FLOATS = frozenset({"NaN", "Infinity", "-Infinity"})
"""Strings that Debezium writes for floating point values that JSON numbers cannot express."""


def infer_type(values: Iterable[Any]) -> DataType | None:
    """The type for a new column with these values; None if there are only NULLs (or arrays without elements)."""
    inferred: DataType | None = None
    largest = 0
    special = False
    for value in values:
        if isinstance(value, str) and value in SPECIAL_FLOATS and not isinstance(value, TypedText):
            special = True
            continue
        found = type_of_value(value)
        if isinstance(value, int):
            largest = max(largest, abs(value))
        if found is not None:
            # Nearly all values of a column have one type, and this runs for each value of a new table's first batch.
            inferred = found if inferred is None or found == inferred else _merge(inferred, found, largest)
    if special and (inferred is None or inferred.root is not Root.DOUBLE):
        return _STRING
    return inferred


def fits_double(values: Iterable[Any]) -> bool:
    """Whether DOUBLE holds all integers among these values."""
    return all(abs(value) <= _EXACT_IN_DOUBLE for value in values if isinstance(value, int))


def iso_type(t: DataType, texts: Iterable[str]) -> DataType:
    """The type for a new column of ISO timestamps that holds all these texts: ``t`` if it does.

    Nanoseconds cover only the years 1677 to 2262. If a column has both finer and more distant times, it is STRING.
    """
    is_finer, is_far = False, False
    for text in texts:
        moment = parse_timestamp(text)
        if moment is not None:
            is_finer |= moment[0] % 10 ** (9 - (t.precision or 0)) != 0
            is_far |= not -(1 << 63) <= moment[0] < 1 << 63
    if not is_finer:
        return t
    return _STRING if is_far else replace(t, precision=9)


def type_of_value(value: Any) -> DataType | None:
    """The type of one JSON value; None for NULL and for arrays that do not show their element type."""
    match value:
        case None:
            return None
        case bool():
            return _BOOLEAN
        case int():
            if -(1 << 63) <= value < 1 << 63:
                return _BIGINT
            return _BIG_DECIMAL if abs(value) < 10**38 else string()
        case Decimal() | float():
            return _DOUBLE
        case TypedText():
            return value.type
        case list():
            element = infer_type(value)
            return None if element is None else DataType(Root.ARRAY, element=element)
        case _:
            return _STRING


def _merge(old: DataType, new: DataType, largest: int) -> DataType:
    """One type for both: the common lossless one, DOUBLE for exact integers among fractions, else text."""
    common = common_type(old, new)
    if common is not None:
        return common
    if {old.root, new.root} == {Root.BIGINT, Root.DOUBLE} and largest <= _EXACT_IN_DOUBLE:
        return _DOUBLE
    return _STRING
