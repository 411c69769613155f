"""The decoder of a pipeline: the format's decoder, followed by the order of deletes and the transforms of rules."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from paimon_table.ids import Offset
from sources.change_columns import OFFSET_COLUMN
from sources.changes import ChangeBatch, Decoded, Observation, QuarantineRow, SourceTable
from sources.decode_target import Decoder, DecodeTarget, Goal, TopicFormats, TransformedRows, decoder_under
from sources.delete_order import in_order
from sources.moved_rows import with_other_keys
from sources.record_rows import rows_at


@dataclass(frozen=True, slots=True)
class TransformingDecoder:
    """The one place for transforms of all formats.

    ``mask_keys`` are secret: like the decoder, they travel with the code. If no target has a transform, the engine of
    expressions is not imported.
    """

    decoder: Decoder
    mask_keys: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def under(self, formats: TopicFormats) -> TransformingDecoder:
        """See ``sources.decode_target.FindsFormats``."""
        return replace(self, decoder=decoder_under(self.decoder, formats))

    def decode(self, batch: pa.RecordBatch, targets: Mapping[SourceTable, Goal]) -> Decoded:
        """See ``sources.decode_target.Decoder``."""
        decoded = self.decoder.decode(batch, targets)
        secret = {source.topic for source, goal in targets.items() if _hides_values(goal)}
        if secret and decoded.quarantine:
            decoded = replace(decoded, quarantine=tuple(_without_values(row, secret) for row in decoded.quarantine))
        gathered = _Gathered()
        for change in decoded.changes:
            target = targets.get(change.source)
            if isinstance(target, DecodeTarget) and target.transform is not None:
                gathered.take(batch, change, target.transform.transformed(change, batch, self.mask_keys))
            elif isinstance(target, DecodeTarget) and target.sequence:
                gathered.changes.append(replace(change, rows=in_order(change.rows, target.sequence)))
            else:
                gathered.changes.append(change)
        counts = replace(
            decoded.counts,
            with_rows=decoded.counts.with_rows - gathered.filtered - len(gathered.quarantine) - gathered.unknown,
            quarantined=decoded.counts.quarantined + len(gathered.quarantine),
            filtered=decoded.counts.filtered + gathered.filtered,
            unknown_tables=decoded.counts.unknown_tables + gathered.unknown,
        )
        return replace(
            decoded,
            changes=tuple(_with_other_keys(change, targets.get(change.source)) for change in gathered.changes),
            quarantine=(*decoded.quarantine, *gathered.quarantine),
            observations=(*decoded.observations, *gathered.observations),
            counts=counts,
        )


@dataclass(slots=True)
class _Gathered:
    """The outcome of the changes so far, as numbers of records."""

    changes: list[ChangeBatch] = field(default_factory=list)
    quarantine: list[QuarantineRow] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    filtered: int = 0
    unknown: int = 0

    def take(self, batch: pa.RecordBatch, change: ChangeBatch, found: TransformedRows) -> None:
        if found.rows is None:
            offsets = np.unique(np.asarray(change.rows.column(OFFSET_COLUMN)))
            self.unknown += len(offsets)
            self.observations.append(Observation(change.source, (), None, change.partition, Offset(int(offsets[0]))))
            return
        self.filtered += found.filtered
        if found.rows.num_rows:
            self.changes.append(replace(change, rows=found.rows))
        for row in rows_at(batch, change.source, change.partition, found.problems):
            self.quarantine.append(replace(row, reason=found.problems[row.offset]))


def _hides_values(goal: Goal) -> bool:
    return isinstance(goal, DecodeTarget) and goal.transform is not None and goal.transform.hides_values


def _without_values(row: QuarantineRow, topics: Collection[str]) -> QuarantineRow:
    from sources.expressions.transform import without_values

    return replace(row, reason=without_values(row.reason)) if row.topic in topics else row


def _with_other_keys(change: ChangeBatch, goal: Goal) -> ChangeBatch:
    if not isinstance(goal, DecodeTarget):
        return change
    key = goal.primary_key if goal.transform is None else goal.transform.primary_key
    return replace(change, rows=with_other_keys(change.rows, key))
