"""Replay a changelog and insist that it never contradicts itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from paimon_table.row_kind import SEQUENCE_NUMBER, VALUE_KIND, RowKind


def replay_strictly(
    changes: Iterable[pa.Table], key: Sequence[str], begin: Mapping[tuple[Any, ...], dict[str, Any]] | None = None
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The content to which the changes lead from ``begin``; fails on any that does not fit the content before it."""
    content: dict[tuple[Any, ...], dict[str, Any]] = dict(begin or {})
    for rows in changes:
        for found in rows.to_pylist():
            row = {name: _comparable(value) for name, value in found.items()}
            kind = RowKind(row.pop(VALUE_KIND))
            row.pop(SEQUENCE_NUMBER, None)
            where = tuple(row[name] for name in key)
            if kind is RowKind.INSERT:
                assert where not in content, f"+I of a key that exists: {row}"
                content[where] = row
            elif kind is RowKind.UPDATE_AFTER:
                assert content.get(where) is None, f"+U without its -U: {row}"
                content[where] = row
            else:
                assert content.get(where) == row, f"{kind.short} {row} contradicts {content.get(where)}"
                if kind is RowKind.DELETE:
                    del content[where]
                else:
                    content[where] = None  # type: ignore[assignment]  # the +U follows
    assert None not in content.values()
    return content


def _comparable(value: Any) -> Any:
    """NaN made equal to itself."""
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    return "NaN" if isinstance(value, float) and math.isnan(value) else value
