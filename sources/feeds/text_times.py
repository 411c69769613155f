"""Times of changes that a tool writes as text."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sources.values.iso_time import parse_timestamp


def epoch_ms(texts: pa.Array, zone: str) -> pa.Array:
    """Milliseconds since the epoch (int64); NULL for what is no time. Texts without a zone are in ``zone``."""
    encoded = texts.dictionary_encode()
    found: list[int | None] = []
    for text in encoded.dictionary.to_pylist():
        moment = parse_timestamp(text)
        if moment is None or not -(1 << 62) < moment[0] < 1 << 62:
            found.append(None)
        elif moment[1] or zone == "UTC":
            found.append(moment[0] // 1_000_000)
        else:
            local = pa.scalar(moment[0] // 1_000_000, pa.int64()).cast(pa.timestamp("ms"))
            instant = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="latest")
            found.append(instant.cast(pa.int64()).as_py())
    return pa.array(found, pa.int64()).take(encoded.indices)
