"""The writer of a pipeline's tables, and its purpose: the stream, a catch-up, a replay or a retry."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pipelines.checkpoint.book import Book
from pipelines.config.config import PipelineConfig
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.paused_tables import PausedTables
from sinks.commit.own_position import OwnReading
from sinks.commit.table_sink import TopicIds


@dataclass(frozen=True, slots=True)
class WritingScope:
    """The settings for opening and routing the tables of one writer, see ``PipelineTables``."""

    config: PipelineConfig
    commit_user: str
    own: OwnTables
    beside: OwnReading | None = None
    """None for the stream and for catch-ups: their commits move its position.

    Bad records of other writers stop nothing: they go to quarantine even if the stream would stop, or skip a record
    without a rule.
    """
    paused: PausedTables | None = None
    """Records the paused tables; without it no table can be paused, and each failure ends the run."""
    only: str | None = None
    """If set, all other tables count as tables without a rule."""
    topics_to_read: Collection[str] = ()
    """The topics from which the ``only`` table is caught up."""
    topic_ids: TopicIds = dict
    """Returns the ids of the topics that are read."""
    first_own: int | None = None
    """The first batch that no earlier process can have begun."""
    book: Book | None = None
    """Has the number of the pipeline's commits to each table."""
