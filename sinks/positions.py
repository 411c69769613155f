"""Source positions in snapshot properties: where a table stands, readable without the checkpoint.

A commit records, per topic partition that feeds the table, the next offset to read. The record makes a lost checkpoint
recoverable: the table itself says what it holds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from paimon_table.snapshot import Snapshot, SnapshotStore

PIPELINE_PROPERTY = "tidemark.pipeline"
OFFSETS_PROPERTY = "tidemark.offsets"

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Position:
    """How far a table has come: next offset per (topic, partition), and the commit user that wrote it."""

    commit_user: str
    offsets: Mapping[TopicPartition, int]

    def advanced(self, ends: Mapping[TopicPartition, int]) -> Position:
        """The position after a batch that ended at ``ends``; an offset never goes back."""
        merged = dict(self.offsets)
        for place, end in ends.items():
            merged[place] = max(end, merged.get(place, 0))
        return Position(self.commit_user, merged)


def to_properties(pipeline: str, position: Position) -> dict[str, str]:
    """Snapshot properties for a commit of ``pipeline``."""
    nested: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(position.offsets.items()):
        nested.setdefault(topic, {})[str(partition)] = offset
    return {PIPELINE_PROPERTY: pipeline, OFFSETS_PROPERTY: json.dumps(nested, separators=(",", ":"))}


def position_of(snapshot: Snapshot, pipeline: str) -> Position | None:
    """The position that ``snapshot`` records for ``pipeline``, if it does."""
    properties = snapshot.properties or {}
    if properties.get(PIPELINE_PROPERTY) != pipeline or OFFSETS_PROPERTY not in properties:
        return None
    nested = json.loads(properties[OFFSETS_PROPERTY])
    offsets = {(topic, int(p)): int(offset) for topic, places in nested.items() for p, offset in places.items()}
    return Position(snapshot.commit_user, offsets)


def newest_position(snapshots: SnapshotStore, pipeline: str) -> Position | None:
    """The newest position of ``pipeline`` in a table; snapshots of other writers (compaction jobs) are passed over."""
    latest, earliest = snapshots.latest_id(), snapshots.earliest_id()
    if latest is None or earliest is None:
        return None
    for snapshot_id in range(latest, earliest - 1, -1):
        position = position_of(snapshots.read(snapshot_id), pipeline)
        if position is not None:
            return position
    return None
