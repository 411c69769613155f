"""Tables that read records of their topics again: what a retry would apply comes to them once more."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from paimon_table import TableName
from pipelines.catchup.older_tables import older_tables
from pipelines.checkpoint.behind_marks import BehindMarks
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.commit_counts import CommitCounts
from pipelines.checkpoint.replay_state import Replays
from pipelines.checkpoint.sources_away import SourcesAway
from pipelines.checkpoint.topic_record import TopicRecord
from pipelines.config.config import PipelineConfig
from pipelines.tables.known_routes import leading_rules, led_to
from pipelines.tables.own_tables import OwnTables


@dataclass(frozen=True, slots=True)
class ReadingAgain:
    """One such table, and the topics that it reads; None: all."""

    table: str
    topics: frozenset[str] | None
    is_rebuilt: bool = False

    def reads(self, topic: str) -> bool:
        """Whether a record of ``topic`` that names no source table is read again."""
        return self.topics is None or topic in self.topics

    @property
    def words(self) -> str:
        """Why its records wait."""
        if self.is_rebuilt:
            return (
                f"table {self.table} is being built anew from its topics, perhaps from these records too: retry them"
                f" once that has ended (tidemark replay FILE --table {self.table} --rebuild goes on with it, --abandon"
                " gives it up)"
            )
        return (
            f"table {self.table} is behind the stream and reads its topics again from where it stands, perhaps these"
            " records too: retry them once it has caught up (a rule has to lead to it, then `tidemark resume FILE"
            f" --table {self.table}`, or a start)"
        )


def reading_again(config: PipelineConfig, own: OwnTables) -> list[ReadingAgain]:
    """The tables that are behind, that are rebuilt, and of which the next start of the pipeline finds they are behind.

    The last are tables that were rolled back, and those of which a rule is back that was away.
    """
    return list(_reading_again(config, own))


def _reading_again(config: PipelineConfig, own: OwnTables) -> Iterator[ReadingAgain]:
    checkpoint = Checkpoint(config)
    for mark in BehindMarks(checkpoint).all.values():
        if mark.is_behind or (mark.misses_records and leading_rules(config, TableName.of(mark.table), (), mark.topics)):
            yield _of(mark.table, mark.topics)
        elif mark.misses_records:  # away: only what names the table is for it
            yield ReadingAgain(mark.table, frozenset())
    for state in Replays(checkpoint).all():
        if state.rebuild is not None:
            yield ReadingAgain(state.table, frozenset(state.topics) if state.topics else None, is_rebuilt=True)
    for older in older_tables(CommitCounts(checkpoint), own, own.positions(), TopicRecord(checkpoint).ids):
        yield _of(older.name, older.known.topics)
    for table, sources in SourcesAway(checkpoint).read().items():
        back = {source.topic for source in sources if led_to(config, source) == TableName.of(table)}
        if back:
            yield _of(table, back)


def _of(table: str, topics: Collection[str]) -> ReadingAgain:
    return ReadingAgain(table, frozenset(topics) if topics else None)
