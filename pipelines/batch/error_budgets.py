"""Error budgets: a table with more bad records than its rule allows fails, and does not fill the quarantine."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from paimon_table.errors import ConfigError
from pipelines.batch.decode_report import DecodeReport
from pipelines.config.error_budget import NEARLY_ALL, Budget, NearlyAll, Share
from pipelines.tables.record_notes import RecordShares
from pipelines.tables.table_failure import TooManyBadRecords
from pipelines.tables.tables import PipelineTables
from sources.changes import SourceTable
from sources.dumps.dump_lines import MALFORMED_PREFIX
from sources.wording import counted

log = logging.getLogger(__name__)

REASONS_TOLD = 3


@dataclass(slots=True)
class _Records:
    """The records in one batch of one table, or of a topic without a table, by outcome."""

    budget: Budget
    taken: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    topics: set[str] = field(default_factory=set)
    first: tuple[str, int, int] | None = None
    """Topic, partition and offset of a bad record, the first one of its partition."""
    look: str = ""
    """The look of that record."""
    is_of_table: bool = True

    @property
    def share(self) -> Share:
        return Share(self.reasons.total(), self.taken)

    def add(self, report: DecodeReport, about: tuple[str, SourceTable | None], reason: str, count: int) -> None:
        self.reasons[reason] += count
        self.topics.add(about[0])
        if self.first is None:
            self.first, self.look = (about[0], *report.bad_places[about]), report.bad_looks[about]


def exceeded_budgets(
    batch_id: int, reports: Sequence[DecodeReport], tables: PipelineTables
) -> Sequence[TooManyBadRecords]:
    """The refusals of tables with more bad records than their rules allow.

    A record that names no source table, because it cannot be read, counts for every table that its topic feeds. A topic
    without a table is refused if the pipeline has no table to continue with, and otherwise reported.
    """
    found, topics = _bad_records(reports, tables)
    where = "a slice of its catch-up" if tables.is_catch_up else f"batch {batch_id}"
    of_tables = _judged(batch_id, _taken(reports, tables), tables, tables.record_shares, found)
    exceeded = [_refusal(where, *judged) for judged in of_tables]
    if exceeded:
        return exceeded
    of_topics = _judged(batch_id, _good(reports, tables, topics), tables, tables.topic_shares, topics)
    if tables.sinks.keys() <= tables.paused:
        return [_refusal(where, *judged) for judged in of_topics]
    for topic, records, newest in of_topics:
        text = _nearly_all_bad(where, topic, records, newest, is_refused=False)
        if topic not in tables.unreadable:
            log.error("%s", text)
        tables.unreadable[topic] = text
    return []


def _bad_records(
    reports: Sequence[DecodeReport], tables: PipelineTables
) -> tuple[dict[str, _Records], dict[str, _Records]]:
    """The budgets of tables that have a limit, and of topics without a table, each by name."""
    found: dict[str, _Records] = {}
    topics: dict[str, _Records] = {}
    for report in reports:
        for (topic, source, reason), count in report.bad_kinds.items():
            budgets = budgets_of(tables, topic, source)
            for identifier, budget in budgets.items():
                if budget is None:
                    continue
                found.setdefault(identifier, _Records(budget)).add(report, (topic, source), reason, count)
            limit = None if budgets else _topic_budget(tables, topic)
            if limit is not None:
                topics.setdefault(topic, _Records(limit, is_of_table=False)).add(report, (topic, source), reason, count)
    return found, topics


def budgets_of(tables: PipelineTables, topic: str, source: SourceTable | None) -> dict[str, Budget | None]:
    """The limits of the tables for which a bad record counts.

    If ``source`` is unknown, these are all tables that the topic feeds, or the table that matches its name.
    """
    if tables.is_retry:
        return {}
    names, limits = tables.fed_by_records(topic, source), tables.limits
    found = {name: limits[name] for name in names - tables.paused if name is not None}
    if not names:
        assumed = source or SourceTable.of_topic(topic)
        parts = (assumed.database, assumed.schema, assumed.table, assumed.topic)
        rule = tables.config.rule_for(*parts)
        with suppress(ConfigError):
            found = {} if rule is None else {str(rule.target(*parts)): rule.max_bad_records}
    return {name: budget for name, budget in found.items() if name not in tables.paused}


def _topic_budget(tables: PipelineTables, topic: str) -> Budget | None:
    """The limit for bad records of a topic that feeds no table; None if there is none."""
    is_fed = any(known.topic == topic for known in tables.routes)
    if tables.is_retry or tables.is_catch_up or is_fed or topic in tables.paused_topics:
        return None
    return None if tables.config.defaults.max_bad_records is None else NEARLY_ALL


def _has_rows(tables: PipelineTables, name: str) -> bool:
    """Whether a table has stored records before, as far as known without a request to the storage."""
    if name not in tables.sinks:
        return name in map(str, tables.own.names())
    snapshot = tables.sinks[name].state.snapshot
    return snapshot is not None and snapshot.total_record_count > 0


def _taken(reports: Sequence[DecodeReport], tables: PipelineTables) -> Counter[str]:
    """The number of good records of each table."""
    taken: Counter[str] = Counter()
    for report in reports:
        for fed_by, count in report.taken.items():
            target = tables.routes.get(fed_by)
            if target is not None:
                taken[target] += count
    return taken


def _good(reports: Sequence[DecodeReport], tables: PipelineTables, topics: Mapping[str, _Records]) -> Counter[str]:
    """The number of good records of each topic without a table, such as heartbeats."""
    fed = {source.topic for source in tables.routes}
    good: Counter[str] = Counter()
    for report in reports:
        for (topic, _), read in report.read.items():
            good[topic] += 0 if topic in fed else read.count
    good.subtract({topic: records.share.bad for topic, records in topics.items()})
    return +good


def _judged(
    batch_id: int,
    taken: Mapping[str, int],
    tables: PipelineTables,
    shares: RecordShares,
    found: Mapping[str, _Records],
) -> Iterator[tuple[str, _Records, Share]]:
    """The excess bad records, with the newest records by which they were judged."""
    for name in sorted({*found, *taken}):
        records = found.get(name)
        share = Share(0 if records is None else records.share.bad, taken.get(name, 0))
        newest = shares.note(name, batch_id, share)
        if records is None:
            continue
        records.taken = share.taken
        if records.budget.is_exceeded(share, newest, has_rows=_has_rows(tables, name)):
            shares.forget(name)
            yield name, records, newest


def _refusal(where: str, name: str, records: _Records, newest: Share) -> TooManyBadRecords:
    if isinstance(records.budget, NearlyAll):
        text = _nearly_all_bad(where, name, records, newest, is_refused=True)
    else:
        share = records.share
        text = (
            f"{name}: {where} has {share.bad:,} bad records among {share.all:,} of the table, and max_bad_records "
            f"allows {records.budget}: {_reasons(records)}. Tidemark neither stored nor quarantined them: fix the "
            "records or the rule, or raise max_bad_records"
        )
    return TooManyBadRecords(text, table=name if records.is_of_table else "", topics=frozenset(records.topics))


def _nearly_all_bad(where: str, name: str, records: _Records, newest: Share, *, is_refused: bool) -> str:
    """``is_refused``: whether the batch fails; otherwise the bad records are in quarantine."""
    seen = f"{newest.bad:,} of the newest {newest.all:,}, with {records.share.bad:,} in {where}"
    if name.startswith(MALFORMED_PREFIX):  # no connector wrote these lines
        begin = "" if records.first is None else f"; the first begins at byte {records.first[2]}"
        outcome, other = "put these lines into quarantine", ""
        if is_refused:
            outcome = "quarantined none of these lines"
            other = ". To quarantine such lines instead, set `max_bad_records: null`"
        return (
            f"{name.removeprefix(MALFORMED_PREFIX)}: nearly no line is a record: {seen}: {_kinds(records)}{begin}. "
            f"Tidemark {outcome}: dump the topic again with `kcat -J`, or leave the file out of "
            f"source.files.path{other}"
        )
    what, remedy = f"topic {name}, which no rule writes to a table", "write a rule for the topic, exclude it"
    if records.is_of_table:
        what, remedy = name, "fix the rule"
    outcome, other = "put them into quarantine", ""
    if is_refused:
        outcome = "quarantined none of them"
        other = "; `max_bad_records: null` puts such records into quarantine instead"
    return (
        f"{what}: nearly all records are bad, {seen}: {_reasons(records)}. Tidemark {outcome}: {remedy} or change "
        f"the connector{other}"
    )


def _reasons(records: _Records) -> str:
    place = "" if records.first is None else "topic {} partition {} offset {}".format(*records.first)
    return f"{_kinds(records)}; the first is at {place} and is {records.look}"


def _kinds(records: _Records) -> str:
    """The most frequent reasons, with their numbers of records."""
    kinds = records.reasons.most_common(REASONS_TOLD)
    told = [f"{counted(count, 'record')}: {reason}" for reason, count in kinds]
    if len(kinds) < len(records.reasons):
        told.append(f"{counted(records.share.bad - sum(count for _, count in kinds), 'record')} for other reasons")
    return "; ".join(told)
