"""The decoder of Debezium JSON: records of a batch -> change rows, quarantine, observations.

records of one topic partition
  -> tombstones and texts that are not UTF-8 leave
  -> texts are grouped by embedded schema, payloads are cut out
  -> payloads are grouped by source table and parsed in stretches
  -> events become change rows, change rows are converted column by column
  -> documents of MongoDB become rows first, and go the same way
  -> headers give rows of changed primary keys their other key
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from sources.changes import Decoded, SourceTable
from sources.debezium_json.document_decoding import decode_documents
from sources.debezium_json.envelope_schema import PLAIN_OPENING, row_of_envelope
from sources.debezium_json.message_keys import MessageKeys
from sources.debezium_json.moved_keys import with_other_keys
from sources.debezium_json.placeholders import placeholder
from sources.debezium_json.policies import DebeziumPolicies
from sources.debezium_json.present_texts import present_texts
from sources.debezium_json.record_shapes import Envelopes
from sources.debezium_json.table_decoding import TableDecoding
from sources.debezium_json.texts import Texts
from sources.decode_target import Goal
from sources.json_changes.embedded_schema import SchemaCutter
from sources.json_changes.outcome import Outcome
from sources.json_changes.partitions import topic_partitions
from sources.mongodb.options import DocumentOptions
from sources.values.value_forms import ValueForms


class DebeziumJsonDecoder:
    """Decoder of Debezium's change events in JSON. Picklable; remembers embedded schemas as a cache."""

    def __init__(
        self,
        policies: DebeziumPolicies | None = None,
        forms: ValueForms | None = None,
        documents: DocumentOptions | None = None,
    ) -> None:
        self.policies = policies or DebeziumPolicies()
        self.forms = forms or ValueForms()
        self.documents = documents or DocumentOptions()
        self._cutter = SchemaCutter(row_of_envelope, PLAIN_OPENING)
        self._hidden = placeholder(self.policies.unavailable_value)
        self._shape = Envelopes(unsent=self.policies.unavailable_value)

    def __reduce__(self) -> tuple[type[DebeziumJsonDecoder], tuple[DebeziumPolicies, ValueForms, DocumentOptions]]:
        return DebeziumJsonDecoder, (self.policies, self.forms, self.documents)

    def decode(self, batch: pa.RecordBatch, targets: Mapping[SourceTable, Goal]) -> Decoded:
        """See ``sources.decode_target.Decoder``."""
        outcome = Outcome(batch)
        keys = MessageKeys(batch.column("key"))
        for topic, partition, positions in topic_partitions(batch):
            texts, nulls = present_texts(batch, positions, outcome)
            outcome.count(tombstones=len(nulls))
            for group in self._cutter.split(texts.values):
                if group.problem is not None:
                    for position in texts.positions[group.indices].tolist():
                        outcome.quarantine(position, group.problem)
                    continue
                part = Texts(group.payloads, texts.positions[group.indices], self._shape)
                decoding = TableDecoding(
                    batch, topic, partition, group.schema, self.policies, self.forms, self._hidden, keys, outcome,
                    self._shape, parts_documents=True,
                )  # fmt: skip
                for documents in decoding.decode(part, targets):
                    decode_documents(documents, decoding, self.documents, targets)
        decoded = outcome.decoded()
        return replace(decoded, changes=with_other_keys(batch, decoded.changes, targets))
