"""Executor side: the versions of rows after a batch, for tables that keep every version (`history: scd2`).

The stored versions of a key and the rows of the batch are events: a row that holds from a moment on, or a delete. A
version holds until the next event of its key. So the versions depend only on the events, not on their order of arrival,
and a repeated event changes nothing. The time in the source orders events, then the offset.

A delete is stored as the end of the version before it. Without such a version it is a separate row, a **mark**, which
begins and ends at the same moment: a version that arrives late ends there. A weak event adds nothing if it changes
nothing: a snapshot read that repeats the version before it, or is outside of the filter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.merge.sort import distinct_keys
from paimon_table.row_kind import VALUE_KIND, RowKind
from paimon_table.rows.gather import concat, gather
from paimon_table.rows.row_equality import equal_rows
from sinks.exchange.target import UNAVAILABLE, WEAK
from sinks.exchange.version_columns import VersionColumns
from sinks.write.unsent import Became, Unsent

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_NONE = -1
"""No row, or no event."""


@dataclass(frozen=True, slots=True)
class Versions:
    """The rows to write, with their kinds, and the counts of replaced unknown values."""

    rows: pa.Table
    unsent: Unsent = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Events:
    """Events in the order of key, time and offset; at most one at each place."""

    key: Numbers
    time: Numbers
    offset: Numbers
    row: Numbers
    """The number of the row with the values; ``_NONE`` for the end of a stored version."""
    is_delete: Mask
    is_weak: Mask
    stored: Numbers
    """The stored row at this place."""

    def chosen(self, kept: Mask) -> _Events:
        names = ("key", "time", "offset", "row", "is_delete", "is_weak", "stored")
        return _Events(*(getattr(self, name)[kept] for name in names))

    def before(self) -> Numbers:
        """For each event, the one of the same key before it."""
        found = np.arange(-1, len(self.key) - 1)
        if len(found):
            found[np.r_[True, self.key[1:] != self.key[:-1]]] = _NONE
        return found

    def follows_version(self) -> Mask:
        before = self.before()
        follows: Mask = (before != _NONE) & ~self.is_delete[before]
        return follows

    def have_rows(self) -> Mask:
        """Which events are versions or marks: all but deletes that the end of a version shows."""
        are_ends: Mask = self.is_delete & self.follows_version()
        return ~are_ends


def versions_after(
    stored: pa.Table,
    arrived: pa.Table,
    row_key: Sequence[str],
    names: VersionColumns,
    *,
    with_update_before: bool,
) -> Versions:
    """The changes that the ``arrived`` rows make to the ``stored`` versions of their keys.

    Arrived rows have the columns of the source and the start of a version, but no end.
    """
    columns = stored.schema.names
    rows = concat([stored, _as_stored(arrived, stored.schema)])
    _, key_numbers = distinct_keys(rows.select(list(row_key)))
    events = _events(stored, arrived, key_numbers, names)
    values, unsent = _values(rows, arrived, stored.num_rows, events, (*row_key, *names.names))
    events, values = _without_repeats(events, values, [n for n in columns if n not in names.names])
    wanted = _rows(events, values, rows, key_numbers, row_key, names)
    return Versions(_changes(stored, wanted, events, with_update_before=with_update_before), unsent)


def newest_versions(stored: pa.Table, row_key: Sequence[str], names: VersionColumns) -> pa.Table:
    """The last version of each key, whether it holds or has ended; ``stored`` is sorted by key and beginning."""
    whole = stored.filter(pa.array(~_are_marks(stored, names)))
    _, numbers = distinct_keys(whole.select(list(row_key)))
    last = {number: row for row, number in enumerate(numbers.tolist())}
    return gather(whole, np.fromiter(last.values(), np.int64))


def version_ended_at(stored: pa.Table, names: VersionColumns, time: pa.Scalar) -> pa.Table:
    """The version that a change of this time ended; no row if there is none. ``stored`` has one key's versions,
    sorted."""
    ended = np.asarray(pc.fill_null(pc.equal(stored.column(names.valid_to), time), False)) & ~_are_marks(stored, names)
    return gather(stored, np.flatnonzero(ended)[-1:])


def _are_marks(stored: pa.Table, names: VersionColumns) -> Mask:
    """Which rows are marks: they end when they begin."""
    pairs = ((names.valid_from, names.valid_to), (names.from_offset, names.to_offset))
    same = (pc.fill_null(pc.equal(stored.column(begin), stored.column(end)), False) for begin, end in pairs)
    begins, offsets = map(np.asarray, same)
    marks: Mask = begins & offsets
    return marks


def _as_stored(arrived: pa.Table, schema: pa.Schema) -> pa.Table:
    count = arrived.num_rows
    columns = [arrived.column(f.name) if f.name in arrived.column_names else pa.nulls(count, f.type) for f in schema]
    return pa.table(columns, schema=pa.schema([f.with_nullable(True) for f in schema])).cast(schema, safe=False)


def _milliseconds(column: pa.ChunkedArray) -> Numbers:
    return np.asarray(pc.fill_null(column.cast(pa.int64()), 0))


def _events(stored: pa.Table, arrived: pa.Table, key_numbers: Numbers, names: VersionColumns) -> _Events:
    count, arrived_count = stored.num_rows, arrived.num_rows
    begins = _milliseconds(stored.column(names.valid_from))
    begin_offsets = np.asarray(stored.column(names.from_offset))
    ends = _milliseconds(stored.column(names.valid_to))
    end_offsets = np.asarray(pc.fill_null(stored.column(names.to_offset), 0))
    is_mark = _are_marks(stored, names)
    ended = np.flatnonzero(np.asarray(stored.column(names.valid_to).is_valid()) & ~is_mark)
    stored_rows, arrived_rows = np.arange(count), count + np.arange(arrived_count)
    none = np.full(len(ended), _NONE)
    whole = _Events(
        np.r_[key_numbers[ended], key_numbers],
        np.r_[ends[ended], begins, _milliseconds(arrived.column(names.valid_from))],
        np.r_[end_offsets[ended], begin_offsets, np.asarray(arrived.column(names.from_offset))],
        np.r_[none, stored_rows, arrived_rows],
        np.r_[np.ones(len(ended), np.bool_), is_mark, np.asarray(pc.equal(arrived.column(VALUE_KIND), RowKind.DELETE))],
        np.r_[np.zeros(len(ended) + count, np.bool_), np.asarray(pc.fill_null(arrived.column(WEAK), False))],
        np.r_[none, stored_rows, np.full(arrived_count, _NONE)],
    )
    return _one_at_each_place(whole)


def _one_at_each_place(events: _Events) -> _Events:
    """The last given event of each place, weak if all are. A repeated event may have other values than before."""
    order = np.lexsort((np.arange(len(events.key)), events.offset, events.time, events.key))
    key, time, offset = events.key[order], events.time[order], events.offset[order]
    is_first = np.r_[True, (key[1:] != key[:-1]) | (time[1:] != time[:-1]) | (offset[1:] != offset[:-1])][: len(key)]
    starts = np.flatnonzero(is_first)
    ends = np.r_[starts[1:], len(key)][: len(starts)] - 1
    last = order[ends]
    stored = np.maximum.reduceat(events.stored[order], starts) if len(starts) else events.stored[:0]
    is_weak = np.logical_and.reduceat(events.is_weak[order], starts) if len(starts) else events.is_weak[:0]
    return _Events(
        events.key[last],
        events.time[last],
        events.offset[last],
        events.row[last],
        events.is_delete[last],
        is_weak,
        stored,
    )


def _values(
    rows: pa.Table, arrived: pa.Table, stored_count: int, events: _Events, told: Sequence[str]
) -> tuple[pa.Table, Unsent]:
    """The values of each event as rows, NULL for deletes. A value that was not sent comes from the version before."""
    sources = np.where(events.is_delete, _NONE, events.row)
    gaps = _gaps(arrived, stored_count, events)
    before, follows = events.before(), events.follows_version()
    unsent: Counter[tuple[str, Became]] = Counter()
    columns = []
    for name in rows.column_names:
        of_column = sources
        for event in gaps.get(name, ()) if name not in told else ():
            of_column = sources.copy() if of_column is sources else of_column
            of_column[event] = of_column[before[event]] if follows[event] else _NONE
            unsent[name, Became.NULL] += int(not follows[event])
        columns.append(rows.column(name).take(pa.array(of_column, mask=of_column == _NONE)))
    return pa.table(columns, rows.column_names), {place: count for place, count in unsent.items() if count}


def _gaps(arrived: pa.Table, stored_count: int, events: _Events) -> dict[str, list[int]]:
    """By column, the versions whose value the source did not send, in order."""
    found: dict[str, list[int]] = {}
    if UNAVAILABLE not in arrived.column_names:
        return found
    positions = arrived.column(UNAVAILABLE).to_pylist()
    for event in np.flatnonzero(~events.is_delete & (events.row >= stored_count)).tolist():
        for position in positions[int(events.row[event]) - stored_count] or ():
            found.setdefault(arrived.schema.field(position).name, []).append(event)
    return found


def _without_repeats(events: _Events, values: pa.Table, columns: Sequence[str]) -> tuple[_Events, pa.Table]:
    """The events without weak ones that change nothing."""
    if not events.is_weak.any():
        return events, values
    follows = events.follows_version()
    read = np.flatnonzero(events.is_weak & ~events.is_delete & follows)
    gone = events.is_weak & events.is_delete & ~follows
    gone[read] = equal_rows(gather(values, read), gather(values, events.before()[read]), columns)
    return events.chosen(~gone), values.filter(pa.array(~gone))


def _rows(
    events: _Events,
    values: pa.Table,
    rows: pa.Table,
    key_numbers: Numbers,
    row_key: Sequence[str],
    names: VersionColumns,
) -> pa.Table:
    """The rows that the table must have: one for each version and mark."""
    count = len(events.key)
    is_last = np.r_[events.key[1:] != events.key[:-1], True][:count]
    following = np.where(is_last, np.arange(count), np.arange(1, count + 1))
    following = np.where(events.is_delete, np.arange(count), following)
    is_open = is_last & ~events.is_delete
    any_row = np.zeros(int(key_numbers.max(initial=-1)) + 1, np.int64)
    any_row[key_numbers] = np.arange(len(key_numbers))
    own = {
        names.valid_from: events.time,
        names.from_offset: events.offset,
        names.valid_to: pa.array(events.time[following], mask=is_open),
        names.to_offset: pa.array(events.offset[following], mask=is_open),
        names.is_current: is_open,
    }
    columns = []
    for f in values.schema:
        if f.name in row_key:
            columns.append(rows.column(f.name).take(pa.array(any_row[events.key])))
        elif f.name in own:
            columns.append(pa.chunked_array([pa.array(own[f.name]).cast(f.type)]))
        else:
            columns.append(values.column(f.name))
    return pa.table(columns, values.schema.names)


def _changes(stored: pa.Table, wanted: pa.Table, events: _Events, *, with_update_before: bool) -> pa.Table:
    """The rows that differ from the stored ones: new, changed and removed."""
    is_row, is_stored = events.have_rows(), events.stored != _NONE
    both = np.flatnonzero(is_row & is_stored)
    same = equal_rows(gather(wanted, both), gather(stored, events.stored[both]), stored.schema.names)
    changed = both[~same]
    gone = np.setdiff1d(np.arange(stored.num_rows), events.stored[both])
    before = gather(stored, events.stored[changed] if with_update_before else np.zeros(0, np.int64))
    parts = [
        (gather(stored, gone), RowKind.DELETE),
        (before, RowKind.UPDATE_BEFORE),
        (gather(wanted, changed), RowKind.UPDATE_AFTER),
        (gather(wanted, np.flatnonzero(is_row & ~is_stored)), RowKind.INSERT),
    ]
    kinds = pa.array(np.concatenate([np.full(rows.num_rows, int(kind), np.int8) for rows, kind in parts]))
    schema = stored.schema
    found = pa.concat_tables([rows.cast(schema) for rows, _ in parts]).append_column(VALUE_KIND, kinds)
    if with_update_before and len(changed):
        firsts = parts[0][0].num_rows
        pairs = firsts + np.arange(2 * len(changed)).reshape(2, -1).T.ravel()
        rest = np.arange(firsts + 2 * len(changed), found.num_rows)
        found = gather(found, np.r_[np.arange(firsts), pairs, rest])
    return found.combine_chunks()
