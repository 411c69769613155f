"""The options for rows under message keys, whatever form these have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sources.changes import Decoded, SourceTable
from sources.debezium_json.message_keys import KeyForms
from sources.debezium_json.moved_keys import with_other_keys
from sources.debezium_json.placeholders import placeholder
from sources.decode_target import Goal
from sources.json_changes.outcome import Outcome
from sources.upsert_json.metadata import FlatRows, metadata
from sources.upsert_json.policies import UpsertPolicies
from sources.upsert_json.record_headers import RecordHeaders
from sources.upsert_json.row_decoding import Deleting, Positions, RowDecoding, RowReading
from sources.upsert_json.row_sorting import RowSorter
from sources.values.value_forms import ValueForms


class UpsertRows:
    """The rows of one decoder."""

    def __init__(self, policies: UpsertPolicies, forms: ValueForms) -> None:
        self.policies = policies
        self.shape = FlatRows(metadata(policies.add_fields_prefix, policies.add_fields), policies.metadata == "keep")
        self._forms = forms
        self._in_headers = metadata(policies.add_headers_prefix, "auto", is_of_headers=True)
        self._hidden = placeholder(policies.unavailable_value)

    def sorter(self, topic: str, headers: RecordHeaders, outcome: Outcome) -> RowSorter:
        """What sorts the rows of one topic partition."""
        return RowSorter(topic, self.shape, self._in_headers, headers, outcome)

    def deleted(self, keys: pa.Array, nulls: Positions, outcome: Outcome) -> Positions:
        """The records without a value that delete the row of their key; the others are counted."""
        keyed = np.asarray(keys.take(pa.array(nulls)).is_valid())
        found = nulls[:0] if self.policies.on_tombstone == "skip" else nulls[keyed]
        outcome.count(tombstones=len(nulls) - len(found))
        return found

    def decoded(
        self,
        batch: pa.RecordBatch,
        targets: Mapping[SourceTable, Goal],
        reading: RowReading,
        deleting: Deleting,
        keys: KeyForms,
        headers: RecordHeaders,
        outcome: Outcome,
    ) -> Decoded:
        """The outcome of a batch's records."""
        decoding = RowDecoding(
            batch, targets, self._forms, self._hidden, keys, headers, self._in_headers, outcome, self.shape.metadata
        )
        decoding.decode(reading, deleting)
        decoded = outcome.decoded()
        return replace(decoded, changes=with_other_keys(batch, decoded.changes, targets))
