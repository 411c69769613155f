"""Decoding the payloads of one topic partition that share an embedded schema (or have none)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import MalformedRecord
from sources.changes import Observation, ObservedColumn, ShownSchema, SourceTable
from sources.column_sources import place_key
from sources.debezium_json.absent_fields import with_defaults
from sources.debezium_json.envelopes import images_of, unwrapped, unwrapped_key
from sources.debezium_json.event_reading import read_events
from sources.debezium_json.event_sorting import EventSorter, TableEvents, halved
from sources.debezium_json.key_check import changed_key, is_fit, unknown_old_key, unusable_key
from sources.debezium_json.key_values import MessageKey, key_at, with_values_of_keys
from sources.debezium_json.message_keys import KeyForms, which
from sources.debezium_json.ops import LETTERS, OPS, TRUNCATE
from sources.debezium_json.policies import DebeziumPolicies
from sources.debezium_json.record_shapes import ENVELOPES, RecordShape
from sources.debezium_json.source_fields import places, source_fields
from sources.debezium_json.source_times import source_times
from sources.debezium_json.strange_values import missing_row
from sources.debezium_json.texts import Records, SourceNames, Texts
from sources.decode_target import Behind, DecodeTarget, Goal, Rejection
from sources.json_changes.change_rows import (
    DELETE,
    UPDATE,
    ChangeRows,
    Events,
    field_names,
    image_column,
    is_null,
    lacks_key,
    row_objects,
)
from sources.json_changes.column_plan import plan_columns
from sources.json_changes.embedded_schema import EmbeddedSchema
from sources.json_changes.event_log import EventLog
from sources.json_changes.gaps import Gaps
from sources.json_changes.observing import (
    Shapes,
    all_columns,
    changed_by_schema,
    changed_by_values,
    key_fields,
    shapes_of,
    shows_news,
    told_forms,
    with_forms,
)
from sources.json_changes.outcome import Outcome, decode_bounded
from sources.json_changes.row_conversion import ConvertedRows
from sources.json_changes.table_rows import TableRows
from sources.position_kinds import POSITION, fields_of, kind_of
from sources.record_rows import timestamp_ms_of
from sources.values.inference import iso_type
from sources.values.value_forms import ValueForms

_MOST_SAMPLED = 10_000
_FINE_TIME = r":[0-9]{2}\.[0-9]{7}"
"""Seconds with more digits than microseconds have."""
_MOST_KEYS = 100
_NO_DOCUMENT = (
    "columns.paths of the rule reads documents of MongoDB, and this is an event of another database: remove `paths`, or"
    " give the table a rule of its own"
)


@dataclass(frozen=True, slots=True)
class TableDecoding:
    """Decodes texts of one topic partition into an outcome."""

    batch: pa.RecordBatch
    topic: str
    partition: int
    schema: EmbeddedSchema | None
    policies: DebeziumPolicies
    forms: ValueForms
    hidden: Gaps
    keys: KeyForms
    outcome: Outcome
    shape: RecordShape = ENVELOPES
    parts_documents: bool = False
    """Events of MongoDB are not decoded, but given back."""
    is_of_keys: bool = False
    """The texts are message keys: they identify the deleted row, not the columns of the source table."""
    are_documents: bool = False
    """The texts are documents of MongoDB, each with its own fields."""

    def decode(self, texts: Texts, goals: Mapping[SourceTable, Goal]) -> list[Records]:
        """Decode all texts, one source table after the other; returns those that are not decoded here."""
        names = SourceNames(self.topic)
        sorter = EventSorter(names, self.policies, self.outcome, parts_documents=self.parts_documents)
        sorter.sort(texts)
        self.decode_sorted(sorter.events, goals)
        return sorter.documents

    def decode_sorted(self, events: Mapping[SourceTable, list[TableEvents]], goals: Mapping[SourceTable, Goal]) -> None:
        """Decode events that are sorted by source table."""
        for source, parts in events.items():

            def decode(outcome: Outcome, some: list[TableEvents], source: SourceTable = source) -> None:
                replace(self, outcome=outcome)._decode_events(source, some, goals)

            with self.outcome.of(source):
                decode_bounded(self.outcome, parts, decode, halved, lambda some: int(some[0].texts.positions[0]))

    def _decode_events(self, source: SourceTable, parts: list[TableEvents], goals: Mapping[SourceTable, Goal]) -> None:
        if source not in goals:
            self._observe_unknown(source, parts)
            return
        match goals[source]:
            case None:
                self.outcome.skip(source, sum(len(part.ops) for part in parts))
            case Behind():
                self.outcome.count(tables_behind=sum(len(part.ops) for part in parts))
            case Rejection() as rejection:
                self._reject(source, rejection, parts)
            case target if target.paths and self.parts_documents:
                self._reject(source, Rejection(_NO_DOCUMENT), parts)
            case target:
                target = target.for_schema(None if self.schema is None else self.schema.by_name.keys())
                parts = [self._without_truncates(source, target, part) for part in parts]
                parts = [self._without_changes(source, target, part) for part in parts]
                parts = [self._with_fit_keys(source, target, part) for part in parts if len(part.ops)]
                self._decode_known(source, target, [part for part in parts if len(part.ops)])

    def _without_truncates(self, source: SourceTable, target: DecodeTarget, part: TableEvents) -> TableEvents:
        truncates = part.ops == TRUNCATE
        for index in np.flatnonzero(truncates).tolist():
            position = int(part.texts.positions[index])
            value = part.texts.parsed(index)
            if isinstance(value, MalformedRecord):
                self.outcome.quarantine(position, str(value))
                continue
            self.outcome.truncate(source, target, position, LETTERS[TRUNCATE])
        return part.chosen(~truncates)

    def _without_changes(self, source: SourceTable, target: DecodeTarget, part: TableEvents) -> TableEvents:
        """The inserts alone where a table without primary key takes nothing else."""
        if target.on_change in (None, "log"):
            return part
        changes = np.isin(part.ops, (UPDATE, DELETE))
        if not changes.any():
            return part
        op_name = LETTERS[part.ops[np.argmax(changes)]]
        self.outcome.pass_over_changes(source, target, part.texts.positions[changes], op_name)
        return part.chosen(~changes)

    def _with_fit_keys(self, source: SourceTable, target: DecodeTarget, part: TableEvents) -> TableEvents:
        """The events without those whose message key may be about other rows than the table's primary key."""
        rule, primary_key = target.keys, target.primary_key
        if rule is None:
            return part
        if rule.is_stated and not rule.first:
            self._observe_first_key(source, target, part)
        fit = which(self.keys, part.texts.positions, lambda fields: is_fit(fields, rule, primary_key))
        if fit.all():
            return part
        unfit = np.flatnonzero(~fit)
        codes = self.keys.codes(part.texts.positions[unfit])
        order = np.argsort(codes, kind="stable")
        for group in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
            members = unfit[group]
            fields = self.keys.fields[codes[group[0]]]
            if fields and self._columns_of(part.texts, int(members[0]), target) >= set(fields):
                position = int(part.texts.positions[members[0]])
                self.outcome.refuse(source, position, changed_key(fields, rule, primary_key))
                continue
            for position in part.texts.positions[members].tolist():
                self.outcome.quarantine(position, unusable_key(fields, rule, primary_key))
        return part.chosen(fit)

    def _observe_first_key(self, source: SourceTable, target: DecodeTarget, part: TableEvents) -> None:
        """Report the first message key of a source table whose records had none so far: later ones are held to it."""
        columns = {name for name, _ in target.columns}
        keyed = which(self.keys, part.texts.positions, lambda fields: bool(fields) and {*(fields or ())} <= columns)
        if keyed.any():
            first = int(part.texts.positions[keyed].min())
            fields = self.keys.fields[self.keys.codes(np.array([first]))[0]]
            self.outcome.observe(Observation(source, (), fields, self.partition, self.outcome.offset(first)))

    def _columns_of(self, texts: Records, index: int, target: DecodeTarget) -> set[str]:
        """The columns of the table, and those that one event shows."""
        shown = {name for image in images_of(texts.parsed(index)) for name in image}
        return shown | {name for name, _ in target.columns}

    def _observe_unknown(self, source: SourceTable, parts: list[TableEvents]) -> None:
        positions = np.concatenate([part.texts.positions for part in parts])
        self.outcome.count(unknown_tables=len(positions))
        self._observe_whole(source, *self._all_columns(positions), positions, parts)

    def _all_columns(self, positions: npt.NDArray[np.int64]) -> tuple[tuple[ObservedColumn, ...], Shapes]:
        """The columns of records, and the shapes of their rows if these are whole and have no schema."""
        if self.is_of_keys:
            return (), frozenset()
        rows = [] if self.schema is not None else list(self._exact_images(positions))
        columns = self._with_fine_times(all_columns(self.schema, rows, len(positions)), positions)
        return columns, shapes_of(rows) if self._has_whole_rows else frozenset()

    def _with_fine_times(
        self, columns: tuple[ObservedColumn, ...], positions: npt.NDArray[np.int64]
    ) -> tuple[ObservedColumn, ...]:
        """New columns of ISO timestamps as fine as their texts, which the schema does not say."""
        names = [] if self.schema is None else [c.name for c in self.schema.columns if c.is_iso_time]
        names = [column.name for column in columns if column.name in names and column.form is not None]
        if not names:
            return columns
        values = self.batch.column("value").take(pa.array(positions))
        fine = positions[np.asarray(pc.match_substring_regex(values, _FINE_TIME))]
        texts: dict[str, list[str]] = {name: [] for name in names}
        for image in self._exact_images(fine) if len(fine) else ():
            for name in names:
                texts[name] += [text for text in [image.get(name)] if isinstance(text, str)]
        return tuple(
            replace(c, type=iso_type(c.type, texts[c.name])) if c.name in texts and c.type is not None else c
            for c in columns
        )

    def _reject(self, source: SourceTable, rejection: Rejection, parts: list[TableEvents]) -> None:
        """Quarantine the records; if the table can still be created, report their columns and count its deletes."""
        if rejection.is_unmade:
            positions = np.concatenate([part.texts.positions for part in parts])
            columns, shapes = self._all_columns(positions)
            if columns:
                self._observe_whole(source, columns, shapes, positions, parts)
            if columns and rejection.is_empty and _has_rows(parts):
                self.outcome.count(unknown_tables=len(positions))  # they make the table, or give another reason
                return
        for part in parts:
            for index, position in enumerate(part.texts.positions.tolist()):
                value = part.texts.parsed(index)
                if isinstance(value, MalformedRecord):
                    self.outcome.quarantine(position, str(value))
                elif part.ops[index] in (DELETE, TRUNCATE):
                    if rejection.is_empty:
                        self.outcome.count(without_table=1)
                    else:
                        self.outcome.quarantine(position, rejection.reason)
                elif rejection.is_unmade and not images_of({"after": value.get("after")}):
                    self.outcome.quarantine(position, missing_row(LETTERS[part.ops[index]], value))
                else:
                    self.outcome.quarantine(position, rejection.reason)

    def _decode_known(self, source: SourceTable, target: DecodeTarget, parts: list[TableEvents]) -> None:
        plan = plan_columns(target, None if self.schema is None else self.schema.by_name, self.forms)
        log = self._event_log(parts, target) if target.needs_events else None
        rows = TableRows(source, self.partition, target, plan, self.hidden, self.outcome, log)
        read = (self._with_defaults(e, target) for part in parts for e in read_events(part, plan, self.outcome))
        found = [rows.storable(events) for events in read]
        events = [e for e in found if len(e.ops)]
        if not events:
            return
        pieces = [piece for e in events for piece in self._change_rows(e, rows)]
        converted = rows.add(pieces)
        told = told_forms(plan, self.schema, target, pieces, any(part.problems for part in converted))
        self._observe_known(rows, events, converted, told)

    def _with_defaults(self, events: Events, target: DecodeTarget) -> Events:
        return with_defaults(events, self.schema, [name for name, _ in target.columns], self.outcome, self.shape)

    def _event_log(self, parts: list[TableEvents], target: DecodeTarget) -> EventLog:
        log = EventLog(self.topic, self.partition, self.outcome.offsets, (*LETTERS, None))
        for part in parts:
            log.note(part.texts.positions, part.ops, source_times(part))
            if target.orders_by_position:
                kind = kind_of(target.forms.of(POSITION))
                fields = source_fields(part, fields_of(kind))
                log.note_positions(part.texts.positions, fields, part.ops == OPS["r"], kind)
            if target.tells_places:
                log.note_places(part.texts.positions, places(part))
        return log

    # ------------------------------------------------------------ change rows

    def _change_rows(self, events: Events, rows: TableRows) -> Iterator[ChangeRows]:
        target = rows.target
        events = self._with_known_keys(self._with_values_of_keys(events, target), target)
        keyed = (events.ops == DELETE) & lacks_key(events.before, target.primary_key)
        if keyed.any():
            yield from self._deletes_by_key(events.chosen(keyed), rows)
            events = events.chosen(~keyed)
        if len(events.ops):
            yield rows.change_rows(events)

    def _with_values_of_keys(self, events: Events, target: DecodeTarget) -> Events:
        return with_values_of_keys(events, target, self.schema, self.outcome, self.shape)

    def _with_known_keys(self, events: Events, target: DecodeTarget) -> Events:
        """The events without those that change a row whose key in the table is unknown."""
        if target.keys is None:
            return events
        key = set(target.primary_key)
        if not which(self.keys, events.positions, lambda fields: bool(fields) and not key <= set(fields or ())).any():
            return events
        fields = [self.keys.fields[code] for code in self.keys.codes(events.positions).tolist()]
        unknown = unknown_old_key(events, target, fields, self.schema, self.shape)
        kept = np.ones(len(events.ops), np.bool_)
        for index, reason in unknown.items():
            self.outcome.quarantine(int(events.positions[index]), reason)
            kept[index] = False
        return events.chosen(kept) if unknown else events

    def _deletes_by_key(self, events: Events, rows: TableRows) -> Iterator[ChangeRows]:
        """Deletes whose ``before`` does not hold the key: the message key does."""
        target = rows.target
        usable: list[int] = []
        images: list[Mapping[str, Any] | None] = []
        before = row_objects(events.before)
        for index, position in enumerate(events.positions.tolist()):
            key = unwrapped_key(self.outcome.parsed("key", position))
            if isinstance(key, dict) and all(key.get(name) is not None for name in target.primary_key):
                usable.append(index)
                images.append({**(before[index] or {}), **key})
            else:
                wanted = ", ".join(target.primary_key)
                lacking = f"neither before nor the message key has the key ({wanted})"
                if not target.primary_key:
                    lacking = "there is neither an old row in before nor a message key"
                reason = f"op d: {lacking}; let the source send whole old rows (PostgreSQL: REPLICA IDENTITY FULL)"
                if self.is_of_keys:
                    reason = (
                        f"the message key lacks part of the primary key ({wanted}), and such a key alone deletes no row"
                    )
                self.outcome.quarantine(position, reason)
        if usable:
            chosen = np.zeros(len(events.ops), np.bool_)
            chosen[usable] = True
            kept = events.chosen(chosen)
            yield rows.change_rows(Events(kept.positions, kept.ops, images, [None] * len(images)))

    # ------------------------------------------------------------ observations

    def _observe_known(
        self, rows: TableRows, events: list[Events], converted: list[ConvertedRows], forms: Mapping[str, str]
    ) -> None:
        source, target = rows.source, rows.target
        positions = np.concatenate([e.positions for e in events])
        beyond = self._beyond_schema(events)
        self._note_newest(source, target, events, beyond)
        columns: tuple[ObservedColumn, ...] = ()
        shapes: Shapes = frozenset()
        telling = positions[:0]
        if self.is_of_keys:
            pass
        elif self.schema is not None:
            changed = changed_by_schema(self.schema, target, len(positions))
            columns, telling = self._with_fine_times(changed, positions), positions
            if any(target.is_news(name) for name in beyond - {name for name, _ in target.columns}):
                rest = [{n: v for n, v in row.items() if n in beyond} for row in self._exact_images(positions)]
                columns += changed_by_values(rest, target, self.forms)
        else:
            telling = rows.telling(events, converted)
            if len(telling):
                images = list(self._exact_images(telling))
                columns = changed_by_values(images, target, self.forms)
                if self._has_whole_rows and shows_news(images, target):
                    shapes = shapes_of(self._exact_images(positions, len(positions)))
        columns = tuple(replace(c, name=target.called_now(c.name)) for c in with_forms(columns, forms, target))
        schemas = self._shown_schemas(positions) if target.tells_schemas else ()
        if columns or schemas:
            self._observe(source, columns, telling if len(telling) else positions, schemas=schemas, shapes=shapes)

    def _shown_schemas(self, positions: npt.NDArray[np.int64]) -> tuple[ShownSchema, ...]:
        if self.schema is None or self.is_of_keys:
            return ()
        first = int(positions.min())
        time_ms = timestamp_ms_of(self.batch, first)
        columns = tuple((c.name, c.type) for c in self.schema.columns)
        offset = self.outcome.offset(first)
        firsts = {place_key(self.topic, self.partition): (offset, time_ms)}
        return (ShownSchema(columns, time_ms, self.partition, offset, firsts),)

    def _beyond_schema(self, events: list[Events]) -> set[str]:
        """Fields with values that rows have although their schema lacks them: no converter of Connect writes such."""
        if self.schema is None or self.is_of_keys:
            return set()
        told = self.schema.by_name.keys()
        images = [rows for e in events for rows in (e.before, e.after)]
        names = [(rows, name) for rows in images for name in field_names(rows) if name not in told]
        return {name for rows, name in names if not is_null(image_column(rows, name)).all()}

    def _note_newest(
        self, source: SourceTable, target: DecodeTarget, events: list[Events], beyond: AbstractSet[str]
    ) -> None:
        """Report the columns that the newest row does not have at all.

        Debezium's envelopes have those that are NULL too; rows without envelope and schema, and documents, may leave
        these out.
        """
        if self.is_of_keys:
            return
        rows = [e.positions if self.schema is not None else e.positions[e.ops != DELETE] for e in events]
        newest = max((int(positions.max()) for positions in rows if len(positions)), default=None)
        if newest is None:
            return
        shown = set() if self.schema is None else {c.name for c in self.schema.columns} | beyond
        if self.schema is None or target.lacked_by(shown):  # a field that the schema lacks may be NULL
            shown |= {name for image in self._exact_images(np.array([newest])) for name in image}
        columns = () if self.schema is None else self.schema.columns
        comments = {target.called_now(c.name): c.comment for c in columns if c.comment is not None}
        is_whole = self._has_whole_rows
        self.outcome.note_newest(source, target, newest, shown, comments, is_whole=is_whole)

    @property
    def _has_whole_rows(self) -> bool:
        """Whether rows have every column of their source."""
        return self.schema is not None or (self.shape.has_old_rows and not self.are_documents)

    def _observe_whole(
        self,
        source: SourceTable,
        columns: tuple[ObservedColumn, ...],
        shapes: Shapes,
        positions: npt.NDArray[np.int64],
        parts: list[TableEvents],
    ) -> None:
        """Report a source table without a table, with the message key fields that are not among ``columns``."""
        names = {column.name for column in columns}
        keys = [key for key in self._some_keys(positions) if isinstance(key.value, dict)]
        beyond = ({name: value for name, value in key.value.items() if name not in names} for key in keys)
        schema = next((key.schema for key in keys if key.schema is not None), None)
        key_only = tuple(c for c in all_columns(schema, beyond, len(keys)) if c.name not in names)
        schemas = self._shown_schemas(positions)
        self._observe(source, columns, positions, key_only, schemas, has_rows=_has_rows(parts), shapes=shapes)

    def _observe(
        self,
        source: SourceTable,
        columns: tuple[ObservedColumn, ...],
        positions: npt.NDArray[np.int64],
        key_only: tuple[ObservedColumn, ...] = (),
        schemas: tuple[ShownSchema, ...] = (),
        *,
        has_rows: bool = True,
        shapes: Shapes = frozenset(),
    ) -> None:
        first = self.outcome.offset(int(positions.min()))
        fields = next((key_fields(key.value) for key in self._some_keys(positions)), None)
        self.outcome.observe(
            Observation(source, columns, fields, self.partition, first, key_only, has_rows, schemas, shapes)
        )

    def _some_keys(self, positions: npt.NDArray[np.int64]) -> Iterator[MessageKey]:
        """The message keys of the first records that have one."""
        for position in np.sort(positions)[:_MOST_KEYS].tolist():
            key = key_at(self.outcome, position)
            if key.value is not None:
                yield key

    def _exact_images(self, positions: npt.NDArray[np.int64], most: int = _MOST_SAMPLED) -> Iterator[Mapping[str, Any]]:
        """Row images of records, parsed exactly, NULL for values not sent; evenly spaced ones if there are more."""
        step = -(-len(positions) // most)
        for position in np.sort(positions)[::step].tolist():
            for image in images_of(self.shape.event(unwrapped(self.outcome.parsed("value", position)))):
                yield {name: None if self.hidden.is_in(value) else value for name, value in image.items()}


def _has_rows(parts: list[TableEvents]) -> bool:
    """Whether there are other events than deletes and truncates."""
    return any(not np.isin(part.ops, (DELETE, TRUNCATE)).all() for part in parts)
