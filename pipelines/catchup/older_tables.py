"""Tables that are older than the checkpoint: restored from a backup or rolled back while the stream went on.

Each says itself how far it has come, so it is left out and caught up from there, like a table that was paused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from paimon_table import Table, TableFiles, TableName
from paimon_table.errors import ConfigError
from pipelines.checkpoint.commit_counts import CommitCounts, Commits
from pipelines.checkpoint.sources_away import SourcesAway
from pipelines.config.config import PipelineConfig
from pipelines.tables.known_routes import may_write
from pipelines.tables.left_out import LeftOut
from pipelines.tables.own_tables import OwnPositions, OwnTables
from sinks.commit.positions import Position, has_expired, newest_position
from sinks.commit.table_sink import TableSink
from sources.slices import SliceReader
from sources.wording import counted

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OlderTable:
    """A table that lacks commits which the checkpoint remembers."""

    name: str
    known: Commits
    position: Position | None
    """None: it has no snapshot of the pipeline."""
    snapshot_id: int
    """Its newest snapshot; 0 where it has none."""

    @property
    def missing_count(self) -> int:
        return self.known.count - (0 if self.position is None else self.position.commit_count)


def older_tables(
    counts: CommitCounts, own: OwnTables, positions: OwnPositions, topic_ids: Mapping[str, str]
) -> Iterator[OlderTable]:
    """The tables that are older than what the checkpoint remembers of them; those that cannot be read are left out.

    One whose snapshots do not say any more what the pipeline has committed, because others have expired them, is not.
    ``topic_ids`` are the topics that are read.
    """
    for name, known in counts.all.items():
        position = positions.known.get(name)
        if name in positions.unreadable or (position is not None and position.commit_count >= known.count):
            continue  # without a look at its files
        files = own.catalog.files(TableName.of(name))
        older = _older(name, known, position, files, topic_ids) if files.created_ms() == known.created_ms else None
        if older is not None:
            yield older


def _older(
    name: str, known: Commits, position: Position | None, files: TableFiles, topic_ids: Mapping[str, str]
) -> OlderTable | None:
    """The table if it lacks commits; None also where its snapshots do not say any more what was committed.

    ConfigError where they do not say it and are older than those that had been there.
    """
    if known.count <= (0 if position is None else position.commit_count):
        return None
    newest = files.snapshots.latest_id() or 0
    if position is None and has_expired(files.snapshots):
        if newest >= known.snapshot_id:
            return None
        raise ConfigError(
            f"table {name} was rolled back, or restored, to snapshot {newest}, and lacks commits of the pipeline; the"
            " snapshots that tell which ones have expired, so nobody can say what is to be read again: restore a copy"
            " that has one of the pipeline's own snapshots, or drop the table and let its rule write into another one"
            " with `backfill: true`"
        )
    return OlderTable(name, known, None if position is None else position.among(topic_ids), newest)


def missing_count(config: PipelineConfig, counts: CommitCounts, identifier: str, table: Table) -> int:
    """How many of the commits that the checkpoint remembers a table lacks; 0 where its snapshots do not tell."""
    known, position = counts.all.get(identifier), newest_position(table.snapshots, config.name)
    if known is None or position is None or known.created_ms != table.created_ms:
        return 0
    return max(0, known.count - position.commit_count)


def commits_of(sink: TableSink) -> Commits:
    """What the checkpoint is to remember of a table."""
    topics = sorted({topic for topic, _ in sink.position.offsets})
    return Commits(sink.table.created_ms, sink.position.commit_count, tuple(topics), sink.position.snapshot_id)


def note_found(counts: CommitCounts, own: OwnTables, positions: OwnPositions) -> None:
    """Let the checkpoint know what the tables have that were found; what they lack of it is noted before.

    A batch that was killed has committed what nobody has counted, and a new checkpoint has counted nothing.
    """
    found: dict[str, Commits] = {}
    for name, position in positions.known.items():
        known = counts.all.get(name)
        if position.commit_count and (known is None or position.commit_count > known.count):
            topics = tuple(sorted({topic for topic, _ in position.offsets}))
            created_ms = own.catalog.files(TableName.of(name)).created_ms()
            if created_ms is not None:
                found[name] = Commits(created_ms, position.commit_count, topics, position.snapshot_id)
    counts.note(found)


def leave_out_older(
    config: PipelineConfig,
    own: OwnTables,
    positions: OwnPositions,
    counts: CommitCounts,
    left_out: LeftOut,
    reader: SliceReader,
    topic_ids: Mapping[str, str],
    away: SourcesAway,
) -> None:
    """Let the older tables be caught up from where they stand; ConfigError where the source cannot go back to there."""
    for table in older_tables(counts, own, positions, topic_ids):
        if may_write(config, TableName.of(table.name)) and not left_out.is_away(table.name):
            _leave_out(config, table, counts, left_out, reader, away)


class WentBack:
    """Looks whether a table on its way back into the stream was rolled back or restored meanwhile."""

    def __init__(
        self,
        config: PipelineConfig,
        own: OwnTables,
        counts: CommitCounts,
        left_out: LeftOut,
        reader: SliceReader,
        away: SourcesAway,
        topic_ids: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._config = config
        self._own = own
        self._counts = counts
        self._left_out = left_out
        self._reader = reader
        self._away = away
        self._topic_ids = topic_ids

    def __call__(self, identifier: str) -> bool:
        """Whether it was; then its mark says that it is caught up from where it stands. ConfigError as above.

        One that was dropped while it was filled from the first record is filled anew.
        """
        known = self._counts.all.get(identifier)
        if known is None or known.count == 0:
            return False
        files = self._own.catalog.files(TableName.of(identifier))
        if files.created_ms() != known.created_ms:
            is_filled = self._left_out.marks[identifier].begin is None
            if is_filled:
                self._left_out.fill_anew(identifier)
                self._counts.lower(identifier, 0, 0)
            return is_filled
        position = newest_position(files.snapshots, self._config.name)
        older = _older(identifier, known, position, files, self._topic_ids())
        if older is not None:
            _leave_out(self._config, older, self._counts, self._left_out, self._reader, self._away)
        return older is not None


def _leave_out(
    config: PipelineConfig,
    table: OlderTable,
    counts: CommitCounts,
    left_out: LeftOut,
    reader: SliceReader,
    away: SourcesAway,
) -> None:
    commits = counted(table.missing_count, "commit")
    offsets = {} if table.position is None else table.position.offsets
    begin = reader.position_at_offsets(offsets) if offsets else None
    if begin is None and offsets:
        raise ConfigError(
            f"table {table.name} lacks the last {commits} of pipeline {config.name} that"
            f" checkpoint {config.checkpoint} has (was it restored from a backup, or rolled back?), and dump files"
            " cannot be read again from there: move the checkpoint directory away and start again, a new one goes"
            " on from the positions in the tables (on_lost_checkpoint: resume)"
        )
    reason = f"it lacks the last {commits} of the pipeline: restored from a backup, or rolled back"
    batch_id, _ = left_out.next_batch
    away.lower(table.name, offsets, reader)
    left_out.go_back(table.name, reason, batch_id, begin, table.known.topics)
    log.warning("table %s: %s; it is read again from where it stands", table.name, reason)
    counts.lower(table.name, table.known.count - table.missing_count, table.snapshot_id)
