"""Tables that read records of their topics again: what a retry would apply comes to them once more."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from paimon_table import TableName
from pipelines.catchup.table_standings import rolled_back_tables
from pipelines.checkpoint.book import Book
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.replay_state import Replays
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
    book = Book(checkpoint)
    for pause in book.pauses.values():
        if pause.has_rule or leading_rules(config, TableName.of(pause.table), (), pause.topics):
            yield _of(pause.table, pause.topics)
        else:  # only what names the table is for it
            yield ReadingAgain(pause.table, frozenset())
    for state in Replays(checkpoint).all():
        if state.rebuild is not None:
            yield ReadingAgain(state.table, frozenset(state.topics) if state.topics else None, is_rebuilt=True)
    for name, entry in rolled_back_tables(book, own):
        yield _of(name, entry.topics)
    for table, entry in book.tables.items():
        back = {one.source.topic for one in entry.ruleless if led_to(config, one.source) == TableName.of(table)}
        if back:
            yield _of(table, back)


def _of(table: str, topics: Collection[str]) -> ReadingAgain:
    return ReadingAgain(table, frozenset(topics) if topics else None)
