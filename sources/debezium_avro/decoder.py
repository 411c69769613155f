"""The decoder of Debezium's envelopes in Avro: records of a batch -> change rows, quarantine, observations.

records of one topic partition
  -> tombstones leave, and values that name no schema
  -> values are grouped by the schema that wrote them, which the registry has
  -> envelopes of one schema become columns; those in doubt, and what is no envelope, are read one by one
  -> from there on as Debezium JSON with an embedded schema (``sources.debezium_json``)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.errors import MalformedRecord
from sources.avro.framing import NULL, Frames
from sources.avro.registry import AVRO, registry_of
from sources.changes import Decoded, SourceTable
from sources.debezium_avro.avro_keys import AvroKeys, with_known_keys
from sources.debezium_avro.envelope_columns import EnvelopeSchema, envelope_schema, read_envelopes
from sources.debezium_avro.key_texts import avro_key_texts
from sources.debezium_avro.options import AvroOptions
from sources.debezium_avro.record_reading import KeyFormat, RecordReading
from sources.debezium_json.document_decoding import decode_documents
from sources.debezium_json.event_sorting import EventSorter
from sources.debezium_json.moved_keys import with_other_keys
from sources.debezium_json.placeholders import placeholder
from sources.debezium_json.policies import DebeziumPolicies
from sources.debezium_json.record_shapes import Envelopes
from sources.debezium_json.table_decoding import TableDecoding
from sources.debezium_json.texts import ParsedRecords, SourceNames
from sources.decode_target import Goal
from sources.json_changes.outcome import Outcome
from sources.json_changes.partitions import topic_partitions
from sources.mongodb.options import DocumentOptions
from sources.values.value_forms import ValueForms

Positions = npt.NDArray[np.int64]


class DebeziumAvroDecoder:
    """Decoder of Debezium's change events in Avro. Picklable: the registry travels as its settings.

    ``decode`` raises Outage while the registry does not answer and ConfigError if it refuses the settings; the batch
    is decoded again then.
    """

    def __init__(
        self, policies: DebeziumPolicies, options: AvroOptions, documents: DocumentOptions | None = None
    ) -> None:
        self.policies = policies
        self.options = options
        self.documents = documents or DocumentOptions()
        self._forms = ValueForms(binary_format=options.binary_format, infinity=options.infinity)
        self._hidden = placeholder(policies.unavailable_value)
        self._shape = Envelopes(unsent=policies.unavailable_value)

    def __reduce__(self) -> tuple[type[DebeziumAvroDecoder], tuple[DebeziumPolicies, AvroOptions, DocumentOptions]]:
        return DebeziumAvroDecoder, (self.policies, self.options, self.documents)

    def decode(self, batch: pa.RecordBatch, targets: Mapping[SourceTable, Goal]) -> Decoded:
        """See ``sources.decode_target.Decoder``."""
        key_format = cast(KeyFormat, self.options.key_format)
        reading = RecordReading(batch, registry_of(self.options.registry, AVRO), key_format)
        outcome = Outcome(batch, reading.parsed, avro_key_texts(batch.column("key"), reading, key_format))
        keys = AvroKeys(batch.column("key"), reading, key_format)
        usable = with_known_keys(reading, outcome)
        for topic, partition, positions in topic_partitions(batch):
            tables = TableDecoding(
                batch, topic, partition, None, self.policies, self._forms, self._hidden, keys, outcome,
                self._shape, parts_documents=True,
            )  # fmt: skip
            part = _Partition(tables, reading, self.documents)
            for code, members in part.by_schema(positions[usable[positions]]):
                part.decode(code, members, targets)
        decoded = outcome.decoded()
        return replace(decoded, changes=with_other_keys(batch, decoded.changes, targets))


@dataclass(frozen=True, slots=True)
class _Partition:
    """The records of one topic partition."""

    tables: TableDecoding
    reading: RecordReading
    documents: DocumentOptions

    @property
    def outcome(self) -> Outcome:
        return self.tables.outcome

    @property
    def frames(self) -> Frames:
        return self.reading.values

    def by_schema(self, positions: Positions) -> list[tuple[int, Positions]]:
        """Positions by the codes of their schemas; handles records without a value or without a schema."""
        codes = self.frames.codes[positions]
        self.outcome.count(tombstones=int((codes == NULL).sum()))
        for position in positions[codes < NULL].tolist():
            data = self.outcome.cell("value", position)
            self.outcome.quarantine(position, self.reading.no_schema("value", int(self.frames.codes[position]), data))
        return [(code, positions[codes == code]) for code in np.unique(codes[codes > NULL]).tolist()]

    def decode(self, code: int, positions: Positions, targets: Mapping[SourceTable, Goal]) -> None:
        """Decode the records of one schema."""
        envelope, tables = self._envelope(code), self.tables
        if isinstance(envelope, MalformedRecord):
            for position in positions.tolist():
                self.outcome.quarantine(position, str(envelope))
            return
        values = self.outcome.values_at(positions)
        values = values if pa.types.is_binary(values.type) else values.cast(pa.binary())
        records = ParsedRecords(self.outcome, values, positions, tables.shape)
        sorter = EventSorter(SourceNames(tables.topic), tables.policies, self.outcome, parts_documents=True)
        if envelope is None or envelope.has_cells:
            self._sort_exactly(records, sorter)
        else:
            self._sort(records, self.frames.skipped[positions], envelope, sorter)
        if envelope is not None:
            tables = replace(tables, schema=envelope.row)
        tables.decode_sorted(sorter.events, targets)
        for documents in sorter.documents:
            decode_documents(documents, tables, self.documents, targets)

    def _envelope(self, code: int) -> EnvelopeSchema | MalformedRecord | None:
        """The envelopes of a schema, or the reason why it cannot be used; None if it has none."""
        schema = self.reading.schema(self.frames, code)
        try:
            return schema if isinstance(schema, MalformedRecord) else envelope_schema(schema)
        except MalformedRecord as error:
            return MalformedRecord(f"{self.frames.refs[code]}: {error}")

    def _sort(self, records: ParsedRecords, skipped: Positions, schema: EnvelopeSchema, sorter: EventSorter) -> None:
        found = read_envelopes(schema, records.values, skipped)
        if found.good.all():
            sorter.sort_columns(records, found.table, found.images, found.times_ms, found.sources)
            return
        good, doubtful = np.flatnonzero(found.good), np.flatnonzero(~found.good)
        if len(good):
            times = None if found.times_ms is None else found.times_ms.take(pa.array(good))
            table = found.table.take(pa.array(good))
            sources = None if found.sources is None else found.sources.take(pa.array(good))
            sorter.sort_columns(records.taken(good), table, found.images.taken(good), times, sources)
        self.outcome.count(exact=len(doubtful))
        self._sort_exactly(records.taken(doubtful), sorter)

    def _sort_exactly(self, records: ParsedRecords, sorter: EventSorter) -> None:
        """Sort records that are read one by one; unreadable ones go to quarantine."""
        values = [records.parsed(index) for index in range(len(records.positions))]
        kept = [index for index, value in enumerate(values) if not isinstance(value, MalformedRecord)]
        for index, value in enumerate(values):
            if isinstance(value, MalformedRecord):
                self.outcome.quarantine(int(records.positions[index]), str(value))
        if kept:
            chosen = np.array(kept, np.int64)
            sorter.sort_values(records.taken(chosen), tuple(values[index] for index in kept))
