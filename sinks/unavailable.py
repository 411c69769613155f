"""Executor side: put back the values that the source left out of a change (Debezium: unchanged TOAST columns).

A row whose ``_UNAVAILABLE`` names a column takes that column from the row that it changes: the one of the same key
before it, or, when the change moved the row to another primary key (``_MOVED_FROM``), the one of the old key before its
deletion. Either is an earlier change of this batch, else the table's current row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.data_file import VALUE_KIND, RowKind
from sinks.target import MOVED_FROM, UNAVAILABLE

Key = tuple[Any, ...]
Values = Mapping[str, Any]
FindRows = Callable[[pa.Table], pa.Table]
"""Rows of the keys given as a table; keys that do not exist are left out."""
_UNKNOWN = object()


@dataclass(frozen=True, slots=True)
class Filled:
    """Rows without gaps, and how many values are known to nobody and became NULL."""

    rows: pa.Table
    unknown_count: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """One row of a key's history; ``values`` leaves out what was not sent."""

    kind: RowKind
    values: Values
    moved_from: Key | None


class Histories:
    """What the changes of one bucket do to its keys, and what the table held before them."""

    def __init__(self, rows: pa.Table, key: Sequence[str], current_rows: FindRows, former_rows: FindRows) -> None:
        """The two functions find the rows of keys in the table as it is, and in its youngest state that had them."""
        self._rows = rows
        self._key = tuple(key)
        self._current_rows = current_rows
        self._former_rows = former_rows
        self._numbers: dict[Key, list[int]] = {}
        for number, values in enumerate(zip(*(rows.column(name).to_pylist() for name in key), strict=True)):
            self._numbers.setdefault(values, []).append(number)

    def key_of(self, number: int) -> Key:
        return tuple(self._rows.column(name)[number].as_py() for name in self._key)

    def numbers(self, key: Key) -> Sequence[int]:
        """Rows of a key in order of arrival."""
        return self._numbers.get(key, ())

    def change(self, number: int) -> Change:
        row = self._rows.slice(number, 1).to_pylist()[0]
        hidden = {self._rows.schema.field(position).name for position in row.pop(UNAVAILABLE, None) or ()}
        moved_from = row.pop(MOVED_FROM, None)
        kind = RowKind(row.pop(VALUE_KIND))
        values = {name: value for name, value in row.items() if name not in hidden}
        return Change(kind, values, None if moved_from is None else tuple(json.loads(moved_from)))

    def current(self, key: Key) -> Values | None:
        """The table's row before the batch; None without one."""
        return self._found(key, self._current_rows)

    def former(self, key: Key) -> Values | None:
        """The row of a deleted key as it was in an earlier snapshot; None when no snapshot has it."""
        return self._found(key, self._former_rows)

    def _found(self, key: Key, find: FindRows) -> Values | None:
        fields = [self._rows.schema.field(name) for name in self._key]
        keys = pa.table([pa.array([value], f.type) for value, f in zip(key, fields, strict=True)], list(self._key))
        found = find(keys).to_pylist()
        return found[0] if found else None


class GapFiller:
    """Finds values over all buckets of one table; ``histories_of`` gives the bucket that a key belongs to."""

    def __init__(self, histories_of: Callable[[Key], Histories]) -> None:
        self._histories_of = histories_of

    def fill(self, histories: Histories, rows: pa.Table) -> Filled:
        """``rows`` of one bucket without ``_UNAVAILABLE`` and ``_MOVED_FROM``, their gaps filled."""
        gaps = rows.column(UNAVAILABLE).combine_chunks()
        plain = rows.drop_columns([name for name in (UNAVAILABLE, MOVED_FROM) if name in rows.column_names])
        affected = np.flatnonzero(np.asarray(pc.fill_null(pc.greater(pc.list_value_length(gaps), 0), False)))
        replaced: dict[int, dict[int, Any]] = {}
        unknown_count = 0
        for number in affected.tolist():
            for position in gaps[number].as_py():
                value = self._value(histories, number, plain.schema.field(position).name, set())
                unknown_count += value is _UNKNOWN
                replaced.setdefault(position, {})[number] = None if value is _UNKNOWN else value
        for position, values in replaced.items():
            column = plain.column(position).to_pylist()
            for number, value in values.items():
                column[number] = value
            field = plain.schema.field(position)
            plain = plain.set_column(position, field, pa.array(column, field.type))
        return Filled(plain, unknown_count)

    def _value(self, histories: Histories, number: int, name: str, seen: set[tuple[Key, int]]) -> Any:
        """The value of a column after row ``number``."""
        key = histories.key_of(number)
        change = histories.change(number)
        if name in change.values:
            return change.values[name]
        if (key, number) in seen:
            return _UNKNOWN
        seen.add((key, number))
        if change.moved_from is None:
            earlier = [n for n in histories.numbers(key) if n < number]
            return self._before(histories, key, earlier, name, seen)
        return self._before_move(change.moved_from, name, seen)

    def _before_move(self, old_key: Key, name: str, seen: set[tuple[Key, int]]) -> Any:
        """The value of a column of the row that left ``old_key``: before its deletion in this batch, if it is in it.

        Otherwise the deletion comes in a later batch, or came in an earlier one and the table no longer has the row.
        """
        origin = self._histories_of(old_key)
        numbers = origin.numbers(old_key)
        deleted_at = next((i for i, n in enumerate(numbers) if origin.change(n).kind is RowKind.DELETE), None)
        if deleted_at is None and origin.current(old_key) is None:
            former = origin.former(old_key)
            return _UNKNOWN if former is None else former[name]
        return self._before(origin, old_key, numbers[:deleted_at], name, seen)

    def _before(
        self, histories: Histories, key: Key, earlier: Sequence[int], name: str, seen: set[tuple[Key, int]]
    ) -> Any:
        """The value of a column after the rows ``earlier`` of a key."""
        if earlier:
            is_retract = histories.change(earlier[-1]).kind in (RowKind.UPDATE_BEFORE, RowKind.DELETE)
            return _UNKNOWN if is_retract else self._value(histories, earlier[-1], name, seen)
        current = histories.current(key)
        return _UNKNOWN if current is None else current[name]
