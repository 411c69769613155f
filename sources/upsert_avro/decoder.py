"""The decoder of rows keyed by their message, in Avro: the value is the row, no value deletes it.

records of one topic partition
  -> values are grouped by the schema that wrote them, which the registry has
  -> rows of one schema become columns; those in doubt are read one by one
  -> from there on as the same rows in JSON (``sources.upsert_json``)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np
import pyarrow as pa

from paimon_table.errors import MalformedRecord
from sources.avro.connect_schema import connect_struct
from sources.avro.framing import Frames
from sources.avro.registry import AVRO, registry_of
from sources.avro.writer_schema import Node
from sources.changes import Decoded, SourceTable
from sources.debezium_avro.avro_keys import AvroKeys, with_known_keys
from sources.debezium_avro.key_texts import avro_key_texts
from sources.debezium_avro.options import AvroOptions
from sources.debezium_avro.record_reading import KeyFormat, RecordReading
from sources.decode_target import Goal
from sources.json_changes.embedded_schema import EmbeddedSchema
from sources.json_changes.outcome import Outcome
from sources.upsert_avro.avro_rows import AvroRows, row_schema
from sources.upsert_avro.flat_columns import FlatColumns
from sources.upsert_json.metadata import FlatRows
from sources.upsert_json.policies import UpsertPolicies
from sources.upsert_json.record_headers import RecordHeaders
from sources.upsert_json.row_decoding import Positions, RowGroup
from sources.upsert_json.upsert_rows import UpsertRows
from sources.values.value_forms import ValueForms


class UpsertAvroDecoder:
    """Decoder of rows without envelope in Avro. Picklable: the registry travels as its settings.

    ``decode`` raises Outage while the registry does not answer and ConfigError if it refuses the settings; the batch
    is decoded again then.
    """

    def __init__(self, policies: UpsertPolicies, options: AvroOptions) -> None:
        self.policies = policies
        self.options = options
        self._rows = UpsertRows(policies, ValueForms(binary_format=options.binary_format, infinity=options.infinity))

    def __reduce__(self) -> tuple[type[UpsertAvroDecoder], tuple[UpsertPolicies, AvroOptions]]:
        return UpsertAvroDecoder, (self.policies, self.options)

    def decode(self, batch: pa.RecordBatch, targets: Mapping[SourceTable, Goal]) -> Decoded:
        """See ``sources.decode_target.Decoder``."""
        key_format = cast(KeyFormat, self.options.key_format)
        reading = RecordReading(batch, registry_of(self.options.registry, AVRO), key_format, "upsert-json")
        keys, headers = batch.column("key"), RecordHeaders(batch)
        texts = avro_key_texts(keys, reading, key_format)
        outcome = Outcome(batch, reading.parsed, texts)
        rows = _KnownRows(
            AvroRows(
                _Schemas(reading, self._rows.shape),
                lambda topic: FlatColumns(self._rows.sorter(topic, headers, outcome), self._rows.shape, outcome),
                outcome,
            ),
            with_known_keys(reading, outcome),
        )
        forms = AvroKeys(keys, reading, key_format)
        return self._rows.decoded(batch, targets, rows, texts.problem, forms, headers, outcome)


@dataclass(frozen=True, slots=True)
class _KnownRows:
    """See ``sources.upsert_json.row_decoding.RowReading``; other records than the usable ones were dealt with."""

    rows: AvroRows
    usable: np.ndarray[tuple[int], np.dtype[np.bool_]]

    def rows_of(self, topic: str, positions: Positions) -> tuple[list[RowGroup], Positions]:
        return self.rows.rows_of(topic, positions[self.usable[positions]])


@dataclass(frozen=True, slots=True)
class _Schemas:
    """See ``avro_rows.AvroSchemas``."""

    reading: RecordReading
    shape: FlatRows

    @property
    def frames(self) -> Frames:
        return self.reading.values

    def schema(self, code: int) -> Node:
        found = self.reading.schema(self.frames, code)
        if isinstance(found, MalformedRecord):
            raise found
        return found

    def row(self, schema: Node) -> EmbeddedSchema:
        return _row_schema(schema, self.shape)

    def no_schema(self, code: int, data: bytes) -> str:
        return self.reading.no_schema("value", code, data)


@lru_cache(maxsize=1024)
def _row_schema(schema: Node, shape: FlatRows) -> EmbeddedSchema:
    """The columns of the rows that a schema writes, without metadata fields."""
    return row_schema(schema, lambda record: shape.row_of_struct(connect_struct(record)))
