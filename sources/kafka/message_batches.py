"""Messages of librdkafka as Arrow batches of records (``RECORD_SCHEMA``)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from sources.changes import RECORD_SCHEMA
from sources.positions import Place

_HEADERS = RECORD_SCHEMA.field("headers").type
_TIMESTAMP = RECORD_SCHEMA.field("timestamp").type
_MOST_MS = (2**63 - 1) // 1000


def record_batch(places: Sequence[Place], messages: Sequence[Sequence[Message]]) -> pa.RecordBatch:
    """The records of each place, one place after the other."""
    flat = messages[0] if len(messages) == 1 else [message for of_place in messages for message in of_place]
    counts = np.asarray([len(of_place) for of_place in messages])
    indices = pa.array(np.repeat(np.arange(len(places), dtype=np.int32), counts))
    topics = pa.array([topic for topic, _ in places], pa.string()).take(indices)
    partitions = np.repeat(np.asarray([partition for _, partition in places], np.int32), counts)
    columns = [
        topics,
        pa.array(partitions),
        pa.array([message.offset() for message in flat], pa.int64()),
        _timestamps(flat),
        pa.array([message.key() for message in flat], pa.binary()),
        pa.array([message.value() for message in flat], pa.binary()),
        _headers(flat),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA)


def _timestamps(messages: Sequence[Message]) -> pa.Array:
    found = [message.timestamp() for message in messages]
    ms: npt.NDArray[np.int64] = np.asarray([time_ms for _, time_ms in found], np.int64)
    # Kafka takes times that microseconds have no room for.
    us = np.clip(ms, -_MOST_MS, _MOST_MS) * 1000
    missing = np.asarray([kind == TIMESTAMP_NOT_AVAILABLE for kind, _ in found], bool)
    return pa.array(us, pa.int64(), mask=missing if missing.any() else None).cast(_TIMESTAMP)


def _headers(messages: Sequence[Message]) -> pa.Array:
    # Typed for producing; a consumed message has a list of pairs.
    found: list[list[tuple[str, bytes | None]] | None] = [message.headers() for message in messages]
    if not any(found):
        return pa.nulls(len(found), _HEADERS)
    ends = np.cumsum([0, *(len(headers or ()) for headers in found)], dtype=np.int32)
    flat = [header for headers in found for header in headers or ()]
    names = pa.array([name for name, _ in flat], pa.string())
    values = pa.array([value for _, value in flat], pa.binary())
    structs = pa.StructArray.from_arrays([names, values], fields=list(_HEADERS.value_type))
    missing = pa.array([not headers for headers in found])
    return pa.ListArray.from_arrays(pa.array(ends), structs, mask=missing).cast(_HEADERS)
