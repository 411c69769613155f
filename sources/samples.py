"""A sample of a source: some of its records, and how many there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from sources.positions import Bounds, Place, Positions


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """Kafka's information about a topic, apart from its records."""

    bounds: Mapping[Place, Bounds]
    is_compacted: bool | None = None
    """None if this user may not read the configuration of the topic."""
    retention_ms: int | None = None
    """The retention of records; None if it is unlimited or unknown."""

    def is_finished(self, begins: Positions) -> bool:
        """Whether no record is left from these positions on."""
        return all(begins.get(place, held.begin) >= held.readable_end for place, held in self.bounds.items())


@dataclass(frozen=True, slots=True)
class Sample:
    """Records in batches of ``RECORD_SCHEMA``, in which the offsets of a partition rise from batch to batch."""

    batches: tuple[pa.RecordBatch, ...]
    counts: Mapping[str, int]
    """The number of records in each sampled topic."""
    counts_all: bool = True
    """Whether these are all; False: there may be more."""
    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Topics that cannot be read, with the reason."""
    passed: frozenset[str] = frozenset()
    """Topics that the pipeline has read records of, as its checkpoint says."""
    finished: frozenset[str] = frozenset()
    """Topics without a record that the pipeline has not read: it reads none of the sample."""

    @property
    def record_count(self) -> int:
        return sum(batch.num_rows for batch in self.batches)
