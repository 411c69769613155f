"""Tidies tables while a query writes them: tags, partitions, consumers, snapshots, changelogs.

No batch waits for it, and it ends no pipeline. A table is tidied at most every half minute: the work of several
batches is combined, because one expiry of many snapshots takes fewer requests. In a store, several tables are tidied
in parallel. A failure is logged, and the work is repeated after the next batch. Retention also ends by time, so tables
without batches are checked at intervals.
"""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from paimon_table import Catalog, Table, TableName, WriterEnvironment
from paimon_table.errors import TidemarkError
from paimon_table.history.held import HeldNames
from paimon_table.maintenance.compaction import compact_pending
from paimon_table.maintenance.expiration import Surroundings
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.tidying import PartitionChecks, Tidied, tidy
from paimon_table.side_by_side import all_done, waits_at_once
from pipelines.tidying.pipeline_claims import pipeline_claims

log = logging.getLogger(__name__)

TIDIED_AGAIN_S = 600.0
"""How often a table without new batches is tidied."""

RESTS_S = 30.0
"""How long a table with new batches is left alone after it was tidied."""

TOLD_AGAIN_S = 600.0
"""How long the same failure of the same table is not logged again."""


def idle(identifiers: Iterable[str], tidied_s: Mapping[str, float], now_s: float, again_s: float) -> list[str]:
    """The tables that were not tidied for so long, or never."""
    return [name for name in identifiers if name not in tidied_s or now_s - tidied_s[name] >= again_s]


def found_tables(catalog: Catalog, names: Iterable[TableName]) -> dict[str, Table]:
    """The tables that can be opened, by identifier. A batch for the others reports why they fail to open."""
    found: dict[str, Table] = {}
    for name in names:
        with suppress(TidemarkError, OSError):
            table = catalog.find(name)
            if table is not None:
                found[str(name)] = table
    return found


