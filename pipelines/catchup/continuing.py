"""Continues a table in a new one when the primary key of its source has changed (`primary_key: new_table`).

The old table reads each partition up to the first record with another key. If a partition has no such record, it reads
up to the partition's end in Kafka when the change was detected. So it gets all records with its own key. The new table
begins at these positions, and the records with the new key determine its columns. Its first snapshot is empty and has
the position. From this snapshot on, the new table continues the old one (``pipelines.tables.continued_tables``). After
a kill before this snapshot, all steps run again and find their earlier results. After the snapshot, the query restarts,
and the new table catches up like any table that is behind.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NoReturn

from paimon_table import Table, TableName
from paimon_table.errors import ConfigError, SchemaChangeRefused
from paimon_table.surroundings import now_ms
from pipelines.catchup.reading import Step
from pipelines.checkpoint.book import Book, Cause, Contents, Pause
from pipelines.checkpoint.reached import Reached
from pipelines.config.config import PipelineConfig
from pipelines.config.table_name import name_problem
from pipelines.tables.continued_tables import (
    Continuation,
    continuation_of,
    continuing_rule,
    next_continuation,
    with_option,
)
from pipelines.tables.merged_sources import fed_by
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.table_failure import KeyChanged, NewKey, TableContinued
from pipelines.tables.tables import PipelineTables
from sinks import faults
from sinks.commit.positions import Position, aside_user, newest_position
from sources.positions import Place
from sources.slices import SliceReader

log = logging.getLogger(__name__)

STEP = "table-continued"


@dataclass(slots=True)
class Continuing:
    """``FollowKey`` of one table that is caught up in this process; it keeps nothing that a later one would need."""

    given: PipelineConfig
    """The pipeline as its file has it."""
    own: OwnTables
    book: Book
    slices: SliceReader
    commit_user: str
    """Of the stream."""
    tell: Callable[[str, str], None]
    """Shows an event of a table."""
    now_ms: Callable[[], int] = now_ms
    _met: dict[Place, KeyChanged] = field(default_factory=dict)
    _ends: dict[Place, int] = field(default_factory=dict)

    @property
    def until(self) -> str | None:
        """See ``FollowKey``."""
        return self.slices.position_at_offsets(self._ends) if self._met else None

    def meet(self, changed: KeyChanged) -> None:
        """See ``FollowKey``."""
        place, offset = changed.change.place, changed.change.offset
        if not self._met:
            self._ends = dict(self.slices.ends([place[0]]))
        self._met[place], self._ends[place] = changed, offset
        log.info("%s partition %d: the key changes at offset %d", *place, offset)

    def finish(self, pause: Pause, reached: Reached) -> Step:
        """See ``FollowKey``. Raises SchemaChangeRefused if no table can continue this one."""
        assert self.until is not None
        if self.slices.left(reached.position, self.until, pause.topics or None):
            return Step.BEYOND
        # Of several changes the oldest comes first: the new table meets the others.
        changed = min(self._met.values(), key=lambda one: (one.change.timestamp_ms, one.change.place))
        try:
            self._continue(pause, reached, changed.change)
        except ConfigError as error:
            raise SchemaChangeRefused(f"{changed}, but Tidemark cannot create it: {error}") from error

    def _continue(self, pause: Pause, reached: Reached, change: NewKey) -> NoReturn:
        table = self.own.catalog.load(TableName.of(pause.table))
        one = self._next(pause.table, table, change)
        rule = continuing_rule(self.given, one)
        if rule is None:
            raise ConfigError(f"the pipeline file routes {change.source.topic} elsewhere now")
        self._check_free(one)
        since_ms = self.book.entry(one.name).next_pause_ms(max(self.now_ms(), pause.since_ms + 1))
        config = self.given.model_copy(update={"tables": (with_option(rule, one), *self.given.tables)})
        topics, ids = (change.source.topic,), self.book.topic_ids
        tables = PipelineTables(
            config,
            aside_user(self.commit_user, pause.since_ms),
            self.own,
            only=one.name,
            topics_to_read=topics,
            topic_ids=lambda: ids,
        )
        sink = tables.made(change.source, change.seen)
        faults.reached("new-table-made", reached.number)
        self.own.will_commit([(one.name, sink.table)], lambda _: topics)
        begin = self.slices.position_at_offsets(one.begin_among(ids))
        self.book.change(lambda now: _noted(now, pause, one, since_ms, begin, change))
        faults.reached("new-table-noted", reached.number)
        sink.commit(reached.number, [], one.begin_among(ids), lambda _: None, self.now_ms())
        faults.reached(STEP, reached.number)
        text = f"it {one.words(change.key)}"
        log.warning(
            "table %s: %s; %s stays as it is, with all records before the change",
            one.name,
            text,
            pause.table,
            extra={"event": STEP, "table": one.name, "fields": {"continues": pause.table}},
        )
        self.tell(one.name, text)
        raise TableContinued(f"table {one.name}: {text}: the query starts over")

    def _next(self, identifier: str, table: Table, change: NewKey) -> Continuation:
        """The new table; it begins where this one has all records."""
        position = newest_position(table.snapshots, self.given.name)
        fed = {} if position is None else position.sources
        if any(not fed_by(change.source).is_same(source) for source in fed):
            raise ConfigError(f"several source tables feed {identifier}: give each its own table")
        ids = self.book.topic_ids
        known = {} if position is None else position.among(ids).offsets
        begin = {place: max(at, known.get(place, 0)) for place, at in self._ends.items()}
        begins = Position("", {}).advanced(begin, ids)
        before = continuation_of(identifier, table.schema.options)
        return next_continuation(self.given.name, identifier, before, fed_by(change.source), change.before, begins)

    def _check_free(self, one: Continuation) -> None:
        """Raise ConfigError if the name of the new table is taken."""
        name = TableName.of(one.name)
        problem = name_problem(name)
        if problem is not None:
            raise ConfigError(problem)
        found = self.own.catalog.find(name)
        known = None if found is None else continuation_of(one.name, found.schema.options)
        is_own = found is None or (known is not None and known.is_of(one) and found.snapshots.latest_id() is None)
        if not is_own or one.name in self.given.fixed_names:
            raise ConfigError(
                f"table {one.name} {'is of another rule' if found is None else 'exists already'}: rename or drop that "
                "table, then resume this one; or name the new table in the rule (another `into`)"
            )


def _noted(
    contents: Contents, pause: Pause, one: Continuation, since_ms: int, begin: str | None, change: NewKey
) -> Contents:
    """The book with the new table, which is behind; the earlier one stays paused until the query has ended."""
    words = f"it {one.words(change.key)}"
    topics = (change.source.topic,)
    new = Pause(one.name, Cause.NEW_KEY, words, since_ms, pause.batch, begin, topics=topics, public_reason=words)
    return contents.with_tables({one.name: replace(contents.entry(one.name), pause=new)})
