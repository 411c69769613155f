"""How a table stands: in the stream, paused at some place, or without a rule. Decides; reads and writes nothing.

``standing`` takes what the checkpoint has noted of one table, what the table's own snapshots say, which rules lead to
it now, and where the stream is. It gives what is to be noted of the table, and what to say. Applied twice to the same
facts it changes nothing the second time, so a start that is killed in between does no harm.

==============================================  ====================================================================
The table                                       then
==============================================  ====================================================================
cannot be read now                              stays as it was noted
has no rule any more                            keeps the place where the stream passes it
has a rule again                                is paused at that place, and caught up
has a source that no rule leads to it           goes on with the others; the place of that source is kept
has such a source again                         is caught up in the topics of that source
lacks commits (rolled back, restored)           is caught up from its own position
was dropped while it was filled                 is filled anew
is new, with ``backfill``                       is filled from the first record
has more commits than were noted                is noted with them
==============================================  ====================================================================
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from paimon_table.errors import ConfigError
from pipelines.checkpoint.book import Cause, Entry, Pause, Ruleless
from pipelines.tables.merged_sources import told
from pipelines.tables.paused_tables import FILLED
from sinks.commit.positions import FedBy, Position
from sources.positions import Place
from sources.wording import counted


class Offsets(Protocol):
    """Positions of the stream as offsets, and back; see ``SliceReader``."""

    def offsets(self, position: str) -> Mapping[Place, int] | None: ...
    def position_at_offsets(self, offsets: Mapping[Place, int]) -> str | None: ...


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """Where the stream stands when this process begins."""

    pipeline: str
    checkpoint: str
    batch: int
    """The first batch that runs."""
    begin: str | None
    """Where it begins; None: at the first record that there is."""
    after: str | None
    """Where it ends, if an earlier process has begun it."""
    topic_ids: Mapping[str, str]
    """Of the topics that are read."""
    now_ms: int


@dataclass(frozen=True, slots=True)
class Files:
    """What the files of a table say."""

    created_ms: int | None
    """Time of its first schema; None: it is not there."""
    newest_id: int = 0
    """Its newest snapshot; 0 where it has none."""
    has_expired: bool = False
    """Whether snapshots of it have expired, which only matters where none of the pipeline is left."""


@dataclass(frozen=True, slots=True)
class RuleFacts:
    """What the rules say of a table."""

    is_written: bool = True
    """Whether one leads to it what has fed it."""
    is_filled: bool = False
    """Whether that one fills new tables from the first record (``backfill``)."""
    topics: frozenset[str] | None = frozenset()
    """Topics with records that they may bring into it, of those that the stream has passed; None: any."""
    ruleless: frozenset[FedBy] = frozenset()
    """The source tables that fed it and are led elsewhere, or nowhere, now."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """One table as a pipeline finds it."""

    name: str
    entry: Entry | None = None
    """What the checkpoint has noted; None: it does not know the table."""
    position: Position | None = None
    """The pipeline's newest in its snapshots; None: it has none."""
    files: Files | None = None
    """None: not looked at, as its commits are those that were noted."""
    rules: RuleFacts = RuleFacts()
    is_readable: bool = True

    @property
    def commits(self) -> int:
        return 0 if self.position is None else self.position.commit_count

    @property
    def offsets(self) -> Mapping[Place, int]:
        return {} if self.position is None else self.position.offsets

    @property
    def topics(self) -> frozenset[str]:
        """Those that have fed it, as far as anybody knows."""
        entry = self.entry or Entry()
        paused = () if entry.pause is None else entry.pause.topics
        return frozenset({*(topic for topic, _ in self.offsets), *entry.topics, *paused})


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a table stands from now on."""

    entry: Entry | None
    """What is to be noted of it; None: nothing is known of it, and nothing is to be."""
    remarks: tuple[tuple[int, str], ...] = ()
    """Lines for the log, with their levels."""
    is_moved: bool = False
    """Whether it is caught up from another place than was noted."""

    def but(self, entry: Entry, *remarks: tuple[int, str], is_moved: bool = False) -> Verdict:
        """The verdict with more decided."""
        return Verdict(entry, (*self.remarks, *remarks), self.is_moved or is_moved)


def standing(table: TableFacts, stream: StreamFacts, source: Offsets) -> Verdict:
    """How a table stands at a start, or once the rules have changed.

    ConfigError where the table lacks commits and nobody can read again what they held.
    """
    if not table.is_readable:
        return Verdict(table.entry)
    if table.entry is None and table.position is None:
        return _new(table, stream)
    verdict = Verdict(table.entry or Entry())
    if table.rules.is_written:
        verdict = _with_sources(table, stream, source, _with_rule(table, stream, verdict))
        verdict = _rolled_back(table, stream, source, verdict)
    else:
        verdict = _without_rule(table, stream, verdict)
    return _with_commits(table, verdict)


def looked_at(table: TableFacts, stream: StreamFacts, source: Offsets) -> Verdict:
    """How a paused table stands before a step that catches it up: somebody may have changed it since the last one.

    ConfigError as ``standing``.
    """
    entry = table.entry or Entry()
    verdict, pause = Verdict(entry), entry.pause
    if table.files is None or pause is None or not entry.commits:
        return verdict
    if table.files.created_ms == entry.created_ms:
        return _rolled_back(table, stream, source, verdict)
    if pause.begin is not None:
        return verdict
    anew = replace(pause, slice=None, after=None, since_ms=entry.next_pause_ms(stream.now_ms))
    return verdict.but(replace(entry, pause=anew, commits=0, snapshot_id=0), is_moved=True)


def lacks_commits(table: TableFacts) -> bool:
    """Whether a table was rolled back or restored: it lacks commits that were noted.

    False where its snapshots do not say any more what was committed, because others have expired them. ConfigError
    where they do not say it and are older than those that had been there.
    """
    entry, files = table.entry, table.files
    if entry is None or files is None or entry.commits <= table.commits or files.created_ms != entry.created_ms:
        return False
    if table.position is None and files.has_expired:
        if files.newest_id >= entry.snapshot_id:
            return False
        raise ConfigError(
            f"table {table.name} was rolled back, or restored, to snapshot {files.newest_id}, and lacks commits of the"
            " pipeline; the snapshots that tell which ones have expired, so nobody can say what is to be read again:"
            " restore a copy that has one of the pipeline's own snapshots, or drop the table and let its rule write"
            " into another one with `backfill: true`"
        )
    return True


def _new(table: TableFacts, stream: StreamFacts) -> Verdict:
    """A table that is only named by a rule so far."""
    topics = table.rules.topics
    if not table.rules.is_filled or (topics is not None and not topics):
        return Verdict(None)
    pause = _pause(table.name, Entry(), Cause.NEW, FILLED, stream, None, topics or ())
    return Verdict(Entry(pause=pause), ((logging.INFO, f"table {table.name}: {FILLED}"),))


def _without_rule(table: TableFacts, stream: StreamFacts, verdict: Verdict) -> Verdict:
    """No rule leads to the table: the stream goes on without it, and its place is kept for one that does."""
    entry = verdict.entry or Entry()
    pause = entry.pause
    if pause is None and (entry.created_ms is not None or table.position is not None):
        reason = f"no rule wrote it from batch {stream.batch} on"
        pause = _pause(table.name, entry, Cause.FAILED, reason, stream, stream.begin, table.topics)
        pause = replace(pause, after=stream.after)
    elif pause is None or not pause.has_rule:
        return verdict
    remark = logging.INFO, f"table {table.name}: no rule writes it; its place is kept for one that does again"
    return verdict.but(replace(entry, pause=replace(pause, has_rule=False)), remark)


def _with_rule(table: TableFacts, stream: StreamFacts, verdict: Verdict) -> Verdict:
    """A rule leads to the table; if none did, it misses what came meanwhile. Dropped meanwhile, it is a new table."""
    entry, rules = verdict.entry or Entry(), table.rules
    pause = entry.pause
    if pause is None or pause.has_rule:
        return verdict
    topics = () if rules.topics is None or not pause.topics else sorted({*pause.topics, *rules.topics})
    if entry.created_ms is None or (table.files is not None and table.files.created_ms == entry.created_ms):
        back = replace(pause, topics=tuple(topics), has_rule=True)
    elif rules.is_filled:
        back = replace(_pause(table.name, entry, Cause.NEW, FILLED, stream, None, topics), batch=pause.batch)
    else:
        return verdict.but(entry.resumed())
    end = "it is caught up beside the stream" if back.tries_again else "it stays paused, as it was"
    return verdict.but(replace(entry, pause=back), (logging.WARNING, f"table {table.name}: {back.reason}; {end}"))


def _with_sources(table: TableFacts, stream: StreamFacts, source: Offsets, verdict: Verdict) -> Verdict:
    """Keep the places of source tables that no rule leads to the table, and read those again that one leads again."""
    if table.position is None:
        return verdict
    entry = verdict.entry or Entry()
    known = {one.source: one for one in entry.ruleless}
    before = (table.entry or Entry()).pause
    batch = before.batch if before is not None and not before.has_rule else stream.batch
    begin = stream.begin if before is None else before.begun
    away = [one for one in table.position.sources if one in table.rules.ruleless]
    kept = tuple(known.get(one) or Ruleless(one, batch, begin) for one in away)
    verdict = verdict.but(replace(entry, ruleless=kept))
    if len(away) < len(table.position.sources):
        for gone in sorted({*away} - known.keys(), key=told):
            verdict = verdict.but(
                replace(entry, ruleless=kept),
                (
                    logging.WARNING,
                    f"table {table.name}: no rule leads records of {told(gone)} to it any more; from batch {batch} on"
                    " they are not in it",
                ),
            )
    back = {one: noted for one, noted in known.items() if one not in away}
    return _with_sources_back(table, table.position, back, stream, source, verdict) if back else verdict


def _with_sources_back(
    table: TableFacts,
    position: Position,
    back: Mapping[FedBy, Ruleless],
    stream: StreamFacts,
    source: Offsets,
    verdict: Verdict,
) -> Verdict:
    """Let the table be caught up in the topics of sources that a rule leads to it again.

    That needs topics of their own: in one that others feed it from too, its position has gone on with these, and nobody
    could read what it misses without reading again what it has.
    """
    entry, since = verdict.entry or Entry(), min(one.batch for one in back.values())
    names = ", ".join(map(told, sorted(back, key=told)))
    gone_on = position.sources.keys() - back.keys() - table.rules.ruleless
    unnamed = {topic for topic, _ in position.offsets} - {one.topic for one in position.sources}
    others = {one.topic for one in gone_on} | unnamed
    begin = _place_of_all(position, back, entry.pause, stream, source)
    if begin is None or not others.isdisjoint(one.topic for one in back):
        return verdict.but(
            entry,
            (
                logging.WARNING,
                f"table {table.name}: no rule led records of {names} to it from batch {since} on; those that came"
                f" before batch {stream.batch} are not in it: `tidemark replay FILE --table {table.name}` reads them"
                " again, with --rebuild in any table",
            ),
        )
    reason = f"no rule led records of {names} to it from batch {since} on"
    topics = {topic for topic, _ in position.offsets} | {one.topic for one in back}
    moved = replace(entry, pause=_moved(table.name, entry, reason, stream, begin, topics))
    return verdict.but(
        moved,
        (logging.WARNING, f"table {table.name}: {reason}; it is caught up beside the stream"),
        is_moved=True,
    )


def _place_of_all(
    position: Position,
    back: Mapping[FedBy, Ruleless],
    pause: Pause | None,
    stream: StreamFacts,
    source: Offsets,
) -> str | None:
    """Where a table stands in each partition; in those of which it has no record, where it was last in the stream.

    Recreated topics are read from their first records. None where positions are not offsets.
    """
    now = None if stream.begin is None else source.offsets(stream.begin)
    if now is None:
        return None
    paused_at = None if pause is None else ({} if pause.begun is None else source.offsets(pause.begun))
    stands = dict(now) if paused_at is None else {place: paused_at[place] for place in now if place in paused_at}
    for one, noted in back.items():
        begin = None if position.is_of_another(one.topic, stream.topic_ids) else noted.begin
        before = {} if begin is None else source.offsets(begin) or {}
        for place in (place for place in now if place[0] == one.topic):
            if place in before and place in stands:
                stands[place] = min(before[place], stands[place])
            else:
                stands.pop(place, None)  # it came later: from its first record
    return source.position_at_offsets({**stands, **position.among(stream.topic_ids).offsets})


def _rolled_back(table: TableFacts, stream: StreamFacts, source: Offsets, verdict: Verdict) -> Verdict:
    """A table that lacks commits is caught up from its own position; so are source tables without a rule."""
    if not lacks_commits(table):
        return verdict
    entry, files = verdict.entry or Entry(), table.files or Files(None)
    commits = counted(entry.commits - table.commits, "commit")
    offsets = {} if table.position is None else table.position.among(stream.topic_ids).offsets
    begin = source.position_at_offsets(offsets) if offsets else None
    if begin is None and offsets:
        raise ConfigError(
            f"table {table.name} lacks the last {commits} of pipeline {stream.pipeline} that checkpoint"
            f" {stream.checkpoint} has (was it restored from a backup, or rolled back?), and dump files cannot be read"
            " again from there: move the checkpoint directory away and start again, a new one goes on from the"
            " positions in the tables (on_lost_checkpoint: resume)"
        )
    reason = f"it lacks the last {commits} of the pipeline: restored from a backup, or rolled back"
    back = replace(
        entry,
        pause=_moved(table.name, entry, reason, stream, begin, entry.topics),
        ruleless=tuple(_lowered(one, offsets, source) for one in entry.ruleless),
        commits=table.commits,
        snapshot_id=files.newest_id,
    )
    remark = f"table {table.name}: {reason}; it is read again from where it stands"
    return verdict.but(back, (logging.WARNING, remark), is_moved=True)


def _lowered(one: Ruleless, known: Collection[Place], source: Offsets) -> Ruleless:
    """A source without a rule of a table that has records of the partitions ``known`` alone: others begin anew."""
    offsets = None if one.begin is None else source.offsets(one.begin)
    if offsets is None:
        return one  # of files nothing is known by partition
    kept = {place: at for place, at in offsets.items() if place[0] != one.source.topic or place in known}
    return replace(one, begin=source.position_at_offsets(kept))


def _with_commits(table: TableFacts, verdict: Verdict) -> Verdict:
    """Note commits that nobody has counted: those of a batch that was killed, or all, under a new checkpoint."""
    entry = verdict.entry or Entry()
    if table.position is None or table.files is None or table.files.created_ms is None:
        return verdict
    if table.commits <= entry.commits:
        return verdict
    topics = tuple(sorted({topic for topic, _ in table.offsets}))
    found = Entry(table.files.created_ms, table.commits, table.position.snapshot_id, topics)
    return verdict.but(entry.noted(found))


def _moved(
    name: str, entry: Entry, reason: str, stream: StreamFacts, begin: str | None, topics: Collection[str]
) -> Pause:
    """A pause of a table that misses all from ``begin`` on, whatever was noted; paused by hand it stays that."""
    known = entry.pause
    cause = Cause.ASKED if known is not None and known.cause is Cause.ASKED else Cause.FAILED
    if known is not None:
        topics = {*topics, *known.topics} if known.topics else ()
    return _pause(name, entry, cause, reason, stream, begin, topics)


def _pause(
    name: str,
    entry: Entry,
    cause: Cause,
    reason: str,
    stream: StreamFacts,
    begin: str | None,
    topics: Collection[str],
) -> Pause:
    """A pause from the next batch on; ``reason`` holds no values of rows."""
    since_ms = entry.next_pause_ms(stream.now_ms)
    named = tuple(sorted(topics))
    return Pause(name, cause, reason, since_ms, stream.batch, begin, topics=named, public_reason=reason)
