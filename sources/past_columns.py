"""Records from before a column was dropped: their values in it no longer count.

A replay brings such records again, and dump files may bring them late. A column of the same name that was added later
is another one: the offset of a record shows to which of the two its value belongs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from functools import partial, reduce
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sources.changes import Decoded, SourceTable
from sources.decode_target import Decoder, DecodeTarget, Goal

_UNREADABLE = "\0{}"
"""A name that no column of a record has."""


def decode_by_age(decoder: Decoder, batch: pa.RecordBatch, targets: Mapping[SourceTable, Goal]) -> Decoded:
    """See ``sources.decode_target.Decoder``; records of before a column was dropped are decoded without it."""
    ages = _ages(batch, targets)
    if not ages.any():
        return decoder.decode(batch, targets)
    parts = []
    for age in np.unique(ages).tolist():
        records = batch.take(pa.array(np.flatnonzero(ages == age)))
        parts.append(decoder.decode(records, targets if not age else _targets_at(records, targets)))
    return reduce(_together, parts)


def _ages(batch: pa.RecordBatch, targets: Mapping[SourceTable, Goal]) -> npt.NDArray[np.int64]:
    """Per record a number, which is the same for records behind the same ends; 0 for records behind all ends."""
    ends: dict[tuple[str, int], set[int]] = {}
    for source, goal in targets.items():
        for partition, end in chain.from_iterable(_ends(goal)):
            ends.setdefault((source.topic, partition), set()).add(end)
    ages = np.zeros(batch.num_rows, np.int64)
    if not ends:
        return ages
    offsets = np.asarray(batch.column("offset"))
    number = 1
    for (topic, partition), found in ends.items():
        if offsets.min(initial=max(found)) >= max(found):
            continue
        mine = pc.and_(pc.equal(batch.column("topic"), topic), pc.equal(batch.column("partition"), partition))
        is_mine = np.asarray(pc.fill_null(mine, False))
        for end in sorted(found, reverse=True):
            ages[is_mine & (offsets < end)] = number
            number += 1
    return ages


def _ends(goal: Goal) -> list[Collection[tuple[int, int]]]:
    return [ends.items() for ends in goal.dropped.values()] if isinstance(goal, DecodeTarget) else []


def _targets_at(records: pa.RecordBatch, targets: Mapping[SourceTable, Goal]) -> dict[SourceTable, Goal]:
    """The targets for records of one topic partition that are behind the same ends."""
    topic, partition = records.column("topic")[0].as_py(), records.column("partition")[0].as_py()
    offset = pc.max(records.column("offset")).as_py()
    found = dict(targets)
    for source, goal in targets.items():
        if source.topic == topic and isinstance(goal, DecodeTarget):
            gone = frozenset(name for name, ends in goal.dropped.items() if offset < ends.get(partition, 0))
            found[source] = _without(goal, gone) if gone else goal
    return found


def _without(target: DecodeTarget, gone: frozenset[str]) -> DecodeTarget:
    there = {name for name, _ in target.columns} & gone
    hidden = target.under({name: _UNREADABLE.format(name) for name in there})
    renamed = {old: now for old, now in target.renamed.items() if old not in gone}
    return replace(hidden, renamed=renamed, leaves_out=partial(_is_left_out, gone, target.leaves_out))


def _is_left_out(gone: frozenset[str], others: Callable[[str], bool] | None, name: str) -> bool:
    return name in gone or (others is not None and others(name))


def _together(one: Decoded, other: Decoded) -> Decoded:
    def both(name: str) -> Any:
        return getattr(one, name) + getattr(other, name)

    return Decoded(**{f.name: both(f.name) for f in fields(Decoded)})
