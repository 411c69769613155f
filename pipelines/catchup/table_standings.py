"""Reads the state of a pipeline's tables, decides with ``standing``, and records the result in one write."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from paimon_table import TableName
from paimon_table.errors import ConfigError
from paimon_table.surroundings import now_ms
from pipelines.catchup.standing import (
    Files,
    RuleFacts,
    StreamFacts,
    TableFacts,
    Verdict,
    paused_anew,
    standing,
    standing_of_paused,
)
from pipelines.checkpoint.book import UNKNOWN, Book, Entry
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.config.config import PipelineConfig
from pipelines.tables.continued_tables import continued_by
from pipelines.tables.known_routes import is_ruleless, leading_rules, topics_for
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.paused_tables import PausedTables
from sinks import faults
from sinks.commit.positions import FedBy, nested_offsets, newest_position
from sinks.commit.table_sink import TableSink
from sources.slices import SliceReader
from sources.wording import first_of

log = logging.getLogger(__name__)

NAMES_SHOWN = 5


def entry_of(sink: TableSink) -> Entry:
    """The book's entry about a table after a commit to it."""
    topics = sorted({topic for topic, _ in sink.position.offsets})
    position = sink.position
    offsets = nested_offsets(position.offsets)
    return Entry(sink.table.created_ms, position.commit_count, position.snapshot_id, tuple(topics), offsets=offsets)


def facts_now(own: OwnTables, pipeline: str, identifier: str, entry: Entry) -> TableFacts:
    """The entry of a table, and the table as its files show it now; without its rules."""
    position = newest_position(own.catalog.files(TableName.of(identifier)).snapshots, pipeline)
    return _with_files(own, TableFacts(identifier, entry, position))


