"""Rules about the fields of ROW types, checked when a schema is created or changed.

Implements the rules of Paimon's RowType: names of fields are distinct and not blank. Rows without fields, which no file
format but Avro can store, are refused too.
"""

from __future__ import annotations

from paimon_table.errors import ConfigError
from paimon_table.schema.table_schema import TableSchema
from paimon_table.types import DataType, Root


def check_nested_types(schema: TableSchema) -> None:
    """ConfigError for a ROW, at any depth of a column's type, without fields or with two fields of one name."""
    for field in schema.fields:
        _check(field.type, field.name, field.name)


def _check(t: DataType, column: str, path: str) -> None:
    if t.root is Root.ROW:
        _check_fields(t, f"column {column!r}: {t}" if path == column else f"column {column!r}: {path}: {t}")
    for name, part in t.parts:
        _check(part, column, f"{path}.{name}")


def _check_fields(row: DataType, what: str) -> None:
    if not row.fields:
        raise ConfigError(f"{what} has no fields; give it one or use another type")
    names = [f.name for f in row.fields]
    if not all(name.strip() for name in names):
        raise ConfigError(f"{what} has a field without a name; give it one")
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{what} has two fields called {name!r}; rename one of them")
