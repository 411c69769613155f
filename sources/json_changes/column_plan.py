"""How each target column is read from the JSON of one source table: encoding, and the Arrow form of its JSON.

The form is the type that Arrow's JSON parser is told to expect. With an embedded schema it is known; without one it
follows the target's type and a few sampled values. A form of ``null`` sends records that have a value there to the
exact path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from paimon_table.types import BINARIES, CHARACTERS, INTEGERS, DataType, Root
from sources.values.connect_types import ConnectColumn
from sources.values.encodings import AUTO, Encoding


@dataclass(frozen=True, slots=True)
class PlannedColumn:
    """One target column."""

    name: str
    type: DataType
    encoding: Encoding
    form: pa.DataType


Plan = tuple[PlannedColumn, ...]


def plan_columns(columns: Sequence[tuple[str, DataType]], known: Mapping[str, ConnectColumn]) -> Plan:
    """The plan for target columns, given the columns of the embedded schema (empty without one)."""
    return tuple(
        PlannedColumn(name, t, known[name].encoding, known[name].form)
        if name in known
        else PlannedColumn(name, t, AUTO, default_form(t))
        for name, t in columns
    )


def fitted_to(plan: Plan, rows: Iterable[Mapping[str, Any]]) -> Plan:
    """The plan with the forms of its schemaless columns fitted to sampled rows; later rows win."""
    forms: dict[str, pa.DataType] = {}
    for row in rows:
        for column in plan:
            value = row.get(column.name)
            if value is not None and column.encoding == AUTO:
                forms[column.name] = _sampled_form(value, column.type, column.form)
    return tuple(replace(c, form=forms.get(c.name, c.form)) for c in plan)


def default_form(t: DataType) -> pa.DataType:
    """The form to expect before any value was seen."""
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
