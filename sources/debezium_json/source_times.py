"""When the source made each change: ``source.ts_ms`` of the events, without parsing every envelope.

Texts that were split (see ``envelope_split``) have their source block near the end; a regular expression finds it
there. What it does not find is parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sources.debezium_json.event_sorting import TableEvents

_NEAR_END = 2048
"""Longer tails are parsed."""
_SOURCE_TIME = rb'(?s).*,"source":\{[^{}]*"ts_ms":(?P<time>[0-9]{1,15})[,}]'


def source_times(events: TableEvents) -> pa.Array:
    """Milliseconds since the epoch as int64; NULL where the event does not tell."""
    if events.values is not None:
        return pa.array([_time_of(value) for value in events.values], pa.int64())
    texts = events.texts
    if events.heads is None:
        return pa.array([_time_of(texts.parsed(index)) for index in range(len(texts.positions))], pa.int64())
    ends = pc.binary_slice(texts.values, -_NEAR_END)
    found = pc.struct_field(pc.extract_regex(ends, _SOURCE_TIME), "time")
    times = found.cast(pa.string()).cast(pa.int64())
    missing = np.flatnonzero(np.asarray(times.is_null())).tolist()
    if not missing:
        return times
    parsed = pa.array([_time_of(texts.parsed(index)) for index in missing], pa.int64())
    return pc.replace_with_mask(times, times.is_null(), parsed)


def _time_of(value: Any) -> int | None:
    source = value.get("source") if isinstance(value, Mapping) else None
    time = source.get("ts_ms") if isinstance(source, Mapping) else None
    return time if isinstance(time, int) and not isinstance(time, bool) and 0 <= time < 10**15 else None