class Tidier:
    """Tidies the tables of one pipeline. ``note`` and ``close`` may be called from any thread."""

    def __init__(
        self,
        pipeline: str,
        scratch_dir: str,
        tidy_table: Callable[..., Tidied] = tidy,
        *,
        tables: Callable[[], Mapping[str, Table]] = dict,
        again_s: float = TIDIED_AGAIN_S,
        rests_s: float = RESTS_S,
    ) -> None:
        """``scratch_dir`` is a private directory for dropping partitions.

        ``tables`` returns the tables that the pipeline writes, from any thread, and raises nothing. Once started, each
        table is tidied every ``again_s`` without a batch, and with batches at most every ``rests_s``.
        """
        self._surroundings = Surroundings(claims=pipeline_claims(pipeline))
        self._scratch_dir = scratch_dir
        self._tidy = tidy_table
        self._waiting: dict[str, Table] = {}
        self._checks: dict[str, PartitionChecks] = {}
        self._names: dict[str, HeldNames] = {}
        self._told: dict[str, tuple[str, float]] = {}
        self._changed = threading.Condition()
        self._is_closed = self._drains = False
        self._thread: threading.Thread | None = None
        self._tables, self._again_s, self._rests_s = tables, again_s, rests_s
        self._tidied_s: dict[str, float] = {}
        self._looked_s = time.monotonic()

    def start(self) -> None:
        """Look after the tables also before there is a batch."""
        with self._changed:
            self._begin()

    def note(self, identifier: str, table: Table) -> None:
        """Something was committed to the table: look for expired content. Returns at once."""
        if table.options.write_only:
            return
        with self._changed:
            if self._is_closed:
                return
            self._waiting[identifier] = table
            self._begin()
            self._changed.notify_all()

    def _begin(self) -> None:
        if self._thread is None:
            context = contextvars.copy_context()
            self._thread = threading.Thread(target=context.run, args=(self._run,), daemon=True)
            self._thread.start()

    def close(self, *, drains: bool, timeout_s: float | None = None) -> None:
        """End once the tables that are being tidied are done, and with ``drains`` all that wait.

        The rest, also after a kill, is done after the next batch of the table.
        """
        with self._changed:
            self._is_closed, self._drains = True, drains
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(timeout_s)

    def _run(self) -> None:
        while self._waits():
            if self._looked_s + self._again_s <= time.monotonic():
                self._note_idle()
            due = self._take_due()
            at_once = max((_at_once(table) for table in due.values()), default=1)
            all_done((partial(self._tidy_one, identifier, table) for identifier, table in due.items()), at_once)

    def _waits(self) -> bool:
        """Wait until there is something to do, or time to look at all tables; False at the end."""
        with self._changed:
            while not self._is_closed:
                next_s = min([self._looked_s + self._again_s, *map(self._due_s, self._waiting)])
                left_s = next_s - time.monotonic()
                if left_s <= 0:
                    return True
                self._changed.wait(left_s)
            return self._drains and bool(self._waiting)

    def _due_s(self, identifier: str) -> float:
        return self._tidied_s.get(identifier, -self._rests_s) + self._rests_s

    def _take_due(self) -> dict[str, Table]:
        with self._changed:
            now_s = time.monotonic()
            due = [name for name in self._waiting if self._is_closed or self._due_s(name) <= now_s]
            return {name: self._waiting.pop(name) for name in due}

    def _tidy_one(self, identifier: str, table: Table) -> None:
        if self._is_closed and not self._drains:
            return
        try:
            self._tell(identifier, self._tidied(identifier, table))
        except Exception as error:  # the outer loop of this work: whatever it is, the pipeline continues
            self._warn(identifier, table, error)

    def _note_idle(self) -> None:
        """Take up the tables that have not been tidied for long."""
        self._looked_s = now_s = time.monotonic()
        tables = self._tables()
        for identifier in idle(tables, self._tidied_s, now_s, self._again_s):
            self.note(identifier, tables[identifier])

    def _tidied(self, identifier: str, table: Table) -> Tidied:
        self._tidied_s[identifier] = time.monotonic()
        checks = self._checks.setdefault(identifier, PartitionChecks())
        is_due = checks.is_due(table, self._surroundings.clock_ms())
        job = Job(WriterEnvironment(self._scratch_dir))
        surroundings = replace(self._surroundings, names=self._names.setdefault(identifier, HeldNames()))
        return self._tidy(table.refreshed(), surroundings, job, checks_partitions=is_due)

    def _tell(self, identifier: str, done: Tidied) -> None:
        self._told.pop(identifier, None)
        dropped = [facts.directory for facts in done.partitions]
        for what, names in (
            ("made tag", done.tags_made),
            ("deleted tag", done.tags_deleted),
            ("dropped partition", dropped),
            ("forgot consumer", done.consumers),
        ):
            for name in names:
                log.info("%s: %s %s, as its options say", identifier, what, name)
        if done.expired.dropped:
            log.warning(
                "%s: Tidemark did not finish an interrupted expiry: a consumer still reads from there, or the "
                "table was rolled back; `tidemark table remove-orphans` removes the unreferenced files",
                identifier,
            )
        if done.expired.snapshots:
            log.debug("%s: expired %d snapshots", identifier, len(done.expired.snapshots))

    def _warn(self, identifier: str, table: Table, error: Exception) -> None:
        text = str(error) if isinstance(error, TidemarkError | OSError) else f"unexpected {error!r}, please report"
        now_s = time.monotonic()
        told = self._told.get(identifier)
        if told is None or told[0] != text or now_s - told[1] > TOLD_AGAIN_S:
            self._told[identifier] = (text, now_s)
            log.warning(
                "%s: Tidemark could not remove expired files (%s); the pipeline continues, and tries again after its "
                "next batch. To do it now, run 'tidemark table expire %s'",
                identifier,
                text,
                table.paths.root,
            )


def _at_once(table: Table) -> int:
    """The number of tables to tidy in parallel: few, because batches are more urgent. On a disk it is one."""
    return max(1, waits_at_once(table.paths.root) // 8)


def compact_left(tables: Mapping[str, Table], scratch_dir: str) -> None:
    """Compact rows whose writer was killed before it compacted them, or whose compaction a rollback has undone.

    Until then no changelog has them. A failure is a warning: the next rows of their buckets trigger a compaction too.
    """
    for identifier, table in tables.items():
        options = table.options
        if options.write_only or not options.needs_lookup or options.level0_patience > 1:
            continue
        try:
            done = compact_pending(table.refreshed(), Job(WriterEnvironment(scratch_dir)), lambda _: True)
        except (TidemarkError, OSError) as error:
            log.warning(
                "%s: rows from before this start are not compacted (%s); the next rows of their buckets trigger "
                "a compaction, or run `tidemark table compact %s`",
                identifier,
                error,
                table.paths.root,
            )
        else:
            if done.snapshot_ids:
                log.info("%s: compacted rows that an earlier process left uncompacted", identifier)
