"""When the source made each change: ``source.ts_ms`` of the events, without parsing every envelope.

The tails of split texts (see ``envelope_split``) begin with the source block. Tails of one shape differ only in
digits: if one has the time, all have it. If the time is not found, the text is parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sources.debezium_json.envelope_split import Tails
from sources.debezium_json.event_sorting import TableEvents
from sources.debezium_json.texts import Records
from sources.json_changes.text_parts import MS_DIGITS, milliseconds

_NAME = b'"ts_ms":'
UNITS = (("ts_ms", 1), ("ts_us", 1000), ("ts_ns", 1_000_000))
"""The fields that may have the time, each with its parts of a millisecond; CockroachDB writes the last one alone."""
_LONGEST_FORM = 1 << 10


def source_times(events: TableEvents) -> pa.Array:
    """Milliseconds since the epoch as int64; NULL if the event has none."""
    if events.times_ms is not None:
        return events.times_ms
    if events.values is not None:
        return pa.array([_time_of(value) for value in events.values], pa.int64())
    texts, count = events.texts, len(events.texts.positions)
    times = np.zeros(count, np.int64)
    known = np.zeros(count, np.bool_)
    if events.tails is not None and count:
        _find(texts, events.tails, times, known)
    for index in np.flatnonzero(~known).tolist():
        time = _time_of(texts.parsed(index))
        if time is not None:
            times[index], known[index] = time, True
    return pa.array(times, mask=~known)


def _find(texts: Records, tails: Tails, times: npt.NDArray[np.int64], known: npt.NDArray[np.bool_]) -> None:
    """Fill in the times of the texts whose shapes show where they are."""
    values = texts.values
    ends = np.frombuffer(values.buffers()[1], np.int32)[values.offset + 1 : values.offset + len(values) + 1]
    data = np.frombuffer(values.buffers()[2], np.uint8)
    distances = np.array([_distance(tail) for tail in tails.firsts], np.int64)[tails.shape_of]
    found = np.flatnonzero(distances)
    times[found] = milliseconds(data, ends[found] - distances[found])
    known[found] = times[found] >= 10 ** (MS_DIGITS - 1)


def _distance(tail: bytes) -> int:
    """How far before the end of a tail the digits of the time begin; 0 if they are not at the top of the source."""
    begin = tail.find(_NAME, 0, _LONGEST_FORM) + len(_NAME)
    before, digits, behind = (
        tail[:begin],
        tail[begin : begin + MS_DIGITS],
        tail[begin + MS_DIGITS : begin + MS_DIGITS + 1],
    )
    is_top = begin >= len(_NAME) and before.count(b"{") == 1 and b"}" not in before and b"\\" not in before
    return len(tail) - begin if is_top and digits.isdigit() and behind in (b",", b"}") else 0


def _time_of(value: Any) -> int | None:
    source = value.get("source") if isinstance(value, Mapping) else None
    if not isinstance(source, Mapping):
        return None
    for name, per_ms in UNITS:
        time = source.get(name)
        if isinstance(time, int) and not isinstance(time, bool) and 0 <= time < 10**15 * per_ms:
            return time // per_ms
    return None
