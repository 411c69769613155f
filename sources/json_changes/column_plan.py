"""How each target column is read from the JSON of one source table: encoding, and the Arrow form of its JSON.

The form is the type that Arrow's JSON parser expects. With an embedded schema it is known. Without one it
follows what the table remembers of its column, or the target's type and a few sampled values. A form of ``null`` sends
records that have a value there to the exact path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from paimon_table.types import BINARIES, CHARACTERS, INTEGERS, DataType, Root
from sources.column_forms import BASE64_DECIMALS, RAW, SEVERAL, TEXT_DECIMALS, holds
from sources.decode_target import DecodeTarget
from sources.values.connect_types import ConnectColumn
from sources.values.encodings import AUTO, Encoding, Kind
from sources.values.form_texts import form_encoding, is_told_by_type, json_form, with_auto
from sources.values.value_forms import ValueForms


@dataclass(frozen=True, slots=True)
class PlannedColumn:
    """One target column."""

    name: str
    type: DataType
    encoding: Encoding
    form: pa.DataType
    forms: ValueForms
    """The settings of the converters for its values."""
    problem: str | None = None
    """Why no value of the column can be read; None if values can be."""


Plan = tuple[PlannedColumn, ...]

_SEVERAL = (
    "earlier records disagree about the meaning of the column's values, and this one has no embedded schema. Switch"
    " schemas on (value.converter.schemas.enable=true), or for a DECIMAL column declare decimal_format and retry"
)
_AMBIGUOUS = {TEXT_DECIMALS: "auto-text", BASE64_DECIMALS: "auto-base64"}


def plan_columns(target: DecodeTarget, schema: Mapping[str, ConnectColumn] | None, forms: ValueForms) -> Plan:
    """The plan for a target, given the columns of the embedded schema (None: records without one)."""
    return tuple(_planned(name, t, target, schema, forms) for name, t in target.columns)


def _planned(
    name: str, t: DataType, target: DecodeTarget, schema: Mapping[str, ConnectColumn] | None, forms: ValueForms
) -> PlannedColumn:
    known = target.forms.of(name)
    stated = target.decimal_formats.get(name, forms.decimal_format)
    settled = _AMBIGUOUS.get(known or "", stated) if stated == "auto" else stated
    if settled != forms.decimal_format:
        forms = replace(forms, decimal_format=settled)
    plain = PlannedColumn(name, t, AUTO, default_form(t), forms)
    if schema is not None:
        if name not in schema:
            return plain
        encoding, form = schema[name].encoding, schema[name].form
        if known == RAW:  # texts continue with the JSON that the column holds
            told = partial(is_told_by_type, forms=forms)
            encoding = with_auto(encoding, t, lambda e, part: part.root not in CHARACTERS or told(e, part))
        return replace(plain, encoding=encoding, form=form)
    is_stated = stated != "auto" and holds(t, Root.DECIMAL)
    if known == SEVERAL:
        return plain if is_stated else replace(plain, problem=_SEVERAL)
    remembered = None if known is None else form_encoding(known)
    contrary = Kind.DECIMAL if stated == "text" else Kind.TEXT
    if remembered is not None and is_stated:
        remembered = with_auto(remembered, t, lambda e, part: part.root is not Root.DECIMAL or e.kind is not contrary)
    if remembered is None or remembered == AUTO:
        return plain
    return replace(plain, encoding=remembered, form=json_form(remembered))


def fitted_to(plan: Plan, rows: Iterable[Mapping[str, Any]]) -> Plan:
    """The plan with the forms of its schemaless columns fitted to sampled rows; later rows win."""
    forms: dict[str, pa.DataType] = {}
    for row in rows:
        for column in plan:
            value = row.get(column.name)
            if value is not None and column.encoding == AUTO:
                forms[column.name] = _sampled_form(value, column.type, column.form)
    return tuple(c if forms.get(c.name, c.form) == c.form else replace(c, form=forms[c.name]) for c in plan)


def default_form(t: DataType) -> pa.DataType:
    """The form to expect before the first value."""
    if t.root is Root.BOOLEAN:
        return pa.bool_()
    if t.root in INTEGERS or t.root in (Root.DATE, Root.TIME, Root.TIMESTAMP):
        return pa.int64()
    if t.root in (Root.FLOAT, Root.DOUBLE):
        return pa.float64()
    if t.root in CHARACTERS or t.root in BINARIES or t.root in (Root.DECIMAL, Root.TIMESTAMP_LTZ):
        return pa.string()
    if t.root is Root.ARRAY and t.element is not None:
        element = default_form(t.element)
        return pa.null() if pa.types.is_null(element) else pa.list_(element)
    return pa.null()


def _sampled_form(value: Any, t: DataType, current: pa.DataType) -> pa.DataType:
    match value:
        case bool():
            return pa.bool_()
        case int():
            return _integer_form(t)
        case Decimal() | float():
            return _fraction_form(t, current)
        case str():
            return pa.string()
        case list() if t.root is Root.ARRAY and t.element is not None:
            return _sampled_list_form(value, t.element, current)
        case _:
            return pa.null()


def _fraction_form(t: DataType, current: pa.DataType) -> pa.DataType:
    """Only floating point columns may be parsed as such: integers among the fractions would lose digits."""
    if t.root is Root.DECIMAL:
        return pa.decimal256(76, t.scale or 0)
    if t.root in (Root.FLOAT, Root.DOUBLE):
        return pa.float64()
    return pa.null() if t.root in CHARACTERS else current


def _integer_form(t: DataType) -> pa.DataType:
    if t.root is Root.DECIMAL:
        return pa.decimal256(76, t.scale or 0)
    return pa.float64() if t.root in (Root.FLOAT, Root.DOUBLE) else pa.int64()


def _sampled_list_form(value: list[Any], element: DataType, current: pa.DataType) -> pa.DataType:
    item_form = current.value_type if pa.types.is_list(current) else default_form(element)
    for item in value:
        if item is not None:
            item_form = _sampled_form(item, element, item_form)
    return pa.null() if pa.types.is_null(item_form) else pa.list_(item_form)
