"""The decoder of rows keyed by their message: the value is the row, no value deletes it.

records of one topic partition
  -> texts are grouped by embedded schema, payloads are cut out
  -> rows are sorted by source table and operation, which metadata fields and headers give
  -> rows become change rows, as the images of envelopes do
  -> records without a value delete the rows of their keys
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sources.changes import Decoded, SourceTable
from sources.debezium_json.message_keys import MessageKeys
from sources.debezium_json.moved_keys import with_other_keys
from sources.debezium_json.placeholders import placeholder
from sources.decode_target import Goal
from sources.json_changes.embedded_schema import SchemaCutter
from sources.json_changes.outcome import Outcome
from sources.upsert_json.json_rows import NO_OPENING, JsonRows
from sources.upsert_json.metadata import FlatRows, metadata
from sources.upsert_json.policies import UpsertPolicies
from sources.upsert_json.record_headers import RecordHeaders
from sources.upsert_json.row_decoding import Positions, RowDecoding
from sources.values.value_forms import ValueForms


class UpsertJsonDecoder:
    """Decoder of rows without envelope. Picklable; remembers embedded schemas as a cache."""

    def __init__(self, policies: UpsertPolicies | None = None, forms: ValueForms | None = None) -> None:
        self.policies = policies or UpsertPolicies()
        self.forms = forms or ValueForms()
        self._shape = FlatRows(
            metadata(self.policies.add_fields_prefix, self.policies.add_fields), self.policies.metadata == "keep"
        )
        self._in_headers = metadata(self.policies.add_headers_prefix, "auto")
        self._cutter = SchemaCutter(self._shape.row_of_struct, NO_OPENING)
        self._hidden = placeholder(self.policies.unavailable_value)

    def __reduce__(self) -> tuple[type[UpsertJsonDecoder], tuple[UpsertPolicies, ValueForms]]:
        return UpsertJsonDecoder, (self.policies, self.forms)

    def decode(self, batch: pa.RecordBatch, targets: Mapping[SourceTable, Goal]) -> Decoded:
        """See ``sources.decode_target.Decoder``."""
        outcome, headers = Outcome(batch), RecordHeaders(batch)
        keys = MessageKeys(batch.column("key"))
        rows = JsonRows(batch, self._cutter, self._shape, self._in_headers, headers, outcome)

        def deleting(_: str, nulls: Positions) -> Positions:
            keyed = np.asarray(batch.column("key").take(pa.array(nulls)).is_valid())
            found = nulls[:0] if self.policies.on_tombstone == "skip" else nulls[keyed]
            outcome.count(tombstones=len(nulls) - len(found))
            return found

        decoding = RowDecoding(
            batch, targets, self.forms, self._hidden, keys, headers, self._in_headers, outcome, self._shape.metadata
        )
        decoding.decode(rows, deleting)
        decoded = outcome.decoded()
        return replace(decoded, changes=with_other_keys(batch, decoded.changes, targets))
