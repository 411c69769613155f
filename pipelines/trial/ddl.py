"""Schemas as SQL for Flink and Spark users: a new table, or the changes of an existing one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paimon_table import TableSchema
from paimon_table.types import DataField, sql
from sources.column_forms import OPTION as COLUMN_FORMS
from sources.column_sources import OPTION as COLUMN_SOURCES

_INTERNAL = frozenset({COLUMN_FORMS, COLUMN_SOURCES})
"""Options in which Tidemark remembers what it has seen."""


def create_table(identifier: str, schema: TableSchema, notes: Mapping[str, str]) -> list[str]:
    """CREATE TABLE in lines; ``notes`` become comments after their columns."""
    columns = [f"  {_column(f)}" for f in schema.fields]
    parts = [notes.get(f.name, "") for f in schema.fields]
    if schema.primary_keys:
        columns.append(f"  PRIMARY KEY ({_names(schema.primary_keys)}) NOT ENFORCED")
        parts.append("")
    last = len(columns) - 1
    body = [
        f"{column}{',' if number < last else ''}{f'  -- {note}' if note else ''}"
        for number, (column, note) in enumerate(zip(columns, parts, strict=True))
    ]
    partitioned = f" PARTITIONED BY ({_names(schema.partition_keys)})" if schema.partition_keys else ""
    options = sorted((name, value) for name, value in schema.options.items() if name not in _INTERNAL)
    ends = [f"  {_text(name)} = {_text(value)}" for name, value in options]
    with_ = [f"){partitioned} WITH (", *(f"{end}," for end in ends[:-1]), *ends[-1:], ");"]
    return [f"CREATE TABLE {_table(identifier)} (", *body, *(with_ if ends else [f"){partitioned};"])]


def alter_table(identifier: str, before: TableSchema, after: TableSchema, notes: Mapping[str, str]) -> list[str]:
    """ALTER TABLE for each thing that differs; nothing where the table stays as it is."""
    return list(_alters(_table(identifier), before, after, notes))


def _alters(table: str, before: TableSchema, after: TableSchema, notes: Mapping[str, str]) -> Iterator[str]:
    old, new = ({f.id: f for f in schema.fields} for schema in (before, after))
    for id_, f in old.items():
        if id_ not in new:
            yield f"ALTER TABLE {table} DROP ({_quoted(f.name)});"
        elif new[id_].name != f.name:
            yield f"ALTER TABLE {table} RENAME {_quoted(f.name)} TO {_quoted(new[id_].name)};"
    for id_, f in new.items():
        note = f"  -- {notes[f.name]}" if notes.get(f.name) else ""
        if id_ not in old:
            yield f"ALTER TABLE {table} ADD ({_column(f)});{note}"
        elif (old[id_].type, old[id_].description) != (f.type, f.description):
            yield f"ALTER TABLE {table} MODIFY ({_column(f)});{note}"
    for name, value in sorted(after.options.items()):
        if name not in _INTERNAL and before.options.get(name) != value:
            yield f"ALTER TABLE {table} SET ({_text(name)} = {_text(value)});"
    for name in sorted({*before.options} - {*after.options} - _INTERNAL):
        yield f"ALTER TABLE {table} RESET ({_text(name)});"


def _column(f: DataField) -> str:
    comment = "" if f.description is None else f" COMMENT {_text(f.description)}"
    return f"{_quoted(f.name)} {sql(f.type)}{comment}"


def _table(identifier: str) -> str:
    database, _, table = identifier.partition(".")
    return f"{_quoted(database)}.{_quoted(table)}"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(map(_quoted, names))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _text(value: str) -> str:
    return f"'{value.replace(chr(39), chr(39) * 2)}'"
