"""The meaning of column names in older records: of columns that were dropped or renamed since.

A replay reads such records again; partitions that are behind and dump files bring them late. A name may now belong to
another column; the offset of a record shows which one it means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sources.changes import Decoded, NewestRow, SourceTable
from sources.column_sources import PastName, place_key
from sources.decode_target import Decoder, DecodeTarget, Goal
from sources.record_rows import timestamps_ms_of

_Mask: TypeAlias = npt.NDArray[np.bool_]
_Meanings: TypeAlias = Mapping[SourceTable, Mapping[str, str | None]]
"""Per source table the meaning of names in some records; None stands for a column that is gone."""


def decode_by_age(decoder: Decoder, batch: pa.RecordBatch, targets: Mapping[SourceTable, Goal]) -> Decoded:
    """See ``sources.decode_target.Decoder``; each record is decoded by what names meant when it was written."""
    covered = _covered(batch, targets)
    if not covered:
        return decoder.decode(batch, targets)
    ages, age_of = np.unique(np.stack([mask for *_, mask in covered], axis=1), axis=0, return_inverse=True)
    parts = []
    for number, age in enumerate(ages.tolist()):
        records = batch.take(pa.array(np.flatnonzero(age_of.reshape(-1) == number)))
        meanings: dict[SourceTable, dict[str, str | None]] = {}
        for (source, name, past, _), is_covered in zip(covered, age, strict=True):
            if is_covered:  # the oldest meaning comes first
                meanings.setdefault(source, {}).setdefault(name, past.means)
        parts.append(_decoded(decoder, records, targets, meanings))
    return reduce(_together, parts)


def _covered(
    batch: pa.RecordBatch, targets: Mapping[SourceTable, Goal]
) -> list[tuple[SourceTable, str, PastName, _Mask]]:
    """The past meanings that records of the batch have, each with these records."""
    found = []
    for source, goal in targets.items():
        for name, meanings in goal.past.items() if isinstance(goal, DecodeTarget) else ():
            for past in meanings:
                mask = _records_of(batch, source.topic, past)
                if mask is not None and mask.any():
                    found.append((source, name, past, mask))
    return found


def _records_of(batch: pa.RecordBatch, topic: str, past: PastName) -> _Mask | None:
    offsets, times, end = np.asarray(batch.column("offset")), timestamps_ms_of(batch), max(past.ends.values())
    is_recent = past.until_ms is None or times.min(initial=past.until_ms + 1) > past.until_ms
    if is_recent and offsets.min(initial=end) >= end:
        return None
    mask = np.zeros(batch.num_rows, np.bool_)
    of_topic = np.asarray(pc.fill_null(pc.equal(batch.column("topic"), topic), False))
    partitions = np.asarray(pc.fill_null(batch.column("partition"), -1))
    for partition in np.unique(partitions[of_topic]).tolist():
        mine = np.flatnonzero(of_topic & (partitions == partition))
        place = place_key(topic, partition)
        if place in past.ends:
            mask[mine] = offsets[mine] < past.ends[place]
        elif past.until_ms is not None:  # after a younger record of its partition none is older
            mask[mine] = np.logical_and.accumulate(times[mine] <= past.until_ms)
    return mask


def _decoded(
    decoder: Decoder, records: pa.RecordBatch, targets: Mapping[SourceTable, Goal], meanings: _Meanings
) -> Decoded:
    goals = dict(targets)
    for source, names in meanings.items():
        goal = goals[source]
        goals[source] = _at(goal, names) if isinstance(goal, DecodeTarget) else goal
    found = decoder.decode(records, goals)
    behind = {source for source, names in meanings.items() if any(names.values())}
    return replace(found, newest=tuple(_silent(row) if row.source in behind else row for row in found.newest))


def _at(target: DecodeTarget, meanings: Mapping[str, str | None]) -> DecodeTarget:
    """The target for records in which names have these meanings."""
    others = {name: now for name, now in meanings.items() if now != name}
    renamed = {old: now for old, now in target.renamed.items() if old not in meanings}
    renamed = {**{old: now for old, now in others.items() if now is not None}, **renamed}
    gone = [name for name, now in others.items() if now is None]
    return replace(target.without(others), renamed=renamed).leaving_out(gone)


def _silent(row: NewestRow) -> NewestRow:
    """The row of a partition that is behind does not show the present columns."""
    return replace(row, absent=(), comments={}, has_known=False)


def _together(one: Decoded, other: Decoded) -> Decoded:
    def both(name: str) -> Any:
        return getattr(one, name) + getattr(other, name)

    return Decoded(**{f.name: both(f.name) for f in fields(Decoded)})
