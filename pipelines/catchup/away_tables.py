"""Tables whose rule was away for a while: the stream has gone on without them, and they miss what came meanwhile.

Where no rule writes a table when the pipeline begins, its place in the stream is kept. Once a rule writes it again it
is caught up from there, like a table that was paused. For tables that some of their source tables still feed see
``away_sources``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from paimon_table import TableName
from pipelines.catchup.away_sources import bring_back, sources_away
from pipelines.checkpoint.commit_counts import CommitCounts
from pipelines.checkpoint.sources_away import Since, SourcesAway
from pipelines.config.config import PipelineConfig
from pipelines.tables.known_routes import leading_rules, topics_for
from pipelines.tables.left_out import LeftOut
from pipelines.tables.own_tables import OwnPositions, OwnTables
from sinks.commit.positions import FedBy
from sources.slices import SliceReader

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Fed:
    """What has fed a table, as its snapshots, the checkpoint and its mark say."""

    topics: frozenset[str]
    sources: frozenset[FedBy]


@dataclass(frozen=True, slots=True)
class SourceNow:
    """What the source of a pipeline tells when it begins."""

    slices: SliceReader
    topic_ids: Mapping[str, str]
    """Of the topics that are read."""
    read_topics: Callable[[], Collection[str] | None]
    """The topics that the stream has read records of; None where that is not known."""


def note_away(
    config: PipelineConfig,
    own: OwnTables,
    positions: OwnPositions,
    counts: CommitCounts,
    left_out: LeftOut,
    noted: SourcesAway,
    source: SourceNow,
) -> None:
    """Keep the places of tables that no rule writes, and let those come back that one writes again.

    A table that cannot be read now stays as it is.
    """
    known_away = noted.read()
    away: dict[str, Mapping[FedBy, Since]] = {
        table: of_table for table, of_table in known_away.items() if table in positions.unreadable
    }
    for identifier, fed in sorted(_fed(positions, counts, left_out).items()):
        name = TableName.of(identifier)
        rules = leading_rules(config, name, fed.sources, fed.topics)
        position, known = positions.known.get(identifier), known_away.get(identifier, {})
        if position is not None:
            away[identifier] = sources_away(config, name, position, known, left_out, is_written=bool(rules))
        was_away = left_out.is_away(identifier)
        if not rules:
            if not was_away:
                left_out.go_away(identifier, fed.topics)
                log.info("table %s: no rule writes it; its place is kept for one that does again", identifier)
            continue
        if was_away:
            known = {fed_by: one for fed_by, one in known.items() if not one.with_table}
            commits, topics = counts.all.get(identifier), source.read_topics()
            mark = left_out.come_back(
                identifier,
                None if topics is None else topics_for(config, name, topics),
                has_rows=commits is None or own.catalog.files(name).created_ms() == commits.created_ms,
                is_filled=any(rule.backfill for rule in rules),
            )
            if mark.is_behind:
                end = "it is caught up beside the stream" if mark.tries_again else "it stays paused, as it was"
                log.warning("table %s: %s; %s", identifier, mark.reason, end)
        if position is not None:
            back = {fed_by: one for fed_by, one in known.items() if fed_by not in away[identifier]}
            bring_back(name, position, back, away[identifier], left_out, source.slices, source.topic_ids)
    noted.write({table: of_table for table, of_table in away.items() if of_table})


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
