"""What records tell about the columns of their source table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from paimon_table.schema.type_widening import common_type
from paimon_table.types import DataType
from sources.changes import DecodeTarget, ObservedColumn
from sources.json_changes.embedded_schema import EmbeddedSchema
from sources.values.encodings import AUTO
from sources.values.inference import infer_type
from sources.values.json_values import Unconvertible
from sources.values.scalar_conversion import convert_value
from sources.values.value_forms import ValueForms


def all_columns(
    schema: EmbeddedSchema | None, rows: Iterable[Mapping[str, Any]], record_count: int
) -> tuple[ObservedColumn, ...]:
    """All columns of a source table, in the order of the schema or of first sight."""
    if schema is not None:
        return tuple(ObservedColumn(c.name, c.type, record_count) for c in schema.columns)
    values: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            values.setdefault(name, []).append(value)
    return tuple(ObservedColumn(name, infer_type(seen)) for name, seen in values.items())


def changed_by_schema(schema: EmbeddedSchema, target: DecodeTarget, record_count: int) -> tuple[ObservedColumn, ...]:
    """Columns of the schema that the target lacks, or whose type the target's does not hold."""
    known = dict(target.columns)
    return tuple(
        ObservedColumn(c.name, c.type, record_count) for c in schema.columns if _is_news(c.name, c.type, known, target)
    )


def changed_by_values(
    rows: Iterable[Mapping[str, Any]], target: DecodeTarget, forms: ValueForms
) -> tuple[ObservedColumn, ...]:
    """Columns of schemaless rows that are new, or whose values fit only a wider lossless type.

    New columns with NULLs only are not reported: there is nothing to store and no type to give.
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
        if widened is not None and _is_news(name, widened, known, target):
            found.append(ObservedColumn(name, widened))
    return tuple(found)


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
    """The field names of a parsed message key: none of one without names; None for a key that is null."""
    return None if key is None else tuple(key) if isinstance(key, dict) else ()
