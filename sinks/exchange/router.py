"""Executor side: split the decoded changes of one table into blobs, one per lane; rows keep their order of arrival."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sinks.exchange.blob import Blob, encode_rows
from sinks.exchange.slots import slot_keys, slot_of
from sinks.exchange.target import OFFSET, Routing


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a stretch of changes was read."""

    topic: str
    partition: int


def route(rows: pa.Table, target_index: int, target: Routing, origin: Origin, slots: int) -> Iterator[Blob]:
    """Blobs of the changes ``rows`` (value columns, ``_VALUE_KIND``, ``_OFFSET``), which are in order of arrival."""
    floor = target.floors.get((origin.topic, origin.partition))
    if floor is not None:
        rows = rows.filter(pc.greater_equal(rows.column(OFFSET), floor))
    for lane, part in target.lanes.split(rows):
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
