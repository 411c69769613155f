"""Changes of a table's schema, and the next schema version.

Implements the part of Paimon's ALTER TABLE that pipelines need: added, dropped and renamed columns, wider types,
columns that take NULL, added fields of rows, comments, options. Field ids are never reused; a column keeps its id when
its name or its type changes. Files keep the values of dropped columns until a compaction rewrites them, but readers do
not show them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from paimon_table.errors import SchemaChangeRefused
from paimon_table.file_index.index_limits import can_be_hashed
from paimon_table.file_index.index_options import BLOOM_FILTER_COLUMNS, BloomFilterColumn, parse_bloom_filters
from paimon_table.option_declaration import OptionChange
from paimon_table.options.names import DEFAULT_AGGREGATE_FUNCTION
from paimon_table.options.option_facts import change_rule, columns_named_by
from paimon_table.schema.table_schema import TableSchema, check_name
from paimon_table.schema.type_widening import common_type
from paimon_table.types import (
    BINARIES,
    CHARACTERS,
    INTEGERS,
    TIMESTAMPS,
    DataField,
    DataType,
    Root,
    assign_ids,
    number_new_fields,
    string,
)


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new nullable column, after the column ``after`` or at the end."""

    name: str
    type: DataType
    after: str | None = None


@dataclass(frozen=True, slots=True)
class WidenColumn:
    """A wider type for a column; its nullability stays. New fields of its rows are added at their end."""

    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class TextColumn:
    """STRING for a column whose values readers of older files can convert to texts; its nullability stays."""

    name: str


@dataclass(frozen=True, slots=True)
class NullableColumn:
    """A column allows NULL from now on. No change makes it NOT NULL again, because rows may have NULL by then."""

    name: str


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Drops a column; one of the same name that is added later is another column, without its values."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Another name for a column, which keeps its values."""

    name: str
    to: str


