"""Decoding the records of one source table in one topic partition, whatever tool wrote them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.schema.type_widening import common_type
from paimon_table.types import BINARIES, CHARACTERS
from sources.changes import Observation, ObservedColumn, SourceTable
from sources.column_forms import RAW
from sources.debezium_json.message_keys import by_form
from sources.decode_target import DecodeTarget, KeyFields, KeyRule
from sources.feeds.feed import AbsentFields, Feed, Row, images_in
from sources.feeds.feed_options import FeedOptions
from sources.feeds.mysql_values import are_numbers
from sources.feeds.record_reasons import unusable_key
from sources.feeds.row_events import EventGroup, RowReader
from sources.feeds.sorting import ParsedRows, TableRecords
from sources.feeds.source_types import SourceTypes
from sources.json_changes.change_rows import DELETE, TRUNCATE, UPDATE, Events, Mask, image_column, is_null, lacks_key
from sources.json_changes.column_plan import Plan, plan_columns
from sources.json_changes.embedded_schema import EmbeddedSchema
from sources.json_changes.event_log import EventLog
from sources.json_changes.lacking_records import lacking_records
from sources.json_changes.observing import (
    Shapes,
    all_columns,
    changed_by_schema,
    changed_by_values,
    shapes_of,
    shows_news,
    told_forms,
    with_forms,
)
from sources.json_changes.outcome import Outcome
from sources.json_changes.table_rows import TableRows
from sources.observed_columns import merged
from sources.places_of_change import UNKNOWN_PLACE
from sources.values.encodings import Encoding
from sources.values.value_forms import ValueForms

_MOST_SAMPLED = 10_000


@dataclass(frozen=True, slots=True)
class FeedDecoding:
    """Decodes the records of source tables into an outcome."""

    feed: Feed
    options: FeedOptions
    forms: ValueForms
    binary: Encoding
    topic: str
    partition: int
    outcome: Outcome
    parsed: Sequence[ParsedRows] = ()
    """Rows of the topic partition that were read with the heads of their records."""
    key_words: ClassVar[str] = "its key in the records"

    @property
    def op_names(self) -> Sequence[str]:
        """See ``TableFormat``, as for all that follow."""
        return self.feed.op_names

    def into(self, outcome: Outcome) -> FeedDecoding:
        return replace(self, outcome=outcome)

    def fitted(self, target: DecodeTarget) -> DecodeTarget:
        return target

    def event(self, part: TableRecords, index: int) -> Any:
        return self.outcome.parsed("value", int(part.positions[index]))

    def images(self, event: Any) -> Sequence[Row]:
        return images_in(self.feed, event)

    def missing_row(self, op: int, event: Any) -> str | None:
        rows = self.feed.rows_of(event, op, ())
        return rows if isinstance(rows, str) else None

    def keys_of(self, part: TableRecords, columns: set[str]) -> Iterator[tuple[KeyFields, Mask]]:
        for fields, mask in by_form(part.keys, part.key_fields):
            if fields and not columns.issuperset(fields):
                columns = columns.union(*self.images(self.event(part, int(np.argmax(mask)))))
            yield None if fields is None else _as_columns(fields, columns), mask

    def unusable_key(self, fields: KeyFields, rule: KeyRule, primary_key: Sequence[str]) -> str:
        return unusable_key(self.feed.tool, rule, primary_key)

    def observed(self, source: SourceTable, parts: Sequence[TableRecords]) -> Observation:
        (records,) = parts
        first, records = self.outcome.offset(int(records.positions.min())), records.chosen(records.ops != TRUNCATE)
        step = -(-len(records) // _MOST_SAMPLED) or 1
        by_types: dict[SourceTypes, list[Row]] = {}
        shapes: Shapes = frozenset()
        for position in records.positions[::step].tolist():
            value = self.outcome.parsed("value", position)
            rows = images_in(self.feed, value)
            if rows:
                types = SourceTypes.of(self.feed.types_of(value))
                by_types.setdefault(types, []).extend(rows)
                if self.feed.tells_every_column:
                    shapes |= shapes_of(rows, [name for name, _ in types.columns])
        columns = merged([tuple(self._shown(types, rows)) for types, rows in by_types.items()])
        keys = (fields for fields, mask in self.keys_of(records, {c.name for c in columns}) if fields and mask.any())
        return Observation(source, columns, next(keys, None), self.partition, first, shapes=shapes)

    def decode_known(self, source: SourceTable, target: DecodeTarget, parts: Sequence[TableRecords]) -> None:
        (records,) = parts
        plan = reading_plan(self.feed, target, self.forms)
        log = self._event_log(records, target) if target.needs_events else None
        reader = RowReader(self.feed, target, plan, self.outcome, self.parsed)
        for group in reader.groups(records):
            self._decode_group(source, target, group, log)
        if self.feed.tells_every_column:
            self._note_newest(source, target, records)

    def _event_log(self, records: TableRecords, target: DecodeTarget) -> EventLog:
        log = EventLog(self.topic, self.partition, self.outcome.offsets, self.feed.op_names)
        times = self.feed.times_ms(records.times)
        log.note(records.positions, records.ops, times)
        log.note_positions(records.positions, {"ts_ms": times}, np.zeros(len(records), np.bool_), None)
        if target.tells_places:
            values = (self.outcome.parsed("value", position) for position in records.positions.tolist())
            told = (self.feed.place_of(value) if isinstance(value, dict) else UNKNOWN_PLACE for value in values)
            log.note_places(records.positions, told)
        return log

    def _decode_group(self, source: SourceTable, target: DecodeTarget, group: EventGroup, log: EventLog | None) -> None:
        schema = group.types.schema(self.options, self.binary)
        plan = self._plan(target, schema)
        typed = {name for name, _ in group.types.columns}
        lacks = partial(_lacks, self.feed, self.outcome, typed)
        rows = TableRows(source, self.partition, target, plan, AbsentFields(), self.outcome, lacks, log)
        raw = {name for name, _ in target.columns if target.forms.of(name) == RAW}
        events = self._with_clear_types(group, target)
        events = group.types.rewritten(events, dict(target.columns), self.options, raw)
        events = _whole_records(events, rows.storable(events))
        events = self._with_keys(events, target, plan)
        if not len(events.ops):
            return
        pieces = [rows.change_rows(events)]
        converted = rows.add(pieces)
        forms = told_forms(plan, schema, target, pieces, any(part.problems for part in converted))
        images: Iterable[Row] = ()
        if schema is not None:
            telling = events.positions
            columns = self._changed(group.types, schema, target, events)
            images = self._exact_images(telling) if columns else images
        else:
            telling = rows.telling([events], converted)
            images = list(self._exact_images(telling)) if len(telling) else images
            columns = _without_looks(changed_by_values(images, target, self.forms))
        columns = with_forms(columns, forms, target)
        if columns:
            first = self.outcome.offset(int((telling if len(telling) else events.positions).min()))
            shapes: Shapes = frozenset()
            if self.feed.tells_every_column and shows_news(images, target, typed):
                shapes = shapes_of(self._exact_images(events.positions, len(events.positions)), typed)
            self.outcome.observe(Observation(source, columns, None, self.partition, first, shapes=shapes))

    def _plan(self, target: DecodeTarget, schema: EmbeddedSchema | None) -> Plan:
        """How columns are read: bytes in one way, whether or not a record names their type."""
        plan = plan_columns(target, None if schema is None else schema.by_name, self.forms)
        if schema is None:
            return plan
        return tuple(
            replace(column, encoding=self.binary, form=pa.string())
            if column.type.root in BINARIES and column.name not in schema.by_name
            else column
            for column in plan
        )

    def _with_clear_types(self, group: EventGroup, target: DecodeTarget) -> Events:
        """Drop the events in which a number may stand for a word of an ENUM or SET.

        A number is ambiguous if earlier records named types, and this record names no type for a text column.
        """
        events, named = group.events, {name for name, _ in group.types.columns}
        if self.feed.types_field is None:
            return events
        good = np.ones(len(events.ops), np.bool_)
        for name, t in target.columns:
            if t.root not in CHARACTERS or name in named or target.forms.of(name) in (None, RAW):
                continue
            unclear = are_numbers(image_column(events.before, name)) | are_numbers(image_column(events.after, name))
            for position in np.unique(events.positions[good & unclear]).tolist():
                reason = (
                    f"column {name}: {self.feed.types_field} does not name its type, so a number may be a text, or "
                    "the index of an ENUM or SET value. Let the source name the types of all columns, as it did "
                    "before"
                )
                self.outcome.quarantine(position, reason)
            good &= ~np.isin(events.positions, events.positions[unclear])
        return events if good.all() else events.chosen(good)

    def _with_keys(self, events: Events, target: DecodeTarget, plan: Plan) -> Events:
        """The events except those whose row has an unknown key."""
        if not target.primary_key:
            return events
        key = target.certain_key
        gaps = AbsentFields()
        bad = (events.ops == DELETE) & lacks_key(events.before, key)
        updated = events.ops == UPDATE
        lacking = np.zeros(len(events.ops), np.bool_)
        for name in key:
            column = image_column(events.after, name)
            mask = gaps.mask(column)
            lacking |= updated & (is_null(column) if mask is None else mask | is_null(column))
        bad |= lacking
        if not bad.any():
            return events
        wanted = ", ".join(key)
        for position, op in zip(events.positions[bad].tolist(), events.ops[bad].tolist(), strict=True):
            reason = (
                f"op {self.feed.op_names[op]}: the row does not have the key ({wanted}); let the source log whole rows"
                " (MySQL: binlog_row_image=FULL; Oracle: supplemental logging of all columns)"
            )
            self.outcome.quarantine(position, reason)
        return _whole_records(events, events.chosen(~bad))

    # ------------------------------------------------------------ observations

    def _changed(
        self, types: SourceTypes, schema: Any, target: DecodeTarget, events: Events
    ) -> tuple[ObservedColumn, ...]:
        """Columns that the target lacks, or whose type it does not hold, as wide as their values."""
        news = changed_by_schema(schema, target, len(events.ops))
        if not news:
            return news
        known = dict(target.columns)
        names = [column.name for column in news]
        if not types.lacks_width(names):
            return news
        images = list(self._exact_images(events.positions))
        found = types.observed(names, images, len(events.ops), self.options, self.binary)
        fits = (replace(column, form=None) if column.name in known else column for column in found)
        return tuple(c for c in fits if c.name not in known or (c.type is not None and _is_wider(known[c.name], c)))

    def _shown(self, types: SourceTypes, rows: Sequence[Row]) -> Iterator[ObservedColumn]:
        names = dict.fromkeys(name for row in rows for name in row)
        typed = {name for name, _ in types.columns}
        found = {c.name: c for c in types.observed([*typed], rows, len(rows), self.options, self.binary)}
        yield from (found[name] for name in dict.fromkeys([*names, *found]) if name in found)
        others = ({name: value for name, value in row.items() if name not in typed} for row in rows)
        if names.keys() - typed:
            yield from _without_looks(all_columns(None, others, len(rows)))

    def _note_newest(self, source: SourceTable, target: DecodeTarget, records: TableRecords) -> None:
        """Report the columns that the newest whole row does not have at all, nor the newest update after it.

        An update may have part of its row. One with all columns of the table also shows which others it has.
        """
        positions = records.positions
        inserts, rows = positions[~np.isin(records.ops, (DELETE, UPDATE))], positions[records.ops != DELETE]
        if not len(rows):
            return
        shown: set[str] = set()
        last = int(rows.max())
        for position in {last, int(inserts.max())} if len(inserts) else {last}:
            value = self.outcome.parsed("value", position)
            shown |= {name for row in images_in(self.feed, value) for name in row}
            shown |= {*(self.feed.types_of(value) or {})} if isinstance(value, dict) else set()
        is_whole = len(inserts) > 0 or (not target.lacked_by(shown) and target.left_out_of(shown))
        if shown and is_whole:
            self.outcome.note_newest(source, target, last, shown)

    def _exact_images(self, positions: npt.NDArray[np.int64], most: int = _MOST_SAMPLED) -> Iterator[Row]:
        """Row images of records, parsed exactly; evenly spaced ones if there are more."""
        step = -(-len(positions) // most)
        for position in np.unique(positions)[::step].tolist():
            value = self.outcome.parsed("value", position)
            yield from images_in(self.feed, value)


def reading_plan(feed: Feed, target: DecodeTarget, forms: ValueForms) -> Plan:
    """The types that Arrow expects of the rows, whatever types their source names."""
    plan = plan_columns(target, None, forms)
    if feed.types_field is None:
        return plan
    # The values are texts, whatever their columns hold.
    return tuple(replace(column, form=pa.string()) for column in plan)


def _whole_records(events: Events, kept: Events) -> Events:
    """The ``kept`` events of records that lost no event: a record is kept whole or not at all."""
    if len(kept.ops) == len(events.ops):
        return kept
    all_rows = dict(zip(*np.unique(events.positions, return_counts=True), strict=True))
    left = dict(zip(*np.unique(kept.positions, return_counts=True), strict=True))
    whole = np.array([left[position] == all_rows[position] for position in kept.positions.tolist()], np.bool_)
    return kept.chosen(whole)


def _as_columns(fields: Sequence[str], columns: set[str]) -> tuple[str, ...]:
    """The columns of the names in a key: some tools write them in lower case."""
    folded = {name.lower(): name for name in columns}
    return tuple(name if name in columns else folded.get(name, name) for name in fields)


def _without_looks(columns: Sequence[ObservedColumn]) -> tuple[ObservedColumn, ...]:
    """Without guesses about the meaning of values: these tools write no encoded numbers."""
    return tuple(replace(column, looks_like=None) for column in columns)


def _is_wider(known: Any, column: ObservedColumn) -> bool:
    return column.type is not None and common_type(known, column.type) != known.with_nullable(True)


def _lacks(feed: Feed, outcome: Outcome, typed: Collection[str], name: str, positions: npt.NDArray[np.int64]) -> Mask:
    """See ``Lacks``; ``typed`` are the columns whose types the records name."""
    if name in typed:
        return np.zeros(len(positions), np.bool_)
    return lacking_records(name, positions, outcome, lambda value: images_in(feed, value))
