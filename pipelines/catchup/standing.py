"""The standing of a table: in the stream, paused at a position, or without a rule. A pure decision.

``standing`` takes the book's entry of one table, the facts in the table's snapshots, the rules that route to it now,
and the position of the stream. It returns the new entry, and the lines to log. Applied twice to the same facts it
changes nothing the second time, so a kill between decision and write does no harm.

==============================================  ====================================================================
The table                                       Then it
==============================================  ====================================================================
cannot be read now                              keeps its entry
has lost its rule                               keeps its position
is continued by another table                   keeps its position, which only matters if that table is dropped;
                                                if it was rolled back, a line says that nothing fills it
has a rule again                                is paused at that position, and caught up
has a source without a rule                     continues with the others; the source keeps its position
has such a source again                         is caught up in the topics of that source
lacks commits (rolled back, restored)           is caught up from its own position
was dropped during its backfill                 is backfilled again
is new, with ``backfill``                       is backfilled from the earliest record
has more commits than its entry                 gets an entry with them
==============================================  ====================================================================
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from paimon_table.errors import ConfigError
from pipelines.checkpoint.book import UNKNOWN, Cause, Entry, Pause, Ruleless
from pipelines.tables.merged_sources import source_words
from pipelines.tables.paused_tables import FILLED
from sinks.commit.positions import FedBy, Position, may_have_expired
from sources.positions import Place
from sources.wording import counted, sentences


class Offsets(Protocol):
    """Positions of the stream as offsets, and back; see ``SliceReader``."""

    def offsets(self, position: str) -> Mapping[Place, int] | None: ...
    def position_at_offsets(self, offsets: Mapping[Place, int]) -> str | None: ...


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """The state of the stream when this process begins."""

    pipeline: str
    checkpoint: str
    batch: int
    """The first batch that runs."""
    begin: str | None
    """The begin of that batch; None: the earliest record."""
    after: str | None
    """The end of that batch, if an earlier process began it."""
    topic_ids: Mapping[str, str]
    """The ids of the topics that are read."""
    now_ms: int


@dataclass(frozen=True, slots=True)
class Files:
    """The state of a table by its files."""

    created_ms: int | None
    """The creation time of the table's first schema; None: the table does not exist."""
    newest_id: int = 0
    """Its newest snapshot; 0 if it has none."""
    earliest_id: int = 0
    """Its oldest snapshot; 0 if it has none."""


@dataclass(frozen=True, slots=True)
class RuleFacts:
    """The state of a table by the rules."""

    is_written: bool = True
    """Whether a rule routes its earlier source tables to it."""
    is_filled: bool = False
    """Whether that one fills new tables from the first record (``backfill``)."""
    topics: frozenset[str] | None = frozenset()
    """Topics that the stream has passed and whose records the rules may route to the table; None: any topic."""
    ruleless: frozenset[FedBy] = frozenset()
    """The source tables that fed it and that rules now route elsewhere, or nowhere."""
    continued_by: str = ""
    """The table that continues it with another primary key."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """One table as a pipeline finds it."""

    name: str
    entry: Entry = UNKNOWN
    """The entry in the book; empty if the checkpoint does not know the table."""
    position: Position | None = None
    """The pipeline's newest in its snapshots; None: it has none."""
    files: Files | None = None
    """None: not read, because the table's commits equal the recorded commits."""
    rules: RuleFacts = RuleFacts()
    is_readable: bool = True

    @property
    def commits(self) -> int:
        return 0 if self.position is None else self.position.commit_count

    @property
    def topics(self) -> frozenset[str]:
        """The topics that have fed the table, as far as Tidemark knows."""
        read = () if self.position is None else (topic for topic, _ in self.position.offsets)
        paused = () if self.entry.pause is None else self.entry.pause.topics
        return frozenset({*read, *self.entry.topics, *paused})


@dataclass(frozen=True, slots=True)
class Verdict:
    """The new standing of a table."""

    entry: Entry
    """The entry to record about the table; an empty entry: nothing."""
    remarks: tuple[tuple[int, str], ...] = ()
    """Lines for the log, with their levels."""
    is_moved: bool = False
    """Whether it is caught up from another position than recorded."""

    def but(self, entry: Entry, *remarks: tuple[int, str], is_moved: bool = False) -> Verdict:
        """The verdict with more decided."""
        return Verdict(entry, (*self.remarks, *remarks), self.is_moved or is_moved)


