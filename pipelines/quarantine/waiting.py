"""Open records that must wait: their table will still read them, so a retry would apply them twice.

The table is behind the stream, is being rebuilt, was rolled back, has a rule again, or waits for its backfill. Or the
batch that quarantined the records was never finished.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from paimon_table import TableName
from pipelines.bad_records.dead_letters import BadLine
from pipelines.catchup.table_standings import TableStandings
from pipelines.checkpoint.book import Book
from pipelines.checkpoint.checkpoint import Checkpoint, commit_user
from pipelines.checkpoint.replay_state import Replays
from pipelines.config.config import PipelineConfig
from pipelines.reading import source_reader
from pipelines.tables.continued_tables import continued_by
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.paused_tables import PausedTables
from pipelines.tables.target_names import source_names
from sinks.commit.own_position import Step
from sinks.commit.positions import Position
from sources.dumps.dump_lines import MALFORMED_PREFIX


@dataclass(frozen=True, slots=True)
class ReadingAgain:
    """A table that rereads its topics; None: all topics."""

    table: str
    topics: frozenset[str] | None
    is_rebuilt: bool = False

    def reads(self, topic: str) -> bool:
        """Whether the table rereads a record of ``topic`` that names no source table."""
        return self.topics is None or topic in self.topics

    @property
    def words(self) -> str:
        """Why its records wait."""
        if self.is_rebuilt:
            return (
                f"table {self.table} is being rebuilt from its topics, which may include these records. Retry them "
                f"after the rebuild (tidemark replay FILE --table {self.table} --rebuild continues it, --abandon "
                "gives it up)"
            )
        return (
            f"table {self.table} is behind the stream and rereads its topics from its position, which may include "
            "these records. Retry them after it has caught up (a rule must write it, then `tidemark resume FILE "
            f"--table {self.table}`, or a start)"
        )


class Waiting:
    """The waiting records, by the state of checkpoint and tables at its creation."""

    def __init__(self, config: PipelineConfig, own: OwnTables) -> None:
        self._config = config
        self._own = own
        checkpoint = Checkpoint(config)
        self._query = checkpoint.query_id
        self._closed = checkpoint.closed_batch
        self._ends = checkpoint.kafka_positions() if config.source.kafka is not None else None
        self._topic_ids = Book(checkpoint).topic_ids
        self._is_there: dict[str, bool] = {}
        self.reading_again = list(_reading_again(config, own, checkpoint))

    def words(self, line: BadLine, table: str) -> str | None:
        """Why a record for ``table`` waits; None if it does not."""
        return self.of_topic(line) or self._is_ahead(line, table) or self.of_table(table)

    def of_table(self, table: str) -> str | None:
        """Why all records of a table wait."""
        return next((one.words for one in self.reading_again if one.table == table), None)

    def of_topic(self, line: BadLine) -> str | None:
        """Why a record without a source table waits: a table that it may belong to will reread it."""
        if line.source is not None:
            return None
        return next((one.words for one in self.reading_again if one.reads(line.topic)), None)

    def _is_ahead(self, line: BadLine, table: str) -> str | None:
        if line.topic.startswith(MALFORMED_PREFIX) or "." not in table:
            return None
        by = continued_by(self._own.continuations, table)
        if by and not self._exists(table):
            return (
                f"table {table}, which {by} continues, no longer exists: `tidemark quarantine drop FILE --table "
                f"{table}` removes its records"
            )
        rule = self._config.rule_for(*source_names(line.topic, line.source), line.topic)
        if rule is not None and rule.backfill and not self._exists(table):
            return (
                f"table {table} does not exist, and its rule has `backfill: true`: start the pipeline, which creates "
                f"the table and reads its records, including these"
            )
        if not self._stream_reads(line) or self._has_passed(line, table):
            return None
        return (
            f"the pipeline has not read these records of {line.topic} for table {table} yet (its checkpoint is new, "
            "or it was killed within their batch). Start it first, then retry the remaining records"
        )

    def _stream_reads(self, line: BadLine) -> bool:
        """Whether the stream has not passed a record yet, as far as its checkpoint shows."""
        if line.topic_id and self._topic_ids.get(line.topic, line.topic_id) != line.topic_id:
            return False
        if self._closed is None:
            return True
        is_unfinished = line.owner == self._query and line.step > self._closed
        end = (self._ends or {}).get((line.topic, line.partition))
        return is_unfinished or (end is not None and line.offset >= end)

    def _has_passed(self, line: BadLine, table: str) -> bool:
        """Whether the stream will take a record for one that the table has."""
        position, by_offsets = self._positions.get(table), self._config.source.files is None
        if position is None:
            return False
        if line.offset < position.floors_of(by_offsets=by_offsets).get((line.topic, line.partition), 0):
            return True
        user = commit_user(self._config.name, line.owner)
        return not by_offsets and Step(line.step).is_in(position, user, by_offsets=False)

    def _exists(self, table: str) -> bool:
        if table not in self._is_there:
            self._is_there[table] = self._own.catalog.find(TableName.of(table)) is not None
        return self._is_there[table]

    @cached_property
    def _positions(self) -> dict[str, Position]:
        """The positions as the stream takes them under its checkpoint."""
        user = commit_user(self._config.name, self._query or "")
        resumes = self._config.on_lost_checkpoint == "resume"
        known = self._own.positions().known
        return {name: at.under(user, resumes=resumes).among(self._topic_ids) for name, at in known.items()}


def _reading_again(config: PipelineConfig, own: OwnTables, checkpoint: Checkpoint) -> Iterator[ReadingAgain]:
    """The tables that are behind, as a start of the pipeline would find them, and those under a rebuild."""
    book = Book(checkpoint)
    reader = source_reader(config, checkpoint, own, book).slices()
    paused = PausedTables(book, checkpoint)
    standings = TableStandings(config, own, checkpoint, paused, reader, lambda: book.topic_ids)
    for name, entry in () if checkpoint.is_new else standings.paused_at_start():
        if entry.pause is not None and entry.pause.has_rule:
            yield _of(name, entry.pause.topics)
        elif not continued_by(own.continuations, name):  # only records that name the table belong to it
            yield ReadingAgain(name, frozenset())
    for state in Replays(checkpoint).all():
        if state.rebuild is not None:
            yield ReadingAgain(state.table, frozenset(state.topics) if state.topics else None, is_rebuilt=True)


def _of(table: str, topics: Collection[str]) -> ReadingAgain:
    return ReadingAgain(table, frozenset(topics) if topics else None)
