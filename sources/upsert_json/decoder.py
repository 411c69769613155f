"""The decoder of rows keyed by their message: the value is the row, no value deletes it.

records of one topic partition
  -> texts are grouped by embedded schema, payloads are cut out
  -> rows are sorted by source table and operation, which metadata fields and headers tell
  -> rows become change rows, as the images of envelopes do
  -> records without a value delete the rows of their keys
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sources.changes import Decoded, Goal, SourceTable
from sources.debezium_json.event_sorting import TableEvents
from sources.debezium_json.message_keys import MessageKeys
from sources.debezium_json.moved_keys import with_other_keys
from sources.debezium_json.placeholders import Placeholder, placeholder
from sources.debezium_json.policies import DebeziumPolicies
from sources.debezium_json.present_texts import present_texts
from sources.debezium_json.record_shapes import RecordShape
from sources.debezium_json.table_decoding import TableDecoding
from sources.debezium_json.texts import Texts
from sources.json_changes.embedded_schema import EmbeddedSchema, SchemaCutter
from sources.json_changes.outcome import Outcome
from sources.json_changes.partitions import topic_partitions
from sources.json_changes.text_parts import are_utf8
from sources.upsert_json.metadata import FlatRows, KeyRows, Metadata, Role, metadata
from sources.upsert_json.policies import UpsertPolicies
from sources.upsert_json.record_headers import RecordHeaders
from sources.upsert_json.row_sorting import RowSorter
from sources.upsert_json.source_names import RowNames, known_as, tables_of_topic
from sources.upsert_json.tombstones import deleted_rows
from sources.values.value_forms import ValueForms

_NO_OPENING = b"\x00"
"""Begins no JSON text."""
_OPENING = re.compile(rb'\{"(?!schema"|payload")[^"\\]+":')
"""How a row begins that cannot be a wrapper of a schema and a payload."""


class UpsertJsonDecoder:
    """Decoder of rows without envelope. Picklable; remembers embedded schemas as a cache."""

    def __init__(self, policies: UpsertPolicies | None = None, forms: ValueForms | None = None) -> None:
        self.policies = policies or UpsertPolicies()
        self.forms = forms or ValueForms()
        self._shape = FlatRows(
            metadata(self.policies.add_fields_prefix, self.policies.add_fields), self.policies.metadata == "keep"
        )
        self._in_headers = metadata(self.policies.add_headers_prefix, "auto")
        self._cutter = SchemaCutter(self._shape.row_of_struct, _NO_OPENING)
        self._key_cutter = SchemaCutter(lambda struct: struct, _NO_OPENING)
        self._hidden = placeholder(self.policies.unavailable_value)

    def __reduce__(self) -> tuple[type[UpsertJsonDecoder], tuple[UpsertPolicies, ValueForms]]:
        return UpsertJsonDecoder, (self.policies, self.forms)

    def decode(self, batch: pa.RecordBatch, targets: Mapping[SourceTable, Goal]) -> Decoded:
        """See ``sources.changes.Decoder``."""
        outcome = Outcome(batch)
        keys, headers = MessageKeys(batch.column("key")), RecordHeaders(batch)
        parts = []
        found: dict[SourceTable, None] = {}
        for topic, partition, positions in topic_partitions(batch):
            part = _Partition(batch, topic, partition, targets, self.forms, self._hidden, keys, headers, outcome)
            texts, nulls = present_texts(batch, positions, outcome)
            sorters: list[tuple[RowSorter, EmbeddedSchema | None]] = []
            for group in self._cutter.split(texts.values, _opening(texts.values)):
                if group.problem is not None:
                    for position in texts.positions[group.indices].tolist():
                        outcome.quarantine(position, group.problem)
                    continue
                sorter = RowSorter(topic, self._shape, self._in_headers, headers, outcome)
                sorter.sort(Texts(group.payloads, texts.positions[group.indices]))
                sorters.append((sorter, group.schema))
                found |= dict.fromkeys(sorter.events)
                nulls = np.concatenate([nulls, np.array(sorter.deleted, np.int64)])
            parts.append((part, sorters, self._deleting(batch, np.sort(nulls), outcome)))
        for part, sorters, deleting in parts:
            for sorter, schema in sorters:
                part.decode(sorter.events, schema, self._shape, found)
            part.delete(deleting, found, self._in_headers, self._key_cutter)
        decoded = outcome.decoded()
        return replace(decoded, changes=with_other_keys(batch, decoded.changes, targets))

    def _deleting(self, batch: pa.RecordBatch, nulls: npt.NDArray[np.int64], outcome: Outcome) -> npt.NDArray[np.int64]:
        """The records without a value that delete a row; the others are tombstones."""
        keyed = np.asarray(batch.column("key").take(pa.array(nulls)).is_valid())
        deleting: npt.NDArray[np.int64] = nulls[keyed]
        if self.policies.on_tombstone == "skip":
            deleting = nulls[:0]
        outcome.count(tombstones=len(nulls) - len(deleting))
        return deleting


@dataclass(frozen=True, slots=True)
class _Partition:
    """Decodes the records of one topic partition, once they are sorted."""

    batch: pa.RecordBatch
    topic: str
    partition: int
    targets: Mapping[SourceTable, Goal]
    forms: ValueForms
    hidden: Placeholder
    keys: MessageKeys
    headers: RecordHeaders
    outcome: Outcome

    def decode(
        self,
        events: Mapping[SourceTable, list[TableEvents]],
        schema: EmbeddedSchema | None,
        shape: RecordShape,
        found: Mapping[SourceTable, None],
    ) -> None:
        """Decode rows; ``found`` are the source tables of all rows of the batch."""
        by_known: dict[SourceTable, list[TableEvents]] = {}
        for source, parts in events.items():
            by_known.setdefault(known_as(source, found, self.targets), []).extend(parts)
        self._decoding(schema, shape).decode_sorted(by_known, self.targets)

    def delete(
        self,
        positions: npt.NDArray[np.int64],
        found: Mapping[SourceTable, None],
        in_headers: Metadata,
        cutter: SchemaCutter,
    ) -> None:
        """Delete the rows of the message keys at ``positions``; ``found`` are the source tables of all rows."""
        readable = are_utf8(self.batch.column("key").take(pa.array(positions)))
        for position in positions[~readable].tolist():
            self.outcome.quarantine(position, "the message key is not UTF-8 text, so it does not say what to delete")
        for source, members in self._tables_of(positions[readable], found, in_headers):
            keys = self.batch.column("key").take(pa.array(members))
            for part in deleted_rows(keys, members, self.targets.get(source), cutter):
                decoding = replace(self._decoding(part.schema, KeyRows()), is_of_keys=True)
                decoding.decode_sorted({source: [part.events]}, self.targets)

    def _decoding(self, schema: EmbeddedSchema | None, shape: RecordShape) -> TableDecoding:
        policies = DebeziumPolicies()
        return TableDecoding(
            self.batch, self.topic, self.partition, schema, policies, self.forms, self.hidden, self.keys, self.outcome,
            shape,
        )  # fmt: skip

    def _tables_of(
        self, positions: npt.NDArray[np.int64], found: Mapping[SourceTable, None], in_headers: Metadata
    ) -> list[tuple[SourceTable, npt.NDArray[np.int64]]]:
        """The source tables of records without a value, with the positions of these."""
        candidates = tables_of_topic(self.topic, [s for s in found if s.topic == self.topic], self.targets)
        names = [_header_texts(self.headers, in_headers, role) for role in (Role.DATABASE, Role.SCHEMA, Role.TABLE)]
        if names[-1] is None and len(candidates) == 1:
            return [(candidates[0], positions)] if len(positions) else []
        by_table: dict[SourceTable, list[int]] = {}
        for position in positions.tolist():
            database, schema, table = (None if texts is None else texts[position].as_py() for texts in names)
            if table is not None:
                named = known_as(RowNames(self.topic).table_of(database, schema, table), found, self.targets)
                by_table.setdefault(named, []).append(position)
            elif len(candidates) == 1:
                by_table.setdefault(candidates[0], []).append(position)
            else:
                tables = ", ".join(sorted(source.table for source in candidates))
                reason = (
                    f"the message key does not say which of the tables of the topic ({tables}) the record without a"
                    " value deletes from: let the connector write add.headers=table, or rewrite deletes and set"
                    " on_tombstone: skip"
                )
                self.outcome.quarantine(position, reason)
        return [(source, np.array(members, np.int64)) for source, members in by_table.items()]


def _header_texts(headers: RecordHeaders, in_headers: Metadata, role: Role) -> pa.Array | None:
    found = (headers.texts(name) for name in in_headers.named(role))
    return next((texts for texts in found if texts is not None), None)


def _opening(texts: pa.Array) -> bytes:
    """How rows begin that have no schema around them for sure, as far as the first one shows."""
    found = _OPENING.match(texts[0].as_py()) if len(texts) else None
    return _NO_OPENING if found is None else found[0]
