"""The decoder of rows keyed by their message: the value is the row, no value deletes it.

records of one topic partition
  -> texts are grouped by embedded schema, payloads are cut out
  -> rows are sorted by source table and operation, which metadata fields and headers give
  -> rows become change rows, as the images of envelopes do
  -> records without a value delete the rows of their keys
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from sources.changes import Decoded, SourceTable
from sources.debezium_json.message_keys import MessageKeys
from sources.decode_target import Goal
from sources.json_changes.embedded_schema import SchemaCutter
from sources.json_changes.outcome import Outcome
from sources.upsert_json.json_rows import NO_OPENING, JsonRows
from sources.upsert_json.policies import UpsertPolicies
from sources.upsert_json.record_headers import RecordHeaders
from sources.upsert_json.upsert_rows import UpsertRows
from sources.values.value_forms import ValueForms


class UpsertJsonDecoder:
    """Decoder of rows without envelope. Picklable; remembers embedded schemas as a cache."""

    def __init__(self, policies: UpsertPolicies | None = None, forms: ValueForms | None = None) -> None:
        self.policies = policies or UpsertPolicies()
        self.forms = forms or ValueForms()
        self._rows = UpsertRows(self.policies, self.forms)
        self._cutter = SchemaCutter(self._rows.shape.row_of_struct, NO_OPENING)

    def __reduce__(self) -> tuple[type[UpsertJsonDecoder], tuple[UpsertPolicies, ValueForms]]:
        return UpsertJsonDecoder, (self.policies, self.forms)

    def decode(self, batch: pa.RecordBatch, targets: Mapping[SourceTable, Goal]) -> Decoded:
        """See ``sources.decode_target.Decoder``."""
        outcome, headers = Outcome(batch), RecordHeaders(batch)
        reading = JsonRows(
            batch, self._cutter, self._rows.shape, lambda topic: self._rows.sorter(topic, headers, outcome), outcome
        )
        return self._rows.decoded(batch, targets, reading, None, MessageKeys(batch.column("key")), headers, outcome)
