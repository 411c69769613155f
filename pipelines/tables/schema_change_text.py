"""Schema changes as a log line tells them."""

from __future__ import annotations

from collections.abc import Iterable

from paimon_table import AddColumn, SchemaChange, SetOption, TableSchema, TextColumn, WidenColumn
from paimon_table.schema.type_widening import common_type
from paimon_table.types import sql


def column_differences(before: TableSchema, after: TableSchema) -> list[tuple[str, str]]:
    """What differs in the columns of two versions of a schema: the kind of change, and names and types.

    Columns are the same by their field ids.
    """
    old, new = ({f.id: f for f in schema.fields} for schema in (before, after))
    found = [("add", f"+ {f.name} {sql(f.type)}") for id_, f in new.items() if id_ not in old]
    found += [("drop", f"- {f.name}") for id_, f in old.items() if id_ not in new]
    for id_, f in new.items():
        was = old.get(id_)
        if was is None:
            continue
        if was.name != f.name:
            found.append(("rename", f"{was.name} renamed to {f.name}"))
        if sql(was.type) != sql(f.type):
            kind = "widen" if common_type(was.type, f.type) is not None else "retype"
            found.append((kind, f"{f.name} {sql(was.type)} -> {sql(f.type)}"))
    return found


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