@dataclass(frozen=True, slots=True)
class TableStandings:
    """Of one run of a pipeline, which holds the checkpoint."""

    config: PipelineConfig
    own: OwnTables
    checkpoint: Checkpoint
    paused: PausedTables
    slices: SliceReader
    topic_ids: Callable[[], Mapping[str, str]]
    """The ids of the topics that are read."""
    now_ms: Callable[[], int] = now_ms

    def note_all(self) -> None:
        """Record how each table stands, in one write, and log it. Raises ConfigError as ``standing`` does."""
        book, stream = self.paused.book, self._stream()
        passed = self._passed(stream.batch)
        found = dict(self._tables(book, passed))
        verdicts = {name: standing(table, stream, self.slices) for name, table in found.items()}
        book.put({name: verdict.entry for name, verdict in verdicts.items() if verdict.entry != UNKNOWN})
        faults.reached("tables-noted", stream.batch)
        for verdict in verdicts.values():
            _say(verdict)
        is_new = {name for name, table in found.items() if table.is_readable and verdicts[name].entry == UNKNOWN}
        self._say_unfilled(is_new, passed, stream)

    def paused_at_start(self) -> Iterator[tuple[str, Entry]]:
        """The tables that a start would find, or leave, paused, with its entries for them; writes nothing."""
        stream = self._stream()
        for name, table in self._tables(self.paused.book, self._passed(stream.batch)):
            try:
                entry = standing(table, stream, self.slices).entry
            except ConfigError:  # the start reports the error, and ends
                entry = table.entry if table.entry.pause is not None else paused_anew(table, stream)
            if entry.pause is not None:
                yield name, entry

    def note_paused(self, identifier: str) -> bool:
        """Whether a paused table is caught up from another place than before: it was rolled back, restored or dropped.

        Called before each step that catches it up. ConfigError as ``standing``.
        """
        entry = self.paused.book.entry(identifier)
        if not entry.commits:
            return False
        table = facts_now(self.own, self.config.name, identifier, entry)
        verdict = standing_of_paused(table, self._stream(), self.slices)
        if verdict.is_moved:
            self.paused.book.put({identifier: verdict.entry})
            faults.reached("table-paused", self.paused.next_batch[0])
            _say(verdict)
        return verdict.is_moved

    def _stream(self) -> StreamFacts:
        batch, has_begun = self.paused.next_batch
        after = self.checkpoint.offset_after(batch) if has_begun else None
        begin = self.checkpoint.offset_before(batch)
        facts = StreamFacts(self.config.name, self.config.checkpoint, batch, begin, after, self.topic_ids(), 0)
        return replace(facts, now_ms=self.now_ms())

    def has_passed(self, topic: str, batch_id: int) -> bool:
        """Whether the stream has read records of a topic before a batch."""
        topics = self._passed(batch_id)
        return topics is None or topic in topics

    def _passed(self, batch_id: int) -> Collection[str] | None:
        """The topics that the stream has read records of before a batch; None: unknown.

        The first batch of a new checkpoint begins at the positions of tables from an earlier one, if there are any.
        """
        earlier = self.paused.book.contents.earlier
        has_earlier = bool(self.own.names() if earlier is None else earlier)
        if not batch_id and not (has_earlier and self.config.on_lost_checkpoint == "resume"):
            return ()
        begin = self.checkpoint.offset_before(batch_id)
        return () if begin is None else self.slices.topics(begin)

    def _tables(self, book: Book, passed: Collection[str] | None) -> Iterator[tuple[str, TableFacts]]:
        """The facts of all tables of the pipeline, and of all tables that rules name."""
        positions = self.own.positions()
        for name in sorted({*positions.known, *book.tables, *positions.unreadable}):
            is_readable = name not in positions.unreadable
            facts = TableFacts(name, book.entry(name), positions.known.get(name), is_readable=is_readable)
            yield name, self._with_rules(self._found(facts), passed) if is_readable else facts
        known = {*positions.known, *book.tables, *positions.unreadable, *map(str, self.own.names())}
        for name in self.config.fixed_names:
            if name not in known:
                is_filled, topics = self._fills(name, passed)
                yield name, TableFacts(name, rules=RuleFacts(is_filled=is_filled, topics=topics))

    def _found(self, table: TableFacts) -> TableFacts:
        """Reads the files of the table if its commits differ from the recorded ones."""
        pause = table.entry.pause
        is_as_noted = table.commits == table.entry.commits and (pause is None or pause.has_rule)
        return table if is_as_noted else _with_files(self.own, table)

    def _with_rules(self, table: TableFacts, passed: Collection[str] | None) -> TableFacts:
        name = TableName.of(table.name)
        sources = frozenset[FedBy]() if table.position is None else frozenset(table.position.sources)
        rules = leading_rules(self.config, name, sources, table.topics)
        topics = None if passed is None else frozenset(topics_for(self.config, name, passed))
        ruleless = frozenset(one for one in sources if is_ruleless(self.config, name, one))
        is_filled = any(rule.backfill for rule in rules)
        by = continued_by(self.own.continuations, table.name)
        return replace(table, rules=RuleFacts(bool(rules), is_filled, topics, ruleless, by))

    def _fills(self, table: str, passed: Collection[str] | None) -> tuple[bool, frozenset[str] | None]:
        """Whether rules fill a new table, and from which topics; None: all."""
        rules = [rule for rule in self.config.tables if rule.into == table and rule.backfill]
        if passed is None:
            return bool(rules), None
        return bool(rules), frozenset(t for t in passed if any(rule.match.takes_topic(t) for rule in rules))

    def _say_unfilled(self, names: Collection[str], passed: Collection[str] | None, stream: StreamFacts) -> None:
        """Log which new tables miss records that were read before they existed."""
        rules = [rule for rule in self.config.tables if rule.into in names and not rule.backfill]
        missing = dict.fromkeys(r.into for r in rules if passed is None or any(map(r.match.takes_topic, passed)))
        if missing:
            log.info("%s", unfilled_words(list(missing), stream.batch))


def unfilled_words(tables: Sequence[str], batch: int) -> str:
    """New tables that miss records that were read before they existed: before a batch."""
    return (
        f"{', '.join(first_of(tables, NAMES_SHOWN))}: the pipeline has read topics, but this table has no rows yet. If"
        f" records before batch {batch} belong in it, set `backfill: true` in the rule to read them too"
    )


def _with_files(own: OwnTables, table: TableFacts) -> TableFacts:
    files = own.catalog.files(TableName.of(table.name))
    created_ms, snapshots = files.created_ms(), files.snapshots
    if created_ms is None or table.commits >= table.entry.commits:
        return replace(table, files=Files(created_ms))
    return replace(table, files=Files(created_ms, snapshots.latest_id() or 0, snapshots.earliest_id() or 0))


def _say(verdict: Verdict) -> None:
    for level, text in verdict.remarks:
        log.log(level, "%s", text)
