"""Turns events of one source table into rows of its target, for every format."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.row_kind import RowKind
from paimon_table.types import CHARACTERS, DataType, Root, arrow_type
from sources.change_columns import ABSENT_COLUMN, WEAK_COLUMN
from sources.changes import Observation, ObservedColumn, SourceTable
from sources.decode_target import DecodeTarget
from sources.event_columns import EVENT_COLUMNS, PLACE_COLUMNS, TIME_TYPE, TOLD_COLUMNS
from sources.json_changes.before_values import with_before_values
from sources.json_changes.change_rows import (
    DELETE,
    UPDATE,
    ChangeRows,
    Events,
    Mask,
    Rows,
    change_rows,
    field_names,
    image_column,
    is_null,
    present,
)
from sources.json_changes.column_plan import Plan
from sources.json_changes.event_log import EventLog
from sources.json_changes.gaps import Gaps
from sources.json_changes.lacking_records import Lacks
from sources.json_changes.outcome import Outcome
from sources.json_changes.row_conversion import ConvertedRows, convert_rows, record_counts, rows_table
from sources.position_kinds import (
    KINDS,
    NO_POSITION,
    POSITION,
    POSITION_TYPE,
    TOMBSTONE,
    form_of,
    kind_of,
    wrong_kind,
)
from sources.position_lists import position_lists
from sources.source_positions import SourcePositions
from sources.values.conversion import convert_column, convert_values

_VERSION_TYPES = (TIME_TYPE, DataType(Root.BIGINT), DataType(Root.BOOLEAN))
_POSITIONS_TYPE = DataType(Root.ARRAY, element=DataType(Root.SMALLINT))
_FRACTION = re.compile(r"-?\d+\.\d+", re.ASCII)


@dataclass(frozen=True, slots=True)
class TableRows:
    """Events of one source table in one topic partition become rows of ``target``; others go to quarantine.

    Call in this order: ``storable`` for all events, ``change_rows``, then ``add`` once for all their rows.
    """

    source: SourceTable
    partition: int
    target: DecodeTarget
    plan: Plan
    gaps: Gaps
    outcome: Outcome
    lacks: Lacks
    log: EventLog | None = None
    """Whether every event becomes a row."""

    def storable(self, events: Events) -> Events:
        """The events except those with a value in a column that the table cannot have."""
        bad = np.zeros(len(events.ops), np.bool_)
        for name in _unexpected(events.after, self.target):
            reason = self.target.refusal(name)
            if reason is None:
                continue
            held = ~is_null(image_column(events.after, name)) & (events.ops != DELETE)
            for position in events.positions[held].tolist():
                # If values are hidden, a quoted text and everything after it is hidden.
                told = name if name.isidentifier() else repr(name)
                self.outcome.quarantine(position, f"column {told}: {reason}")
            bad |= held
        return events.chosen(~bad) if bad.any() else events

    def change_rows(self, events: Events) -> ChangeRows:
        """The rows of events that have the images which their operations need."""
        names = [column.name for column in self.plan]
        events = with_before_values(events, names, self.target.counted_again, self.gaps)
        incomplete = np.zeros(len(events.ops), np.bool_)
        if self.target.emit_update_before and (present(events.before) & (events.ops == UPDATE)).any():
            for column in self.plan:
                mask = self.gaps.mask(image_column(events.before, column.name))
                incomplete = incomplete if mask is None else incomplete | mask
        key, wants_before = self.target.primary_key, self.target.emit_update_before
        return change_rows(events, key, self._stored_key, wants_before, incomplete)

    def _stored_key(self, name: str, values: pa.Array | list[Any]) -> pa.Array:
        """The table's form of values in a key column; NULL if unknown."""
        column = next(column for column in self.plan if column.name == name)
        convert = convert_values if isinstance(values, list) else convert_column
        return with_one_text_per_number(values, convert(values, column.encoding, column.type, column.forms).values)

    def add(self, pieces: Sequence[ChangeRows]) -> list[ConvertedRows]:
        """Convert the rows, and hand over those without problems as changes."""
        kinds = [piece.kinds for piece in pieces]
        if self.target.on_change is not None:
            # Every row adds a row to the table.
            pieces = [replace(piece, kinds=np.zeros_like(piece.kinds)) for piece in pieces]
        converted = [
            self._with_plain_keys(piece, convert_rows(piece, self.plan, self.target, self.gaps)) for piece in pieces
        ]
        for piece in converted:
            for row, reason in piece.problems.items():
                self.outcome.quarantine(piece.positions[row], reason)
        if converted:
            stored_parts, columns = converted, self.target.row_columns
            if self.log is not None and (self.target.tells_events or self.target.on_change == "log"):
                stored_parts = list(map(self.log.with_event_columns, stored_parts, kinds))
                columns += EVENT_COLUMNS if self.target.transform is None else TOLD_COLUMNS
            if self.log is not None and self.target.tells_places:
                stored_parts = list(map(self.log.with_places, stored_parts))
                columns += PLACE_COLUMNS
            if self.target.deleted_at is not None:
                stored_parts = list(map(self._with_deleted_at, stored_parts))
                columns += ((self.target.deleted_at, TIME_TYPE),)
            elif self.target.versions is not None:
                stored_parts = list(map(self._with_versions, stored_parts))
                columns += tuple(zip((*self.target.versions, WEAK_COLUMN), _VERSION_TYPES, strict=True))
            if self.target.ordering:
                is_placed = self.target.orders_by_position
                stored_parts = self._with_positions(stored_parts) if is_placed else stored_parts
                rest = [t for name, t in self.target.ordering if name != POSITION]
                stored_parts = [_with_nulls(part, rest) for part in stored_parts]
                columns += self.target.ordering
            if self.target.joined:
                stored_parts = list(map(self._with_absent, stored_parts))
                columns += ((ABSENT_COLUMN, _POSITIONS_TYPE),)
            rows = rows_table(stored_parts, columns, self.outcome.offsets)
            stored, left_out = record_counts(converted)
            self.outcome.add_changes(self.source, self.partition, rows, stored)
            self.outcome.count(without_effect=left_out)
        return converted

    def _with_absent(self, part: ConvertedRows) -> ConvertedRows:
        """The rows, followed by the positions of the columns that their records lack, of those in ``joined``."""
        absent: dict[int, Mask] = {}
        for position, (name, _) in enumerate(self.target.row_columns):
            null = np.asarray(part.columns[position].is_null())
            if name in self.target.joined and name not in self.target.paths and null.any():
                absent[position] = null.copy()
                absent[position][null] = self.lacks(self.plan[position].name, part.positions[null])
        return replace(part, columns=[*part.columns, position_lists(absent, len(part.positions))])

    def _with_deleted_at(self, part: ConvertedRows) -> ConvertedRows:
        """The rows, followed by the time of deletes.

        A delete leaves the other columns of its row unchanged, so it has only the key. A transform leaves the other
        columns out itself, because its filter and computed keys read them first.
        """
        deletes, transform = part.kinds == RowKind.DELETE, self.target.transform
        # A transform may turn an old row, or any row that its filter rejects, into a delete.
        timed = np.isin(part.kinds, (RowKind.DELETE, RowKind.UPDATE_BEFORE)) if transform is not None else deletes
        is_told = np.ones_like(timed) if transform is not None and transform.filters else timed
        times = pc.if_else(pa.array(is_told), self._times(part), None)
        stored, unavailable = list(part.columns), dict(part.unavailable)
        for position, (name, _) in enumerate(self.target.columns) if deletes.any() and transform is None else ():
            if name not in self.target.primary_key:
                hidden = unavailable.get(position)
                unavailable[position] = deletes if hidden is None else hidden | deletes
        self._refuse(part, timed & np.asarray(times.is_null()))
        stored.append(times.cast(arrow_type(TIME_TYPE)))
        return replace(part, columns=stored, unavailable=unavailable)

    def _with_positions(self, parts: Sequence[ConvertedRows]) -> list[ConvertedRows]:
        """The rows, followed by the source positions of their events; a record without the table's kind of position is
        bad.

        The first records of a table determine the kind.
        """
        told = [self._source_positions(part) for part in parts]
        kind = kind_of(self.target.forms.of(POSITION))
        if kind is None:
            kinds = np.concatenate([found.kinds for found in told])
            kind = int(kinds[kinds >= 0].min(initial=len(KINDS)))
            if kind < len(KINDS):
                first = int(np.concatenate([part.positions for part in parts])[kinds == kind].min())
                news = (ObservedColumn(POSITION, POSITION_TYPE, form=form_of(kind)),)
                self.outcome.observe(Observation(self.source, news, None, self.partition, self.outcome.offset(first)))
        reason = NO_POSITION if kind == len(KINDS) else wrong_kind(kind)
        placed = []
        for part, found in zip(parts, told, strict=True):
            for row in np.flatnonzero(found.kinds != kind).tolist():
                position = int(part.positions[row])
                why = TOMBSTONE if self.outcome.cell("value", position) is None else reason
                self.outcome.quarantine(position, why)
                part.problems.setdefault(row, why)
            placed.append(replace(part, columns=[*part.columns, found.texts]))
        return placed

    def _source_positions(self, part: ConvertedRows) -> SourcePositions:
        if self.log is None:
            count = len(part.positions)
            return SourcePositions(np.full(count, -1, np.int8), pa.nulls(count, pa.string()))
        return self.log.source_positions(part.positions)

    def _with_versions(self, part: ConvertedRows) -> ConvertedRows:
        """The rows, followed by time and offset of their change, and whether they are weak.

        Rows of a snapshot are weak.
        """
        times = self._times(part)
        self._refuse(part, np.asarray(times.is_null()))
        weak = np.zeros(len(part.kinds), np.bool_) if self.log is None else self.log.are_reads(part.positions)
        offsets = self.outcome.offsets.take(pa.array(part.positions))
        own = [times.cast(arrow_type(TIME_TYPE)), offsets, pa.array(weak)]
        return replace(part, columns=[*part.columns, *own])

    def _times(self, part: ConvertedRows) -> pa.Array:
        """The time of each change in the source, or else of its record, in milliseconds."""
        times = pa.nulls(len(part.kinds), pa.int64()) if self.log is None else self.log.times(part.positions)
        return pc.coalesce(times, self.outcome.times_at(part.positions))

    def _refuse(self, part: ConvertedRows, without_time: Mask) -> None:
        for row in np.flatnonzero(without_time).tolist():
            self.outcome.quarantine(int(part.positions[row]), "neither the event nor its record has a time")
            part.problems.setdefault(row, "no time")

    def _with_plain_keys(self, rows: ChangeRows, converted: ConvertedRows) -> ConvertedRows:
        """One row per number: numbers of variable scale in the key, which are stored as text, get one form each."""
        columns = converted.columns
        for position, column in enumerate(self.plan):
            if column.name in self.target.primary_key and column.type.root in CHARACTERS:
                plain = with_one_text_per_number(image_column(rows.images, column.name), columns[position])
                columns = [*columns[:position], plain, *columns[position + 1 :]]
        return converted if columns is converted.columns else replace(converted, columns=columns)

    def telling(self, events: Sequence[Events], converted: Sequence[ConvertedRows]) -> npt.NDArray[np.int64]:
        """Records without a schema whose values may show a column as new, or as too narrow."""
        telling = [part.positions[list(part.problems)] for part in converted if part.problems]
        telling += [e.positions[_has_unexpected(e, self.target)] for e in events]
        return np.unique(np.concatenate(telling)) if telling else np.empty(0, np.int64)


