"""Executor side: splits the decoded changes of one table into blobs, one per lane; rows keep their order of arrival.

If any task may write any row, all tasks share the rows of a lane: ranges of offsets go to them in turn. The share of a
row follows from its offset alone. So a repeated decode task gives the same shares, however Spark splits its records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table import Lane
from sinks.exchange.blob import Blob, encode_rows
from sinks.exchange.slots import slot_keys, slot_of
from sinks.exchange.target import OFFSET, Routing

STRETCH_OFFSETS = 4096
"""The number of consecutive records that stay together: a smaller batch makes one file, a larger one keeps all tasks
busy."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a range of changes was read."""

    topic: str
    partition: int


def route(rows: pa.Table, target_index: int, target: Routing, origin: Origin, slots: int) -> Iterator[Blob]:
    """Blobs of the changes ``rows`` (value columns, ``_VALUE_KIND``, ``_OFFSET``), which are in order of arrival."""
    floor = target.floors.get((origin.topic, origin.partition))
    if floor is not None and rows.num_rows and rows.column(OFFSET)[0].as_py() < floor:
        rows = rows.filter(pc.greater_equal(rows.column(OFFSET), floor))
    lanes = target.lanes.split(rows)
    for lane, part in _shared(lanes, slots) if target.options.is_unaware and slots > 1 else lanes:
        yield Blob(
            slot_keys(slots)[slot_of(target_index, lane, slots)],
            target_index,
            lane,
            origin.topic,
            origin.partition,
            part.column(OFFSET)[0].as_py(),
            part.num_rows,
            encode_rows(part.drop_columns([OFFSET])),
        )


def _shared(lanes: Iterator[tuple[Lane, pa.Table]], slots: int) -> Iterator[tuple[Lane, pa.Table]]:
    """Each lane split into up to ``slots`` lanes, whose numbers are the shares."""
    for lane, rows in lanes:
        stretches = np.asarray(rows.column(OFFSET)) // STRETCH_OFFSETS
        starts = np.flatnonzero(np.r_[True, stretches[1:] != stretches[:-1]])
        shares: dict[int, list[pa.Table]] = {}
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(stretches)], strict=True):
            shares.setdefault(int(stretches[start]) % slots, []).append(rows.slice(start, end - start))
        for share, parts in shares.items():
            yield Lane(lane.partition, share), pa.concat_tables(parts)
