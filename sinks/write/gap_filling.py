"""Executor side: fills gaps, which are values that the source did not send (Debezium: unchanged TOAST columns).

A row whose ``_UNAVAILABLE`` names a column takes that column from the row that it changes: the row of the same key
before it. After a key change (``_OTHER_KEY``) this is the row of the old key before its delete. Either is an earlier
change of this batch, else the table's current row. If the table orders changes, the newest of them counts, as if each
change had its own batch (``ColumnOrder``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.row_kind import VALUE_KIND, RowKind
from paimon_table.rows.chunks import one_array
from paimon_table.rows.python_values import column_values, key_of_text, row_values, to_arrow
from sinks.exchange.target import OTHER_KEY, UNAVAILABLE
from sinks.write.unsent import Became, Unsent

Key = tuple[Any, ...]
Values = Mapping[str, Any]
FindRows = Callable[[pa.Table], pa.Table]
"""Returns the rows of the keys in a table; leaves out keys that do not exist."""
FindEnded = Callable[[pa.Table, pa.Scalar], pa.Table]
"""Returns the row of a key, given as a table, that a change at a time has ended; no row if none is known."""
_UNKNOWN = object()
_RETRACTS = (RowKind.DELETE, RowKind.UPDATE_BEFORE)


@dataclass(frozen=True, slots=True)
class Filled:
    """Rows without gaps, and the counts of values that no row gives for certain."""

    rows: pa.Table
    unsent: Unsent = field(default_factory=dict)
    departed: pa.Table | None = None
    """The rows that moved to a key of a later batch, see ``departed``."""


@dataclass(slots=True)
class _Search:
    """The search from a gap back to its value."""

    seen: set[tuple[Key, int]] = field(default_factory=set)
    is_early: bool = False
    """Whether the search used a row of an old key whose delete has not arrived."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A value, which may be NULL."""

    value: Any


@dataclass(frozen=True, slots=True)
class ColumnOrder:
    """Which of two changes of a key gives the value of a column, as the table merges them: by default the later one."""

    sequence: tuple[str, ...] = ()
    """The change with higher values in these columns wins; of equal ones, the later."""
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Holder:
    """The change that gives the value of a column after some changes of its key."""

    number: int | None
    """The number of the change. None: the table's row, if it has one."""
    sequence: Sequence[Any] | None = None
    """Its sequence values. None: any other change is newer."""


