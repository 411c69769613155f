"""nested_update: an array of rows as a small table. NULL rows are left out.

Without a nested key rows are appended, up to the limit; a retract removes all rows that equal one of its rows. With a
nested key a newer row replaces the row of its key, unless its nested sequence is smaller. At the limit no new keys are
added; a retract removes keys.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from paimon_table.errors import ConfigError
from paimon_table.merge.aggregate.column_function import ColumnFunction, SimpleAccumulator
from paimon_table.merge.aggregate.function import Accumulator
from paimon_table.merge.aggregate.nested_rows import NestedRows, nested_rows, present, sample_rows
from paimon_table.options.field_options import FieldOptions, field_option, naming_option
from paimon_table.options.names import COUNT_LIMIT, NESTED_KEY, NESTED_KEY_NULL_STRATEGY, NESTED_SEQUENCE_FIELD
from paimon_table.types import DataField, DataType, Root

NO_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class NestedUpdate(ColumnFunction):
    rows: NestedRows
    count_limit: int

    name: ClassVar[str] = "nested_update"
    accumulates: ClassVar[bool] = True
    settings: ClassVar[tuple[str, ...]] = (NESTED_KEY, NESTED_KEY_NULL_STRATEGY, NESTED_SEQUENCE_FIELD, COUNT_LIMIT)

    @classmethod
    def sample_type(cls, options: FieldOptions) -> DataType:
        return sample_rows(options)

    @classmethod
    def bound(cls, field: DataField, options: FieldOptions) -> Self:
        rows = _rows_of(cls, field, options)
        if rows.sequence and not rows.key:
            option = field_option(field.name, NESTED_SEQUENCE_FIELD)
            raise ConfigError(
                f"option {option!r} requires {field_option(field.name, NESTED_KEY)!r}; set it",
                option=option,
                column=field.name,
            )
        limit = NO_LIMIT if options.count_limit is None else options.count_limit
        return cls(field.name, field.type, rows, limit)

    @property
    def keeps_single(self) -> bool:
        return False

    def accumulator(self) -> Accumulator:
        if self.rows.key:
            return _KeyedAccumulator(self.rows, self.count_limit)
        return SimpleAccumulator(self._appended, self._without)

    def _appended(self, accumulated: Any, value: Any) -> Any:
        if value is None:
            return accumulated
        before = accumulated or ()
        if accumulated is not None and len(before) >= self.count_limit:
            return accumulated
        room = max(self.count_limit - len(before), 0)
        return (*present(before), *present(value)[:room])

    def _without(self, accumulated: Any, value: Any) -> Any:
        if accumulated is None or value is None:
            return accumulated
        removed = {self.rows.identity_of(row) for row in present(value)}
        return tuple(row for row in present(accumulated) if self.rows.identity_of(row) not in removed)


class _KeyedAccumulator:
    """Rows by their key. A value set from outside is parsed at the next record."""

    __slots__ = ("_by_key", "_limit", "_plain", "_rows")

    def __init__(self, rows: NestedRows, limit: int) -> None:
        self._rows = rows
        self._limit = limit
        self._plain: Any = None
        self._by_key: dict[Hashable, Any] | None = None

    @property
    def value(self) -> Any:
        return self._plain if self._by_key is None else tuple(self._by_key.values())

    @value.setter
    def value(self, value: Any) -> None:
        self._plain = value
        self._by_key = None

    def add(self, value: Any) -> None:
        if value is None:
            return
        if self._by_key is None:
            self._by_key = {}
            self._put(self._by_key, self._plain or (), is_limited=False)
        self._put(self._by_key, value, is_limited=True)

    def add_older(self, value: Any) -> None:
        newer, self.value = self.value, value
        self.add(newer)

    def retract(self, value: Any) -> None:
        if value is None or self.value is None:
            return
        if self._by_key is None:
            keyed = ((self._rows.key_of(row), row) for row in present(self._plain))
            self._by_key = {key: row for key, row in keyed if key is not None}
        for row in present(value):
            self._by_key.pop(self._rows.key_of(row), None)

    def _put(self, by_key: dict[Hashable, Any], value: Any, is_limited: bool) -> None:
        for row in present(value):
            key = self._rows.key_of(row)
            if key is None:
                continue
            existing = by_key.get(key)
            if existing is None:
                if not is_limited or len(by_key) < self._limit:
                    by_key[key] = row
            elif self._rows.replaces(row, existing):
                by_key[key] = row


@dataclass(frozen=True, slots=True)
class NestedPartialUpdate(ColumnFunction):
    """Cannot retract."""

    rows: NestedRows

    name: ClassVar[str] = "nested_partial_update"
    can_retract: ClassVar[bool] = False
    settings: ClassVar[tuple[str, ...]] = (NESTED_KEY, NESTED_KEY_NULL_STRATEGY)

    @classmethod
    def sample_type(cls, options: FieldOptions) -> DataType:
        return sample_rows(options)

    @classmethod
    def bound(cls, field: DataField, options: FieldOptions) -> Self:
        if not options.nested_key:
            raise ConfigError(
                f"column {field.name!r}: aggregate function {cls.name!r} requires "
                f"{field_option(field.name, NESTED_KEY)!r}; set it",
                option=naming_option(field.name, options),
                column=field.name,
            )
        return cls(field.name, field.type, _rows_of(cls, field, options))

    @property
    def keeps_single(self) -> bool:
        return False

    def accumulator(self) -> Accumulator:
        return SimpleAccumulator(self._updated, self._retract)

    def _updated(self, accumulated: Any, value: Any) -> Any:
        if value is None:
            return accumulated
        by_key: dict[Hashable, tuple[Any, ...]] = {}
        for row in (*present(accumulated or ()), *present(value)):
            key = self.rows.key_of(row)
            if key is not None:
                before = by_key.get(key)
                by_key[key] = row if before is None else _overlaid(before, row)
        return tuple(by_key.values())

    def _retract(self, accumulated: Any, value: Any) -> Any:
        self.refuse_retract()


def _rows_of(function: type[ColumnFunction], field: DataField, options: FieldOptions) -> NestedRows:
    row = field.type.element if field.type.root is Root.ARRAY else None
    function.check(row is not None and row.root is Root.ROW, field, options, "ARRAY<ROW>")
    assert row is not None
    types = {f.name: f.type for f in row.fields}
    _check_named(field, NESTED_KEY, options.nested_key, types)
    _check_named(field, NESTED_SEQUENCE_FIELD, options.nested_sequence_fields, types)
    for column in options.nested_sequence_fields:
        if types[column].is_nested:
            option = field_option(field.name, NESTED_SEQUENCE_FIELD)
            raise ConfigError(
                f"option {option!r}: {column!r} has no order; name an atomic field", option=option, column=field.name
            )
    strategy = options.nested_key_null_strategy
    return nested_rows(field.name, row, options.nested_key, strategy, options.nested_sequence_fields)


def _check_named(field: DataField, option: str, names: tuple[str, ...], types: Mapping[str, DataType]) -> None:
    for name in names:
        if name not in types:
            stated = field_option(field.name, option)
            raise ConfigError(
                f"option {stated!r}: {name!r} is not a field of the rows; they are: {', '.join(types)}",
                option=stated,
                column=field.name,
            )


def _overlaid(before: tuple[Any, ...], row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(old if new is None else new for old, new in zip(before, row, strict=True))
