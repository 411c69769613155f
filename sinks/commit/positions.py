"""Source positions in snapshot properties: the position of a table, readable without the checkpoint.

A commit records, for each topic partition that feeds the table, the next offset to read. So Tidemark recovers from a
lost checkpoint: the table itself records what it has. The commit also records the topic ids from Kafka, because the
offsets of a deleted topic are not valid in a topic recreated under its name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from paimon_table import CommitKind, Snapshot, SnapshotStore

PIPELINE_PROPERTY = "tidemark.pipeline"
OFFSETS_PROPERTY = "tidemark.offsets"
TOPICS_PROPERTY = "tidemark.topics"
COMMITS_PROPERTY = "tidemark.commits"
FLOORS_PROPERTY = "tidemark.floors"
SOURCES_PROPERTY = "tidemark.sources"
DEPARTED_PROPERTY = "tidemark.departed"
EMPTIED_PROPERTY = "tidemark.emptied"
"""A snapshot that follows a TRUNCATE: earlier rows are deleted, even those that the table never had."""

RETRY_EDITED_PROPERTY = "tidemark.retry.edited"
"""In a snapshot with edited records, which no topic has."""

RETRY_PROPERTY = "tidemark.retry"
"""In the snapshots of a retry: the pipeline whose bad records it applied."""
REPLAY_PROPERTY = "tidemark.replay"
REPLAYED_PROPERTY = "tidemark.replayed"
"""In the snapshots of a replay: its id, and the offsets up to which it has read."""

KEPT_BATCHES = 3
"""The number of batches for which departed rows are kept. The next batch of the partition brings their new key."""

TopicPartition = tuple[str, int]


def cut_key(place: TopicPartition) -> str:
    """The key, among the topic ids, of the offsets at which a partition was cut off: ``500,420``, oldest first.

    In an unclean leader election a partition loses its newest records, and other records get their offsets. No topic
    can have such a name.
    """
    return f"{place[0]}/{place[1]}"


def _cut_count(cuts: str | None) -> int:
    return 0 if cuts is None else cuts.count(",") + 1


ASIDE = "+"
"""Separates the checkpoint's commit user from the number in the commit user of a reading alongside its stream."""


def aside_user(commit_user: str, number: int) -> str:
    """The commit user of a reading alongside the stream of a checkpoint; it has its own commit identifiers."""
    return f"{commit_user}{ASIDE}{number}"


def checkpoint_user(commit_user: str) -> str:
    """The commit user of the checkpoint for which ``commit_user`` commits."""
    return commit_user if aside_number(commit_user) is None else commit_user.rpartition(ASIDE)[0]


def aside_number(commit_user: str) -> int | None:
    """The number of a commit user alongside the stream of a checkpoint; None for the stream itself."""
    user, _, number = commit_user.rpartition(ASIDE)
    return int(number) if user and number.isascii() and number.isdigit() else None  # names of pipelines may have a +


@dataclass(frozen=True, slots=True)
class FedBy:
    """A source table that feeds a table, by the names in its events."""

    topic: str
    database: str | None
    schema: str | None
    table: str

    def is_same(self, other: FedBy) -> bool:
        """Whether both are the same source table; events without a `source` block lack some names."""
        pairs = ((self.database, other.database), (self.schema, other.schema))
        is_same_table = self.topic == other.topic and self.table == other.table
        return is_same_table and all(a == b or a is None or b is None for a, b in pairs)


