"""Converts columns to Python values for the ordered folds, and back, without loss.

Times, dates and timestamps are integers in the unit of their column, decimals are ``Decimal``, arrays are tuples, rows
are tuples of their fields, maps are tuples of (key, value); NULL is None. All but floats compare and hash by content.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any

import pyarrow as pa


def to_python(values: pa.Array) -> list[Any]:
    """One Python value per row."""
    t = values.type
    if pa.types.is_timestamp(t):
        values = values.view(pa.int64())
    elif pa.types.is_date32(t) or pa.types.is_time32(t):
        values = values.view(pa.int32())
    elif pa.types.is_struct(t):
        fields = [to_python(child) for child in values.flatten()]
        return _with_nulls(values, list(zip(*fields, strict=True)))
    elif pa.types.is_map(t):
        offsets = values.offsets.to_pylist()
        first, last = offsets[0], offsets[-1]
        keys = to_python(values.keys.slice(first, last - first))
        items = to_python(values.items.slice(first, last - first))
        return _with_nulls(values, _cut(list(zip(keys, items, strict=True)), offsets))
    elif pa.types.is_list(t):
        offsets = values.offsets.to_pylist()
        elements = to_python(values.values.slice(offsets[0], offsets[-1] - offsets[0]))
        return _with_nulls(values, _cut(elements, offsets))
    out: list[Any] = values.to_pylist()
    return out


def column_values(column: pa.ChunkedArray) -> list[Any]:
    """One Python value per row of a column."""
    return [value for chunk in column.chunks for value in to_python(chunk)]


def row_values(rows: pa.Table) -> list[dict[str, Any]]:
    """One mapping from column name to Python value per row."""
    columns = [column_values(column) for column in rows.columns]
    return [dict(zip(rows.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def to_arrow(values: list[Any], t: pa.DataType) -> pa.Array:
    """The inverse of ``to_python``."""
    return pa.array(values, t)


def key_text(values: Sequence[Any]) -> str:
    """The values of a primary key, in the form of ``to_python``, as JSON text with BYTES as base64."""
    return json.dumps(list(values), default=_json_form)


def key_of_text(text: str, types: Sequence[pa.DataType]) -> tuple[Any, ...]:
    """The inverse of ``key_text``; a value that does not fit its type keeps its JSON form."""
    return tuple(_of_json_form(value, t) for value, t in zip(json.loads(text), types, strict=True))


def _json_form(value: Any) -> str:
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else str(value)


def _of_json_form(value: Any, t: pa.DataType) -> Any:
    try:
        if isinstance(value, str) and pa.types.is_decimal(t):
            return Decimal(value)
        if isinstance(value, str) and (pa.types.is_binary(t) or pa.types.is_fixed_size_binary(t)):
            return base64.b64decode(value, validate=True)
    except (ValueError, InvalidOperation):
        return value
    return value


def readable(value: pa.Scalar) -> object:
    """A value for a readable text: Python's own, or the text of a moment outside of Python's years."""
    try:
        return value.as_py()
    except OverflowError:
        return value.cast(pa.string()).as_py()


Identity = Callable[[Any], Hashable]
"""Maps equal values to equal hashable values; picklable."""


def identity_of(t: pa.DataType) -> Identity | None:
    """The identity of values of a type; None if the values identify themselves.

    Values are equal by content: NaN equals NaN, -0.0 differs from 0.0, the order of map entries does not matter.
    """
    if pa.types.is_floating(t):
        return repr
    if pa.types.is_struct(t):
        parts = tuple(identity_of(t.field(i).type) for i in range(t.num_fields))
        return _RowIdentity(parts) if any(parts) else None
    if pa.types.is_map(t):
        return _MapIdentity(_RowIdentity((identity_of(t.key_type), identity_of(t.item_type))))
    if pa.types.is_list(t):
        part = identity_of(t.value_type)
        return None if part is None else _ArrayIdentity(part)
    return None


@dataclass(frozen=True, slots=True)
class _RowIdentity:
    parts: tuple[Identity | None, ...]

    def __call__(self, row: Any) -> Hashable:
        if row is None:
            return None
        return tuple(v if part is None else part(v) for part, v in zip(self.parts, row, strict=True))


@dataclass(frozen=True, slots=True)
class _ArrayIdentity:
    element: Identity

    def __call__(self, array: Any) -> Hashable:
        return None if array is None else tuple(map(self.element, array))


@dataclass(frozen=True, slots=True)
class _MapIdentity:
    entry: Identity

    def __call__(self, entries: Any) -> Hashable:
        return None if entries is None else frozenset(map(self.entry, entries))


def _with_nulls(values: pa.Array, plain: list[Any]) -> list[Any]:
    if values.null_count == 0:
        return plain
    return [v if valid else None for v, valid in zip(plain, values.is_valid().to_pylist(), strict=True)]


def _cut(elements: list[Any], offsets: list[int]) -> list[Any]:
    first = offsets[0]
    return [tuple(elements[a - first : b - first]) for a, b in pairwise(offsets)]
