"""The tables that the stream leaves out for now, because they are behind it; the others go on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from paimon_table.errors import WHERE_MORE
from paimon_table.surroundings import now_ms
from pipelines.checkpoint.behind_marks import BehindMark, BehindMarks, Cause
from sinks import faults

FILLED = "it is new, and filled from the earliest record (backfill)"


_AWAY = "no rule writes it"


class Batches(Protocol):
    """Where the batches of the stream begin and end: Spark's checkpoint."""

    @property
    def closed_batch(self) -> int | None: ...
    @property
    def planned_batch(self) -> int | None: ...
    def offset_before(self, batch_id: int) -> str | None: ...
    def offset_after(self, batch_id: int) -> str: ...


class LeftOut:
    """Which tables are left out, durably. Batches, compactions and the work beside them are on different threads."""

    def __init__(self, marks: BehindMarks, batches: Batches, now_ms: Callable[[], int] = now_ms) -> None:
        self._marks = marks
        self._batches = batches
        self._now_ms = now_ms
        self.has_passed: Callable[[str], bool] = lambda _: False
        """Whether the stream has read records of a topic before the batch that runs."""
        self._lock = threading.Lock()

    @property
    def tables(self) -> frozenset[str]:
        """Those that are behind."""
        return frozenset(self.marks)

    @property
    def is_first_batch(self) -> bool:
        """Whether no batch is closed yet."""
        return self._batches.closed_batch is None

    @property
    def next_batch(self) -> tuple[int, bool]:
        """The batch that runs first in this process, and whether an earlier one has begun it."""
        closed, planned = self._batches.closed_batch, self._batches.planned_batch
        batch_id = 0 if closed is None else closed + 1
        return batch_id, planned is not None and planned >= batch_id

    @property
    def next_begin(self) -> str | None:
        """Where that batch begins; None: at the first record that there is."""
        return self._batches.offset_before(self.next_batch[0])

    @property
    def marks(self) -> Mapping[str, BehindMark]:
        """The marks of the tables that are behind, by table."""
        return {name: mark for name, mark in self._marks.all.items() if mark.is_behind}

    @property
    def missing(self) -> Mapping[str, BehindMark]:
        """As ``marks``, with those of tables that no rule writes."""
        return {name: mark for name, mark in self._marks.all.items() if mark.misses_records}

    def was_behind(self, identifier: str) -> bool:
        """Whether the table has been caught up once under this checkpoint."""
        mark = self._marks.all.get(identifier)
        return mark is not None and mark.cause is Cause.JOINED

    def leave_out(
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
    ) -> BehindMark:
        """Leave a table out from ``batch_id`` on; durable when this returns. One that is left out already stays so.

        ``is_running`` says that the batch has begun: its rows may be in the table. ``is_appended`` says that they are,
        with all before: the table misses what comes behind it. With ``from_start`` it misses all records that there
        are. ``public_reason`` is the reason without values of rows.
        """
        with self._lock:
            if is_appended:
                closed = self._batches.closed_batch
                batch_id, is_running = max(batch_id, -1 if closed is None else closed) + 1, False
            known = self.missing.get(identifier)
            if known is not None and known.cause is Cause.AWAY:
                return known  # no rule writes it: it keeps its place for one that does
            if known is not None:
                mark = replace(known, cause=cause, reason=reason, public_reason=public_reason)
            else:
                mark = BehindMark(
                    identifier,
                    cause,
                    reason,
                    self._now_ms(),
                    batch_id,
                    None if from_start else self._batches.offset_before(batch_id),
                    self._batches.offset_after(batch_id) if is_running and not from_start else None,
                    tuple(sorted(topics)),
                    public_reason=public_reason,
                )
            self._marks.put(mark)
        faults.reached("table-left-out", batch_id)
        return mark

    def go_back(self, identifier: str, reason: str, batch_id: int, begin: str | None, topics: Collection[str]) -> None:
        """Leave a table out that misses all from ``begin`` on, whatever its mark said; durable when this returns.

        One that was paused by hand stays so. ``reason`` holds no values of rows.
        """
        with self._lock:
            known = self.marks.get(identifier)
            is_asked = known is not None and known.cause is Cause.ASKED
            cause = Cause.ASKED if is_asked else Cause.FAILED
            is_all = known is not None and not known.topics
            named = () if is_all else tuple(sorted({*topics, *(() if known is None else known.topics)}))
            mark = BehindMark(identifier, cause, reason, self._now_ms(), batch_id, begin, topics=named)
            self._marks.put(replace(mark, public_reason=reason))
        faults.reached("table-left-out", batch_id)

    def fill_anew(self, identifier: str) -> None:
        """Let a table that is behind be filled from the first record again; durable when this returns."""
        with self._lock:
            self._marks.put(replace(self.marks[identifier], slice=None, after=None, since_ms=self._now_ms()))

    def is_away(self, identifier: str) -> bool:
        """Whether no rule wrote the table when the pipeline was last begun."""
        mark = self._marks.all.get(identifier)
        return mark is not None and mark.cause is Cause.AWAY

    def go_away(self, identifier: str, topics: Collection[str]) -> None:
        """Note where the stream goes on without a table that no rule writes; durable when this returns.

        One that is behind already keeps its place.
        """
        batch_id, has_begun = self.next_batch
        known = self.marks.get(identifier)
        if known is None:
            self.leave_out(identifier, Cause.AWAY, _AWAY, batch_id, topics, is_running=has_begun, public_reason=_AWAY)
            return
        is_held = known.cause is Cause.ASKED
        away = replace(known, cause=Cause.AWAY, is_held=is_held)
        with self._lock:
            self._marks.put(away if is_held else replace(away, reason=_AWAY, public_reason=_AWAY))

    def come_back(
        self, identifier: str, topics: Collection[str] | None, *, has_rows: bool, is_filled: bool
    ) -> BehindMark:
        """A rule writes the table again: it is behind by what came meanwhile; durable when this returns.

        ``topics`` may feed it now beside those that did, None for all. One that was paused by hand stays so. Without
        its rows it is a new table: with ``is_filled`` it misses all records that there are, else none.
        """
        with self._lock:
            mark = self._marks.all[identifier]
            cause = Cause.ASKED if mark.is_held else Cause.FAILED
            fed = () if topics is None or not mark.topics else tuple(sorted({*mark.topics, *topics}))
            mark = replace(mark, topics=fed, is_held=False)
            if has_rows:
                reason = f"no rule wrote it from batch {mark.batch} on"
                back = replace(mark, cause=cause)
                if cause is not Cause.ASKED:  # which has the reason that somebody gave
                    back = replace(back, reason=reason, public_reason=reason)
            elif is_filled:
                new = replace(mark, begin=None, after=None, slice=None)
                back = replace(new, cause=Cause.NEW, reason=FILLED, public_reason=FILLED, since_ms=self._now_ms())
            else:
                back = replace(mark, cause=Cause.JOINED, reason="", slice=None)
            self._marks.put(back)
        return back

    def note(self, mark: BehindMark) -> None:
        """What has changed in the mark of a table that is behind."""
        with self._lock:
            topics = self._marks.all[mark.table].topics
            both = mark.topics and topics  # none stands for all
            self._marks.put(replace(mark, topics=tuple(sorted({*mark.topics, *topics})) if both else ()))

    def add_topics(self, identifier: str, topics: Iterable[str]) -> None:
        """More topics that feed a table; durable when this returns."""
        with self._lock:
            self._marks.add_topics(identifier, topics)

    def reload(self) -> None:
        """Look at the marks again, before the first batch."""
        with self._lock:
            self._marks.reload()

    def readmit(self, identifier: str) -> None:
        """The table is in the stream again, durably."""
        with self._lock:
            mark = self._marks.all[identifier]
            self._marks.put(replace(mark, cause=Cause.JOINED, reason="", slice=None))
