"""The decoder of plain records: each value is a row of the source table that its topic is named after.

records of one topic partition
  -> values become rows, in columns where the format allows it
  -> in a table with a primary key a row replaces the one of its key, and no value deletes the row of the message key;
     in a table without one every row is added
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import pyarrow as pa

from sources.changes import Decoded, SourceTable
from sources.decode_target import DecodeTarget, Goal
from sources.json_changes.gaps import NoGaps
from sources.json_changes.outcome import Outcome, Parse
from sources.plain.message_keys import NoKeys, OwnKeys, plain_keys
from sources.plain.nested_paths import FilledReading, Paths, filled_rows, filling, paths_by_topic
from sources.plain.options import PlainOptions
from sources.upsert_json.metadata import NO_METADATA
from sources.upsert_json.record_headers import RecordHeaders
from sources.upsert_json.row_decoding import Positions, RowDecoding, RowReading
from sources.upsert_json.tombstones import deleting
from sources.values.value_forms import ValueForms


class PlainValues(Protocol):
    """The values of one batch."""

    @property
    def parse(self) -> Parse | None:
        """Reads one value; None if values are JSON."""
        ...

    @property
    def own_keys(self) -> OwnKeys | None:
        """Reads message keys in the same format; None if there are none."""
        ...

    def rows(self, outcome: Outcome) -> RowReading:
        """The values as rows."""
        ...


PlainFormat: TypeAlias = Callable[[pa.RecordBatch], PlainValues]
"""Gives the values of a batch. Picklable."""


@dataclass(frozen=True, slots=True)
class PlainDecoder:
    """Decoder of one plain format."""

    form: PlainFormat
    options: PlainOptions
    forms: ValueForms

    def decode(self, batch: pa.RecordBatch, targets: Mapping[SourceTable, Goal]) -> Decoded:
        """See ``sources.decode_target.Decoder``."""
        paths = paths_by_topic(targets)
        values = self.form(batch)
        if not paths or values.parse is not None:
            return self._decoded(batch, values, targets, paths)
        filled = filled_rows(batch, paths)
        return filled.told(self._decoded(filled.batch, self.form(filled.batch), targets, {}))

    def _decoded(
        self,
        batch: pa.RecordBatch,
        values: PlainValues,
        targets: Mapping[SourceTable, Goal],
        paths: Mapping[str, Paths],
    ) -> Decoded:
        """``paths`` are the columns to fill for each topic whose values are not JSON."""
        keys = plain_keys(batch.column("key"), self.options, values.own_keys)
        parse = values.parse
        outcome = Outcome(batch, filling(parse, batch, paths) if parse is not None and paths else parse, keys)
        rows = values.rows(outcome)
        deletes_none = self.options.on_null == "skip" or self.options.key_format == "none"

        def deletes(topic: str, nulls: Positions) -> Positions:
            goal = targets.get(SourceTable.of_topic(topic))
            skips = deletes_none or (isinstance(goal, DecodeTarget) and not goal.primary_key)
            return deleting(batch.column("key"), nulls, outcome, skips=skips, problem=keys.problem)

        headers = RecordHeaders(batch)
        decoding = RowDecoding(batch, targets, self.forms, NoGaps(), NoKeys(), headers, NO_METADATA, outcome)
        decoding.decode(FilledReading(rows, paths) if paths else rows, deletes)
        decoded = outcome.decoded()
        # A message key is the primary key only if the rule states it: many topics have keys that only spread records.
        return replace(decoded, observations=tuple(replace(o, key_columns=None) for o in decoded.observations))