class Histories:
    """The effect of one bucket's changes on its keys, and the rows of the table before them.

    Rows are identified by their number in order of arrival. Columns become Python values once, at first use.
    """

    def __init__(
        self,
        rows: pa.Table,
        key: Sequence[str],
        current_rows: FindRows,
        former_rows: FindRows,
        departed: Mapping[Key, Values] | None = None,
        ended: tuple[str, FindEnded] | None = None,
        former_columns: Mapping[str, Sequence[str]] | None = None,
        deleted_at: str | None = None,
    ) -> None:
        """``current_rows`` finds the rows of keys in the current table, ``former_rows`` in the newest state that had
        them.

        The current rows may include deletes, which ``_VALUE_KIND`` marks.

        ``departed`` are rows that moved to another key at the end of an earlier batch. If a table records when its rows
        end, ``ended`` is the time column of arriving rows, and a function that finds the row that ended at a time.

        ``former_columns`` are, by column, the columns that have its values in older rows. ``deleted_at`` is the column
        that marks deleted rows. The mark of a row that the table never had lacks its values.
        """
        self._deleted_at = deleted_at
        self._former_columns = former_columns or {}
        self._ended = ended
        self._ended_rows: dict[tuple[Key, Any], Values | None] = {}
        self._departed = departed or {}
        self._rows = rows
        self._key = tuple(key)
        self._current_rows = current_rows
        self._former_rows = former_rows
        self._columns: dict[str, list[Any]] = {}
        self._stored: dict[Key, Values | None] = {}
        self._keys: list[Key] = list(zip(*(self._column(name) for name in key), strict=True))
        self._numbers: dict[Key, list[int]] = {}
        self._places: list[int] = []
        """For each row its place among the rows of its key."""
        for number, values in enumerate(self._keys):
            same = self._numbers.setdefault(values, [])
            self._places.append(len(same))
            same.append(number)
        self._holders: dict[tuple[Key, ColumnOrder], list[Holder]] = {}
        self.filled: dict[tuple[int, str], tuple[Any, bool]] = {}
        """The values found for gaps, by row and column, and whether the search used an old key before its delete
        arrived.

        Rows are filled in order of arrival, so each row of a key takes its value from the row right before it.
        """

    def key_of(self, number: int) -> Key:
        return self._keys[number]

    def numbers(self, key: Key) -> Sequence[int]:
        """Rows of a key in order of arrival."""
        return self._numbers.get(key, ())

    def earlier(self, number: int) -> list[int]:
        """The rows of the same key that came before a row."""
        return self._numbers[self.key_of(number)][: self._places[number]]

    def previous(self, number: int) -> int | None:
        """The row of the same key right before a row; None for the first one."""
        place = self._places[number]
        return self._numbers[self.key_of(number)][place - 1] if place else None

    def place(self, number: int) -> int:
        """How many rows of the same key came before a row."""
        return self._places[number]

    def holder(self, key: Key, count: int, order: ColumnOrder) -> Holder:
        """The change that gives the value of a column after the first ``count`` rows of the key."""
        numbers = self.numbers(key)
        if not order.sequence:
            return Holder(numbers[count - 1] if count else None)
        held = self._holders.get((key, order))
        if held is None:
            stored = self._stored_row(key)
            first = None if stored is None else [stored[name] for name in order.sequence]
            held = self._holders[key, order] = [Holder(None, first)]
        for number in numbers[len(held) - 1 : count]:
            held.append(self._next_holder(held[-1], number, order))
        return held[count]

    def _next_holder(self, held: Holder, number: int, order: ColumnOrder) -> Holder:
        sequence = [self.value(number, name) for name in order.sequence]
        if _UNKNOWN in sequence:  # a change without sequence keeps that of its row
            return Holder(number, held.sequence)
        if held.sequence is not None and _is_older(sequence, held.sequence, order.descending):
            return held
        return Holder(number, sequence)

    def is_newer(self, number: int, held: Holder, order: ColumnOrder) -> bool:
        """Whether a change has its own sequence, higher than that of ``held``."""
        sequence = [self.value(number, name) for name in order.sequence]
        is_known = _UNKNOWN not in sequence and held.sequence is not None
        return is_known and _is_older(held.sequence or (), sequence, order.descending)

    def kind(self, number: int) -> RowKind:
        return RowKind(self._column(VALUE_KIND)[number])

    def is_there(self, number: int) -> bool:
        """Whether the table has a row of the key when this change arrives."""
        previous = self.previous(number)
        if previous is not None:
            return self.kind(previous) is not RowKind.DELETE
        return self.current(self._keys[number]) is not None

    def hidden(self, number: int) -> Sequence[int]:
        """Positions of the columns that the source did not send."""
        return (self._column(UNAVAILABLE)[number] or ()) if UNAVAILABLE in self._rows.column_names else ()

    def other_key(self, number: int) -> Key | None:
        """The other key of a key change; None for other changes."""
        text = self._column(OTHER_KEY)[number] if OTHER_KEY in self._rows.column_names else None
        types = [self._rows.schema.field(name).type for name in self._key]
        return None if text is None else key_of_text(text, types)

    def leaves_for(self, number: int, key: Key) -> bool:
        """Whether this is the delete of a row that continues under ``key``."""
        return self.kind(number) is RowKind.DELETE and self.other_key(number) == key

    def comes_from(self, number: int, key: Key) -> bool:
        """Whether this is the row that was under ``key`` before."""
        return self.kind(number) is not RowKind.DELETE and self.other_key(number) == key

    def moves(self, key: Key, old_key: Key) -> list[int]:
        """The rows that came from ``old_key``, in order; one that comes again before a delete is no other move."""
        found, is_there = [], False
        for number in self.numbers(key):
            if self.kind(number) is RowKind.DELETE:
                is_there = False
            elif self.comes_from(number, old_key) and not is_there:
                found.append(number)
                is_there = True
        return found

    def value(self, number: int, name: str) -> Any:
        """The value that the source sent, ``_UNKNOWN`` if it sent none."""
        is_hidden = self._rows.schema.get_field_index(name) in self.hidden(number)
        return _UNKNOWN if is_hidden else self._column(name)[number]

    def prepare(self, numbers: Iterable[int]) -> None:
        """Look up the table's rows for the keys of these rows, in one call."""
        keys = list(dict.fromkeys(self._keys[number] for number in numbers))
        self._stored = dict.fromkeys(keys) | self._look_up(keys)

    def _look_up(self, keys: Sequence[Key]) -> dict[Key, Values]:
        found = row_values(self._current_rows(self._key_table(keys)))
        return {tuple(row[name] for name in self._key): row for row in found}

    def current(self, key: Key) -> Values | None:
        """The table's row before the batch; None without one."""
        stored = self._stored_row(key)
        return None if stored is None or stored.get(VALUE_KIND) in _RETRACTS else stored

    def current_value(self, key: Key, name: str) -> Any:
        """The value of a column in the table's row; ``_UNKNOWN`` without a row, if only a column of a former type has
        it, or for NULL in a deleted row."""
        return self.value_in(self.current(key), name)

    def value_in(self, row: Values | None, name: str) -> Any:
        """The value of a column in a row that the table has or had, as ``current_value`` gives it."""
        if row is None:
            return _UNKNOWN
        value = row.get(name, _UNKNOWN)
        elsewhere = [*self._former_columns.get(name, ()), *([self._deleted_at] if self._deleted_at else [])]
        is_doubtful = value is None and any(row.get(other) is not None for other in elsewhere)
        return _UNKNOWN if is_doubtful else value

    def _stored_row(self, key: Key) -> Values | None:
        """The row, or the delete that the table still has. A change with a lower sequence is older than either."""
        if key not in self._stored:
            self._stored[key] = next(iter(self._look_up([key]).values()), None)
        return self._stored[key]

    def is_live(self, key: Key) -> bool:
        """Whether the table has a row of the key before the batch that is not marked as deleted."""
        row = self.current(key)
        return row is not None and (self._deleted_at is None or row[self._deleted_at] is None)

    def has_departed(self, key: Key) -> bool:
        """Whether the last change of an earlier batch moved the row to another key."""
        return key in self._departed

    def former(self, key: Key) -> Values | None:
        """A deleted row as it moved to another key, else as the newest snapshot with a row of the key has it; None if
        neither exists. A row that is marked as deleted counts as the second."""
        if key in self._departed:
            return self._departed[key]
        found = row_values(self._former_rows(self._key_table([key])))
        return found[0] if found else None

    def time(self, number: int) -> Any:
        """The time of a change; None if rows of the table have no end."""
        return None if self._ended is None else self._column(self._ended[0])[number]

    def ended_at(self, key: Key, time: Any) -> Values | None:
        """The table's row of a key that a change of this time ended; later rows of the key do not matter."""
        if self._ended is None or time is None:
            return None
        if (key, time) not in self._ended_rows:
            name, find = self._ended
            scalar = to_arrow([time], self._rows.schema.field(name).type)[0]
            found = row_values(find(self._key_table([key]), scalar))
            self._ended_rows[key, time] = found[0] if found else None
        return self._ended_rows[key, time]

    def _key_table(self, keys: Sequence[Key]) -> pa.Table:
        types = [self._rows.schema.field(name).type for name in self._key]
        columns = [to_arrow(list(column), t) for column, t in zip(zip(*keys, strict=True), types, strict=True)]
        return pa.table(columns, list(self._key))

    def _column(self, name: str) -> list[Any]:
        if name not in self._columns:
            self._columns[name] = column_values(self._rows.column(name))
        return self._columns[name]


