"""What a pipeline file says about dump files, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field

from sources.topics import TopicSelection


@dataclass(frozen=True, slots=True)
class DumpSettings:
    """What a pipeline file says about dump files."""

    path: str
    """A file, a directory or a glob."""
    topics: TopicSelection = field(default_factory=TopicSelection)
    max_records_per_batch: int = 500_000
