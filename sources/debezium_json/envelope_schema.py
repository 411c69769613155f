"""Names of the parts of a Debezium envelope, and the content of its embedded schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PLAIN_OPENING = b'{"before":'
"""How an envelope without a schema begins."""

_NAMES = (("db", "database_name", "keyspace"), ("schema", "schema_name"), ("table", "table_name"))
NAME_FIELDS = tuple(name for names in _NAMES for name in names)
"""The fields of the ``source`` block that name the source table.

Of database, schema and table each: Debezium's field, then those of CockroachDB and Scylla, and of Vitess and Cassandra.
"""


def names_of(source: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Database, schema and table as a ``source`` block names them; an empty text is no name."""
    database, schema, table = (next((source[n] for n in names if source.get(n)), None) for names in _NAMES)
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
