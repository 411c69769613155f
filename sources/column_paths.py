"""Columns that are filled from a place inside of nested values: ``columns.paths`` of a rule."""

from __future__ import annotations

from typing import TypeAlias

ColumnPath: TypeAlias = tuple[str, ...]
"""The names of nested fields, from the outermost field to the field with the value."""

_BETWEEN = "."


def path_of(text: str) -> ColumnPath:
    """The path of a text such as ``customer.city``. Raises ValueError with the reason if the text is not a path."""
    names = tuple(text.split(_BETWEEN))
    if not all(names):
        raise ValueError(
            f"{text!r} is not a path; write the names of nested fields with dots between them: customer.city"
        )
    return names
