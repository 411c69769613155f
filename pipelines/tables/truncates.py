"""TRUNCATE events that tables follow, and the rows that they delete in the current batch.

Exactly once: one commit deletes the rows before the event and adds those after it, under a position after the event. So
a batch that runs again, or a reread, finds the event below the position.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from paimon_table import BucketId, Emptied, SnapshotIdentity, TableContext, WriterEnvironment, emptied, why_not_emptied
from paimon_table.errors import SchemaChangeRefused, TidemarkError
from pipelines.tables.table_failure import TableFailure
from sinks.commit.positions import TopicPartition
from sinks.commit.table_sink import TableSink
from sinks.exchange.target import Routing, Target
from sinks.write.bucket_task import WriteResult
from sources.changes import Truncation


@dataclass(slots=True)
class _Cut:
    """The offset of one table's TRUNCATE, and the deletes that empty it."""

    at: dict[TopicPartition, int] = field(default_factory=dict)
    """Records below these offsets come before the newest TRUNCATE."""
    made: tuple[Target, SnapshotIdentity, TableContext, Emptied] | None = None
    """Empties the table at a snapshot and under a schema, in addition to the given target."""

    def discard(self) -> None:
        """Delete the files of deletes that will not be committed."""
        if self.made is not None:
            target, _, _, whole = self.made
            self.made = None
            with suppress(OSError, TidemarkError):
                target.context.remove_unpublished(whole.messages)


class Truncates:
    """Of all tables in one batch."""

    def __init__(self) -> None:
        self._cuts: dict[str, _Cut] = {}

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return bool(self._cuts)

    def note(self, sink: TableSink, truncation: Truncation, partitions: Collection[int]) -> bool:
        """Apply an event to the table; returns whether it is new, so that the batch must be planned again.

        ``partitions`` are the known partitions of the topic. Raises TableFailure if the table cannot follow.
        """
        topic, partition = truncation.source.topic, truncation.partition
        why = why_not_emptied(sink.table.context)
        if len(sink.sources) > 1:
            why = "several source tables feed it, and only one of them was truncated"
        if len(partitions) > 1:
            why = (
                f"the topic has {len(partitions)} partitions, and Tidemark cannot know which of their records came "
                "before it"
            )
        if why is not None:
            text = (
                f"{topic} partition {partition} offset {truncation.offset}: the source table was truncated, and"
                f" `schema_changes: {{truncate: apply}}` is not possible: {why}. Set skip and resume, which "
                f"keeps all rows, or rebuild the table (`tidemark replay --rebuild`)"
            )
            raise TableFailure(sink.identifier, SchemaChangeRefused(text).without_values())
        cut = self._cuts.setdefault(sink.identifier, _Cut())
        place, end = (topic, partition), truncation.offset + 1
        if cut.at.get(place, 0) >= end:
            return False
        cut.at[place] = end
        return True

    def routed(self, identifier: str, routing: Routing) -> Routing:
        """The offsets for decode tasks, which skip rows before the event."""
        cut = self._cuts.get(identifier)
        return routing if cut is None else replace(routing, cuts=dict(cut.at))

    def planned(self, sink: TableSink, target: Target, environment: WriterEnvironment) -> Target:
        """The target as its writers see it after the event: with the deletes of all rows, which are written now."""
        cut = self._cuts.get(sink.identifier)
        if cut is None or target.is_appended or target.is_paused or sink.has_passed(cut.at):
            return target
        state = sink.state
        if cut.made is None or cut.made[1] != state.identity or cut.made[2] is not target.context:
            cut.discard()
            whole = emptied(target.context, state.snapshot, target.live, environment)
            cut.made = target, state.identity, target.context, whole
        files = dict(target.live.files)
        for message in cut.made[3].messages:
            files[message.bucket] = (*files.get(message.bucket, ()), *message.new_files)
        return replace(target, live=replace(target.live, files=files))

    def due(self, identifier: str) -> tuple[BucketId, ...]:
        """The buckets to compact although they may get no rows."""
        cut = self._cuts.get(identifier)
        return () if cut is None or cut.made is None else cut.made[3].due

    def writes(self, identifiers: Iterable[str]) -> list[WriteResult]:
        """The deletes that empty tables, as the result of a task; the caller now owns the files.

        The outcome of their commit may be unknown, so they are not deleted here: `remove-orphans` finds leftovers.
        """
        found = []
        for index, identifier in enumerate(identifiers):
            cut = self._cuts.get(identifier)
            if cut is not None and cut.made is not None:
                whole, cut.made = cut.made[3], None
                found.append(WriteResult(index, whole.messages, whole.row_count, {}))
        return found

    def end(self) -> None:
        """Forget the batch, and delete unused files."""
        for cut in self._cuts.values():
            cut.discard()
        self._cuts.clear()