_BY_ARRIVAL = ColumnOrder()


def _is_older(values: Sequence[Any], than: Sequence[Any], descending: bool) -> bool:
    """Whether sequence values come before others; NULL is the oldest in either direction."""
    for value, other in zip(values, than, strict=True):
        value, other = (None if v is _UNKNOWN else v for v in (value, other))
        if value == other:
            continue
        if value is None or other is None:
            return value is None
        return bool(value > other if descending else value < other)
    return False


def _became(value: Any, search: _Search, is_moved: bool) -> Became | None:
    """What to report about a gap; None if its value is known."""
    if value is _UNKNOWN:
        return Became.NULL_KEY_CHANGED if is_moved else Became.NULL
    return Became.OLDER if search.is_early else None


def has_gaps(unavailable: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Marks the rows whose ``_UNAVAILABLE`` names a column."""
    return pc.fill_null(pc.greater(pc.list_value_length(unavailable), 0), False)


class GapFiller:
    """Fills gaps across all buckets of one table; ``histories_of`` returns the histories of a key's bucket."""

    def __init__(
        self,
        histories_of: Callable[[Key], Histories],
        accumulating: Collection[str] = (),
        order: ColumnOrder = _BY_ARRIVAL,
        groups: Mapping[str, ColumnOrder] | None = None,
        *,
        follows_source: bool = False,
        keeps_deleted: bool = False,
        removes_deleted: bool = True,
    ) -> None:
        """A gap in one of the ``accumulating`` columns stays NULL while the row keeps its key, because NULL adds
        nothing.

        ``groups`` has the orders of columns with their own order. ``follows_source``: the table has exactly the rows
        that the source had after the last record. ``keeps_deleted``: deleted rows keep their values.
        ``removes_deleted``: a deleted row is gone or marked, so a row that is not has a delete to come.
        """
        self._histories_of = histories_of
        self._accumulating = frozenset(accumulating)
        self._order = order
        self._groups = groups or {}
        self._follows_source = follows_source
        self._keeps_deleted = keeps_deleted
        self._removes_deleted = removes_deleted

    def fill(self, histories: Histories, rows: pa.Table) -> Filled:
        """``rows`` of one bucket without ``_UNAVAILABLE`` and ``_OTHER_KEY``, their gaps filled."""
        gaps = one_array(rows.column(UNAVAILABLE))
        plain = rows.drop_columns([name for name in (UNAVAILABLE, OTHER_KEY) if name in rows.column_names])
        affected = np.flatnonzero(np.asarray(has_gaps(gaps)))
        replaced: dict[int, dict[int, Any]] = {}
        unsent: Counter[tuple[str, Became]] = Counter()
        if len(affected):
            histories.prepare(affected.tolist())
        for number in affected.tolist():
            is_delete = histories.kind(number) is RowKind.DELETE
            newest = self._newest_sequence(histories, number) if is_delete else {}
            for position in histories.hidden(number):
                name = plain.schema.field(position).name
                if name in self._accumulating and histories.other_key(number) is None:
                    continue
                search = _Search()
                if name in newest:
                    value = newest[name]
                else:
                    value = self._value(histories, number, name, search)
                    histories.filled[number, name] = value, search.is_early
                if not is_delete and (became := _became(value, search, histories.other_key(number) is not None)):
                    unsent[name, became] += 1
                replaced.setdefault(position, {})[number] = None if value is _UNKNOWN else value
        for position, values in replaced.items():
            field = plain.schema.field(position)
            column = column_values(plain.column(position))
            for number, value in values.items():
                column[number] = value
            plain = plain.set_column(position, field, to_arrow(column, field.type))
        return Filled(plain, unsent)

    def fill_moved(self, histories: Histories, rows: pa.Table) -> Filled:
        """``rows`` with filled gaps in the rows that moved to their key; other gaps stay in ``_UNAVAILABLE``."""
        if UNAVAILABLE not in rows.column_names:
            return Filled(rows.drop_columns([OTHER_KEY]))
        gaps = rows.column(UNAVAILABLE)
        moved = pc.and_(pc.is_valid(rows.column(OTHER_KEY)), pc.not_equal(rows.column(VALUE_KIND), RowKind.DELETE))
        none = pa.scalar([], gaps.type)
        at = rows.schema.get_field_index(UNAVAILABLE)
        filled = self.fill(histories, rows.set_column(at, UNAVAILABLE, pc.if_else(moved, gaps, none)))
        return replace(filled, rows=filled.rows.append_column(UNAVAILABLE, pc.if_else(moved, none, gaps)))

    def _newest_sequence(self, histories: Histories, number: int) -> Values:
        """The sequence columns of the newest row of a delete's key; empty if there is none."""
        held = histories.holder(histories.key_of(number), histories.place(number), self._order)
        return dict(zip(self._order.sequence, held.sequence or (), strict=False))

    def _value(self, histories: Histories, number: int, name: str, search: _Search) -> Any:
        """The value of a column after row ``number``."""
        key = histories.key_of(number)
        while True:  # a loop, because a key may have many rows
            sent = histories.value(number, name)
            if sent is not _UNKNOWN:
                return sent
            if (number, name) in histories.filled:
                value, is_early = histories.filled[number, name]
                search.is_early |= is_early
                return value
            if (key, number) in search.seen:
                return _UNKNOWN
            search.seen.add((key, number))
            if histories.other_key(number) is not None and histories.kind(number) is not RowKind.DELETE:
                break
            held = histories.holder(key, histories.place(number), self._order_of(name)).number
            if held is None or self._is_gone(histories, held):
                return self._before(histories, key, histories.place(number), name, search)
            number = held
        if (again := self._as_it_came(histories, number, name, search)) is not None:
            return again.value
        return self._value_of_origin(histories, number, name, search)

    def _order_of(self, name: str) -> ColumnOrder:
        return self._groups.get(name, self._order)

    def _is_gone(self, histories: Histories, number: int) -> bool:
        return histories.kind(number) is RowKind.DELETE and not self._keeps_deleted

    def _value_of_origin(self, histories: Histories, number: int, name: str, search: _Search) -> Any:
        """The value of a column in the row that moved from its old key to that of ``number``."""
        key, old_key = histories.key_of(number), histories.other_key(number)
        assert old_key is not None
        moves = histories.moves(key, old_key)
        nth = sum(n <= number for n in moves) - 1
        return self._before_move(old_key, key, nth, len(moves), histories.time(number), name, search)

    def _as_it_came(self, histories: Histories, number: int, name: str, search: _Search) -> _Found | None:
        """The value of a row that moved to its key before: a killed connector sends its last records again.

        The old key may have another row by then. A repeated row has the same sequence, but so may rows of one
        transaction. If the row of the old key has this sequence too, the row moves now. Without a sequence, a row in
        the table shows that the row moved before: no source creates another row there.
        """
        key = histories.key_of(number)
        if not self._order.sequence:
            is_again = self._follows_source and histories.is_there(number)
            return _Found(self._before(histories, key, histories.place(number), name, search)) if is_again else None
        place = self._place(histories, number)
        if None in place or _UNKNOWN in place:
            return None
        came = [n for n in histories.earlier(number) if histories.other_key(n) == histories.other_key(number)]
        came = [n for n in came if histories.kind(n) is not RowKind.DELETE and self._place(histories, n) == place]
        current = histories.current(key)
        is_stored = current is not None and [current[column] for column in self._order.sequence] == place
        if not came and not is_stored:
            return None
        if [self._value_of_origin(histories, number, column, _Search()) for column in self._order.sequence] == place:
            return None
        if came:
            return _Found(self._value(histories, came[-1], name, search))
        return None if current is None else _Found(histories.current_value(key, name))

    def _place(self, histories: Histories, number: int) -> list[Any]:
        return [histories.value(number, column) for column in self._order.sequence]

    def _before_move(
        self, old_key: Key, new_key: Key, nth: int, count: int, time: Any, name: str, search: _Search
    ) -> Any:
        """The value of a column in the row that moved from ``old_key`` to ``new_key`` as the nth of ``count`` in this
        batch.

        If the table has a row that ended at that time, this row counts, because the old key may already have another
        row. If the delete is not in this batch, it is in a later one. Or it was in an earlier one, and the table has no
        live row of the key, or keeps the rows of deletes.
        """
        try:
            origin = self._histories_of(old_key)
        except pa.ArrowException:
            return _UNKNOWN  # the header has the key in another form than the columns
        ended = origin.ended_at(old_key, time)
        if ended is not None:
            return ended[name]
        numbers = origin.numbers(old_key)
        leaves = [i for i, n in enumerate(numbers) if origin.leaves_for(n, new_key)]
        # A second delete, such as a tombstone, does not move the row again.
        leaves = [i for i in leaves if i - 1 not in leaves]
        has_left = not self._removes_deleted and origin.has_departed(old_key) and count > len(leaves)
        is_here = origin.is_live(old_key) and not has_left
        if not is_here:  # the first one may have left in an earlier batch
            nth -= max(0, count - len(leaves))
        if 0 <= nth < len(leaves) and (is_here or leaves[nth]):
            return self._before(origin, old_key, leaves[nth], name, search)
        if is_here:
            search.is_early = True
            return self._before(origin, old_key, len(numbers), name, search)
        return origin.value_in(origin.former(old_key), name)

    def departing(self, histories: Histories, number: int, names: Sequence[str]) -> Values | None:
        """The row that the delete ``number`` moves to another key; None if some of its values are unknown."""
        key = histories.key_of(number)
        earlier = histories.earlier(number)
        new_key = histories.other_key(number)
        while earlier and new_key is not None and histories.leaves_for(earlier[-1], new_key):
            earlier.pop()  # a tombstone repeats the delete
        row = {name: self._before(histories, key, len(earlier), name, _Search()) for name in names}
        return None if any(value is _UNKNOWN for value in row.values()) else row

    def _before(self, histories: Histories, key: Key, count: int, name: str, search: _Search) -> Any:
        """The value of a column after the first ``count`` rows of a key."""
        held = histories.holder(key, count, self._order_of(name)).number
        if held is not None:
            return _UNKNOWN if self._is_gone(histories, held) else self._value(histories, held, name, search)
        return histories.current_value(key, name)
