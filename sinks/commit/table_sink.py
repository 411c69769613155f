"""Driver side: one target table of a running pipeline: its schema, its state, its position, its commits.

Exactly once, the argument. Spark writes the offsets of batch N to the checkpoint before it runs the batch, and runs
batch N again with the same offsets after a crash. The commit user is the identity of the checkpoint and the commit
identifier is the batch id. A batch that is run again finds its own newest snapshot: if the APPEND is there, its rows
are not appended again; if only the COMPACT is missing, the compaction is computed anew from the level-0 files that the
APPEND left. A new checkpoint has a new commit user, so nothing is skipped silently: the offsets in the snapshot
properties then say which rows the table holds already, and rows below them (``floors``) are dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from paimon_table import (
    CLOCK_SKEW_MS,
    BucketId,
    CommitKind,
    CommitMessage,
    CommitResult,
    FilePacker,
    LiveFiles,
    SchemaChange,
    SnapshotIdentity,
    Table,
    TableCommit,
    TableFiles,
    TableState,
    key_lane_properties,
)
from paimon_table.errors import BucketCountChanged, CommitConflict, ConfigError, RolledBack
from sinks.commit.known_positions import KnownPositions
from sinks.commit.pipeline_mark import marking_pipelines
from sinks.commit.positions import (
    FedBy,
    Position,
    TopicPartition,
    checkpoint_user,
    departed_of,
    has_expired,
    newest_position,
    to_properties,
)
from sinks.exchange.target import Routing, Target

TopicIds = Callable[[], Mapping[str, str]]
"""Gives the topics that are read, by name the id that they got when they were made."""

PropertiesOf = Callable[[Position], Mapping[str, str]]
"""Gives the snapshot properties of a commit up to a position."""


class RunTwice(ConfigError):
    """Two processes run one pipeline under different checkpoints, and both write the table."""


def has_batch(
    table: Table, identifier: str, pipeline: str, commit_user: str, batch_id: int, started_ms: int | None
) -> bool:
    """Whether a batch of a commit user is in a table, as its snapshots say now; see ``TableSink.is_appended``."""
    return TableSink(identifier, table, pipeline, commit_user, resumes=True).is_appended(batch_id, started_ms)


def rolled_back(identifier: str, pipeline: str) -> RolledBack:
    """What a pipeline ends with that runs while commits of it go."""
    return RolledBack(
        f"table {identifier} was rolled back while pipeline {pipeline} wrote it. The pipeline begins"
        " anew from its checkpoint and catches the table up from where it stands. Stop all that write a table"
        " before it is rolled back"
    ).without_values()


class TableSink:
    """A target table as the driver sees it. One batch at a time; another thread may compact what it has appended."""

    def __init__(
        self,
        identifier: str,
        table: Table,
        pipeline: str,
        commit_user: str,
        *,
        resumes: bool,
        recorded_by: PropertiesOf | None = None,
        topic_ids: TopicIds = dict,
        recorded_since_ms: int | None = None,
        after: int = 0,
        first_new: int | None = None,
        has_told: bool = False,
    ) -> None:
        """``resumes``: a position written by another checkpoint of this pipeline counts (policy ``resume``).

        With ``recorded_by`` the commits are not of the stream: they leave the pipeline's position as it is, no row
        counts as stored already, and the properties of their snapshots are what it makes of the positions read. What
        departed in an earlier batch is looked for from ``recorded_since_ms`` on, by default nowhere.
        ``after`` is a snapshot behind which the commits that are still to be told apart come.
        ``first_new`` is the first batch that no earlier process of the checkpoint can have begun; that none of an older
        copy has either, the table's snapshots tell now, or have told before (``has_told``).
        ``topic_ids`` gives the ids of the topics that are read: positions in others of their names count no more.
        """
        self.identifier = identifier
        self.table = table
        self._pipeline = pipeline
        self._user = commit_user
        self._topic_ids = topic_ids
        self._on_step: Callable[[str], None] = lambda _: None
        self._first_checks: list[Callable[[], None]] = []
        self._lock = threading.RLock()
        self._known = KnownPositions(table.snapshots)
        self._recorded = self._known.newest(pipeline)
        self._recorded_at = self._known.at
        found = self._recorded.get(pipeline)
        owner = checkpoint_user(commit_user)
        self._is_lost_checkpoint = found is not None and found.commit_user != owner
        self._began_at = 0 if found is None else found.snapshot_id
        """The snapshot with the position from which the sink goes on."""
        self._alone_at = self._recorded_at
        """The newest snapshot below which nobody else was found to run the pipeline."""
        self._position = Position(owner, {}) if found is None else found
        if found is not None and self._is_lost_checkpoint:
            self._position = found.taken_over(owner) if resumes else found.started_over(owner)
        self._keeps_position = recorded_by is None
        self._properties_of = recorded_by or partial(to_properties, pipeline)
        if recorded_by is not None:
            self._is_lost_checkpoint = False
            departed = {} if recorded_since_ms is None else self._departed_since(recorded_since_ms)
            self._position = Position(
                commit_user, {}, {}, self._position.sources, departed=departed, writer=commit_user
            )
        is_new = found is None and recorded_by is None and pipeline not in marking_pipelines(table.io, table.paths)
        self._others_up_to = after
        self._first_new = first_new
        self._has_told = has_told or found is not None
        self.found_batch = -1 if found is None or found.writer != commit_user else found.commit_identifier
        """The batch of the stream that was the newest in the table when the sink was made, as snapshots tell; or -1."""
        if found is not None and recorded_by is None and found.writer != commit_user:
            # Those who commit for a pipeline follow each other: what this one had before was of earlier batches.
            self._others_up_to = found.snapshot_id
        self._commit = self._committer(None, is_new_user=is_new)
        self._commit.refresh()
        self._planned_on = self._commit.rollback_count
        """How often the table had been rolled back when the tasks of the batch were told its state."""
        if is_new:
            self._others_up_to = self._commit.state.snapshot_id
        self._everybody: tuple[SnapshotIdentity | None, Mapping[str, Position]] = (None, {})
        """The newest position of each pipeline, and the snapshot at which they were looked for."""
        self._looked_after = self._commit.rollback_count
        """How many rollbacks were seen when the commits of the pipeline were last counted."""
        self._key_lanes: int | None = None
        self._packer = FilePacker()

    def _departed_since(self, time_ms: int) -> Mapping[int, tuple[str, ...]]:
        newest = self.table.snapshots.newest_of_user(self._user, time_ms - CLOCK_SKEW_MS)
        return {} if newest is None else departed_of(newest)

    @property
    def is_lost_checkpoint(self) -> bool:
        """Whether another checkpoint of the same pipeline wrote this table."""
        return self._is_lost_checkpoint

    @property
    def sources(self) -> Mapping[FedBy, tuple[str, ...]]:
        """The source tables that feed the table, whatever pipeline brings them, with the message key of each."""
        recorded = {source: key for position in self._recorded.values() for source, key in position.sources.items()}
        return {**recorded, **self._position.sources}

    @property
    def unnamed_topics(self) -> frozenset[str]:
        """Topics that fed the table before the source tables were recorded."""
        topics = {topic for position in self._recorded.values() for topic, _ in position.offsets}
        return frozenset(topics - {source.topic for source in self.sources})

    def read_by_others(self, source: FedBy) -> dict[str, dict[int, int]]:
        """Next offsets in its topic of the pipelines that have brought records of ``source``; none where this one has.

        The pipelines are those that have ever written the table, as far as their snapshots are there.
        """
        own = self._recorded.get(self._pipeline)
        if own is not None and own.has_read(source):
            return {}
        if self._everybody[0] != self.state.identity:
            marks = marking_pipelines(self.table.io, self.table.paths)
            self._everybody = (self.state.identity, self._known.newest(self._pipeline, *marks))
        others = {name: position for name, position in self._everybody[1].items() if name != self._pipeline}
        ids = self._topic_ids()
        return {
            name: offsets
            for name, position in others.items()
            if position.has_read(source) and (offsets := position.among(ids).offsets_in(source.topic))
        }

    def check_first(self, check: Callable[[], None]) -> None:
        """Call ``check``, and again whenever others have committed until this one's next commit is published.

        What it raises then ends that commit: of two who begin at the same moment, the later one sees the earlier.
        """
        check()
        self._first_checks.append(check)

    def _check_not_rolled_back(self) -> None:
        """RolledBack where commits to this table are gone: going on would leave their rows out for ever."""
        if not self._keeps_position or not (self._commit.is_any_gone or self._lacks_commits()):
            return
        table = self.table
        if TableFiles(table.io, table.paths).created_ms() == table.created_ms:
            raise rolled_back(self.identifier, self._pipeline)

    def _lacks_commits(self) -> bool:
        """Whether commits that the sink went on from went with a rollback; looks once after each.

        False where no position is left and some snapshots have expired: that tells nothing.
        """
        if self._commit.rollback_count == self._looked_after:
            return False
        self._looked_after = self._commit.rollback_count
        snapshots = self.table.snapshots
        found = newest_position(snapshots, self._pipeline)
        if found is None and has_expired(snapshots):
            return False
        return (0 if found is None else found.commit_count) < self._position.commit_count

    def _check_not_run_twice(self) -> None:
        """RunTwice where another checkpoint of the pipeline has committed since this one began."""
        newest = self._commit.state.snapshot
        if not self._keeps_position or newest is None or newest.commit_user == self._user:
            return
        if newest.identity != self._alone_at:
            found = self._known.newest(self._pipeline).get(self._pipeline)
            is_other = found is not None and found.commit_user != checkpoint_user(self._user)
            if found is not None and is_other and found.snapshot_id > self._began_at:
                raise RunTwice(
                    f"table {self.identifier} has commits of pipeline {self._pipeline} under another checkpoint"
                    f" since this one began (snapshot {found.snapshot_id}): two processes run the pipeline, and"
                    " each would bring every record. Stop one of them. The other one, started anew, goes on from"
                    " what the tables hold"
                ).without_values()
            self._alone_at = newest.identity

    def _check_same_base(self) -> None:
        """CommitConflict where the state that the tasks were told of is gone: their sequence numbers may be too low."""
        if self._commit.rollback_count != self._planned_on:
            raise CommitConflict(
                f"table {self.identifier} was rolled back while a batch for it was under way: the batch is written anew"
            ).without_values()

    def _check_anew(self) -> None:
        self._check_not_rolled_back()
        self._check_same_base()
        self._check_not_run_twice()
        newest = self._commit.state.identity
        if not self._first_checks or newest == self._recorded_at:
            return
        self._recorded, self._recorded_at = self._known.newest(self._pipeline), newest
        for check in self._first_checks:
            check()

    def feed(self, source: FedBy, key: Sequence[str]) -> None:
        """Record with the next commit that ``source``, with this message key, feeds the table."""
        with self._lock:
            self._position = self._position.fed_by(source, key)

    @property
    def state(self) -> TableState:
        return self._commit.state

    def refresh(self) -> None:
        """Catch up with schemas and snapshots that other writers have published since."""
        with self._lock:
            newest = self.table.refreshed()
            if newest is not self.table:
                self._use(newest)
            self._commit.refresh()
            self._check_not_rolled_back()

    def evolve(self, changes: Sequence[SchemaChange], time_ms: int) -> None:
        """Publish a new schema version with ``changes``."""
        with self._lock:
            self._use(self.table.evolve(changes, time_ms))

    def routing(self) -> Routing:
        """What the decode tasks need to know, as far as it is known already: no look at the storage."""
        return Routing(self.table.schema, self.table.options, self.table.lanes(self._live_files()), self._floors)

    def share_keys(self, lanes: int) -> None:
        """Share the keys of all partitions among so many lanes from now on: those of the options do not fit."""
        with self._lock:
            self._key_lanes = lanes

    def _live_files(self) -> LiveFiles:
        return replace(self.state.live_files(), key_lanes=self._key_lanes)

    def target(self, batch_id: int, started_ms: int | None) -> Target:
        """What the tasks of ``batch_id`` need to know, as of the last ``refresh``; ``started_ms`` as for ``commit``."""
        with self._lock:
            context = self.table.context
            is_appended = self._has(batch_id, self._commit.known_identifier(started_ms, batch_id))
            self._planned_on = self._commit.rollback_count
            return Target(
                self.identifier,
                context,
                self._packer.pack(self._live_files()),
                self._floors,
                is_appended,
                self.compacts_fully(batch_id),
                self._position.departed_texts,
            )

    def idle_target(self) -> Target:
        """The target of a batch that leaves the table out; asks the storage nothing."""
        with self._lock:
            return Target(self.identifier, self.table.context, self._live_files(), is_appended=True, is_left_out=True)

    @property
    def _floors(self) -> Mapping[TopicPartition, int]:
        """Rows below these offsets are in the table already."""
        return self._position.among(self._topic_ids()).floors

    @property
    def position(self) -> Position:
        """How far the table has come with the last commit."""
        return self._position

    def is_appended(self, batch_id: int, started_ms: int | None) -> bool:
        """Whether the rows of ``batch_id`` are in the table already: an earlier run of the batch got that far."""
        with self._lock:
            return self._has(batch_id, self._commit.committed_identifier(started_ms, batch_id))

    @staticmethod
    def _has(batch_id: int, newest: int | None) -> bool:
        return newest is not None and newest >= batch_id

    def compacts_fully(self, batch_id: int) -> bool:
        """Whether ``full-compaction.delta-commits`` falls on this batch: every N-th, as in Paimon's Spark writer."""
        interval = self.table.options.full_compaction_interval
        return interval is not None and not self.table.options.write_only and (batch_id + 1) % interval == 0

    def unfinished_batch(self, closed_batch: int | None, started_ms: int | None) -> int | None:
        """The newest batch that may have left compactions to do: it appended rows and did not compact them.

        ``closed_batch`` is the last one that Spark took for done, ``started_ms`` a time before which it was not planned
        yet: what batches before it appended is compacted. If it compacts fully, that is due also without rows.
        """
        since_ms = None if started_ms is None else started_ms - CLOCK_SKEW_MS
        newest = self.table.snapshots.newest_of_user(self._user, since_ms)
        is_older = closed_batch is not None and (newest is None or newest.commit_identifier < closed_batch)
        if closed_batch is not None and is_older and self.compacts_fully(closed_batch):
            return closed_batch
        return newest.commit_identifier if newest is not None and newest.commit_kind == CommitKind.APPEND else None

    def pending_compactions(self, batch_id: int, started_ms: int | None) -> tuple[BucketId, ...]:
        """Buckets that ``batch_id`` must compact even if no rows arrive for them.

        In a batch that compacts fully, all that have files below their highest level, of whatever batch. Otherwise
        those that an earlier run of the batch appended to but did not compact, where readers wait for it; and all with
        level-0 files, of whatever batch or writer, where nobody would see their rows until more rows arrive.
        That is as of the last ``refresh``.
        """
        if self.table.options.write_only:
            return ()
        with self._lock:
            is_appended = self._has(batch_id, self._commit.known_identifier(started_ms, batch_id))
        if is_appended:
            newest = self.table.snapshots.newest_of_user(self._user)
            if newest is None or newest.commit_identifier != batch_id or newest.commit_kind == CommitKind.COMPACT:
                return ()
        return self.table.due_compactions(self.state, fully=self.compacts_fully(batch_id), is_appended=is_appended)

    def commit(
        self,
        batch_id: int,
        messages: Sequence[CommitMessage],
        ends: Mapping[TopicPartition, int],
        on_step: Callable[[str], None],
        started_ms: int | None,
        departed: Sequence[str] = (),
    ) -> CommitResult:
        """Publish ``messages`` as commit ``batch_id``: APPEND, then COMPACT. Idempotent per batch id.

        Without any it is an empty snapshot, which has the position.

        ``started_ms``: when Spark first planned the batch; it cannot have been committed before. A compaction that lost
        against another writer's, or against a rescale, is dropped, which the result says: ``pending_compactions`` has
        what is to be compacted anew.
        """
        with self._lock:
            known = self._position if self._position.writer == self._user else self._position.counted_from(batch_id)
            reached = known.advanced(ends, self._topic_ids()).with_departed(batch_id, departed)
            position = replace(reached, writer=self._user, commit_count=known.commit_count + 1)
            self._on_step = on_step
            try:
                properties = {**self._properties_of(position), **self._lane_properties()}
                result = self._commit.commit(
                    batch_id, messages, properties, started_ms=started_ms, also_empty=not messages
                )
            except (CommitConflict, BucketCountChanged):
                self._commit.refresh()
                if not self.is_appended(batch_id, started_ms):
                    raise
                result = CommitResult(is_compaction_lost=True)
            published = result.compact or result.append
            if published is not None or result.replayed:
                self._first_checks.clear()
            if published is None:
                self._position = replace(position, commit_count=known.commit_count)
            else:
                self._position = replace(position, snapshot_id=published.id)
            return result

    def _lane_properties(self) -> Mapping[str, str]:
        return key_lane_properties(self.table.schema, self.table.options, self._live_files())

    def _use(self, table: Table) -> None:
        self.table = table
        self._commit = self._committer(self._commit)

    def _committer(self, before: TableCommit | None, *, is_new_user: bool = False) -> TableCommit:
        return self.table.new_commit(
            self._user,
            on_step=lambda step: self._on_step(step),
            on_attempt=self._check_anew,
            before=before,
            is_new_user=is_new_user,
            others_up_to=self._others_up_to,
            first_new=self._first_new,
            has_told=self._has_told,
        )
