"""`tidemark compact`: a job that compacts the tables of a warehouse, once or repeatedly, while pipelines run.

The job compacts one table after the other, as `tidemark table compact` does, in separate snapshots. For write-only
tables it also runs expiry, as Paimon's compaction jobs do. The published snapshots of a round stay, however the round
ends. A killed process leaves unreferenced files. If one table fails, the job reports the failure and continues with the
others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial

import typer

from paimon_table import FilesystemCatalog, Table, TableName
from paimon_table.errors import ConfigError, TidemarkError
from paimon_table.maintenance.compaction import compact, compact_pending, would_compact
from paimon_table.maintenance.expiration import Surroundings
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.postponed import compact_postponed
from paimon_table.maintenance.shares import Compacted
from paimon_table.maintenance.tidying import PartitionChecks, Tidied, tidy
from paimon_table.storage.file_io import FileIO, file_io_for
from pipelines.inspect.table_views import Options, storage_options
from pipelines.jobs.job_progress import BarProgress, new_job, watched
from pipelines.jobs.table_jobs import tell_due
from pipelines.report.arguments import FAILED
from pipelines.report.json_log import LogFormat, line
from pipelines.report.say import say
from pipelines.tidying.pipeline_claims import pipeline_claims
from sources.wording import counted

TIDIED_AGAIN_MS = 600_000
"""How often a table without new snapshots is tidied, because retention also ends by time."""

_LOOK_S = 0.2
"""The interval of checks for a signal between two rounds."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which tables of the warehouse are compacted."""

    patterns: Sequence[str]
    """Patterns of DATABASE.TABLE, with * and ?. Without any: the tables that no pipeline compacts."""

    def __call__(self, name: TableName) -> bool:
        return not self.patterns or any(fnmatchcase(str(name), pattern) for pattern in self.patterns)

    def takes(self, table: Table) -> bool:
        """The same for a table that is open."""
        return bool(self.patterns) or table.options.write_only or table.options.is_postponed


@dataclass(slots=True)
class Rounds:
    """Rounds over the tables of one warehouse."""

    io: FileIO
    warehouse: str
    chosen: Chosen
    fully: bool
    job: Job
    tell: Callable[[str], None]
    warn: Callable[[str], None]
    between: Callable[[], None]
    """Called between two tables; may raise to end the round."""
    surroundings: Surroundings = field(default_factory=lambda: Surroundings(claims=pipeline_claims(None)))
    troubles: dict[TableName, str] = field(default_factory=dict)
    """Why tables could not be compacted in the last round."""
    _seen: dict[TableName, int | None] = field(default_factory=dict)
    """The newest snapshot of each table that had nothing to compact the last time."""
    _tidied_ms: dict[TableName, int] = field(default_factory=dict)
    """When each table was last checked for expired content."""
    _checks: dict[TableName, PartitionChecks] = field(default_factory=dict)

    def names(self) -> list[TableName]:
        """The tables of the warehouse whose names match."""
        return [name for name in FilesystemCatalog(self.io, self.warehouse).names() if self.chosen(name)]

    def go_round(self) -> int:
        """Compact every chosen table that has new snapshots, and tidy the others now and then.

        Returns the number of tables that had something to compact. Raises OSError if the warehouse cannot be listed.
        """
        changed = 0
        for name in self.names():
            told = self.troubles.pop(name, None)
            try:
                changed += self._compact(name)
            except Exception as error:  # the outer loop: whatever it is, the other tables continue
                text = self.troubles[name] = _trouble(error)
                if told != text:
                    self.warn(f"{name}: {text}{_next(error)}")
            self.between()
        return changed

    def _compact(self, name: TableName) -> bool:
        """Whether there was something to do."""
        catalog = FilesystemCatalog(self.io, self.warehouse)
        newest = catalog.files(name).snapshots.latest_id()
        now_ms = self.surroundings.clock_ms()
        is_idle = self._seen.get(name) == newest
        if newest is None or (is_idle and now_ms - self._tidied_ms[name] < TIDIED_AGAIN_MS):
            return False
        table = catalog.load(name)
        if not self.chosen.takes(table):
            return False
        is_changed = False
        for what, compacted in () if is_idle else _compacted(table, self.job, self.fully):
            self.tell(f"{name}: {what}, {_text(compacted)}")
            is_changed = True
        self._tidied_ms[name] = now_ms
        if table.options.write_only:
            # Its pipeline leaves the work after a commit to the compaction job.
            checks = self._checks.setdefault(name, PartitionChecks())
            is_due = checks.is_due(table, now_ms)
            self._tell_tidied(name, tidy(table, self.surroundings, self.job, checks_partitions=is_due))
        if not is_changed:
            self._seen[name] = newest
        return is_changed

    def _tell_tidied(self, name: TableName, done: Tidied) -> None:
        expired = done.expired
        parts = [f"tag {tag} made" for tag in done.tags_made] + [f"tag {tag} deleted" for tag in done.tags_deleted]
        parts += [f"partition {facts.directory} dropped" for facts in done.partitions]
        parts += [f"consumer {consumer} forgotten" for consumer in done.consumers]
        if expired.snapshots:
            files = f"{counted(expired.file_count, 'file')} of {expired.size_bytes:,} bytes"
            parts.append(f"{counted(len(expired.snapshots), 'snapshot')} expired with {files}")
        if parts:
            self.tell(f"{name}: {', '.join(parts)}")

    def tell_due(self) -> None:
        """Print what a round would compact in each table; compacts nothing."""
        catalog = FilesystemCatalog(self.io, self.warehouse)
        for name in self.names():
            try:
                table = catalog.load(name)
                if self.chosen.takes(table):
                    due = would_compact(table, self.job, lambda _: True, fully=self.fully, also_pending=True)
                    tell_due(table, due, str(name))
            except Exception as error:  # as in a round: the other tables continue
                self.troubles[name] = _trouble(error)
                self.warn(f"{name}: {self.troubles[name]}")


