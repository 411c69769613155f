"""Names of the parts of a Debezium envelope, and the content of its embedded schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PLAIN_OPENING = b'{"before":'
"""How an envelope without a schema begins."""

NAME_FIELDS = ("db", "schema", "table", "database_name", "schema_name", "table_name")
"""The fields of the ``source`` block that name the source table: Debezium's fields, then CockroachDB's in the same
order."""


def names_of(source: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Database, schema and table as a ``source`` block names them."""
    found = [source.get(name) for name in NAME_FIELDS]
    database, schema, table = (found[i + 3] if found[i] is None else found[i] for i in range(3))
    return database, schema, table


def row_of_envelope(struct: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The row struct in the struct of an envelope; None if it has none. Any other struct is itself a row struct.

    Envelopes of MongoDB have texts in place of rows.
    """
    by_field = {str(f.get("field")): f for f in struct["fields"] if isinstance(f, Mapping)}
    if "op" not in by_field:
        return struct
    row = by_field.get("after") or by_field.get("before")
    return None if row is not None and row.get("type") == "string" else row
