"""Rows whose values stand in objects of their own, as connectors write that send changed columns alone.

    {"id": {"value": 1, "set": true}, "name": null, "age": {"value": null, "set": true}}

Such an object is a cell. NULL in place of a cell says that the column did not change, a cell with NULL that it became
NULL. YugabyteDB and Cassandra (with ``deletion_ts``) write all columns so. Scylla writes ``{"value": 1}``, and the
columns of the key plainly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MARKED = (frozenset({"value", "set"}), frozenset({"value", "set", "deletion_ts"}))
_ALONE = frozenset({"value"})
_CELL_NAME = ".Cell"
"""How the names of Scylla's schemas of cells end."""
_PLAIN_KEYS = "scylla"
_UPSERTING = ("scylla", "cassandra")
"""Connectors of databases whose INSERT keeps the columns that it does not name."""
_SIDES = ("before", "after")


def with_plain_values(envelope: Any, unsent: str) -> Any:
    """The envelope with the values of its cells in their place, and ``unsent`` for columns that did not change."""
    if not isinstance(envelope, dict):
        return envelope
    source = envelope.get("source")
    connector = source.get("connector") if isinstance(source, Mapping) else None
    images = {side: envelope[side] for side in _SIDES if _has_cells(envelope.get(side), connector)}
    if not images:
        return envelope
    op = envelope.get("op")
    keeps = op == "u" or (op == "c" and connector in _UPSERTING)
    missing = {"before": None, "after": unsent if keeps else None}
    return envelope | {side: _plain(image, connector, missing[side]) for side, image in images.items()}


def with_plain_fields(struct: Mapping[str, Any]) -> Mapping[str, Any]:
    """The Connect struct of a row with the schemas of the values in place of those of their cells."""
    fields = struct.get("fields")
    if not isinstance(fields, list) or not fields or not all(isinstance(f, Mapping) for f in fields):
        return struct
    inside = [_value_field(f, _MARKED) for f in fields]
    if None in inside:
        inside = [_value_field(f, (_ALONE,)) if str(f.get("name")).endswith(_CELL_NAME) else None for f in fields]
    return {**struct, "fields": [f if inner is None else inner for f, inner in zip(fields, inside, strict=True)]}


def _has_cells(image: Any, connector: Any) -> bool:
    if not isinstance(image, dict):
        return False
    given = [value for value in image.values() if value is not None]
    if connector == _PLAIN_KEYS:
        return any(_is_cell(value, connector) for value in given)
    return bool(given) and all(_is_cell(value, connector) for value in given)


def _is_cell(value: Any, connector: Any) -> bool:
    return isinstance(value, dict) and value.keys() in ((_ALONE,) if connector == _PLAIN_KEYS else _MARKED)


def _plain(image: Mapping[str, Any], connector: Any, missing: str | None) -> dict[str, Any]:
    return {
        name: missing if value is None else value["value"] if _is_cell(value, connector) else value
        for name, value in image.items()
    }


def _value_field(cell: Mapping[str, Any], kinds: tuple[frozenset[str], ...]) -> Mapping[str, Any] | None:
    """The field of a row for a field with cells; None for another field."""
    parts = cell.get("fields")
    if cell.get("type") != "struct" or not isinstance(parts, list):
        return None
    by_name = {part.get("field"): part for part in parts if isinstance(part, Mapping)}
    return {**by_name["value"], "field": cell.get("field")} if by_name.keys() in kinds else None
