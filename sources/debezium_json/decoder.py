"""The decoder of Debezium JSON: records of a batch -> change rows, quarantine, observations.

records of one topic partition
  -> tombstones and texts that are not UTF-8 leave
  -> texts are grouped by embedded schema, payloads are cut out
  -> payloads are grouped by source table and parsed in stretches
  -> events become change rows, change rows are converted column by column
  -> headers give rows of changed primary keys their other key
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sources.changes import Decoded, Goal, SourceTable
from sources.debezium_json.envelope_schema import PLAIN_OPENING, row_of_envelope
from sources.debezium_json.message_keys import MessageKeys
from sources.debezium_json.moved_keys import with_other_keys
from sources.debezium_json.placeholders import placeholder
from sources.debezium_json.policies import DebeziumPolicies
from sources.debezium_json.strange_values import strange_bytes
from sources.debezium_json.table_decoding import TableDecoding
from sources.debezium_json.texts import Texts
from sources.json_changes.embedded_schema import SchemaCutter
from sources.json_changes.outcome import Outcome
from sources.json_changes.partitions import topic_partitions
from sources.values.value_forms import ValueForms


class DebeziumJsonDecoder:
    """Decoder of Debezium's change events in JSON. Picklable; remembers embedded schemas as a cache."""

    def __init__(self, policies: DebeziumPolicies | None = None, forms: ValueForms | None = None) -> None:
        self.policies = policies or DebeziumPolicies()
        self.forms = forms or ValueForms()
        self._cutter = SchemaCutter(row_of_envelope, PLAIN_OPENING)
        self._hidden = placeholder(self.policies.unavailable_value)

    def __reduce__(self) -> tuple[type[DebeziumJsonDecoder], tuple[DebeziumPolicies, ValueForms]]:
        return DebeziumJsonDecoder, (self.policies, self.forms)

    def decode(self, batch: pa.RecordBatch, targets: Mapping[SourceTable, Goal]) -> Decoded:
        """See ``sources.changes.Decoder``."""
        outcome = Outcome(batch)
        keys = MessageKeys(batch.column("key"))
        for topic, partition, positions in topic_partitions(batch):
            texts = self._texts(batch, positions, outcome)
            for group in self._cutter.split(texts.values):
                if group.problem is not None:
                    for position in texts.positions[group.indices].tolist():
                        outcome.quarantine(position, group.problem)
                    continue
                part = Texts(group.payloads, texts.positions[group.indices])
                decoding = TableDecoding(
                    batch, topic, partition, group.schema, self.policies, self.forms, self._hidden, keys, outcome
                )
                decoding.decode(part, targets)
        decoded = outcome.decoded()
        return replace(decoded, changes=with_other_keys(batch, decoded.changes, targets))

    def _texts(self, batch: pa.RecordBatch, positions: npt.NDArray[np.int64], outcome: Outcome) -> Texts:
        """The values that are there and UTF-8."""
        values = batch.column("value")
        if len(positions) < batch.num_rows:
            values = values.take(pa.array(positions))
        if values.null_count:
            there = np.asarray(values.is_valid())
            outcome.count(tombstones=len(positions) - int(there.sum()))
            positions, values = positions[there], values.drop_null()
        if not pa.types.is_binary(values.type):
            values = values.cast(pa.binary())
        try:
            values.cast(pa.string())
        except pa.ArrowInvalid:
            good = np.array([_is_utf8(v) for v in values.to_pylist()], np.bool_)
            for index in np.flatnonzero(~good).tolist():
                reason = strange_bytes(values[index].as_py()) or "value is not UTF-8 text"
                outcome.quarantine(int(positions[index]), reason)
            positions, values = positions[good], values.filter(pa.array(good))
        return Texts(values, positions)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
        return True
    except UnicodeDecodeError:
        return False
