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
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sources.changes import Decoded, Goal, SourceTable
from sources.debezium_json.message_keys import MessageKeys
from sources.debezium_json.moved_keys import with_other_keys
from sources.debezium_json.placeholders import placeholder
from sources.debezium_json.policies import DebeziumPolicies
from sources.debezium_json.present_texts import present_texts
from sources.debezium_json.record_shapes import RecordShape
from sources.debezium_json.table_decoding import TableDecoding
from sources.debezium_json.texts import Texts
from sources.json_changes.embedded_schema import EmbeddedSchema, SchemaCutter
from sources.json_changes.outcome import Outcome
from sources.json_changes.partitions import topic_partitions
from sources.upsert_json.metadata import FlatRows, KeyRows, Role, metadata
from sources.upsert_json.policies import UpsertPolicies
from sources.upsert_json.record_headers import RecordHeaders
from sources.upsert_json.row_sorting import RowNames, RowSorter
from sources.upsert_json.tombstones import deleted_rows, tables_of_topic
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
        for topic, partition, positions in topic_partitions(batch):
            texts, nulls = present_texts(batch, positions, outcome)
            sorted_groups: list[tuple[EmbeddedSchema | None, RowSorter]] = []
            for group in self._cutter.split(texts.values, _opening(texts.values)):
                if group.problem is not None:
                    for position in texts.positions[group.indices].tolist():
                        outcome.quarantine(position, group.problem)
                    continue
                sorter = RowSorter(topic, self._shape, self._in_headers, headers, outcome)
                sorter.sort(Texts(group.payloads, texts.positions[group.indices]))
                sorted_groups.append((group.schema, sorter))
                nulls = np.concatenate([nulls, np.array(sorter.deleted, np.int64)])

            def decoding(
                schema: EmbeddedSchema | None, shape: RecordShape, topic: str = topic, partition: int = partition
            ) -> TableDecoding:
                return TableDecoding(
                    batch, topic, partition, schema, DebeziumPolicies(), self.forms, self._hidden, keys, outcome, shape
                )

            for schema, sorter in sorted_groups:
                decoding(schema, self._shape).decode_sorted(sorter.events, targets)
            found = {source: None for _, sorter in sorted_groups for source in sorter.events}
            for source, deleted in self._deleted(batch, topic, np.sort(nulls), found, targets, headers, outcome):
                for part in deleted_rows(
                    batch.column("key").take(pa.array(deleted)), deleted, targets.get(source), self._key_cutter
                ):
                    of_keys = replace(decoding(part.schema, KeyRows()), is_of_keys=True)
                    of_keys.decode_sorted({source: [part.events]}, targets)
        decoded = outcome.decoded()
        return replace(decoded, changes=with_other_keys(batch, decoded.changes, targets))

    def _deleted(
        self,
        batch: pa.RecordBatch,
        topic: str,
        nulls: npt.NDArray[np.int64],
        found: Mapping[SourceTable, object],
        targets: Mapping[SourceTable, Goal],
        headers: RecordHeaders,
        outcome: Outcome,
    ) -> list[tuple[SourceTable, npt.NDArray[np.int64]]]:
        """The source tables of records without a value, with the positions of these; the others are dealt with."""
        keyed = np.asarray(batch.column("key").take(pa.array(nulls)).is_valid())
        if self.policies.on_tombstone == "skip":
            keyed = np.zeros(len(nulls), np.bool_)
        outcome.count(tombstones=len(nulls) - int(keyed.sum()))
        nulls = nulls[keyed]
        by_table: dict[SourceTable, list[int]] = {}
        candidates = tables_of_topic(topic, found, targets)
        names = {role: self._header_texts(headers, role) for role in (Role.DATABASE, Role.SCHEMA, Role.TABLE)}
        if names[Role.TABLE] is None and len(candidates) == 1:
            return [(candidates[0], nulls)] if len(nulls) else []
        for position in nulls.tolist():
            database, schema, table = (None if t is None else t[position].as_py() for t in names.values())
            if table is not None:
                by_table.setdefault(RowNames(topic).table_of(database, schema, table), []).append(position)
            elif len(candidates) == 1:
                by_table.setdefault(candidates[0], []).append(position)
            else:
                tables = ", ".join(sorted(source.table for source in candidates))
                outcome.quarantine(
                    position,
                    f"the message key does not say which of the tables of the topic ({tables}) the record without a"
                    " value deletes from: let the connector write add.headers=table, or rewrite deletes and set"
                    " on_tombstone: skip",
                )
        return [(source, np.array(positions, np.int64)) for source, positions in by_table.items()]

    def _header_texts(self, headers: RecordHeaders, role: Role) -> pa.Array | None:
        found = (headers.texts(name) for name in self._in_headers.named(role))
        return next((texts for texts in found if texts is not None), None)


def _opening(texts: pa.Array) -> bytes:
    """How rows begin that have no schema around them for sure, as far as the first one shows."""
    found = _OPENING.match(texts[0].as_py()) if len(texts) else None
    return _NO_OPENING if found is None else found[0]