def standing(table: TableFacts, stream: StreamFacts, source: Offsets) -> Verdict:
    """The standing of a table at a start, or after a change of the rules.

    Raises ConfigError if the table lacks commits and their records cannot be read again.
    """
    verdict = Verdict(table.entry)
    if not table.is_readable:
        return verdict
    if table.entry == UNKNOWN and table.position is None:
        return _new(table, stream)
    if not table.rules.is_written:
        return _with_commits(table, _without_rule(table, stream, source, verdict))
    verdict = _with_sources(table, stream, source, _with_rule(table, stream, verdict))
    return _with_commits(table, _rolled_back(table, stream, source, verdict))


def standing_of_paused(table: TableFacts, stream: StreamFacts, source: Offsets) -> Verdict:
    """The standing of a paused table before a step that catches it up: others may have changed it since the last step.

    ConfigError as ``standing``.
    """
    entry, verdict = table.entry, Verdict(table.entry)
    if table.files is None or entry.pause is None or not entry.commits:
        return verdict
    if table.files.created_ms == entry.created_ms:
        return _rolled_back(table, stream, source, verdict)
    if entry.pause.begin is not None:
        return verdict
    anew = replace(entry.pause, reached=None, after=None, since_ms=entry.next_pause_ms(stream.now_ms))
    return verdict.but(replace(entry, pause=anew, commits=0, snapshot_id=0), is_moved=True)


def lacks_commits(table: TableFacts) -> bool:
    """Whether a table was rolled back or restored, and so lacks recorded commits.

    False if its snapshots no longer show what was committed, because others have expired them. Raises ConfigError if
    they do not show it, and the recorded one has not expired.
    """
    entry, files = table.entry, table.files
    if files is None or not entry.missing_commits(files.created_ms, table.commits):
        return False
    if table.position is not None or files.earliest_id <= 1:
        return True
    if may_have_expired(files.earliest_id, entry.snapshot_id):
        return False
    raise ConfigError(
        f"table {table.name} was rolled back, or restored: it has the snapshots {files.earliest_id} to "
        f"{files.newest_id}, and lacks commits of the pipeline. The snapshots that show which commits are missing have "
        "expired, so Tidemark cannot tell which records to read again. Restore a copy that has one of the pipeline's "
        "own snapshots, or drop the table, then let its rule write into another one with `backfill: true`"
    )


def _new(table: TableFacts, stream: StreamFacts) -> Verdict:
    """A table that so far only a rule names."""
    topics = table.rules.topics
    if not table.rules.is_filled or (topics is not None and not topics):
        return Verdict(UNKNOWN)
    pause = _pause(table, UNKNOWN, Cause.NEW, FILLED, stream, None, topics or ())
    return Verdict(Entry(pause=pause), (_line(table, FILLED, logging.INFO),))


def _without_rule(table: TableFacts, stream: StreamFacts, source: Offsets, verdict: Verdict) -> Verdict:
    """No rule routes records to the table: the stream continues without it.

    The table keeps its position for a later rule.
    """
    entry, pause, by = verdict.entry, verdict.entry.pause, table.rules.continued_by
    if pause is None and (entry.created_ms is not None or table.position is not None):
        reason = f"no rule wrote it from batch {stream.batch} on"
        # A new checkpoint begins without regard to a table that another one continues.
        own = table.position.among(stream.topic_ids).offsets if by and table.position is not None else None
        begin = stream.begin if own is None else source.position_at_offsets(own)
        pause = _pause(table, entry, Cause.FAILED, reason, stream, begin, table.topics)
        pause = replace(pause, after=None if by else stream.after)
    if pause is None or not pause.has_rule:
        return verdict if pause is None or not by else _rolled_back_ended(table, stream, source, verdict, by)
    if by:
        pause = ended(pause, by)
        return verdict.but(replace(entry, pause=pause), _line(table, pause.reason, logging.INFO))
    remark = _line(table, "no rule writes it; Tidemark keeps its position in case a rule does again", logging.INFO)
    return verdict.but(replace(entry, pause=replace(pause, has_rule=False)), remark)


def ended(pause: Pause, by: str) -> Pause:
    """The pause of a table that another one continues."""
    reason = f"table {by} continues it with the new primary key of its source"
    return replace(pause, cause=Cause.NEW_KEY, reason=reason, public_reason=reason, has_rule=False)


