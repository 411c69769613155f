"""The facts that records show about the columns of their source table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, TypeAlias

from paimon_table.schema.type_widening import common_type, wider_if_common
from paimon_table.types import CHARACTERS, DataType, Root
from sources.changes import ObservedColumn
from sources.column_forms import BASE64_DECIMALS, RAW, SEVERAL, TEXT, TEXT_DECIMALS, VALUE, holds
from sources.decode_target import DecodeTarget
from sources.json_changes.change_rows import ChangeRows, image_column, is_null
from sources.json_changes.column_plan import Plan, PlannedColumn
from sources.json_changes.embedded_schema import EmbeddedSchema
from sources.values.connect_types import ConnectColumn
from sources.values.decimal_kinds import contradict, told_by_values
from sources.values.encodings import AUTO, Kind
from sources.values.form_texts import form_text
from sources.values.inference import fits_double, infer_type
from sources.values.json_values import Unconvertible
from sources.values.likely_meaning import looks_like
from sources.values.scalar_conversion import convert_value
from sources.values.value_forms import AMBIGUOUS_DECIMALS, ValueForms

Shapes: TypeAlias = frozenset[frozenset[str]]
"""The columns of each of some rows."""


def all_columns(
    schema: EmbeddedSchema | None, rows: Iterable[Mapping[str, Any]], record_count: int
) -> tuple[ObservedColumn, ...]:
    """All columns of a source table, in the order of the schema or of first sight."""
    if schema is not None:
        return tuple(_of_schema(c, record_count) for c in schema.columns)
    values: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            values.setdefault(name, []).append(value)
    return tuple(_guessed(name, infer_type(seen), seen) for name, seen in values.items())


def _of_schema(column: ConnectColumn, record_count: int) -> ObservedColumn:
    form = form_text(column.encoding)
    return ObservedColumn(column.name, column.type, record_count, form, has_default=column.has_default)


def _guessed(name: str, t: DataType | None, values: Sequence[Any]) -> ObservedColumn:
    return ObservedColumn(name, t, form=RAW, looks_like=looks_like(name, values), fits_double=fits_double(values))


def changed_by_schema(schema: EmbeddedSchema, target: DecodeTarget, record_count: int) -> tuple[ObservedColumn, ...]:
    """Columns of the schema that the target lacks, or whose type or NULL the target's does not hold."""
    known = dict(target.columns)
    found: list[ObservedColumn] = []
    for column in schema.columns:
        takes_null = column.is_optional and _is_not_null(column.name, known, target)
        if takes_null or _is_news(column.name, column.type, known, target):
            news = replace(_of_schema(column, record_count), takes_null=takes_null)
            found.append(replace(news, form=None) if column.name in known else news)
    return tuple(found)


def _is_not_null(name: str, known: Mapping[str, DataType], target: DecodeTarget) -> bool:
    """Whether the target has the column as NOT NULL, outside of its key."""
    return name in known and not known[name].nullable and name not in target.primary_key


def changed_by_values(
    rows: Iterable[Mapping[str, Any]], target: DecodeTarget, forms: ValueForms
) -> tuple[ObservedColumn, ...]:
    """Columns of schemaless rows that are new, or whose values fit only a wider lossless type.

    Values that no wider type holds count too if the table must follow such a change. New columns with only NULLs are
    not reported, unless an expression needs them: there is nothing to store and no type to give.
    """
    known = dict(target.columns)
    telling: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            if (not _fits(value, known[name], forms)) if name in known else target.is_news(name):
                telling.setdefault(name, []).append(value)
    found: list[ObservedColumn] = []
    for name, values in telling.items():
        observed = infer_type(values)
        old = known.get(name)
        widened = common_type(old, observed) if old is not None and observed is not None else observed
        if widened is None and target.follows_retypes:
            widened = observed
        if widened is None and old is not None:
            fitting = reduce(wider_if_common, filter(None, (infer_type([value]) for value in values)), old)
            widened = None if fitting == old else fitting
        if widened is None and old is None and target.awaits(name):
            found.append(ObservedColumn(name, None))
        elif widened is not None and _is_news(name, widened, known, target):
            found.append(_guessed(name, widened, values) if old is None else ObservedColumn(name, widened))
    return tuple(found)


