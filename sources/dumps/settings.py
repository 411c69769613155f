"""The settings of dump files in a pipeline file, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field

from sources.topics import TopicSelection


@dataclass(frozen=True, slots=True)
class DumpSettings:
    """The settings of dump files in a pipeline file."""

    path: str
    """A file, a directory or a glob."""
    topics: TopicSelection = field(default_factory=TopicSelection)
    max_records_per_batch: int = 500_000
