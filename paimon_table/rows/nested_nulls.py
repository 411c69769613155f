"""Finds NULLs inside nested values that the column's type does not allow.

Implements NOT NULL of array elements, map values and fields of rows. Values below a NULL do not count. Arrow never
creates a map with a NULL key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ForbiddenNulls:
    """Forbidden NULLs at one place of a column's type."""

    path: str
    """Column and nested fields, joined by dots; the parts of arrays and maps are ``element``, ``key`` and ``value``."""
    count: int


@dataclass(frozen=True, slots=True)
class _Part:
    """The values of one nested field, only for a slice of the parent."""

    field: pa.Field
    values: pa.Array
    counts: npt.NDArray[np.int32] | None
    """The number of values of each parent; None if each parent has one."""


def forbids_nested_nulls(t: pa.DataType) -> bool:
    """Whether the Arrow type forbids NULLs inside of its values, apart from the values themselves."""
    return any(not field.nullable or forbids_nested_nulls(field.type) for field in _fields(t))


def forbidden_nulls(column: pa.ChunkedArray, name: str) -> ForbiddenNulls | None:
    """The first place in the type of a nested column with forbidden NULLs in any chunk; None without any."""
    found = [wrong for chunk in column.chunks for wrong in _below(chunk, None, name)]
    if not found:
        return None
    return ForbiddenNulls(found[0].path, sum(wrong.count for wrong in found if wrong.path == found[0].path))


def _fields(t: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(t):
        return [t.key_field.with_nullable(True), t.item_field]
    if pa.types.is_list(t):
        return [t.value_field]
    return list(t) if pa.types.is_struct(t) else []


def _parts(values: pa.Array) -> list[_Part]:
    fields = _fields(values.type)
    if pa.types.is_struct(values.type):
        return [_Part(field, values.field(i), None) for i, field in enumerate(fields)]
    if not fields:
        return []
    offsets = values.offsets.to_numpy()
    first, total = (int(offsets[0]), int(offsets[-1] - offsets[0])) if len(offsets) else (0, 0)
    children = [values.keys, values.items] if pa.types.is_map(values.type) else [values.values]
    return [_Part(f, child.slice(first, total), np.diff(offsets)) for f, child in zip(fields, children, strict=True)]


def _below(values: pa.Array, is_live: _Mask | None, path: str) -> Iterator[ForbiddenNulls]:
    """Forbidden NULLs below the values. Only live values count; ``is_live`` None means that all are live."""
    parts = [part for part in _parts(values) if _is_suspect(part)]
    if parts and values.null_count:
        is_live = _and(is_live, values)
    for part in parts:
        below = f"{path}.{part.field.name}"
        is_live_part = is_live if is_live is None or part.counts is None else np.repeat(is_live, part.counts)
        if not part.field.nullable and part.values.null_count:
            count = part.values.null_count if is_live_part is None else int(np.sum(is_live_part & ~_valid(part.values)))
            if count:
                yield ForbiddenNulls(below, count)
        yield from _below(part.values, is_live_part, below)


def _is_suspect(part: _Part) -> bool:
    """Whether a NULL may be forbidden, which depends on its parents; does not read single values."""
    if not part.field.nullable and part.values.null_count:
        return True
    return forbids_nested_nulls(part.field.type) and any(_is_suspect(inner) for inner in _parts(part.values))


def _valid(values: pa.Array) -> _Mask:
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def _and(is_live: _Mask | None, values: pa.Array) -> _Mask:
    valid = _valid(values)
    return valid if is_live is None else is_live & valid
