"""Who writes which tables of a pipeline, and for what: its stream, a table that catches up, a replay or a retry."""

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
    """What opens and routes the tables of one writer, see ``PipelineTables``."""

    config: PipelineConfig
    commit_user: str
    own: OwnTables
    beside: OwnReading | None = None
    """None for the stream and for tables that catch up with it: their commits move its position.

    Records of others stop nothing: where the stream would stop, or skip a record without a rule, they go to quarantine.
    """
    paused: PausedTables | None = None
    """Keeps the tables that are paused; without it none can be, and each that fails ends the run."""
    only: str | None = None
    """All other tables are as if no rule led to them."""
    topics_to_read: Collection[str] = ()
    """The topics from which the ``only`` table is brought up."""
    topic_ids: TopicIds = dict
    """Gives the ids of the topics that are read."""
    first_own: int | None = None
    """The first batch that no earlier process can have begun."""
    book: Book | None = None
    """Says how many commits of the pipeline the tables have."""
