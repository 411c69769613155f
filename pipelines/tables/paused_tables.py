"""The paused tables of a pipeline: the stream continues without them, and they miss the records that it reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from paimon_table.errors import WHERE_MORE, public_text
from paimon_table.surroundings import now_ms
from pipelines.checkpoint.book import Book, Cause, Entry, Pause, Ruleless
from pipelines.checkpoint.reached import Reached
from pipelines.tables.table_failure import KeyChanged, TooManyBadRecords
from sinks import faults
from sinks.commit.positions import FedBy

FILLED = "it is new, and is backfilled from the earliest record"


class Batches(Protocol):
    """The begins and ends of the stream's batches: Spark's checkpoint."""

    @property
    def closed_batch(self) -> int | None: ...
    @property
    def planned_batch(self) -> int | None: ...
    def offset_before(self, batch_id: int) -> str | None: ...
    def offset_after(self, batch_id: int) -> str: ...


class PausedTables:
    """Pauses and resumes tables, durably.

    Batches, compactions and the work alongside them use it from different threads.
    """

    def __init__(self, book: Book, batches: Batches, now_ms: Callable[[], int] = now_ms) -> None:
        self.book = book
        self._batches = batches
        self._now_ms = now_ms
        self.has_passed: Callable[[str], bool] = lambda _: False
        """Whether the stream has read records of a topic before the running batch."""

    @property
    def pauses(self) -> Mapping[str, Pause]:
        """The paused tables with a rule, by identifier; ``Book.pauses`` has those without one too."""
        return {name: pause for name, pause in self.book.pauses.items() if pause.has_rule}

    @property
    def tables(self) -> frozenset[str]:
        """The identifiers of these."""
        return frozenset(self.pauses)

    @property
    def ruleless(self) -> frozenset[str]:
        """The tables without a rule, whose position is kept until a rule writes them again."""
        return frozenset(name for name, pause in self.book.pauses.items() if not pause.has_rule)

    @property
    def is_first_batch(self) -> bool:
        """Whether no batch is closed yet."""
        return self._batches.closed_batch is None

    @property
    def next_batch(self) -> tuple[int, bool]:
        """The first batch of this process, and whether an earlier process began it."""
        closed, planned = self._batches.closed_batch, self._batches.planned_batch
        batch_id = 0 if closed is None else closed + 1
        return batch_id, planned is not None and planned >= batch_id

    def is_known(self, identifier: str) -> bool:
        """Whether the table is in the stream, or was, under this checkpoint."""
        return identifier in self.book.tables

    def pause(
        self,
        identifier: str,
        cause: Cause,
        reason: str,
        batch_id: int,
        topics: Collection[str],
        *,
        is_running: bool = False,
        is_appended: bool = False,
        from_start: bool = False,
        public_reason: str = WHERE_MORE,
    ) -> Pause:
        """Pause a table from ``batch_id`` on; durable on return. A paused table keeps its position.

        ``is_running``: the batch has begun, so its rows may be in the table. ``is_appended``: the rows of the batch and
        of all before are in the table, which misses those after it. ``from_start``: the table misses all records.
        ``public_reason`` is the reason without values of rows.
        """
        if is_appended:
            closed = self._batches.closed_batch
            batch_id, is_running = max(batch_id, -1 if closed is None else closed) + 1, False

        def paused(entry: Entry) -> Entry:
            known = entry.pause
            if known is not None and not known.has_rule:
                return entry  # it keeps its position and its reason until a rule returns
            if known is not None:
                return replace(entry, pause=replace(known, cause=cause, reason=reason, public_reason=public_reason))
            begin = None if from_start else self._batches.offset_before(batch_id)
            after = self._batches.offset_after(batch_id) if is_running and not from_start else None
            words = cause, reason, entry.next_pause_ms(self._now_ms()), batch_id, begin, after, tuple(sorted(topics))
            return replace(entry, pause=Pause(identifier, *words, public_reason=public_reason))

        self.book.change_entry(identifier, paused)
        faults.reached("table-paused", batch_id)
        return self.book.pauses[identifier]

    def pause_failed(
        self,
        identifier: str,
        error: Exception,
        batch_id: int,
        topics: Collection[str],
        *,
        is_running: bool = False,
        is_appended: bool = False,
    ) -> None:
        """Pause a table for its failure."""
        causes = {TooManyBadRecords: Cause.BAD_RECORDS, KeyChanged: Cause.NEW_KEY}
        cause = causes.get(type(error), Cause.FAILED)
        words = cause, str(error), batch_id, topics
        self.pause(identifier, *words, is_running=is_running, is_appended=is_appended, public_reason=public_text(error))

    def note(self, identifier: str, reached: Reached) -> None:
        """Record how far a table is caught up; durable on return."""

        def noted(entry: Entry) -> Entry:
            return entry if entry.pause is None else replace(entry, pause=replace(entry.pause, reached=reached))

        self.book.change_entry(identifier, noted, is_routine=True)

    def add_topics(self, identifier: str, topics: Iterable[str]) -> None:
        """Record further topics that feed a paused table; durable on return."""

        def added(entry: Entry) -> Entry:
            if entry.pause is None or not entry.pause.topics:
                return entry
            return replace(entry, pause=replace(entry.pause, topics=tuple(sorted({*entry.pause.topics, *topics}))))

        self.book.change_entry(identifier, added)

    def resume(self, identifier: str, without: Collection[FedBy] = ()) -> None:
        """Return a table to the stream, durably; ``without`` are source tables that no rule routes to it now.

        These keep the position of the table.
        """

        def resumed(entry: Entry) -> Entry:
            known = {one.source for one in entry.ruleless}
            new = [source for source in without if source not in known]
            kept = [] if entry.pause is None else [Ruleless(s, entry.pause.batch, entry.pause.position) for s in new]
            return replace(entry.resumed(), ruleless=(*entry.ruleless, *kept))

        self.book.change_entry(identifier, resumed)
