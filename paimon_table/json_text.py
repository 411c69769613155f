"""JSON text in the layout of Java's pretty printer, for schema, snapshot and consumer files.

Readers accept any layout. With the same layout, files of Tidemark and of other writers can be compared line by line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def pretty(value: Any) -> str:
    """``value`` with two-space indents, ``"key" : value`` and arrays on one line; key order is kept."""
    return _render(value, 0)


def as_whole_number(value: Any) -> int:
    """``value`` if Java's long can represent it; raises ValueError for anything else, including digits as text and
    fractions."""
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"expected a whole number of 64 bits, found {_short(value)}")
    return value


def as_text(value: Any) -> str:
    """``value`` if it is a text; raises ValueError for anything else."""
    if not isinstance(value, str):
        raise ValueError(f"expected a text, found {_short(value)}")
    return value


def _short(value: Any) -> str:
    shown = repr(value) if not isinstance(value, int) or abs(value) < 1 << 99 else "a longer one"
    return shown if len(shown) <= 40 else f"{shown[:40]}..."


def _render(value: Any, depth: int) -> str:
    if isinstance(value, (str, int)):
        return _scalar(value)
    if isinstance(value, Mapping):
        if not value:
            return "{ }"
        inner = "  " * (depth + 1)
        members = [f"{inner}{_scalar(str(key))} : {_render(member, depth + 1)}" for key, member in value.items()]
        return "{\n" + ",\n".join(members) + "\n" + "  " * depth + "}"
    if isinstance(value, (list, tuple)):
        return "[ " + ", ".join(_render(item, depth) for item in value) + " ]" if value else "[ ]"
    return _scalar(value)


_scalar = json.JSONEncoder(ensure_ascii=False).encode