def _compacted(table: Table, job: Job, fully: bool) -> Iterator[tuple[str, Compacted]]:
    """The work done: postponed rows first, then compactions that readers wait for, then those of the strategy."""

    def every(_partition: bytes) -> bool:
        return True

    done = compact_postponed(table, job, every, fully=fully)
    if done.snapshot_ids:
        yield "postponed rows got their buckets", done
    done = compact_pending(table, job, every)
    if done.snapshot_ids:
        yield "compacted for its readers", done
    done = compact(table, job, every, fully=fully)
    if done.snapshot_ids:
        yield "compacted", done


def _text(done: Compacted) -> str:
    before = f"{counted(done.files_before, 'file')} of {done.bytes_before:,} bytes"
    after = f"{counted(done.files_after, 'file')} of {done.bytes_after:,} bytes"
    ids = done.snapshot_ids
    return f"{before} -> {after}, snapshot{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}"


def _trouble(error: Exception) -> str:
    return str(error) if isinstance(error, TidemarkError | OSError) else f"unexpected {error!r}"


def _next(error: Exception) -> str:
    if isinstance(error, TidemarkError) and not error.action.may_pass:
        return "; the other tables continue"
    return "; the other tables continue, and the next round tries this one again"


def compact_warehouse(
    warehouse: str,
    patterns: Sequence[str],
    full: bool,
    interval_s: float | None,
    dry_run: bool,
    storage: Options,
    form: LogFormat = LogFormat.TEXT,
) -> None:
    """One round, or with ``interval_s`` rounds until SIGINT or SIGTERM, which end it with code 0.

    A single round ends with code 1 if a table could not be compacted. If there is no table, it raises ConfigError,
    which the first of many rounds only logs: the job may start before the pipelines that create the tables.
    """
    if dry_run and interval_s is not None:
        raise ConfigError("--dry-run shows one round: remove --watch")
    io, root = file_io_for(warehouse, storage_options(warehouse, storage))
    say = _json_line if form is LogFormat.JSON else _text_line
    tell, warn = partial(say, is_warning=False), partial(say, is_warning=True)
    with watched(line=tell if form is LogFormat.JSON else None) as progress:
        rounds = Rounds(io, root, Chosen(patterns), full, new_job(progress), tell, warn, progress.rest)
        found = len(rounds.names())
        if not found:
            what = f"with a name like {' or '.join(patterns)}" if patterns else "in it"
            nothing = f"{warehouse} has no table {what}; a warehouse has them in DATABASE.db/TABLE"
            if interval_s is None:
                raise ConfigError(nothing)
            warn(f"{nothing}; tables that are created later are compacted")
        if interval_s is not None:
            _watch(rounds, progress, interval_s)
            return
        changed = 0 if dry_run else rounds.go_round()
    if dry_run:
        rounds.tell_due()
    else:
        failed = f", {len(rounds.troubles)} could not be compacted" if rounds.troubles else ""
        tell(f"{counted(found, 'table')} looked at, {changed} compacted{failed}")
    if rounds.troubles:
        raise typer.Exit(FAILED)


def _watch(rounds: Rounds, progress: BarProgress, interval_s: float) -> None:
    rounds.tell(f"compacting {rounds.warehouse} every {interval_s:g} s; Ctrl-C stops it")
    try:
        while True:
            started = time.monotonic()
            try:
                rounds.go_round()
            except OSError as error:
                rounds.warn(f"{rounds.warehouse} cannot be listed ({error}); the next round tries again")
            while time.monotonic() - started < interval_s:
                time.sleep(_LOOK_S)
                progress.rest()
    except KeyboardInterrupt:
        rounds.tell("stopped")


def _text_line(text: str, is_warning: bool) -> None:
    say(f"{_now()} {text}", err=is_warning)


def _json_line(text: str, is_warning: bool) -> None:
    name, colon, rest = text.partition(": ")
    is_of_table = bool(colon) and " " not in name
    table, message = (name, rest) if is_of_table else (None, text)
    level = "warning" if is_warning else "info"
    typer.echo(line(level, "compaction", message, None, table, {}, datetime.now(UTC)), err=True)


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
