"""The options for rows under message keys, whatever form these have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

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
from sources.upsert_json.row_decoding import RowDecoding, RowReading
from sources.upsert_json.row_sorting import RowSorter
from sources.upsert_json.tombstones import deleting
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
        """Creates the sorter for the rows of one topic partition."""
        return RowSorter(topic, self.shape, self._in_headers, headers, outcome)

    def decoded(
        self,
        batch: pa.RecordBatch,
        targets: Mapping[SourceTable, Goal],
        reading: RowReading,
        problem: Callable[[int], str | None] | None,
        keys: KeyForms,
        headers: RecordHeaders,
        outcome: Outcome,
    ) -> Decoded:
        """The outcome of a batch's records; ``problem`` says why a message key cannot be read."""
        decoding = RowDecoding(
            batch, targets, self._forms, self._hidden, keys, headers, self._in_headers, outcome, self.shape.metadata
        )
        skips, raw_keys = self.policies.on_tombstone == "skip", batch.column("key")
        decoding.decode(reading, lambda _, nulls: deleting(raw_keys, nulls, outcome, skips=skips, problem=problem))
        decoded = outcome.decoded()
        return replace(decoded, changes=with_other_keys(batch, decoded.changes, targets))
