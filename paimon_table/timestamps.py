"""Shared facts about timestamps in formats: units, and the values that do not fit into 64 bits of nanoseconds."""

from __future__ import annotations

import numpy as np

from paimon_table.types import TIMESTAMPS, DataType

UNITS_PER_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
NANOS_PER_SECOND = 1_000_000_000


def holds_timestamps(t: DataType) -> bool:
    """Whether the type is or contains a timestamp."""
    return t.root in TIMESTAMPS or any(holds_timestamps(part) for _, part in t.parts)


def beyond_64_bits(t: DataType, seconds: int, nanos: int) -> str:
    """Why a stored moment, as seconds since the epoch and nanoseconds, has no Arrow form."""
    moment = f"{np.datetime64(seconds, 's')}.{nanos:09d}".replace("T", " ")
    return f"{moment}, outside of the years 1677 to 2262, which are the range of {t.with_nullable(True)} in 64 bits"