@dataclass(frozen=True, slots=True)
class DescribeColumn:
    """The comment of a column."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class SetOption:
    """A new value of a table option; None resets it."""

    name: str
    value: str | None


SchemaChange = (
    AddColumn | WidenColumn | TextColumn | NullableColumn | DropColumn | RenameColumn | DescribeColumn | SetOption
)


def apply_changes(
    schema: TableSchema, changes: Sequence[SchemaChange], time_ms: int, has_snapshots: bool = True
) -> TableSchema:
    """The next version of ``schema``; ``schema`` itself if it already has all changes.

    Ignores changes that the schema already has, so a repeated or concurrent request is harmless. Raises
    SchemaChangeRefused for changes that would lose values, ConfigError for options that cannot change once the table
    ``has_snapshots``.
    """
    changed = schema
    for change in changes:
        match change:
            case AddColumn():
                changed = _with_column(changed, change)
            case WidenColumn():
                changed = _with_wider_column(changed, change)
            case TextColumn():
                changed = _with_text_column(changed, change.name)
            case NullableColumn():
                changed = _with_nullable_column(changed, change.name)
            case DropColumn():
                changed = _without_column(changed, change.name)
            case RenameColumn():
                changed = _with_renamed_column(changed, change)
            case DescribeColumn():
                field = replace(changed.field(change.name), description=change.description)
                changed = _with_field(changed, change.name, field)
            case SetOption():
                changed = _with_option(changed, change, has_snapshots)
    _check_indexes(schema, changed)
    return schema if changed == schema else replace(changed, id=schema.id + 1, time_ms=time_ms)


def _check_indexes(before: TableSchema, after: TableSchema) -> None:
    """Check that a column keeps a type that its bloom filter supports; the check of the options covers names."""
    if before.fields == after.fields:
        return
    for indexed in parse_bloom_filters(after.options):
        if not before.has_column(indexed.column) or not after.has_column(indexed.column):
            continue
        old, new = (_indexed_type(indexed, schema.field(indexed.column).type) for schema in (before, after))
        if can_be_hashed(old) and not can_be_hashed(new):
            raise SchemaChangeRefused(
                f"column {indexed.column!r} cannot change to {after.field(indexed.column).type}: option "
                f"{BLOOM_FILTER_COLUMNS.name!r} names {indexed.name!r}, and there is no bloom filter for values of "
                f"type {new}. Remove it from the option, or keep the type and write into a new table",
                column=indexed.column,
            )


def _indexed_type(indexed: BloomFilterColumn, t: DataType) -> DataType:
    return t if indexed.map_key is None or t.value is None else t.value


def _with_column(schema: TableSchema, change: AddColumn) -> TableSchema:
    if schema.has_column(change.name):
        present = schema.field(change.name).type
        if is_lossless_widening(change.type, present.with_nullable(True)):
            return schema
        raise SchemaChangeRefused(
            f"column {change.name!r} of type {change.type} cannot be added: the table has it as {present}; rename one",
            column=change.name,
        )
    check_name(change.name)
    if not change.type.nullable:
        raise SchemaChangeRefused(
            f"column {change.name!r} cannot be added as {change.type}: older rows have no value; make it nullable",
            column=change.name,
        )
    (added,), highest = assign_ids([(change.name, change.type)], schema.highest_field_id)
    at = len(schema.fields) if change.after is None else schema.column_names.index(schema.field(change.after).name) + 1
    return replace(schema, fields=(*schema.fields[:at], added, *schema.fields[at:]), highest_field_id=highest)


def _with_wider_column(schema: TableSchema, change: WidenColumn) -> TableSchema:
    field = schema.field(change.name)
    wanted = change.type.with_nullable(field.type.nullable)
    if is_lossless_widening(wanted, field.type):
        return schema
    if wanted.is_nested:
        wanted = (common_type(field.type, wanted) or wanted).with_nullable(field.type.nullable)
    if wanted == field.type:
        return schema
    if not is_lossless_widening(field.type, wanted):
        raise SchemaChangeRefused(
            f"column {change.name!r} cannot change from {field.type} to {wanted}: values could be lost; "
            "add a new column instead",
            column=change.name,
        )
    return _with_type(schema, change.name, wanted)


def can_become_text(t: DataType) -> bool:
    """Whether readers can convert stored values of this type to texts of the same value."""
    return t.root in CHARACTERS or t.root in INTEGERS or t.root in (Root.BOOLEAN, Root.DATE)


def _with_text_column(schema: TableSchema, name: str) -> TableSchema:
    present = schema.field(name).type
    wanted = string().with_nullable(present.nullable)
    if present == wanted:
        return schema
    if not can_become_text(present):
        raise SchemaChangeRefused(
            f"column {name!r} cannot change from {present} to {wanted}: its stored values cannot be read as texts; "
            "write into a new table",
            column=name,
        )
    named = [option for option, value in schema.options.items() if name in columns_named_by(option, value)]
    if named:
        raise SchemaChangeRefused(
            f"column {name!r} cannot change from {present} to {wanted}: option {named[0]!r} names it, and texts have "
            "another order; write into a new table",
            column=name,
        )
    if DEFAULT_AGGREGATE_FUNCTION in schema.options and name not in schema.primary_keys:
        raise SchemaChangeRefused(
            f"column {name!r} cannot change from {present} to {wanted}: option "
            f"{DEFAULT_AGGREGATE_FUNCTION!r} aggregates it, and texts have another order; write into a new table",
            column=name,
        )
    return _with_type(schema, name, wanted)


def _with_nullable_column(schema: TableSchema, name: str) -> TableSchema:
    if schema.field(name).type.nullable:
        return schema
    if name in schema.primary_keys:
        raise SchemaChangeRefused(
            f"column {name!r} cannot become nullable: it is part of the primary key; write into a new table",
            column=name,
        )
    field = schema.field(name)
    return _with_field(schema, name, replace(field, type=field.type.with_nullable(True)))


def _without_column(schema: TableSchema, name: str) -> TableSchema:
    if not schema.has_column(name):
        return schema
    _check_free(schema, name, "dropped")
    if len(schema.fields) == 1:
        raise SchemaChangeRefused(f"column {name!r} cannot be dropped: it is the only one of the table", column=name)
    return replace(schema, fields=tuple(f for f in schema.fields if f.name != name))


def _with_renamed_column(schema: TableSchema, change: RenameColumn) -> TableSchema:
    if not schema.has_column(change.name) and schema.has_column(change.to):
        return schema
    _check_free(schema, change.name, "renamed")
    if schema.has_column(change.to):
        raise SchemaChangeRefused(
            f"column {change.name!r} cannot be renamed to {change.to!r}: the table has a column of that name",
            column=change.name,
        )
    check_name(change.to)
    return _with_field(schema, change.name, replace(schema.field(change.name), name=change.to))


def _check_free(schema: TableSchema, name: str, what: str) -> None:
    """Raises SchemaChangeRefused for a column that keys or options name."""
    if name in {*schema.primary_keys, *schema.partition_keys, *schema.bucket_keys}:
        raise SchemaChangeRefused(
            f"column {name!r} cannot be {what}: it is part of the key, the partition or the bucket key; write into a "
            "new table",
            column=name,
        )
    named = [option for option, value in schema.options.items() if name in columns_named_by(option, value)]
    if named:
        raise SchemaChangeRefused(
            f"column {name!r} cannot be {what}: option {named[0]!r} names it; remove it from the option, or write into"
            " a new table",
            column=name,
        )


def _with_field(schema: TableSchema, name: str, field: DataField) -> TableSchema:
    return replace(schema, fields=tuple(field if f.name == name else f for f in schema.fields))


def _with_type(schema: TableSchema, name: str, wanted: DataType) -> TableSchema:
    if name in {*schema.primary_keys, *schema.partition_keys, *schema.bucket_keys}:
        raise SchemaChangeRefused(
            f"column {name!r} cannot change from {schema.field(name).type} to {wanted}: it is part of the key, the "
            "partition or the bucket key. Write into a new table",
            column=name,
        )
    wanted, highest = number_new_fields(wanted, schema.highest_field_id)
    changed = _with_field(schema, name, replace(schema.field(name), type=wanted))
    return replace(changed, highest_field_id=highest)


def _with_option(schema: TableSchema, change: SetOption, has_snapshots: bool) -> TableSchema:
    old = schema.options.get(change.name)
    if old == change.value:
        return schema
    if has_snapshots:
        change_rule(change.name)(OptionChange(change.name, old, change.value, schema.options))
    options = {name: value for name, value in schema.options.items() if name != change.name}
    if change.value is not None:
        options[change.name] = change.value
    return replace(schema, options=options)


# ---------------------------------------------------------------- widening

_INTEGER_DIGITS = {Root.TINYINT: 3, Root.SMALLINT: 5, Root.INT: 10, Root.BIGINT: 19}
_EXACT_IN = {
    Root.FLOAT: {Root.TINYINT, Root.SMALLINT},
    Root.DOUBLE: {Root.TINYINT, Root.SMALLINT, Root.INT, Root.FLOAT},
}


def is_lossless_widening(old: DataType, new: DataType) -> bool:
    """Whether every value of ``old`` is a value of ``new``; True for equal types. NOT NULL may only become nullable."""
    if old.nullable and not new.nullable:
        return False
    if old.root in CHARACTERS | BINARIES:
        return _is_wider_text(old, new)
    if old.root is Root.DECIMAL:
        return new.root is Root.DECIMAL and _holds(new, _known(old.precision) - _known(old.scale), _known(old.scale))
    if old.root in INTEGERS and new.root is Root.DECIMAL:
        return _holds(new, _INTEGER_DIGITS[old.root], 0)
    if old.root in INTEGERS and new.root in INTEGERS:
        return INTEGERS.index(new.root) >= INTEGERS.index(old.root)
    if old.root in _EXACT_IN.get(new.root, set()):
        return True
    if old.root is not new.root:
        return False
    if old.root in TIMESTAMPS | {Root.TIME}:
        return _is_wider_time(_known(old.precision), _known(new.precision))
    return not old.is_nested or _is_wider_nested(old, new)


def _is_wider_text(old: DataType, new: DataType) -> bool:
    if old.root in {Root.CHAR, Root.BINARY} and new.root is old.root:
        return old.length == new.length
    family = CHARACTERS if old.root in CHARACTERS else BINARIES
    variable = Root.VARCHAR if family is CHARACTERS else Root.VARBINARY
    return new.root is variable and _known(new.length) >= _known(old.length)


def _holds(decimal: DataType, whole_digits: int, scale: int) -> bool:
    return _known(decimal.scale) >= scale and _known(decimal.precision) - _known(decimal.scale) >= whole_digits


def _is_wider_time(old: int, new: int) -> bool:
    """Whether a precision is wider. Nanoseconds cover only the years 1677 to 2262, so no coarser type widens to
    them."""
    return new == old or (old < new <= 6) or (6 < old < new)


def _is_wider_nested(old: DataType, new: DataType) -> bool:
    if old.root is Root.ROW:
        added = new.fields[len(old.fields) :]
        return (
            len(old.fields) <= len(new.fields)
            and all(
                a.name == b.name and is_lossless_widening(a.type, b.type)
                for a, b in zip(old.fields, new.fields, strict=False)
            )
            and all(f.type.nullable for f in added)
        )
    if old.root is Root.MAP:
        return _known(old.key) == _known(new.key) and is_lossless_widening(_known(old.value), _known(new.value))
    if old.root is Root.MULTISET:
        return _known(old.element) == _known(new.element)
    return is_lossless_widening(_known(old.element), _known(new.element))


_T = TypeVar("_T")


def _known(value: _T | None) -> _T:
    assert value is not None
    return value
