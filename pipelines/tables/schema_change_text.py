"""Schema changes as a log line tells them."""

from __future__ import annotations

from collections.abc import Iterable

from paimon_table import AddColumn, SchemaChange, SetOption, TableSchema, TextColumn, WidenColumn
from paimon_table.types import sql


def told(changes: Iterable[SchemaChange], schema: TableSchema) -> str:
    """The changes of ``schema`` in words."""
    return "; ".join(_told(change, schema) for change in changes)


def _told(change: SchemaChange, schema: TableSchema) -> str:
    match change:
        case AddColumn(name, added):
            return f"column {name} {sql(added)} added"
        case WidenColumn(name, wider):
            return f"column {name} widened from {sql(schema.field(name).type)} to {sql(wider)}"
        case TextColumn(name):
            return f"column {name} changed from {sql(schema.field(name).type)} to STRING"
        case SetOption(name, value):
            return f"option {name} reset" if value is None else f"option {name} set to {value}"
