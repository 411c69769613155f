"""Schemas in the form of the REST catalog API: the schema of a new table, and the changes between two versions.

A server applies changes one after the other, so their order matters: a change that frees a name comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from paimon_table.errors import UnsupportedFeature
from paimon_table.schema.table_schema import TableSchema
from paimon_table.types import DataField, DataType, Root, field_json, type_json

Change = dict[str, Any]


def schema_document(schema: TableSchema, defaults: Mapping[str, str]) -> dict[str, Any]:
    """The document of a new table; ``defaults`` are the options that the schema does not set."""
    return {
        "fields": [field_json(f) for f in schema.fields],
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": {**defaults, **schema.options},
        "comment": schema.comment,
    }


def schema_changes(before: TableSchema, after: TableSchema) -> list[Change]:
    """The changes from ``before`` to ``after``."""
    changes = list(_fields_changed((), before.fields, after.fields))
    for name in before.options:
        if name not in after.options:
            changes.append({"action": "removeOption", "key": name})
    for name, value in after.options.items():
        if before.options.get(name) != value:
            changes.append({"action": "setOption", "key": name, "value": value})
    if before.comment != after.comment:
        changes.append({"action": "updateComment", "comment": after.comment})
    return changes


def _fields_changed(
    above: tuple[str, ...], before: tuple[DataField, ...], after: tuple[DataField, ...]
) -> Iterator[Change]:
    """Changes of columns, or of the fields of a ROW ``above`` them."""
    old, new = {f.id: f for f in before}, {f.id: f for f in after}
    for field in before:
        if field.id not in new:
            yield {"action": "dropColumn", "fieldNames": [*above, field.name]}
    yield from _renamed(above, {f.name: new[f.id].name for f in before if f.id in new})
    for field in after:
        if field.id in old:
            yield from _field_changed(above, old[field.id], field)
    there = [f for f in after if f.id in old]
    previous: DataField | None = None
    for field in after:
        if field.id not in old:
            yield _added(above, field, previous, is_last=previous == (there[-1] if there else None))
            there.insert(0 if previous is None else there.index(previous) + 1, field)
        previous = field


def _added(above: tuple[str, ...], field: DataField, previous: DataField | None, *, is_last: bool) -> Change:
    change: Change = {
        "action": "addColumn",
        "fieldNames": [*above, field.name],
        "dataType": type_json(field.type),
        "comment": field.description,
    }
    if previous is None:
        change["move"] = {"fieldName": field.name, "referenceFieldName": None, "type": "FIRST"}
    elif not is_last:
        change["move"] = {"fieldName": field.name, "referenceFieldName": previous.name, "type": "AFTER"}
    return change


def _renamed(above: tuple[str, ...], names: Mapping[str, str]) -> Iterator[Change]:
    """Renames in an order in which every new name is free."""
    left = {old: new for old, new in names.items() if old != new}
    while left:
        free = next((old for old, new in left.items() if new not in left), None)
        if free is None:
            raise UnsupportedFeature(
                f"columns {', '.join(sorted(left))} swap their names, which a REST catalog cannot do in one change; "
                "rename one of them at a time"
            )
        yield {"action": "renameColumn", "fieldNames": [*above, free], "newName": left.pop(free)}


def _field_changed(above: tuple[str, ...], before: DataField, after: DataField) -> Iterator[Change]:
    names = (*above, after.name)
    yield from _type_changed(names, before.type, after.type)
    if before.description != after.description:
        yield {"action": "updateColumnComment", "fieldNames": list(names), "newComment": after.description}
    if before.default_value != after.default_value:
        yield {
            "action": "updateColumnDefaultValue",
            "fieldNames": list(names),
            "newDefaultValue": after.default_value,
        }


def _type_changed(names: tuple[str, ...], before: DataType, after: DataType) -> Iterator[Change]:
    """A change of a type or its nullability; one change for each part of a nested type, under Paimon's names."""
    if before == after:
        return
    if before.nullable != after.nullable:
        yield {"action": "updateColumnNullability", "fieldNames": list(names), "newNullability": after.nullable}
    before = before.with_nullable(after.nullable)
    if before == after:
        return
    if before.root is not after.root or not before.is_nested:
        yield {
            "action": "updateColumnType",
            "fieldNames": list(names),
            "newDataType": type_json(after),
            "keepNullability": True,
        }
    elif before.root is Root.ROW:
        yield from _fields_changed(names, before.fields, after.fields)
    else:
        for (part, old), (_, new) in zip(before.parts, after.parts, strict=True):
            yield from _type_changed((*names, part), old, new)