def _with_rule(table: TableFacts, stream: StreamFacts, verdict: Verdict) -> Verdict:
    """A rule routes records to the table. If none did before, the table misses the records since then.

    If it was dropped since, it is a new table.
    """
    entry, rules, pause = verdict.entry, table.rules, verdict.entry.pause
    if pause is None or pause.has_rule:
        return verdict
    topics = () if rules.topics is None or not pause.topics else sorted({*pause.topics, *rules.topics})
    if entry.created_ms is None or (table.files is not None and table.files.created_ms == entry.created_ms):
        back = replace(pause, topics=tuple(topics), has_rule=True)
    elif rules.is_filled:
        back = replace(_pause(table, entry, Cause.NEW, FILLED, stream, None, topics), batch=pause.batch)
    else:
        return verdict.but(entry.resumed())
    end = "Tidemark catches it up alongside the stream" if back.tries_again else "it stays paused"
    return verdict.but(replace(entry, pause=back), _line(table, f"{back.reason}; {end}"))


def _with_sources(table: TableFacts, stream: StreamFacts, source: Offsets, verdict: Verdict) -> Verdict:
    """Keep the positions of source tables without a rule, and reread those that have a rule again."""
    if table.position is None:
        return verdict
    entry, before, sources = verdict.entry, table.entry.pause, table.position.sources
    known = {one.source: one for one in entry.ruleless}
    batch = before.batch if before is not None and not before.has_rule else stream.batch
    begin = stream.begin if before is None else before.position
    kept = [known.get(one) or Ruleless(one, batch, begin) for one in sources if one in table.rules.ruleless]
    gone = sorted({one.source for one in kept} - known.keys(), key=source_words)
    words = "no rule routes records of %s to it; it lacks them from batch %d on"
    remarks = [_line(table, words % (source_words(one), batch)) for one in gone] if len(kept) < len(sources) else []
    verdict = verdict.but(replace(entry, ruleless=tuple(kept)), *remarks)
    back = [one for one in entry.ruleless if one.source not in table.rules.ruleless]
    return _with_sources_back(table, table.position, back, stream, source, verdict) if back else verdict


def _with_sources_back(
    table: TableFacts,
    position: Position,
    back: Collection[Ruleless],
    stream: StreamFacts,
    source: Offsets,
    verdict: Verdict,
) -> Verdict:
    """Catch the table up in the topics of sources that a rule routes to it again.

    This needs a separate topic. If other source tables feed the table from the same topic, the table's position has
    advanced with them. Then Tidemark cannot read the missing records without rereading stored ones.
    """
    topics, batch = {one.source.topic for one in back}, min(one.batch for one in back)
    names = ", ".join(map(source_words, sorted((one.source for one in back), key=source_words)))
    gone_on = position.sources.keys() - {one.source for one in back} - table.rules.ruleless
    unnamed = {topic for topic, _ in position.offsets} - {one.topic for one in position.sources}
    begin = _place_of_all(position, back, verdict.entry.pause, stream, source)
    reason = f"no rule routed records of {names} to it from batch {batch} on"
    if begin is None or not topics.isdisjoint({one.topic for one in gone_on} | unnamed):
        lost = (
            f"; it lacks those from before batch {stream.batch}: `tidemark replay FILE --table {table.name}`"
            " reads them again, with --rebuild in any table"
        )
        return verdict.but(verdict.entry, _line(table, reason + lost))
    read = {topic for topic, _ in position.offsets} | topics
    moved = replace(verdict.entry, pause=_moved(table, verdict.entry, reason, stream, begin, read))
    return verdict.but(moved, _line(table, f"{reason}; Tidemark catches it up alongside the stream"), is_moved=True)


def _place_of_all(
    position: Position, back: Collection[Ruleless], pause: Pause | None, stream: StreamFacts, source: Offsets
) -> str | None:
    """The table's position in each partition; if it has no record of a partition, where it was last in the stream.

    The table reads recreated topics from their first records. None if positions are not offsets.
    """
    now = None if stream.begin is None else source.offsets(stream.begin)
    if now is None:
        return None
    paused_at = None if pause is None else ({} if pause.position is None else source.offsets(pause.position))
    stands = dict(now) if paused_at is None else {place: paused_at[place] for place in now if place in paused_at}
    for one in back:
        begin = None if position.is_of_another(one.source.topic, stream.topic_ids) else one.begin
        before = {} if begin is None else source.offsets(begin) or {}
        for place in (place for place in now if place[0] == one.source.topic):
            if place in before and place in stands:
                stands[place] = min(before[place], stands[place])
            else:
                stands.pop(place, None)  # it was added later: from its first record
    return source.position_at_offsets({**stands, **position.among(stream.topic_ids).offsets})


