"""Decoding rows without envelope that are sorted by source table, and deletes that have only a message key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sources.changes import SourceTable
from sources.debezium_json.event_sorting import TableEvents
from sources.debezium_json.message_keys import KeyForms
from sources.debezium_json.policies import DebeziumPolicies
from sources.debezium_json.record_shapes import RecordShape
from sources.debezium_json.table_decoding import TableDecoding
from sources.decode_target import DecodeTarget, Goal
from sources.json_changes.embedded_schema import EmbeddedSchema, SchemaCutter
from sources.json_changes.gaps import Gaps
from sources.json_changes.outcome import Outcome
from sources.json_changes.partitions import topic_partitions
from sources.json_changes.text_parts import are_utf8
from sources.upsert_json.metadata import NO_METADATA, TIMES, WHOLE_ROWS, Metadata, Role
from sources.upsert_json.record_headers import RecordHeaders
from sources.upsert_json.row_sorting import header_times_ms
from sources.upsert_json.source_names import RowNames, known_as, tables_of_topic
from sources.upsert_json.tombstones import deleted_rows
from sources.values.value_forms import ValueForms

Positions = npt.NDArray[np.int64]

_NO_TIME = (
    "history: scd2: a record without a value does not show when the source deleted the row. Let the connector "
    "write deletes as rows (delete.tombstone.handling.mode=rewrite), and set `on_tombstone: skip`. If rows carry "
    "no time of the source either, name their metadata fields in `add_fields`, such as `add_fields: op`"
)

_NO_OPENING = b"\x00"
"""Begins no JSON text."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows that share a schema (None: no schema), by source table."""

    events: Mapping[SourceTable, list[TableEvents]]
    schema: EmbeddedSchema | None
    shape: RecordShape


class RowReading(Protocol):
    """The values of one batch of records as rows."""

    def rows_of(self, topic: str, positions: Positions) -> tuple[list[RowGroup], Positions]:
        """The rows of the records of one topic partition, and the positions of records without a value.

        All other records go to quarantine or are counted.
        """
        ...


Deleting: TypeAlias = Callable[[str, Positions], Positions]
"""The records without a value, by position, that delete the row of their key; counts the others."""


@dataclass(frozen=True, slots=True)
class RowDecoding:
    """Decodes the rows of a batch into an outcome."""

    batch: pa.RecordBatch
    targets: Mapping[SourceTable, Goal]
    forms: ValueForms
    hidden: Gaps
    keys: KeyForms
    headers: RecordHeaders
    in_headers: Metadata
    outcome: Outcome
    in_rows: Metadata = NO_METADATA

    def decode(self, reading: RowReading, deleting: Deleting) -> None:
        """Decode all records: rows first, because they show which source tables exist."""
        parts = []
        found: dict[SourceTable, None] = {}
        for topic, partition, positions in topic_partitions(self.batch):
            groups, nulls = reading.rows_of(topic, positions)
            parts.append((_Partition(self, topic, partition, positions), groups, np.sort(deleting(topic, nulls))))
            for group in groups:
                found |= dict.fromkeys(group.events)
        cutter = SchemaCutter(lambda struct: struct, _NO_OPENING)
        for part, groups, deletes in parts:
            for group in groups:
                part.decode(group, found)
            part.delete(deletes, found, cutter)


@dataclass(frozen=True, slots=True)
class _Partition:
    """Decodes the records of one topic partition."""

    of: RowDecoding
    topic: str
    partition: int
    positions: Positions

    def decode(self, group: RowGroup, found: Mapping[SourceTable, None]) -> None:
        """Decode rows; ``found`` are the source tables of all rows of the batch."""
        by_known: dict[SourceTable, list[TableEvents]] = {}
        for source, parts in group.events.items():
            by_known.setdefault(known_as(source, found, self.of.targets), []).extend(parts)
        self._decoding(group.schema, group.shape).decode_sorted(by_known, self.of.targets)

    def delete(self, positions: Positions, found: Mapping[SourceTable, None], cutter: SchemaCutter) -> None:
        """Delete the rows of the message keys at ``positions``; ``found`` are the source tables of all rows."""
        outcome = self.of.outcome
        readable = are_utf8(outcome.keys_at(positions))
        for position in positions[~readable].tolist():
            outcome.quarantine(position, "the message key is not UTF-8 text, so it does not identify the row to delete")
        for source, members in self._tables_of(positions[readable], found):
            goal, times = self.of.targets.get(source), header_times_ms(self.of.in_headers, self.of.headers, members)
            if self._orders_by_other_times(goal):
                for position in members[np.asarray(times.is_null())].tolist():
                    outcome.quarantine(position, _NO_TIME)
                members, times = members[np.asarray(times.is_valid())], times.drop_null()
            for part in deleted_rows(outcome.keys_at(members), members, times, goal, cutter):
                decoding = replace(self._decoding(part.schema, WHOLE_ROWS), is_of_keys=True)
                decoding.decode_sorted({source: [part.events]}, self.of.targets)

    def _orders_by_other_times(self, goal: Goal) -> bool:
        """Whether rows may have the time in the source, which a record without a value lacks: its own time is later.

        In a table that orders versions by time, its delete would end a version that the source created since.
        """
        keeps_versions = isinstance(goal, DecodeTarget) and goal.versions is not None
        if not keeps_versions or not TIMES.keys().isdisjoint(self.of.in_rows.roles.values()):
            return keeps_versions
        of_headers = header_times_ms(self.of.in_headers, self.of.headers, self.positions)
        return bool(of_headers.null_count < len(of_headers))

    def _decoding(self, schema: EmbeddedSchema | None, shape: RecordShape) -> TableDecoding:
        of = self.of
        return TableDecoding(
            of.batch, self.topic, self.partition, schema, DebeziumPolicies(), of.forms, of.hidden, of.keys, of.outcome,
            shape,
        )  # fmt: skip

    def _tables_of(
        self, positions: Positions, found: Mapping[SourceTable, None]
    ) -> Sequence[tuple[SourceTable, Positions]]:
        """The source tables of records without a value, with the positions of these."""
        targets = self.of.targets
        candidates = tables_of_topic(self.topic, [s for s in found if s.topic == self.topic], targets)
        names = [self._header_texts(role) for role in (Role.DATABASE, Role.SCHEMA, Role.TABLE)]
        if names[-1] is None and len(candidates) == 1:
            return [(candidates[0], positions)] if len(positions) else []
        by_table: dict[SourceTable, list[int]] = {}
        for position in positions.tolist():
            database, schema, table = (None if texts is None else texts[position].as_py() for texts in names)
            if table is not None:
                named = known_as(RowNames(self.topic).table_of(database, schema, table), found, targets)
                by_table.setdefault(named, []).append(position)
            elif len(candidates) == 1:
                by_table.setdefault(candidates[0], []).append(position)
            else:
                tables = ", ".join(sorted(source.table for source in candidates))
                reason = (
                    f"the message key does not say which of the tables of the topic ({tables}) the record without a"
                    " value deletes from. Let the connector write add.headers=table, or rewrite deletes and set"
                    " on_tombstone: skip"
                )
                self.of.outcome.quarantine(position, reason)
        return [(source, np.array(members, np.int64)) for source, members in by_table.items()]

    def _header_texts(self, role: Role) -> pa.Array | None:
        found = (self.of.headers.texts(name) for name in self.of.in_headers.named(role))
        return next((texts for texts in found if texts is not None), None)