@dataclass(frozen=True, slots=True)
class Position:
    """How far a table has read: the next offset per (topic, partition), and the commit user of the checkpoint.

    ``floors`` are the offsets at which this commit user took over from an earlier checkpoint. The table has the rows
    below them, so they are dropped as long as the checkpoint lives.
    """

    commit_user: str
    offsets: Mapping[TopicPartition, int]
    floors: Mapping[TopicPartition, int] = field(default_factory=dict)
    sources: Mapping[FedBy, tuple[str, ...]] = field(default_factory=dict)
    """The source tables that fed the table, and the fields of the message key that each had at first (none: no key)."""
    departed: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Rows that moved to another key as the last change of a batch, by batch id, see ``sinks.write.departed``."""
    writer: str = field(default="", compare=False)
    """The committer under the checkpoint: its stream, or work alongside the stream that counts batches from 0."""
    topics: Mapping[str, str] = field(default_factory=dict)
    """The topic ids of the offsets, as far as they are known."""
    commit_count: int = 0
    """The number of commits of the pipeline to the table, under any checkpoint; 0 if not counted yet."""
    snapshot_id: int = field(default=0, compare=False)
    """The snapshot that records the position."""
    commit_identifier: int = field(default=-1, compare=False)
    """The commit identifier of that snapshot; -1 without a snapshot."""
    commit_kind: CommitKind | None = field(default=None, compare=False)

    @property
    def departed_texts(self) -> tuple[str, ...]:
        """All departed rows, the newest batch last."""
        return tuple(text for batch in sorted(self.departed) for text in self.departed[batch])

    def taken_over(self, commit_user: str) -> Position:
        """The position under a new checkpoint, whose batches count from 0."""
        departed = {-1: self.departed_texts} if self.departed else {}
        return Position(
            commit_user,
            self.offsets,
            self.offsets,
            self.sources,
            departed,
            topics=self.topics,
            commit_count=self.commit_count,
        )

    def started_over(self, commit_user: str) -> Position:
        """The position under a new checkpoint that reads from the start: it keeps only the sources that fed the
        table."""
        return Position(commit_user, {}, {}, self.sources, commit_count=self.commit_count)

    def under(self, commit_user: str, *, resumes: bool) -> Position:
        """What counts of the position under a checkpoint; ``resumes``: also one from another checkpoint."""
        if self.commit_user == commit_user:
            return self
        return self.taken_over(commit_user) if resumes else self.started_over(commit_user)

    def floors_of(self, *, by_offsets: bool) -> Mapping[TopicPartition, int]:
        """The table has all rows below these offsets; ``by_offsets``: the source gives each offset once, in order."""
        return self.offsets if by_offsets else self.floors

    def has_read(self, source: FedBy) -> bool:
        """Whether the table has records of ``source``. If no source table of the topic is recorded, this holds for all
        of them."""
        named = [one for one in self.sources if one.topic == source.topic]
        return any(map(source.is_same, named)) if named else bool(self.offsets_in(source.topic))

    def offsets_in(self, topic: str) -> dict[int, int]:
        """The next offset by partition of one topic."""
        return {partition: offset for (name, partition), offset in self.offsets.items() if name == topic}

    def fed_by(self, source: FedBy, key: Sequence[str]) -> Position:
        """The position with ``source`` as another source of the table; a source that is known already keeps its key."""
        return replace(self, sources={**self.sources, source: self.sources.get(source) or tuple(key)})

    def counted_from(self, batch_id: int) -> Position:
        """The position for a writer whose next batch is ``batch_id``: its departed rows count for the batch before."""
        return replace(self, departed={batch_id - 1: self.departed_texts} if self.departed else {})

    def with_departed(self, batch_id: int, texts: Sequence[str]) -> Position:
        """The position with the rows that departed in a batch, without those of batches before ``KEPT_BATCHES``."""
        kept = {batch: of_batch for batch, of_batch in self.departed.items() if batch_id - KEPT_BATCHES < batch}
        return replace(self, departed={**kept, batch_id: tuple(texts)} if texts else kept)

    def is_of_another(self, topic: str, topic_ids: Mapping[str, str]) -> bool:
        """Whether the offsets in a topic belong to an earlier topic of its name. False without known ids."""
        known, now = self.topics.get(topic), topic_ids.get(topic)
        return known is not None and now is not None and known != now

    def among(self, topic_ids: Mapping[str, str]) -> Position:
        """The part of the position that is valid in the existing topics, by their ids (E5).

        In a partition that lost its end since, the position ends where the loss begins.
        """
        ended = {topic for topic in self.topics if self.is_of_another(topic, topic_ids)}
        keys = {place: cut_key(place) for place in self.offsets}
        cuts = {
            place: tuple(map(int, topic_ids[key].split(",")))[_cut_count(self.topics.get(key)) :]
            for place, key in keys.items()
            if key in topic_ids and topic_ids[key] != self.topics.get(key) and place[0] not in ended
        }
        if not ended and not cuts:
            return self

        def now(offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
            return {place: min((at, *cuts.get(place, ()))) for place, at in offsets.items() if place[0] not in ended}

        topics = {key: id_ for key, id_ in self.topics.items() if key.partition("/")[0] not in ended}
        topics |= {keys[place]: topic_ids[keys[place]] for place in cuts}
        return replace(self, offsets=now(self.offsets), floors=now(self.floors), topics=topics)

    def advanced(self, ends: Mapping[TopicPartition, int], topic_ids: Mapping[str, str] | None = None) -> Position:
        """The position after a batch that ended at ``ends``; an offset decreases only in a recreated topic.

        If the topic id of known offsets is unknown, the id in ``topic_ids`` counts once the batch is beyond all of
        them.
        """
        ids = topic_ids or {}
        before = self.among(ids)
        merged = dict(before.offsets)
        for place, end in ends.items():
            merged[place] = max(end, merged.get(place, 0))
        behind = {place[0] for place, end in ends.items() if end < merged[place]}
        new = {topic: ids[topic] for topic, _ in ends if topic in ids and topic not in behind}
        new |= {key: ids[key] for key in map(cut_key, ends) if key in ids}
        return replace(before, offsets=merged, topics={**new, **before.topics})


def to_properties(pipeline: str, position: Position) -> dict[str, str]:
    """Snapshot properties for a commit of ``pipeline``."""
    properties = {PIPELINE_PROPERTY: pipeline, OFFSETS_PROPERTY: offsets_text(position.offsets)}
    if position.commit_count:
        properties[COMMITS_PROPERTY] = str(position.commit_count)
    if position.topics:
        properties[TOPICS_PROPERTY] = json.dumps(position.topics, separators=(",", ":"), sort_keys=True)
    if position.floors:
        properties[FLOORS_PROPERTY] = offsets_text(position.floors)
    if position.sources:
        fed = [{**asdict(source), "key": list(key)} for source, key in position.sources.items()]
        properties[SOURCES_PROPERTY] = json.dumps(fed, separators=(",", ":"))
    return properties | departed_property(position)


def departed_property(position: Position) -> dict[str, str]:
    """The rows that departed in the last batches, as a property of the snapshot; empty without such rows."""
    if not position.departed:
        return {}
    return {DEPARTED_PROPERTY: json.dumps(position.departed, separators=(",", ":"))}


def departed_of(snapshot: Snapshot) -> dict[int, tuple[str, ...]]:
    """The rows that departed, by batch id, as ``snapshot`` records them."""
    departed = json.loads((snapshot.properties or {}).get(DEPARTED_PROPERTY, "{}"))
    return {int(batch): tuple(texts) for batch, texts in departed.items()}


def offsets_text(offsets: Mapping[TopicPartition, int]) -> str:
    """Offsets in the JSON text of snapshots, which is also that of Spark's checkpoint."""
    return json.dumps(nested_offsets(offsets), separators=(",", ":"))