def _rolled_back(table: TableFacts, stream: StreamFacts, source: Offsets, verdict: Verdict) -> Verdict:
    """A table that lacks commits is caught up from its own position; so are source tables without a rule."""
    if not lacks_commits(table):
        return verdict
    entry, snapshot_id = verdict.entry, 0 if table.position is None else table.position.snapshot_id
    commits = counted(entry.commits - table.commits, "commit")
    offsets = {} if table.position is None else table.position.among(stream.topic_ids).offsets
    begin = source.position_at_offsets(offsets) if offsets else None
    if begin is None and offsets:
        raise ConfigError(
            f"table {table.name} lacks the last {commits} of pipeline {stream.pipeline} that checkpoint"
            f" {stream.checkpoint} has (was it restored from a backup, or rolled back?). Dump files cannot be read"
            " again from there. Move the checkpoint directory away and start again: a new one continues from the"
            " positions in the tables (on_lost_checkpoint: resume)"
        )
    reason = f"it lacks the last {commits} of the pipeline: restored from a backup, or rolled back"
    pause = _moved(table, entry, reason, stream, begin, entry.topics)
    ruleless = tuple(_lowered(one, offsets, source) for one in entry.ruleless)
    back = replace(entry, pause=pause, ruleless=ruleless, commits=table.commits, snapshot_id=snapshot_id)
    return verdict.but(back, _line(table, f"{reason}; Tidemark reads it again from its position"), is_moved=True)


def _rolled_back_ended(table: TableFacts, stream: StreamFacts, source: Offsets, verdict: Verdict, by: str) -> Verdict:
    """A table that another one continues is not caught up, unless that one is dropped."""
    try:
        back = _rolled_back(table, stream, source, verdict).entry
    except ConfigError as error:
        return verdict.but(verdict.entry, _line(table, sentences(error, f"Table {by} continues it, and is complete")))
    if back.pause is None or back == verdict.entry:
        return verdict
    text = sentences(
        back.pause.reason,
        f"Table {by} continues it, so Tidemark does not read these records again: restore a backup of the table, or"
        " write the topics into another one (another `into`, the old primary_key, `backfill: true`)",
    )
    return verdict.but(replace(back, pause=ended(back.pause, by)), _line(table, text))


def _lowered(one: Ruleless, known: Collection[Place], source: Offsets) -> Ruleless:
    """A source without a rule of a table that has records of the partitions ``known`` alone: others start over."""
    offsets = None if one.begin is None else source.offsets(one.begin)
    if offsets is None:
        return one  # files have no positions by partition
    kept = {place: at for place, at in offsets.items() if place[0] != one.source.topic or place in known}
    return replace(one, begin=source.position_at_offsets(kept))


def _with_commits(table: TableFacts, verdict: Verdict) -> Verdict:
    """Count commits that the book lacks: the commits of a killed batch, or all commits under a new checkpoint."""
    position, files = table.position, table.files
    if position is None or files is None or files.created_ms is None or table.commits <= verdict.entry.commits:
        return verdict
    topics = tuple(sorted({topic for topic, _ in position.offsets}))
    return verdict.but(verdict.entry.noted(Entry(files.created_ms, table.commits, position.snapshot_id, topics)))


def _moved(
    table: TableFacts, entry: Entry, reason: str, stream: StreamFacts, begin: str | None, topics: Collection[str]
) -> Pause:
    """A pause of a table that misses all records from ``begin`` on, whatever was recorded.

    A pause by hand stays one by hand.
    """
    known = entry.pause
    cause = Cause.ASKED if known is not None and known.cause is Cause.ASKED else Cause.FAILED
    if known is not None:
        topics = {*topics, *known.topics} if known.topics else ()
    return _pause(table, entry, cause, reason, stream, begin, topics)


def _pause(
    table: TableFacts,
    entry: Entry,
    cause: Cause,
    reason: str,
    stream: StreamFacts,
    begin: str | None,
    topics: Collection[str],
) -> Pause:
    """A pause from the next batch on; ``reason`` holds no values of rows."""
    since_ms, named = entry.next_pause_ms(stream.now_ms), tuple(sorted(topics))
    return Pause(table.name, cause, reason, since_ms, stream.batch, begin, topics=named, public_reason=reason)


def _line(table: TableFacts, text: str, level: int = logging.WARNING) -> tuple[int, str]:
    return level, f"table {table.name}: {text}"


def paused_anew(table: TableFacts, stream: StreamFacts) -> Entry:
    """The entry for a table that Tidemark cannot catch up."""
    reason = "it lacks commits of the pipeline: restored from a backup, or rolled back"
    pause = _pause(table, table.entry, Cause.FAILED, reason, stream, stream.begin, table.topics)
    return replace(table.entry, pause=pause)