def shapes_of(rows: Iterable[Mapping[str, Any]], typed: Iterable[str] = ()) -> Shapes:
    """The columns of each row, and those whose types its record names."""
    named = tuple(typed)
    return frozenset(frozenset((*columns, *named)) for columns in {tuple(row) for row in rows})


def shows_news(rows: Iterable[Mapping[str, Any]], target: DecodeTarget, typed: Iterable[str] = ()) -> bool:
    """Whether rows have a new column, and the table needs to know their other columns.

    The table may hide a column that such a row lacks: the new one may be this column under another name.
    """
    if not target.tells_schemas:
        return False
    known = {name for name, _ in target.columns}
    return any(target.is_news(name) for shape in shapes_of(rows, typed) for name in shape - known)


def told_forms(
    plan: Plan, schema: EmbeddedSchema | None, target: DecodeTarget, pieces: Sequence[ChangeRows], has_problems: bool
) -> dict[str, str]:
    """The forms of columns that the records show, as far as the target does not remember them."""
    told = _forms_of_values(plan, target, pieces, has_problems) if schema is None else _forms_of_schema(plan, schema)
    learnt = target.forms.learnt(told, dict(target.columns))
    by_schema = {} if schema is None else schema.by_name
    kept_raw = {c.name for c in plan if c.name in by_schema and c.encoding != by_schema[c.name].encoding}
    return {
        name: form
        for name, form in told.items()
        if learnt.of(name) != target.forms.of(name) or (name in kept_raw and form not in (VALUE, TEXT))
    }


def _forms_of_schema(plan: Plan, schema: EmbeddedSchema) -> dict[str, str]:
    planned = {column.name for column in plan}
    return {c.name: form_text(c.encoding) for c in schema.columns if c.name in planned}


def _forms_of_values(
    plan: Plan, target: DecodeTarget, pieces: Sequence[ChangeRows], has_problems: bool
) -> dict[str, str]:
    told: dict[str, str] = {}
    for column in plan:
        form = _form_of_values(column, target.forms.of(column.name), pieces, has_problems)
        told |= {} if form is None else {column.name: form}
    return told


def _form_of_values(
    column: PlannedColumn, known: str | None, pieces: Sequence[ChangeRows], has_problems: bool
) -> str | None:
    """The form that values without a schema show for their column; ``known`` is the form known so far."""
    if column.problem is not None:
        return None
    parts = (image_column(piece.images, column.name) for piece in pieces)
    if known is None and column.encoding == AUTO and holds(column.type, *CHARACTERS):
        return RAW if any(not is_null(part).all() for part in parts) else None
    kind = (column.encoding.element or column.encoding).kind
    if kind is Kind.DECIMAL or (kind is Kind.TEXT and holds(column.type, Root.DECIMAL)):
        return SEVERAL if has_problems and contradict(parts, kind) else None
    is_open = column.forms.decimal_format in ("auto", *AMBIGUOUS_DECIMALS) and holds(column.type, Root.DECIMAL)
    if column.encoding == AUTO and is_open and (has_problems or known in (TEXT_DECIMALS, BASE64_DECIMALS)):
        return told_by_values(parts, known)
    return None


def with_forms(
    columns: Sequence[ObservedColumn], told: Mapping[str, str], target: DecodeTarget
) -> tuple[ObservedColumn, ...]:
    """The observed columns, and the columns with only a new form, by their names in change rows."""
    known = dict(target.columns)
    seen = {column.name: column for column in columns}
    for name, form in told.items():
        column = seen.get(name) or ObservedColumn(name, known[name].with_nullable(True))
        seen[name] = replace(column, form=form)
    return tuple(replace(column, name=target.called_now(column.name)) for column in seen.values())


def _fits(value: Any, t: DataType, forms: ValueForms) -> bool:
    try:
        convert_value(value, AUTO, t, forms)
        return True
    except Unconvertible:
        return False


def _is_news(name: str, observed: DataType, known: Mapping[str, DataType], target: DecodeTarget) -> bool:
    old = known.get(name)
    if old is None:
        return target.is_news(name)
    return name not in target.declared and common_type(old, observed) != old.with_nullable(True)


def key_fields(key: Any) -> tuple[str, ...] | None:
    """The field names of a parsed message key: empty for one without names; None for a null key."""
    return None if key is None else tuple(key) if isinstance(key, dict) else ()
