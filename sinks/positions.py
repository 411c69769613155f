"""Source positions in snapshot properties: where a table stands, readable without the checkpoint.

A commit records, per topic partition that feeds the table, the next offset to read. The record makes a lost checkpoint
recoverable: the table itself says what it holds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from paimon_table.snapshot import Snapshot, SnapshotStore

PIPELINE_PROPERTY = "tidemark.pipeline"
OFFSETS_PROPERTY = "tidemark.offsets"
FLOORS_PROPERTY = "tidemark.floors"

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Position:
    """How far a table has come: next offset per (topic, partition), and the commit user that wrote it.

    ``floors`` are the offsets at which this commit user took over from an earlier checkpoint: rows below them are in
    the table and are dropped for as long as the checkpoint lives.
    """

    commit_user: str
    offsets: Mapping[TopicPartition, int]
    floors: Mapping[TopicPartition, int] = field(default_factory=dict)

    def taken_over(self, commit_user: str) -> Position:
        """The position under a new checkpoint."""
        return Position(commit_user, self.offsets, self.offsets)

    def advanced(self, ends: Mapping[TopicPartition, int]) -> Position:
        """The position after a batch that ended at ``ends``; an offset never goes back."""
        merged = dict(self.offsets)
        for place, end in ends.items():
            merged[place] = max(end, merged.get(place, 0))
        return Position(self.commit_user, merged, self.floors)


def to_properties(pipeline: str, position: Position) -> dict[str, str]:
    """Snapshot properties for a commit of ``pipeline``."""
    properties = {PIPELINE_PROPERTY: pipeline, OFFSETS_PROPERTY: _to_text(position.offsets)}
    if position.floors:
        properties[FLOORS_PROPERTY] = _to_text(position.floors)
    return properties


def _to_text(offsets: Mapping[TopicPartition, int]) -> str:
    nested: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        nested.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(nested, separators=(",", ":"))


def _from_text(text: str) -> dict[TopicPartition, int]:
    return {(topic, int(p)): int(offset) for topic, places in json.loads(text).items() for p, offset in places.items()}


def position_of(snapshot: Snapshot, pipeline: str) -> Position | None:
    """The position that ``snapshot`` records for ``pipeline``, if it does."""
    properties = snapshot.properties or {}
    if properties.get(PIPELINE_PROPERTY) != pipeline or OFFSETS_PROPERTY not in properties:
        return None
    floors = _from_text(properties.get(FLOORS_PROPERTY, "{}"))
    return Position(snapshot.commit_user, _from_text(properties[OFFSETS_PROPERTY]), floors)


def newest_position(snapshots: SnapshotStore, pipeline: str) -> Position | None:
    """The newest position of ``pipeline`` in a table; snapshots of other writers (compaction jobs) are passed over."""
    found = newest_with_position(snapshots, pipeline)
    return None if found is None else found[1]


def newest_with_position(snapshots: SnapshotStore, pipeline: str) -> tuple[Snapshot, Position] | None:
    """The newest snapshot of ``pipeline`` that records a position, with it."""
    latest, earliest = snapshots.latest_id(), snapshots.earliest_id()
    if latest is None or earliest is None:
        return None
    for snapshot_id in range(latest, earliest - 1, -1):
        snapshot = snapshots.read(snapshot_id)
        position = position_of(snapshot, pipeline)
        if position is not None:
            return snapshot, position
    return None
