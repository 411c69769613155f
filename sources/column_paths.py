"""Columns that are filled from a place inside of nested values: ``columns.paths`` of a rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from paimon_table.errors import MalformedRecord
from sources.json_changes.exact_parse import parse_json

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
    """The value at a path; None where a field on the way is missing, or is neither an object nor the text of one."""
    for name in path:
        found = _object_in(value) if isinstance(value, str) else value
        if not isinstance(found, Mapping):
            return None
        value = found.get(name)
    return value


def _object_in(text: str) -> Any:
    try:
        return parse_json(text.encode()) if text.startswith("{") else None
    except MalformedRecord:
        return None
