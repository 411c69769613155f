"""A sample of a source: some of its records, and how many there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from sources.positions import Bounds, Place


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What Kafka says about a topic, apart from its records."""

    bounds: Mapping[Place, Bounds]
    is_compacted: bool | None = None
    """None where this user may not see the configuration of the topic."""
    retention_ms: int | None = None
    """How long records stay; None where they stay forever, or where it is not known."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Records in batches of ``RECORD_SCHEMA``, in which the offsets of a partition rise from batch to batch."""

    batches: tuple[pa.RecordBatch, ...]
    counts: Mapping[str, int]
    """How many records there are of each topic that is read."""
    counts_all: bool = True
    """Whether that is all of them; False: there may be more."""
    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Topics that cannot be read, and why."""

    @property
    def record_count(self) -> int:
        return sum(batch.num_rows for batch in self.batches)
