"""Several source tables that feed one table: only allowed if the rule says why their rows may meet.

Shards and copies of a table use the same keys for different rows, which would silently overwrite each other. The
snapshots of a table record its source tables, so a second one is noticed whenever it comes.
"""

from __future__ import annotations

from dataclasses import replace

from paimon_table.errors import ConfigError
from pipelines.config.table_rules import TargetRule
from sinks.commit.positions import FedBy
from sinks.commit.table_sink import TableSink
from sources.changes import SourceTable
from sources.column_sources import OPTION, ColumnSources


def fed_by(source: SourceTable) -> FedBy:
    """The source table as a table's snapshots record it."""
    return FedBy(source.topic, source.database, source.schema, source.table)


def feeds_alone(rule: TargetRule, sink: TableSink) -> bool:
    """Whether the columns of a table come from one source table."""
    return rule.merge_sources is None and len(sink.sources) <= 1


def remembered(sink: TableSink, source: SourceTable) -> ColumnSources:
    """The stored facts of a table about its sources, if they apply to the present topic of a source table."""
    return ColumnSources.parsed(sink.table.schema.options.get(OPTION)).in_topics(_topic_ids(sink, source))


def names_of(sink: TableSink, source: SourceTable) -> ColumnSources:
    """The stored facts of a table, if they apply to a source table."""
    return names_for(remembered(sink, source), source)


def names_for(known: ColumnSources, source: SourceTable) -> ColumnSources:
    """``known`` without former names of the columns of another source table."""
    return known if known.source in ("", source_words(fed_by(source))) else replace(known, renamed={}, past={})


def with_names_of(known: ColumnSources, sink: TableSink, source: SourceTable) -> ColumnSources:
    """The facts to store: former names belong to this source table, if they are new."""
    before = ColumnSources.parsed(sink.table.schema.options.get(OPTION))
    if (known.renamed, known.past, known.since, known.gone) == (before.renamed, before.past, before.since, before.gone):
        return known
    topics = {**known.topics, **_topic_ids(sink, source)}
    return replace(known, source=source_words(fed_by(source)), topics=topics)


def _topic_ids(sink: TableSink, source: SourceTable) -> dict[str, str]:
    return {topic: id_ for topic, id_ in sink.topic_ids.items() if topic == source.topic}


def check_sources(source: SourceTable, sink: TableSink, rule: TargetRule) -> None:
    """Refuse rows of ``source`` in a table with rows of another source table, unless the rule allows both."""
    if rule.merge_sources is not None or (rule.on_change is not None and not rule.is_log_assumed):
        return
    if any(fed_by(source).is_same(other) for other in sink.sources):
        return  # its rows are already in the table, by a rule that allowed it
    new, others = source_words(fed_by(source)), [source_words(other) for other in sink.sources]
    others += [f"topic {topic}" for topic in sorted(sink.unnamed_topics - {source.topic})]
    if others and rule.is_log_assumed:
        raise ConfigError(
            f"table {sink.identifier} is a log of the events of {others[0]}, and now gets events of {new}. Set "
            "`mode: append` and `on_change: log` in the rule to have several source tables in one log. Or give "
            "each its own table, with {database}, {schema}, {table} or {topic} in `into`"
        ).without_values()
    if others:
        key = ", ".join(sink.table.schema.primary_keys)
        raise ConfigError(
            f"table {sink.identifier} holds rows of {others[0]}, and now gets rows of {new}: rows with the same key "
            f"({key}) would overwrite each other. If both hold the same rows, or it is one table under a new topic, "
            "set `merge_sources: same_rows` in the rule. If no two of them share a key, set `merge_sources: "
            "disjoint_keys`. If the same key occurs in several of them, add a column that identifies the source to "
            "primary_key. Or give each its own table, with {database}, {schema}, {table} or {topic} in "
            "`into`"
        ).without_values()


def source_words(source: FedBy) -> str:
    """The source table's full name and its topic."""
    names = (source.database, source.schema, source.table)
    return f"{'.'.join(name for name in names if name)} (topic {source.topic})"
