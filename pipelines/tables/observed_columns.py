"""The observations of a batch's tasks about each source table, merged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from paimon_table.types import DataType
from sources.changes import Observation, ObservedColumn, ShownSchema, SourceTable
from sources.observed_columns import merged as merged_columns
from sources.observed_columns import merged_keys, merged_schemas


@dataclass(frozen=True, slots=True)
class Seen:
    """The observations of one source table, merged: columns with their types, and the message key's fields."""

    columns: Mapping[str, DataType | None]
    key_columns: tuple[str, ...] | None
    """None if the records have no key; empty for a key without names, such as a number."""
    forms: Mapping[str, str] = field(default_factory=dict)
    """How the source writes columns (``sources.column_forms``), if that is new."""
    looks: Mapping[str, str] = field(default_factory=dict)
    """The forms of values without a schema whose type JSON does not show."""
    key_only: Mapping[str, DataType | None] = field(default_factory=dict)
    """Fields of the message key that are not in any row."""
    has_rows: bool = True
    """False if there were only deletes and truncates, and no table is known."""
    schemas: tuple[ShownSchema, ...] = ()
    """The embedded schemas of the records, oldest first, if the table needs them."""
    shapes: frozenset[frozenset[str]] = frozenset()
    """The columns of each whole row without an embedded schema, if one such row brings a new column."""
    defaults: frozenset[str] = frozenset()
    """The columns for which embedded schemas state a default."""
    nullable: frozenset[str] = frozenset()
    """The columns that are nullable in embedded schemas, and NOT NULL in the table."""
    several_types: Mapping[str, Sequence[DataType]] = field(default_factory=dict)
    """The types of columns that were seen with several ones without a common type."""

    def without(self, names: Collection[str]) -> Seen:
        """The observations of all other columns."""
        if not names:
            return self
        columns = {name: t for name, t in self.columns.items() if name not in names}
        return replace(self, columns=columns, forms={n: form for n, form in self.forms.items() if n not in names})

    def in_order(self, names: Collection[str]) -> Seen:
        """The columns in the order of the source, as far as it is known."""
        order = [*(name for name in names if name in self.columns), *self.columns]
        return replace(self, columns={name: self.columns[name] for name in order})


def merged(
    observations: Iterable[Observation], takes_one_key: Callable[[SourceTable], bool] = lambda _: False
) -> dict[SourceTable, Seen]:
    """One entry per source table, in the order first seen; a column seen by several tasks has one type.

    Of several message keys the oldest one of a row counts: deletes show no table. If the table ``takes_one_key``, the
    columns of other keys are left out.
    """
    given = list(observations)
    oldest: dict[SourceTable, tuple[str, ...]] = {}
    for observation in sorted(given, key=lambda one: (not one.has_rows, one.timestamp_ms)):
        if observation.key_columns:
            oldest.setdefault(observation.source, observation.key_columns)
    found: dict[SourceTable, tuple[ObservedColumn, ...]] = {}
    of_keys: dict[SourceTable, tuple[ObservedColumn, ...]] = {}
    seen: dict[SourceTable, Seen] = {}
    for observation in given:
        source = observation.source
        keys = observation.key_columns
        if keys and {*keys} != {*oldest[source]} and takes_one_key(source):
            continue
        before = seen.get(source, Seen({}, None))
        found[source] = merged_columns((found.get(source, ()), observation.columns))
        of_keys[source] = merged_columns((of_keys.get(source, ()), observation.key_only))
        columns = {column.name: column.settled_type for column in found[source]}
        seen[source] = Seen(
            columns,
            oldest.get(source, merged_keys(before.key_columns, keys)),
            {column.name: column.form for column in found[source] if column.form is not None},
            {column.name: column.looks_like for column in found[source] if column.looks_like is not None},
            {column.name: column.type for column in of_keys[source] if column.name not in columns},
            observation.has_rows or (source in seen and before.has_rows),
            (*before.schemas, *observation.schemas),
            before.shapes | observation.shapes,
            before.defaults | {column.name for column in observation.columns if column.has_default},
            before.nullable | {column.name for column in observation.columns if column.takes_null},
            {column.name: column.types for column in found[source] if column.types},
        )
    return {source: replace(one, schemas=merged_schemas(one.schemas)) for source, one in seen.items()}