def _with_nulls(part: ConvertedRows, types: Sequence[DataType]) -> ConvertedRows:
    """The rows, followed by columns of these types, which the writer fills."""
    return replace(part, columns=[*part.columns, *(pa.nulls(len(part.kinds), arrow_type(t)) for t in types)])


def with_one_text_per_number(values: pa.Array | list[Any], stored: pa.Array) -> pa.Array:
    """``stored`` with the texts of numbers of scale and digits, without insignificant zeros."""
    if isinstance(values, list):
        are_numbers = np.array([isinstance(value, dict) for value in values], np.bool_)
    else:
        are_numbers = np.full(len(values), pa.types.is_struct(values.type), np.bool_)
    if not are_numbers.any() or not pa.types.is_string(stored.type):
        return stored
    texts = stored.to_pylist()
    for index in np.flatnonzero(are_numbers).tolist():
        text = texts[index]
        if text is not None and _FRACTION.fullmatch(text):
            texts[index] = text.rstrip("0").rstrip(".") if text.strip("-0.") else "0"
    return pa.array(texts, stored.type)


def _unexpected(rows: Rows, target: DecodeTarget) -> list[str]:
    """Fields of the images that the target has no column for."""
    expected = {name for name, _ in target.columns}
    return [name for name in field_names(rows) if name not in expected]


def _has_unexpected(events: Events, target: DecodeTarget) -> Mask:
    """Events with a value in a column that the target lacks and observes; for awaited columns NULL is enough."""
    found = np.zeros(len(events.ops), np.bool_)
    for rows in (events.before, events.after):
        for name in _unexpected(rows, target):
            if target.awaits(name):
                found |= present(rows)
            elif target.is_news(name):
                found |= ~is_null(image_column(rows, name))
    return found
