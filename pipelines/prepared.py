"""A pipeline that may be started: what its checkpoint and its source tell without Spark is right."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_table import Catalog
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.commit_counts import CommitCounts
from pipelines.checkpoint.topic_record import TopicRecord
from pipelines.config.config import PipelineConfig
from pipelines.reading import source_reader
from pipelines.storage import catalog_of
from pipelines.tables.checkpoint_record import CheckpointRecord
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.rule_checks import check_tables_of_others
from sources.reader import SourceReader


@dataclass(frozen=True, slots=True)
class PreparedPipeline:
    """What one run of a pipeline works with; belongs to that run alone."""

    config: PipelineConfig
    checkpoint: Checkpoint
    query_id: str | None
    """The identity of the checkpoint; None for one that Spark has not made yet."""
    record: CheckpointRecord
    catalog: Catalog
    own: OwnTables
    topics: TopicRecord
    counts: CommitCounts
    reader: SourceReader


def prepared(config: PipelineConfig) -> PreparedPipeline:
    """Look at checkpoint and source, once per run and before Spark: nobody waits for it to hear what is wrong.

    Raises CorruptFile for a checkpoint that Spark would fail on or misread, ConfigError when it is that of another
    pipeline or of other tables, when a table that is there already is not as its rule says, or when there is nothing to
    read.
    """
    checkpoint = Checkpoint(config)
    checkpoint.check()
    catalog = catalog_of(config)
    record = CheckpointRecord(config, checkpoint, catalog)
    query_id = checkpoint.query_id
    record.check(None if query_id is None else commit_user(config, query_id))
    own = OwnTables(config, catalog, record)
    topics = TopicRecord(checkpoint)
    reader = source_reader(config, checkpoint, own, topics)
    reader.check()
    check_tables_of_others(config, own)
    return PreparedPipeline(
        config, checkpoint, query_id, record, catalog, own, topics, CommitCounts(checkpoint), reader
    )


def own_tables(config: PipelineConfig) -> OwnTables:
    """The tables of a pipeline, for a command that looks at them beside its runs."""
    catalog = catalog_of(config)
    return OwnTables(config, catalog, CheckpointRecord(config, Checkpoint(config), catalog))


def table_names(config: PipelineConfig) -> set[str]:
    """The tables that a pipeline has written, and those that its rules name without placeholders."""
    return {*map(str, own_tables(config).names()), *(rule.into for rule in config.tables if "{" not in rule.into)}


def commit_user(config: PipelineConfig, query_id: str) -> str:
    """Who commits, as snapshots say: the identity of the checkpoint."""
    return f"tidemark-{config.name}-{query_id}"
