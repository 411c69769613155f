"""The place of a change in the log of its source, and its transaction, as users of that source know them.

Both are read from the envelope of an event. ``source`` has the place in fields that depend on the kind of source;
``transaction`` has the metadata of a connector with ``provide.transaction.metadata``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

PlaceOfChange: TypeAlias = tuple[str | None, str | None, int | None, int | None]
"""The position, the transaction id, the place of the change in the transaction, and its place among the transaction's
changes to the same table."""

UNKNOWN_PLACE: PlaceOfChange = (None, None, None, None)


def place(position: Any, transaction: Any, total_order: Any = None) -> PlaceOfChange:
    """The place of a record whose metadata fields have these values."""
    return _text(position), _text(transaction), _number(total_order), None


def place_of_change(envelope: Any) -> PlaceOfChange:
    """The place in an envelope, with None for the parts that the envelope lacks."""
    if not isinstance(envelope, Mapping):
        return UNKNOWN_PLACE
    source, transaction = envelope.get("source"), envelope.get("transaction")
    position = position_text(source) if isinstance(source, Mapping) else None
    if not isinstance(transaction, Mapping):
        return position, None, None, None
    name = _text(transaction.get("id"))
    return position, name, _number(transaction.get("total_order")), _number(transaction.get("data_collection_order"))


def position_text(source: Mapping[str, Any]) -> str | None:
    """The place in the log of the source, in parts with colons between them; None if no field has it."""
    for form in (_binlog, _sql_server, _postgresql, _oracle, _mongodb, _vitess):
        found = form(source.get)
        if found is not None:
            return found
    return None


_Get: TypeAlias = Callable[[str], Any]


def _binlog(get: _Get) -> str | None:
    """MySQL and MariaDB: file, position and row of the binlog."""
    return _joined(get("file"), get("pos"), get("row")) if get("file") and get("pos") is not None else None


def _sql_server(get: _Get) -> str | None:
    """SQL Server and Db2: the LSN of the change and its number there; a snapshot has only that of its commit."""
    return _joined(get("change_lsn") or get("commit_lsn"), get("event_serial_no"))


def _postgresql(get: _Get) -> str | None:
    """The LSNs of the commit before and of the change, where the connector writes both."""
    try:
        parts = json.loads(get("sequence") or "[]")
    except (TypeError, ValueError):
        parts = []
    return (_joined(*parts) if isinstance(parts, list) else None) or _joined(get("lsn"))


def _oracle(get: _Get) -> str | None:
    return _joined(get("scn"))


def _mongodb(get: _Get) -> str | None:
    """The time in milliseconds, and the number of the event in its second."""
    return _joined(get("ts_ms"), get("ord")) if _text(get("ord")) is not None else None


def _vitess(get: _Get) -> str | None:
    return _joined(get("vgtid"))


def _joined(*parts: Any) -> str | None:
    return ":".join(text for part in parts if (text := _text(part)) is not None) or None


def _text(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    return str(value)


def _number(value: Any) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
    return value if is_number else None
