"""Tables whose rule was away for a while: the stream has gone on without them, and they miss what came meanwhile.

Where no rule writes a table when the pipeline begins, its place in the stream is kept. Once a rule writes it again it
is caught up from there, like a table that was paused. A table that only some of its source tables are led to goes on
without the others: what came of them meanwhile could be read again only together with what the table has, so that is
told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from paimon_table import TableName
from paimon_table.errors import ConfigError
from pipelines.checkpoint.commit_counts import CommitCounts
from pipelines.checkpoint.sources_away import SourcesAway
from pipelines.config.config import PipelineConfig
from pipelines.tables.known_routes import leading_rules, topics_for
from pipelines.tables.left_out import LeftOut
from pipelines.tables.merged_sources import told
from pipelines.tables.own_tables import OwnPositions, OwnTables
from sinks.commit.positions import FedBy

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Fed:
    """What has fed a table, as its snapshots, the checkpoint and its mark say."""

    topics: frozenset[str]
    sources: frozenset[FedBy]


def note_away(
    config: PipelineConfig,
    own: OwnTables,
    positions: OwnPositions,
    counts: CommitCounts,
    left_out: LeftOut,
    sources_away: SourcesAway,
    read: Callable[[], Collection[str] | None],
) -> None:
    """Keep the places of tables that no rule writes, and let those come back that one writes again.

    ``read`` gives the topics that the stream has read, None where that is not known. A table that cannot be read now
    stays as it is.
    """
    known_away = sources_away.read()
    away: dict[str, Mapping[FedBy, int]] = {
        table: of_table for table, of_table in known_away.items() if table in positions.unreadable
    }
    for identifier, fed in sorted(_fed(positions, counts, left_out).items()):
        name = TableName.of(identifier)
        rules = leading_rules(config, name, fed.sources, fed.topics)
        known = known_away.get(identifier, {})
        of_table = known if not rules else _sources_away(config, name, fed, known, left_out)
        if of_table:
            away[identifier] = of_table
        if not rules:
            if not left_out.is_away(identifier):
                left_out.go_away(identifier, fed.topics)
                log.info("table %s: no rule writes it; its place is kept for one that does again", identifier)
        elif left_out.is_away(identifier):
            commits, topics = counts.all.get(identifier), read()
            mark = left_out.come_back(
                identifier,
                None if topics is None else topics_for(config, name, topics),
                has_rows=commits is None or own.catalog.files(name).created_ms() == commits.created_ms,
                is_filled=any(rule.backfill for rule in rules),
            )
            if mark.is_behind:
                end = "it is caught up beside the stream" if mark.tries_again else "it stays paused, as it was"
                log.warning("table %s: %s; %s", identifier, mark.reason, end)
    sources_away.write(away)


def _sources_away(
    config: PipelineConfig, name: TableName, fed: _Fed, known: Mapping[FedBy, int], left_out: LeftOut
) -> dict[FedBy, int]:
    """Which of the sources of a table that others still feed are led elsewhere or nowhere; tells what has changed."""
    batch_id, _ = left_out.next_batch
    away = {source: known.get(source, batch_id) for source in fed.sources if _is_led_elsewhere(config, name, source)}
    for source in sorted(away.keys() - known.keys(), key=told):
        log.warning(
            "table %s: no rule leads records of %s to it any more; from batch %d on they are not in it, and one that"
            " does again does not bring them",
            name,
            told(source),
            batch_id,
        )
    for source in sorted(known.keys() & fed.sources - away.keys(), key=told):
        log.warning(
            "table %s: no rule led records of %s to it from batch %d on; those that came before batch %d are not in it:"
            " `tidemark replay FILE --table %s` reads them again, with --rebuild in any table",
            name,
            told(source),
            known[source],
            batch_id,
            name,
        )
    return away


def _is_led_elsewhere(config: PipelineConfig, name: TableName, source: FedBy) -> bool:
    """Whether no rule leads a source table to ``name``; False where only its events can tell."""
    names = (source.database, source.schema, source.table, source.topic)
    rule = config.rule_for(*names)
    try:
        return rule is None or rule.target(*names) != name
    except ConfigError:
        return False


def _fed(positions: OwnPositions, counts: CommitCounts, left_out: LeftOut) -> dict[str, _Fed]:
    """The tables of the pipeline; those that cannot be read are left out."""
    marks = left_out.missing
    found: dict[str, _Fed] = {}
    for identifier in {*positions.known, *counts.all, *marks} - positions.unreadable:
        topics: set[str] = set()
        sources: frozenset[FedBy] = frozenset()
        if identifier in positions.known:
            topics |= {topic for topic, _ in positions.known[identifier].offsets}
            sources = frozenset(positions.known[identifier].sources)
        topics |= {*counts.all[identifier].topics} if identifier in counts.all else set()
        topics |= {*marks[identifier].topics} if identifier in marks else set()
        found[identifier] = _Fed(frozenset(topics), sources)
    return found
