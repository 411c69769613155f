"""Driver side: one target table of a running pipeline, with its schema, state, position and commits.

Exactly once (docs/INVARIANTS.md). A snapshot of the pipeline holds rows and, in its properties, the position up to
which the table has all rows. Tidemark drops rows below the position before it writes, and publishes a commit only on
top of the position for which its rows were planned. So no row is written twice. This covers a repeated batch, an older
process that still commits, a new checkpoint, and a killed slice. Dump files give offsets in any order: for them the
batch number in the snapshot is the position.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from paimon_table import (
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
from sinks.commit.own_position import OwnPosition, OwnReading, Step
from sinks.commit.pipeline_mark import has_mark, marking_pipelines
from sinks.commit.positions import (
    EMPTIED_PROPERTY,
    FedBy,
    Position,
    TopicPartition,
    checkpoint_user,
    to_properties,
)
from sinks.exchange.target import Routing, Target

TopicIds = Callable[[], Mapping[str, str]]
"""Returns the ids of the topics that are read, by name. Kafka assigns an id when it creates a topic."""


class RunTwice(ConfigError):
    """Two processes run one pipeline under different checkpoints, and both write the table."""


class TableSink:
    """A target table on the driver. It commits one batch at a time; another thread may compact appended rows."""

    def __init__(
        self,
        identifier: str,
        table: Table,
        pipeline: str,
        commit_user: str,
        *,
        resumes: bool,
        by_offsets: bool = True,
        reading: OwnReading | None = None,
        topic_ids: TopicIds = dict,
        noted: Position | None = None,
    ) -> None:
        """``resumes``: a position written by another checkpoint of this pipeline counts (policy ``resume``).

        ``by_offsets``: the source gives each offset of a partition once, in order; False for dump files. With
        ``reading`` the commits do not move the pipeline's position. ``topic_ids`` returns the ids of the topics that
        are read: positions in earlier topics of their names are not valid. ``noted`` is the position that the
        checkpoint has noted: for a table whose snapshots no longer show one.

        Raises RolledBack if the table lacks commits.
        """
        self.identifier = identifier
        self.table = table
        self._pipeline = pipeline
        self._user = commit_user
        self._owner = checkpoint_user(commit_user)
        self._resumes = resumes
        self._by_offsets = by_offsets
        self._topic_ids = topic_ids
        self._on_step: Callable[[str], None] = lambda _: None
        self._first_checks: list[Callable[[], None]] = []
        self._lock = threading.RLock()
        self._known = KnownPositions(table.snapshots)
        self._fed: dict[FedBy, tuple[str, ...]] = {}
        """The source tables of the table seen in this run."""
        self._noted = noted or Position(self._owner, {})
        self.position: Position
        """The position of the table after the last commit."""
        self._properties_of = partial(to_properties, pipeline) if reading is None else reading.properties_of
        if reading is None:
            self._own = OwnPosition(
                table.snapshots,
                self._known,
                pipeline,
                commit_user,
                by_offsets=by_offsets,
                counted=lambda position: self._own_part(position).among(topic_ids()),
                has_written=lambda: has_mark(table.io, table.paths, pipeline),
                noted_at=self._noted.snapshot_id,
            )
        else:
            self._by_offsets = reading.by_offsets
            self._own = reading.position_in(table, identifier, commit_user)
        self._commit = self._committer(None)
        newest = self._commit.refresh().snapshot
        found = self._own.look(newest)
        self._recorded = self._known.newest(pipeline) if reading is not None else self._known.seen(pipeline)
        self._recorded_at = self._known.at
        self._began_at = 0 if found is None else found.snapshot_id
        """The snapshot with the position from which the sink continues."""
        self._is_lost_checkpoint = found is not None and found.commit_user != self._owner
        if reading is not None and pipeline in self._recorded:
            self._fed.update(self._recorded[pipeline].sources)
        self._take(found)
        self.found_batch = -1 if found is None or found.writer != commit_user else found.commit_identifier
        """The newest batch of the stream in the table when the sink was created; -1 without one."""
        self._planned_on = self._commit.rollback_count
        """The number of rollbacks of the table when the tasks of the batch got its state."""
        self._everybody: tuple[SnapshotIdentity | None, Mapping[str, Position]] = (None, {})
        """The newest position of each pipeline, and the newest snapshot at that moment."""
        self._key_lanes: int | None = None
        self._packer = FilePacker()
        self._check_not_rolled_back()

    def _take(self, newest: Position | None) -> None:
        """Continue from the newest position that the table records."""
        self._own.base = newest
        if newest is None:
            offsets = self._noted.offsets if self.is_hidden else {}
            position = Position(self._owner, offsets, commit_count=self._noted.commit_count)
        else:
            position = self._own_part(newest)
        for source, key in self._fed.items():
            position = position.fed_by(source, key)
        self.position = position

    @property
    def is_hidden(self) -> bool:
        """Whether the pipeline has written the table, but no snapshot shows its position any longer."""
        return self._own.is_hidden

    def _own_part(self, position: Position) -> Position:
        """The part of a recorded position that is valid under this checkpoint."""
        return position.under(self._owner, resumes=self._resumes)

    @property
    def is_lost_checkpoint(self) -> bool:
        """Whether another checkpoint of the same pipeline wrote this table."""
        return self._is_lost_checkpoint

    @property
    def sources(self) -> Mapping[FedBy, tuple[str, ...]]:
        """The source tables that feed the table through any pipeline, with the message key of each."""
        recorded = {source: key for position in self._recorded.values() for source, key in position.sources.items()}
        return {**recorded, **self.position.sources}

    @property
    def fed_before(self) -> frozenset[FedBy]:
        """The sources with records in the table when the sink was created."""
        return frozenset(source for position in self._recorded.values() for source in position.sources)

    @property
    def unnamed_topics(self) -> frozenset[str]:
        """Topics that fed the table before the source tables were recorded."""
        topics = {topic for position in self._recorded.values() for topic, _ in position.offsets}
        return frozenset(topics - {source.topic for source in self.sources})

    def read_by_others(self, source: FedBy) -> dict[str, dict[int, int]]:
        """By pipeline, the next offsets in the topic of ``source``, if other pipelines wrote its records and this one
        did not.

        All pipelines count that have written the table, as far as their snapshots exist.
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
        """Call ``check`` now, and after each commit of another writer until this sink's next commit is published.

        If it raises, that commit fails: of two processes that begin at the same moment, the later one sees the earlier.
        """
        check()
        self._first_checks.append(check)

    def _check_not_rolled_back(self) -> None:
        """Raises RolledBack if the table lost commits that the sink continued from: their rows would stay missing."""
        own, table = self._own, self.table
        newest = own.look(self._commit.state.snapshot)
        count = 0 if newest is None else newest.commit_count
        if own.is_hidden or count >= max(self.position.commit_count, self._noted.commit_count):
            return
        if TableFiles(table.io, table.paths).created_ms() == table.created_ms:
            raise RolledBack(
                f"table {self.identifier} was rolled back while pipeline {self._pipeline} wrote it. The pipeline"
                " restarts from its checkpoint and catches the table up from its new position. Stop all writers of a"
                " table before you roll it back"
            ).without_values()

    def _check_alone(self, newest: Position | None) -> None:
        """Raises RunTwice if another checkpoint of the pipeline has committed since this one began."""
        if newest is not None and newest.commit_user != self._owner and newest.snapshot_id > self._began_at:
            raise RunTwice(
                f"table {self.identifier} has commits of pipeline {self._pipeline} under another checkpoint since this "
                f"one began (snapshot {newest.snapshot_id}): two processes run the pipeline and write "
                "every record. Stop one of them, then restart the other: it continues from the positions in the tables"
            ).without_values()

    def _check_same_base(self) -> None:
        """Raises CommitConflict if the state that the tasks got has changed: the batch must be planned again."""
        if self._commit.rollback_count != self._planned_on:
            raise CommitConflict(
                f"table {self.identifier} was rolled back during a batch: Tidemark writes the batch again"
            ).without_values()
        own = self._own
        if own.look(self._commit.state.snapshot) != own.base:
            raise CommitConflict(
                f"another process of pipeline {self._pipeline} has committed to table {self.identifier} during a "
                "batch: Tidemark plans the batch again, without the rows that the table has"
            ).without_values()

    def _check_anew(self) -> None:
        self._check_not_rolled_back()
        self._check_alone(self._own.look(self._commit.state.snapshot))
        self._check_same_base()
        newest = self._commit.state.identity
        if not self._first_checks or newest == self._recorded_at:
            return
        self._recorded, self._recorded_at = self._known.newest(self._pipeline), newest
        for check in self._first_checks:
            check()

    def feed(self, source: FedBy, key: Sequence[str]) -> None:
        """Record with the next commit that ``source``, with this message key, feeds the table."""
        with self._lock:
            self._fed[source] = tuple(key)
            self.position = self.position.fed_by(source, key)

    @property
    def state(self) -> TableState:
        return self._commit.state

    def refresh(self) -> None:
        """Load the schemas and snapshots that other writers have published."""
        with self._lock:
            newest = self.table.refreshed()
            if newest is not self.table:
                self._use(newest)
            self._commit.refresh()
            self._check_not_rolled_back()
            recorded = self._own.look(self._commit.state.snapshot)
            self._check_alone(recorded)
            if recorded != self._own.base:
                self._take(recorded)

    def evolve(self, changes: Sequence[SchemaChange], time_ms: int) -> None:
        """Publish a new schema version with ``changes``."""
        with self._lock:
            self._use(self.table.evolve(changes, time_ms))

    def routing(self) -> Routing:
        """The facts for the decode tasks, as far as known; does not read storage."""
        return Routing(self.table.schema, self.table.options, self.table.lanes(self._live_files()), self._floors)

    def share_keys(self, lanes: int) -> None:
        """Distribute the keys of all partitions over this many lanes from now on, because the options set none that
        fits."""
        with self._lock:
            self._key_lanes = lanes

    def _live_files(self) -> LiveFiles:
        return replace(self.state.live_files(), key_lanes=self._key_lanes)

    def target(self, batch_id: int, started_ms: int | None) -> Target:
        """The facts for the tasks of ``batch_id``, as of the last ``refresh``; ``started_ms`` as for ``commit``."""
        with self._lock:
            context = self.table.context
            self._planned_on = self._commit.rollback_count
            return Target(
                self.identifier,
                context,
                self._packer.pack(self._live_files()),
                self._has_number(batch_id, started_ms) and not self.drops_by_offset,
                self.compacts_fully(batch_id),
                self.position.departed_texts,
            )

    def idle_target(self) -> Target:
        """The target of a batch that leaves the table out; does not read storage."""
        with self._lock:
            return Target(self.identifier, self.table.context, self._live_files(), is_appended=True, is_paused=True)

    @property
    def topic_ids(self) -> Mapping[str, str]:
        """The ids of the topics that are read, as far as they are known."""
        return self._topic_ids()

    @property
    def drops_by_offset(self) -> bool:
        """Whether offsets, not the number of the batch, show which rows the table has."""
        return self._by_offsets

    @property
    def _floors(self) -> Mapping[TopicPartition, int]:
        """The table has all rows below these offsets."""
        return self.position.among(self._topic_ids()).floors_of(by_offsets=self.drops_by_offset)

    def has_passed(self, places: Mapping[TopicPartition, int]) -> bool:
        """Whether the position shows that the table has all rows up to these offsets."""
        floors = self._floors
        return all(floors.get(place, 0) >= end for place, end in places.items())

    def is_appended(self, batch_id: int, started_ms: int | None) -> bool:
        """Whether an earlier run of ``batch_id``, or a later batch, has committed to the table; reads storage."""
        with self._lock:
            self._commit.refresh()
            return self._has_number(batch_id, started_ms)

    def has_number(self, batch_id: int, started_ms: int | None) -> bool:
        """``is_appended`` as of the last look at the table; False if offsets show which rows it has."""
        with self._lock:
            return not self.drops_by_offset and self._has_number(batch_id, started_ms)

    def _has_number(self, batch_id: int, started_ms: int | None) -> bool:
        """``is_appended`` as of the last look at the table, for every source."""
        return self._own.has_step(batch_id, self.state.snapshot, started_ms)

    def has_rows(self, batch_id: int, ends: Mapping[TopicPartition, int], started_ms: int | None) -> bool:
        """Whether the table has the rows of ``batch_id``, which ends at ``ends``; reads storage."""
        with self._lock:
            if self.drops_by_offset:
                self._own.look(self._commit.refresh().snapshot)
                return self._own.has_rows(Step(batch_id, ends))
            return self.is_appended(batch_id, started_ms)

    def compacts_fully(self, batch_id: int) -> bool:
        """Whether ``full-compaction.delta-commits`` falls on this batch: every N-th, as in Paimon's Spark writer."""
        interval = self.table.options.full_compaction_interval
        return interval is not None and not self.table.options.write_only and (batch_id + 1) % interval == 0

    def unfinished_batch(self, closed_batch: int | None) -> int | None:
        """The newest batch that may have left compactions to do: it appended rows and did not compact them.

        ``closed_batch`` is the last one that Spark recorded as done. Its full compaction is due even without rows.
        """
        newest = self._own.look(self.state.snapshot)
        if newest is not None and newest.writer != self._user:
            newest = None
        is_older = closed_batch is not None and (newest is None or newest.commit_identifier < closed_batch)
        if closed_batch is not None and is_older and self.compacts_fully(closed_batch):
            return closed_batch
        return newest.commit_identifier if newest is not None and newest.commit_kind == CommitKind.APPEND else None

    def pending_compactions(self, batch_id: int, started_ms: int | None) -> tuple[BucketId, ...]:
        """Buckets that ``batch_id`` must compact even if no rows arrive for them.

        If the batch compacts fully: all buckets with files below their highest level, of any batch. Otherwise, if
        readers wait: those that an earlier run of the batch appended to but did not compact. In either case, all
        buckets with level-0 files of any writer, if readers would see their rows only after more rows arrive. The
        result is as of the last ``refresh``.
        """
        if self.table.options.write_only:
            return ()
        with self._lock:
            is_appended = self._has_number(batch_id, started_ms)
            newest = self._own.newest(self.state.snapshot, started_ms) if is_appended else None
        if newest is not None and (newest.commit_identifier != batch_id or newest.commit_kind is CommitKind.COMPACT):
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
        watermark_ms: int | None = None,
        *,
        is_emptied: bool = False,
    ) -> CommitResult:
        """Publish ``messages`` as commit ``batch_id``: APPEND, then COMPACT. It is idempotent per batch id.

        Without messages it publishes an empty snapshot with the position. ``is_emptied``: the commit follows a
        TRUNCATE.

        ``started_ms``: when Spark first planned the batch; no commit of it is older. If another writer's compaction or
        a rescale wins, the compaction of this batch is dropped. The result reports that, and ``pending_compactions``
        returns the buckets to compact again.
        """
        with self._lock:
            known = self.position if self.position.writer == self._user else self.position.counted_from(batch_id)
            reached = known.advanced(ends, self._topic_ids()).with_departed(batch_id, departed)
            position = replace(reached, writer=self._user, commit_count=known.commit_count + 1)
            self._on_step = on_step
            self._own.step = Step(batch_id, ends)
            try:
                properties = {**self._properties_of(position), **self._lane_properties()}
                properties |= {EMPTIED_PROPERTY: "true"} if is_emptied else {}
                result = self._commit.commit(
                    batch_id, messages, properties, watermark_ms, started_ms=started_ms, also_empty=not messages
                )
            except (CommitConflict, BucketCountChanged):
                if not self.has_rows(batch_id, ends, started_ms):
                    raise
                result = CommitResult(is_compaction_lost=True)
            published = result.compact or result.append
            if published is not None or result.replayed:
                self._first_checks.clear()
            self._take(self._own.position)
            return result

    def _lane_properties(self) -> Mapping[str, str]:
        return key_lane_properties(self.table.schema, self.table.options, self._live_files())

    def _use(self, table: Table) -> None:
        self.table = table
        self._commit = self._committer(self._commit)

    def _committer(self, before: TableCommit | None) -> TableCommit:
        return self.table.new_commit(
            self._user,
            on_step=lambda step: self._on_step(step),
            on_attempt=self._check_anew,
            own=self._own,
            before=before,
        )
