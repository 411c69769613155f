"""How observed columns change a table, and which of them it cannot follow: a pure decision from its schema.

A change that is not possible affects only its own column. If a column cannot be added, records with a value in it go to
quarantine. If a column cannot be widened, records with values that do not fit go there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import count

from paimon_table import (
    AddColumn,
    DescribeColumn,
    DropColumn,
    NullableColumn,
    RenameColumn,
    SchemaChange,
    SetOption,
    TableSchema,
    TextColumn,
    WidenColumn,
    apply_changes,
    can_become_text,
    create_schema,
    validate_changed_table,
    validate_table,
)
from paimon_table.errors import ConfigError, SchemaChangeRefused, TidemarkError
from paimon_table.options.option_names import OWN_PREFIX
from paimon_table.schema.type_widening import common_type, wider_if_common
from paimon_table.types import DataType, Root, sql, string
from pipelines.config.own_columns import NAME_OF_CHANGES
from pipelines.config.schema_changes import EVOLVE, SchemaChanges
from sources.change_columns import CHANGE_COLUMNS

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """The changes that follow from the observations.

    ``refused`` maps columns that cannot be added or widened to the reason. ``left`` are the columns beyond the limit;
    ``pausing`` are those because of which the table pauses.
    """

    changes: tuple[SchemaChange, ...]
    refused: Mapping[str, str]
    left: tuple[str, ...]
    pausing: Mapping[str, str] = field(default_factory=dict)
    continued: Mapping[str, str] = field(default_factory=dict)
    """Columns whose values from now on go into another column, with its name."""

    @property
    def added(self) -> set[str]:
        return {change.name for change in self.changes if isinstance(change, AddColumn)}


def column_changes(
    schema: TableSchema,
    seen: Mapping[str, DataType | None],
    declared: Mapping[str, DataType],
    room: int,
    by_pattern: Mapping[str, DataType] | None = None,
    policy: SchemaChanges = EVOLVE,
    earlier: Mapping[str, Sequence[str]] | None = None,
    newest: Callable[[str, DataType], bool] = lambda _name, _type: True,
    several_types: Mapping[str, Sequence[DataType]] | None = None,
) -> ColumnChanges:
    """The changes for the ``seen`` columns; at most ``room`` columns are added that are not ``declared``.

    Types that are declared ``by_pattern`` apply too, but the file does not name these columns. If a column continues
    others, ``earlier`` has the columns that held the values of its source before. ``newest``: whether the newest
    records have an observed type. ``several_types``: the types of a column that was seen with several.
    """
    types = {**(by_pattern or {}), **declared}
    changes: list[SchemaChange] = []
    refused: dict[str, str] = {}
    left: list[str] = []
    pausing: dict[str, str] = {}
    continued: dict[str, str] = {}
    for name, observed in seen.items():
        if observed is None:
            continue
        try:
            former = [schema.field(other).type for other in (earlier or {}).get(name, ()) if schema.has_column(other)]
            wanted = types.get(name, observed)
            if policy.retype == "new_column" and (
                not newest(name, observed) or any(widened(t, wanted) == t for t in former)
            ):
                policy_of = policy.model_copy(update={"retype": "cast"})
            else:
                policy_of = policy
            if name not in types and (policy_of.retype, policy_of.widen) == ("cast", "apply"):
                wanted = _fitting(schema, name, wanted, (several_types or {}).get(name, ()))
            change = _change(schema, name, wanted, name in declared, policy_of)
            if change is None:
                continue
            if isinstance(change, AddColumn) and change.name != name:
                continued[name] = change.name
            elif isinstance(change, AddColumn) and name not in declared:
                if room <= 0:
                    left.append(name)
                    continue
                room -= 1
            changed = apply_changes(schema, [change], schema.time_ms)
            validate_changed_table(changed, schema)
        except PausingChange as error:
            continued.pop(name, None)
            pausing[name] = str(error)
            continue
        except TidemarkError as error:
            if not error.action.blames_input:
                raise
            continued.pop(name, None)
            refused[name] = str(error)
            continue
        schema = changed
        changes.append(change)
    return ColumnChanges(tuple(changes), refused, tuple(left), pausing, continued)


def _fitting(schema: TableSchema, name: str, wanted: DataType, seen: Sequence[DataType]) -> DataType:
    """The type for a column that was seen with several ones, of which it takes those that it can."""
    if not seen or not schema.has_column(name):
        return wanted
    present = schema.field(name).type
    if widened(present, wanted) is not None:
        return wanted
    fitting = reduce(wider_if_common, seen, present)
    return wanted if widened(present, fitting) == present else fitting


def nullable_changes(schema: TableSchema, names: Collection[str], policy: SchemaChanges) -> tuple[NullableColumn, ...]:
    """The effect on NOT NULL columns of a table that are nullable in the source.

    Raises PausingChange if the word of the rule is `pause`. Records with NULL in a column that stays NOT NULL go to
    quarantine.
    """
    found = [name for name in schema.column_names if name in names and not schema.field(name).type.nullable]
    found = [name for name in found if name not in schema.primary_keys]
    if found and policy.nullability == "pause":
        raise PausingChange(
            f"column {', '.join(found)} can be NULL in the source but not in the table: `schema_changes: "
            "{nullability: pause}`. Set apply to make the table's column nullable, or ignore to quarantine "
            "records with NULL there"
        )
    return tuple(map(NullableColumn, found)) if policy.nullability == "apply" else ()


class PausingChange(Exception):
    """A change at which the table pauses by policy."""


def _change(
    schema: TableSchema,
    name: str,
    wanted: DataType,
    is_declared: bool,
    policy: SchemaChanges,
) -> SchemaChange | None:
    if not schema.has_column(name):
        refusal = None if is_declared else name_refusal(name, schema.column_names)
        if refusal is not None:
            raise ConfigError(refusal)
        return AddColumn(name, wanted.with_nullable(True))
    present = schema.field(name).type
    wider = widened(present, wanted)
    now = f"its type is now {sql(wanted)}, which does not fit into {sql(present)} of the table"
    keep = (
        f"declare `{name}: {sql(present)}` under columns.types of the rule, or write into a new table (another `into`)"
    )
    if wider is None:
        if policy.retype == "pause":
            raise PausingChange(
                f"{now} without loss: `schema_changes: {{retype: pause}}`; set cast to continue, or {keep}"
            )
        if policy.retype == "to_string" and can_become_text(present):
            return None if present.with_nullable(True) == string() else TextColumn(name)
        if policy.retype == "new_column":
            why = why_not_free(schema, name)
            if why is not None:
                raise PausingChange(f"{now} without loss, and `new_column` cannot work: {why}; set cast, or {keep}")
            return AddColumn(_next_name(schema, name), wanted.with_nullable(True))
        raise SchemaChangeRefused(f"{now} without loss; to keep the table's type for good, {keep}")
    if wider == present:
        return None
    if policy.widen == "pause":
        raise PausingChange(f"{now}, and `schema_changes: {{widen: pause}}`; set apply to widen it, or {keep}")
    if policy.widen == "cast":
        raise SchemaChangeRefused(f"{now}, and `schema_changes: {{widen: cast}}`; set apply to widen it")
    return WidenColumn(name, wider)


def why_not_free(schema: TableSchema, name: str) -> str | None:
    """Why no other column can replace a column, if so: keys or options name it."""
    try:
        apply_changes(schema, [DropColumn(name)], schema.time_ms)
    except SchemaChangeRefused as error:
        return str(error)
    return None


_VERSION = re.compile(r"(.+)_v(\d{1,4})", re.ASCII)


def _next_name(schema: TableSchema, name: str) -> str:
    """``price_v2`` for ``price``, or ``price_v3`` if that exists."""
    found = _VERSION.fullmatch(name)
    stem, number = (found[1], int(found[2])) if found else (name, 1)
    names = {other.casefold() for other in schema.column_names}
    return next(f"{stem}_v{n}" for n in count(number + 1) if f"{stem}_v{n}".casefold() not in names)


def widened(present: DataType, wanted: DataType) -> DataType | None:
    """The type of a column that takes values of ``wanted`` too, as nullable as before; None if values would be lost."""
    wider = common_type(present, wanted)
    return None if wider is None else wider.with_nullable(present.nullable)


def name_refusal(name: str, present: Collection[str]) -> str | None:
    """Why no column of this name can be added to the columns in ``present``; None if one can."""
    if name in CHANGE_COLUMNS:
        return NAME_OF_CHANGES
    twin = next((other for other in present if other.casefold() == name.casefold()), None)
    if twin is None:
        return None
    return (
        f"its name differs from column {twin!r} only in case, and readers such as Spark cannot distinguish them. "
        "Rename or drop it in the connector, or declare its type under columns.types to keep both. If"
        f" the source has renamed the column, set `columns.rename: {{{name}: {twin}}}`"
    )


def column_refusals(columns: Mapping[str, DataType], first: Collection[str] = ()) -> dict[str, str]:
    """The columns that a new table cannot have, with the reason.

    Of names that differ only in case one stays: the one in ``first``, or else the one seen first.
    """
    refused: dict[str, str] = {}
    made: list[str] = []
    for name in sorted(columns, key=lambda name: name not in first):
        t = columns[name]
        try:
            refusal = name_refusal(name, made)
            if refusal is not None:
                raise ConfigError(refusal)
            key = "k" if name != "k" else "l"
            validate_table(create_schema([(key, DataType(Root.INT)), (name, t)], [key], (), {"bucket": "1"}))
            made.append(name)
        except ConfigError as error:
            refused[name] = str(error)
    return refused


def added_within_a_day(schemas: Collection[TableSchema], now_ms: int) -> int:
    """The number of columns that the newest schema has gained within a day, or else since the first schema."""
    ordered = sorted(schemas, key=lambda schema: schema.id)
    then = [schema for schema in ordered if schema.time_ms <= now_ms - DAY_MS]
    base = then[-1] if then else ordered[0]
    return len({*ordered[-1].column_names} - {*base.column_names})


def column_differences(before: TableSchema, after: TableSchema) -> list[tuple[str, str]]:
    """The differences between the columns of two schemas: the kind of change, and names and types.

    Field ids identify columns.
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
        if was.description != f.description and f.description is not None:
            found.append(("comment", f"{f.name} described as {f.description!r}"))
        if was.type.nullable != f.type.nullable:
            found.append(("nullability", f"{f.name} {'takes NULL' if f.type.nullable else 'is NOT NULL'}"))
        if sql(was.type.with_nullable(True)) != sql(f.type.with_nullable(True)):
            kind = "widen" if common_type(was.type, f.type) is not None else "retype"
            found.append((kind, f"{f.name} {sql(was.type)} -> {sql(f.type)}"))
    return found


def told(changes: Iterable[SchemaChange], schema: TableSchema) -> str:
    """The changes of ``schema`` in words, without the options in which Tidemark stores its own facts."""
    words = []
    for change in changes:
        if not (isinstance(change, SetOption) and change.name.startswith(OWN_PREFIX)):
            words.append(_told(change, schema))
        if isinstance(change, RenameColumn):  # later changes have the new name
            schema = apply_changes(schema, [change], schema.time_ms)
    return "; ".join(words)


def _told(change: SchemaChange, schema: TableSchema) -> str:
    match change:
        case AddColumn(name, added):
            return f"column {name} {sql(added)} added"
        case WidenColumn(name, wider):
            return f"column {name} widened from {sql(schema.field(name).type)} to {sql(wider)}"
        case TextColumn(name):
            return f"column {name} changed from {sql(schema.field(name).type)} to STRING"
        case NullableColumn(name):
            return f"column {name} takes NULL"
        case DropColumn(name):
            return f"column {name} dropped"
        case RenameColumn(name, to):
            return f"column {name} renamed to {to}"
        case DescribeColumn(name, text):
            return f"column {name} described as {text!r}"
        case SetOption(name, value):
            return f"option {name} reset" if value is None else f"option {name} set to {value}"
