"""When the source made each change: ``source.ts_ms`` of the events, without parsing every envelope.

The tails of split texts (see ``envelope_split``) begin with the source block, and up to ``"ts_ms":`` it is the same in
all events of a connector: behind that text stand the digits. Where they do not, the text is parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sources.debezium_json.envelope_split import Heads, stands_at
from sources.debezium_json.event_sorting import TableEvents
from sources.debezium_json.texts import Texts

_NAME = b'"ts_ms":'
_DIGITS = 13
"""Of every moment between the years 2001 and 2286."""
_POWERS = 10.0 ** np.arange(_DIGITS - 1, -1, -1)
"""A float holds integers of up to 15 digits exactly."""
_MOST_FORMS = 16
_LONGEST_FORM = 1 << 10


def source_times(events: TableEvents) -> pa.Array:
    """Milliseconds since the epoch as int64; NULL where the event does not tell."""
    if events.values is not None:
        return pa.array([_time_of(value) for value in events.values], pa.int64())
    texts, count = events.texts, len(events.texts.positions)
    times = np.zeros(count, np.int64)
    known = np.zeros(count, np.bool_)
    if events.heads is not None and count:
        _find(texts, events.heads, times, known)
    for index in np.flatnonzero(~known).tolist():
        time = _time_of(texts.parsed(index))
        if time is not None:
            times[index], known[index] = time, True
    return pa.array(times, mask=~known)


def _find(texts: Texts, heads: Heads, times: npt.NDArray[np.int64], known: npt.NDArray[np.bool_]) -> None:
    """Fill in the times of the texts that look like others."""
    values = texts.values
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(values.buffers()[2], np.uint8)
    tails = offsets[:-1].astype(np.int64) + heads.lengths()
    rest = np.arange(len(tails))
    for _ in range(_MOST_FORMS):
        if not len(rest):
            return
        form = _form(data[tails[rest[0]] : offsets[rest[0] + 1]].tobytes())
        if form is None:
            rest = rest[1:]
            continue
        found = rest[stands_at(data, tails[rest], form)]
        firsts = tails[found] + len(form)
        inside = firsts + _DIGITS < offsets[1:][found]
        found, firsts = found[inside], firsts[inside]
        chars = data[firsts[:, None] + np.arange(_DIGITS + 1)]
        digits, end = chars[:, :-1] - ord("0"), chars[:, -1]
        is_time = (digits <= 9).all(axis=1) & (digits[:, 0] > 0) & ((end == ord(",")) | (end == ord("}")))
        times[found[is_time]] = digits[is_time].astype(np.float64) @ _POWERS
        known[found[is_time]] = True
        rest = np.setdiff1d(rest[1:], found, assume_unique=True)


def _form(tail: bytes) -> bytes | None:
    """The begin of a tail up to the time; None where that is not at the top of the source block."""
    end = tail.find(_NAME, 0, _LONGEST_FORM) + len(_NAME)
    begin = tail[:end]
    if end < len(_NAME) or begin.count(b"{") != 1 or b"}" in begin or b"\\" in begin:
        return None
    return begin


def _time_of(value: Any) -> int | None:
    source = value.get("source") if isinstance(value, Mapping) else None
    time = source.get("ts_ms") if isinstance(source, Mapping) else None
    return time if isinstance(time, int) and not isinstance(time, bool) and 0 <= time < 10**15 else None
