"""Columns that are filled from a place inside of nested values: ``columns.paths`` of a rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

ColumnPath: TypeAlias = tuple[str, ...]
"""The names of nested fields, from the outermost to that of the value."""

_BETWEEN = "."


def path_of(text: str) -> ColumnPath:
    """The path that a text such as ``customer.city`` stands for. Raises ValueError, which says why it is none."""
    names = tuple(text.split(_BETWEEN))
    if not all(names):
        raise ValueError(f"{text!r} is no path; write the names of nested fields with dots between them: customer.city")
    return names


def value_at(value: Any, path: ColumnPath) -> Any:
    """The value at a path; None where a field on the way is missing, or is no object."""
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value
