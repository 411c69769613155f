"""JSON text in the layout that Java's pretty printer gives, for schema, snapshot and consumer files.

Readers accept any layout; the same layout keeps files of Tidemark and of other writers comparable line by line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def pretty(value: Any) -> str:
    """``value`` with two-space indents, ``"key" : value`` and arrays on one line; key order is kept."""
    return _render(value, 0)


def _render(value: Any, depth: int) -> str:
    if isinstance(value, Mapping):
        if not value:
            return "{ }"
        inner = "  " * (depth + 1)
        members = [f"{inner}{_scalar(str(key))} : {_render(member, depth + 1)}" for key, member in value.items()]
        return "{\n" + ",\n".join(members) + "\n" + "  " * depth + "}"
    if isinstance(value, (list, tuple)):
        return "[ " + ", ".join(_render(item, depth) for item in value) + " ]" if value else "[ ]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