def nested_offsets(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Offsets by topic, then by partition as text, both sorted: the form in JSON documents."""
    nested: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        nested.setdefault(topic, {})[str(partition)] = offset
    return nested


def offsets_of(nested: Mapping[str, Mapping[str, Any]]) -> dict[TopicPartition, int]:
    """The inverse of ``nested_offsets``."""
    return {(topic, int(p)): int(offset) for topic, places in nested.items() for p, offset in places.items()}


def _from_text(text: str) -> dict[TopicPartition, int]:
    return offsets_of(json.loads(text))


def position_of(snapshot: Snapshot, pipeline: str) -> Position | None:
    """The position that ``snapshot`` records for ``pipeline``; None if it records none."""
    properties = snapshot.properties or {}
    if properties.get(PIPELINE_PROPERTY) != pipeline or OFFSETS_PROPERTY not in properties:
        return None
    floors = _from_text(properties.get(FLOORS_PROPERTY, "{}"))
    sources = {
        FedBy(*(fed[name] for name in ("topic", "database", "schema", "table"))): tuple(fed["key"])
        for fed in json.loads(properties.get(SOURCES_PROPERTY, "[]"))
    }
    return Position(
        checkpoint_user(snapshot.commit_user),
        _from_text(properties[OFFSETS_PROPERTY]),
        floors,
        sources,
        departed_of(snapshot),
        snapshot.commit_user,
        json.loads(properties.get(TOPICS_PROPERTY, "{}")),
        int(properties.get(COMMITS_PROPERTY, "0")),
        snapshot.id,
        snapshot.commit_identifier,
        snapshot.commit_kind,
    )


def is_for(snapshot: Snapshot, pipeline: str) -> bool:
    """Whether a snapshot has records of the stream or a retry of ``pipeline``, or of any replay."""
    properties = snapshot.properties or {}
    is_named = pipeline in (properties.get(PIPELINE_PROPERTY), properties.get(RETRY_PROPERTY))
    return is_named or REPLAY_PROPERTY in properties


@dataclass(frozen=True, slots=True)
class Recorded:
    """How to find one kind of position in a snapshot: its owner, and the position itself."""

    writer_of: Callable[[Snapshot], str | None]
    position_of: Callable[[Snapshot, str], Position | None]


OF_PIPELINES = Recorded(lambda snapshot: snapshot.properties.get(PIPELINE_PROPERTY), position_of)
"""The positions of streams, and of readings that catch tables up, by pipeline."""


def of_reading(user: str) -> Recorded:
    """The positions of a reading alongside the stream, by the commit user of its slices.

    Such a reading does not move the position of the stream. The position of a retry has no offsets: its slice numbers
    show which slices the table has.
    """
    return Recorded(lambda snapshot: user if snapshot.commit_user == user else None, _read_by)


def _read_by(snapshot: Snapshot, user: str) -> Position:
    return Position(
        checkpoint_user(user),
        _from_text((snapshot.properties or {}).get(REPLAYED_PROPERTY, "{}")),
        departed=departed_of(snapshot),
        writer=user,
        snapshot_id=snapshot.id,
        commit_identifier=snapshot.commit_identifier,
        commit_kind=snapshot.commit_kind,
    )


def newest_position(snapshots: SnapshotStore, pipeline: str) -> Position | None:
    """The newest position of ``pipeline`` in a table; skips snapshots of other writers, such as compaction jobs."""
    found = (position_of(snapshot, pipeline) for snapshot in snapshots.newest_first())
    return next((position for position in found if position is not None), None)


def may_have_expired(earliest_id: int | None, snapshot_id: int) -> bool:
    """Whether a table without a position may have had one, at ``snapshot_id`` as far as known, or 0.

    Snapshots expire in their order. If an older one is there, this one was rolled back.
    """
    return (earliest_id or 0) > max(1, snapshot_id)
