"""Executor side: put back the values that the source left out of a change (Debezium: unchanged TOAST columns).

A row whose ``_UNAVAILABLE`` names a column takes that column from the row that it changes: the one of the same key
before it, or, when the change moved the row to another primary key (``_OTHER_KEY``), the one of the old key before its
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
from sinks.target import OTHER_KEY, UNAVAILABLE

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
    other_key: Key | None

    def leaves_for(self, key: Key) -> bool:
        """Whether this is the delete of a row that goes on under ``key``."""
        return self.kind is RowKind.DELETE and self.other_key == key


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
        other_key = row.pop(OTHER_KEY, None)
        kind = RowKind(row.pop(VALUE_KIND))
        values = {name: value for name, value in row.items() if name not in hidden}
        return Change(kind, values, None if other_key is None else tuple(json.loads(other_key)))

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
        """``rows`` of one bucket without ``_UNAVAILABLE`` and ``_OTHER_KEY``, their gaps filled."""
        gaps = rows.column(UNAVAILABLE).combine_chunks()
        plain = rows.drop_columns([name for name in (UNAVAILABLE, OTHER_KEY) if name in rows.column_names])
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
        if change.other_key is None:
            earlier = [n for n in histories.numbers(key) if n < number]
            return self._before(histories, key, earlier, name, seen)
        earlier_moves = sum(
            n < number and histories.change(n).other_key == change.other_key
            for n in histories.numbers(key)
            if histories.change(n).kind is not RowKind.DELETE
        )
        return self._before_move(change.other_key, key, earlier_moves, name, seen)

    def _before_move(self, old_key: Key, new_key: Key, nth: int, name: str, seen: set[tuple[Key, int]]) -> Any:
        """The value of a column of the row that left ``old_key`` for ``new_key`` for the nth time in this batch.

        When the delete is not in this batch, it comes in a later one, or it came in an earlier one and the table no
        longer has the row.
        """
        origin = self._histories_of(old_key)
        numbers = origin.numbers(old_key)
        leaves = [i for i, n in enumerate(numbers) if origin.change(n).leaves_for(new_key)]
        if nth < len(leaves):
            return self._before(origin, old_key, numbers[: leaves[nth]], name, seen)
        if origin.current(old_key) is not None:
            return self._before(origin, old_key, numbers, name, seen)
        former = origin.former(old_key)
        return _UNKNOWN if former is None else former[name]

    def _before(
        self, histories: Histories, key: Key, earlier: Sequence[int], name: str, seen: set[tuple[Key, int]]
    ) -> Any:
        """The value of a column after the rows ``earlier`` of a key."""
        if earlier:
            is_retract = histories.change(earlier[-1]).kind in (RowKind.UPDATE_BEFORE, RowKind.DELETE)
            return _UNKNOWN if is_retract else self._value(histories, earlier[-1], name, seen)
        current = histories.current(key)
        return _UNKNOWN if current is None else current[name]
