"""Decoding the payloads of one topic partition that share an embedded schema (or have none)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sources.changes import Observation, ObservedColumn, SourceTable
from sources.debezium_json.absent_fields import with_defaults
from sources.debezium_json.envelopes import images_of, unwrapped, unwrapped_key
from sources.debezium_json.event_reading import read_events
from sources.debezium_json.event_sorting import EventSorter, TableEvents
from sources.debezium_json.key_check import unknown_old_key, unusable_key
from sources.debezium_json.key_values import MessageKey, key_at, with_values_of_keys
from sources.debezium_json.message_keys import KeyForms, by_form, which
from sources.debezium_json.ops import LETTERS
from sources.debezium_json.policies import DebeziumPolicies
from sources.debezium_json.record_shapes import ENVELOPES, RecordShape
from sources.debezium_json.source_fields import places, source_fields
from sources.debezium_json.source_times import source_times
from sources.debezium_json.strange_values import missing_row
from sources.debezium_json.texts import Records, SourceNames, Texts
from sources.decode_target import DecodeTarget, Goal, KeyFields, KeyRule, Rejection
from sources.json_changes.change_rows import (
    DELETE,
    SNAPSHOT,
    ChangeRows,
    Events,
    Mask,
    OldRowRule,
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
from sources.json_changes.goal_decoding import decode_for_goal
from sources.json_changes.lacking_records import lacking_records
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
from sources.json_changes.outcome import Outcome
from sources.json_changes.row_conversion import ConvertedRows
from sources.json_changes.table_rows import TableRows
from sources.position_kinds import POSITION, fields_of, kind_of
from sources.values.inference import iso_type
from sources.values.value_forms import ValueForms

_MOST_SAMPLED = 10_000
_FINE_TIME = r":[0-9]{2}\.[0-9]{7}"
"""Seconds with more digits than microseconds have."""
_MOST_KEYS = 100
_NO_DOCUMENT = (
    "columns.paths of the rule reads documents of MongoDB, but this event comes from another database. Remove "
    "`paths`, or give the table a separate rule"
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
    op_names: ClassVar[Sequence[str]] = LETTERS
    key_words: ClassVar[str] = "its message key"

    def decode(self, texts: Texts, goals: Mapping[SourceTable, Goal]) -> list[Records]:
        """Decode all texts, one source table after the other; returns those that it does not decode."""
        names = SourceNames(self.topic)
        sorter = EventSorter(names, self.policies, self.outcome, parts_documents=self.parts_documents)
        sorter.sort(texts)
        self.decode_sorted(sorter.events, goals)
        return sorter.documents

    def decode_sorted(self, events: Mapping[SourceTable, list[TableEvents]], goals: Mapping[SourceTable, Goal]) -> None:
        """Decode events that are sorted by source table."""
        for source, parts in events.items():
            with self.outcome.of(source):
                decode_for_goal(self, source, parts, goals)

    # ------------------------------------------------------------ see ``TableFormat``

    def into(self, outcome: Outcome) -> TableDecoding:
        return replace(self, outcome=outcome)

    def fitted(self, target: DecodeTarget) -> DecodeTarget | Rejection:
        if target.paths and self.parts_documents:
            return Rejection(_NO_DOCUMENT)
        return target.for_schema(None if self.schema is None else self.schema.by_name.keys())

    def event(self, part: TableEvents, index: int) -> Any:
        return part.texts.parsed(index)

    def images(self, event: Any) -> Sequence[Mapping[str, Any]]:
        return images_of(event)

    def missing_row(self, op: int, event: Any) -> str | None:
        has_row = op == DELETE or images_of({"after": event.get("after")})
        return None if has_row else missing_row(LETTERS[op], event)

    def keys_of(self, part: TableEvents, columns: set[str]) -> Iterator[tuple[KeyFields, Mask]]:
        return by_form(self.keys.codes(part.positions), self.keys.fields)

    def unusable_key(self, fields: KeyFields, rule: KeyRule, primary_key: Sequence[str]) -> str:
        return unusable_key(fields, rule, primary_key)

    def observed(self, source: SourceTable, parts: Sequence[TableEvents]) -> Observation:
        """All columns, and the message key fields that are not among them."""
        positions = np.concatenate([part.positions for part in parts])
        columns, shapes = self._all_columns(positions)
        names = {column.name for column in columns}
        keys = [key for key in self._some_keys(positions) if isinstance(key.value, dict)]
        beyond = ({name: value for name, value in key.value.items() if name not in names} for key in keys)
        schema = next((key.schema for key in keys if key.schema is not None), None)
        key_only = tuple(c for c in all_columns(schema, beyond, len(keys)) if c.name not in names)
        self._note_schema(source, positions)
        return replace(self._observation(source, columns, positions, shapes), key_only=key_only)

    def decode_known(self, source: SourceTable, target: DecodeTarget, parts: Sequence[TableEvents]) -> None:
        if target.nullable_key and not self.shape.has_old_rows:
            target = replace(target, nullable_key=frozenset())
        plan = plan_columns(target, None if self.schema is None else self.schema.by_name, self.forms)
        log = self._event_log(parts, target) if target.needs_events else None
        rows = TableRows(source, self.partition, target, plan, self.hidden, self.outcome, self._lacks, log)
        has_partial_keys = any(self._have_partial_keys(part.positions, target) for part in parts)
        rule = None
        if not (target.emit_update_before or has_partial_keys):
            rule = OldRowRule(target.primary_key, [name for name, _ in target.columns], self.hidden)
        read = (events for part in parts for events in read_events(part, plan, self.outcome, rule))
        found = [rows.storable(with_defaults(e, self.schema, target, self.outcome, self.shape)) for e in read]
        events = [e for e in found if len(e.ops)]
        if not events:
            return
        pieces = [piece for e in events for piece in self._change_rows(e, rows, has_partial_keys)]
        converted = rows.add(pieces)
        told = told_forms(plan, self.schema, target, pieces, any(part.problems for part in converted))
        self._observe_known(rows, events, converted, told)

    def _lacks(self, name: str, positions: npt.NDArray[np.int64]) -> Mask:
        if self.schema is not None or self.is_of_keys:
            return np.full(len(positions), self.schema is None or name not in self.schema.by_name)
        return lacking_records(
            name, positions, self.outcome, lambda value: images_of(self.shape.event(unwrapped(value)))
        )

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

    def _event_log(self, parts: Sequence[TableEvents], target: DecodeTarget) -> EventLog:
        log = EventLog(self.topic, self.partition, self.outcome.offsets, (*LETTERS, None))
        for part in parts:
            log.note(part.positions, part.ops, source_times(part))
            if target.orders_by_position:
                kind = kind_of(target.forms.of(POSITION))
                fields = source_fields(part, fields_of(kind))
                log.note_positions(part.positions, fields, part.ops == SNAPSHOT, kind)
            if target.tells_places:
                log.note_places(part.positions, places(part))
        return log

    # ------------------------------------------------------------ change rows

    def _change_rows(self, events: Events, rows: TableRows, has_partial_keys: bool) -> Iterator[ChangeRows]:
        target = rows.target
        events = with_values_of_keys(events, target, self.schema, self.outcome, self.shape)
        if has_partial_keys:
            events = self._with_known_keys(events, target)
        keyed = (events.ops == DELETE) & self._lacks_old_key(events, target)
        if keyed.any():
            yield from self._deletes_by_key(events.chosen(keyed), rows)
            events = events.chosen(~keyed)
        if len(events.ops):
            yield rows.change_rows(events)

    def _lacks_old_key(self, events: Events, target: DecodeTarget) -> Mask:
        """The events whose old row lacks columns of the key, NULL or not at all.

        NULL is a value in columns that only the key's expressions read, if the old row has them.
        """
        lacking = lacks_key(events.before, target.primary_key)
        if not target.nullable_key:
            return lacking
        for index in np.flatnonzero(lacking & ~lacks_key(events.before, target.certain_key)).tolist():
            event = self.shape.event(unwrapped(self.outcome.parsed("value", int(events.positions[index]))))
            old = event.get("before") if isinstance(event, Mapping) else None
            lacking[index] = not (isinstance(old, Mapping) and target.nullable_key <= old.keys())
        return lacking

    def _with_known_keys(self, events: Events, target: DecodeTarget) -> Events:
        """The events except those that change a row whose key in the table is unknown."""
        fields = [self.keys.fields[code] for code in self.keys.codes(events.positions).tolist()]
        lacking = self._lacks_old_key(events, target)
        unknown = unknown_old_key(events, target, fields, lacking, self.schema, self.shape)
        kept = np.ones(len(events.ops), np.bool_)
        for index, reason in unknown.items():
            self.outcome.quarantine(int(events.positions[index]), reason)
            kept[index] = False
        return events.chosen(kept) if unknown else events

    def _have_partial_keys(self, positions: npt.NDArray[np.int64], target: DecodeTarget) -> bool:
        """Whether the message key of a record lacks part of the table's key."""
        key = set(target.primary_key)
        if target.keys is None:
            return False
        return bool(which(self.keys, positions, lambda fields: bool(fields) and not key <= set(fields or ())).any())

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
                        f"the message key lacks part of the primary key ({wanted}), so it does not identify the row "
                        "to delete"
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
        columns = with_forms(columns, forms, target)
        has_schema = target.tells_schemas and self._note_schema(source, positions)
        if columns or has_schema:
            told_by = telling if len(telling) else positions
            self.outcome.observe(self._observation(source, columns, told_by, shapes))

    def _note_schema(self, source: SourceTable, positions: npt.NDArray[np.int64]) -> bool:
        if self.schema is None or self.is_of_keys:
            return False
        columns = tuple((c.name, c.type) for c in self.schema.columns)
        self.outcome.note_schema(source, self.partition, columns, positions)
        return True

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

        Debezium's envelopes have columns that are NULL; rows without envelope and schema, and documents, may omit them.
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

    def _observation(
        self,
        source: SourceTable,
        columns: tuple[ObservedColumn, ...],
        positions: npt.NDArray[np.int64],
        shapes: Shapes,
    ) -> Observation:
        first = self.outcome.offset(int(positions.min()))
        fields = next((key_fields(key.value) for key in self._some_keys(positions)), None)
        return Observation(source, columns, fields, self.partition, first, shapes=shapes)

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
