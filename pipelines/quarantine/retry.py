"""What `tidemark quarantine retry` does: bad records are read again and applied, slice by slice, each exactly once."""

from __future__ import annotations

import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import typer
from rich.console import Console

from paimon_table import TableName
from paimon_table.errors import ConfigError, TidemarkError
from paimon_table.surroundings import now_ms
from pipelines.bad_records.bad_lines import RETRY, BadFile, BadLine
from pipelines.config.config import PipelineConfig
from pipelines.jobs.job_progress import BarProgress, watched
from pipelines.prepared import own_tables
from pipelines.quarantine.alone import alone
from pipelines.quarantine.applier import Apply, applier
from pipelines.quarantine.applying import Applied, is_begun
from pipelines.quarantine.edited_lines import EditedLines
from pipelines.quarantine.no_match import check_known, is_taken, no_records
from pipelines.quarantine.older_records import refusal
from pipelines.quarantine.once import take_out_good_alone
from pipelines.quarantine.quarantine_views import Opened, opened
from pipelines.quarantine.reading_again import reading_again
from pipelines.quarantine.selection import Selection
from pipelines.quarantine.slices import Slice, Slices, digest
from pipelines.quarantine.still_to_read import StillToRead
from pipelines.quarantine.twins import Identity, identity, twins
from pipelines.report.safe_text import shown
from pipelines.report.say import say
from sinks import faults
from sources.wording import counted, first_of, skip_words

SLICE_RECORDS = 20_000
SLICE_BYTES = 32 << 20
"""What is in memory at once is a few times as large."""

_REASONS_TOLD = 5
_ALL_FAILED = 1
"""The exit code when no record is in its table or skipped: what made them bad is not mended."""

Chosen = tuple[BadLine, bytes]
"""A record in the quarantine, and its line as it is to be read."""


class Retry:
    """One call of the command."""

    def __init__(
        self, quarantine: Opened, selection: Selection, edited: EditedLines | None, even_if_older: bool
    ) -> None:
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        self.name = f"{RETRY}{moment}-{uuid.uuid4().hex[:8]}"
        self.slices = Slices(quarantine.bad.io, quarantine.bad.path)
        self.kept: dict[str, Counter[str]] = {}
        """Per file how many records stay, by the reason of their table."""
        self.quarantine = quarantine
        self._selection = selection
        self._edited = edited
        self._even_if_older = even_if_older
        self._own = own_tables(quarantine.config)
        self._refusals: dict[str, str | None] = {}
        self._waiting = reading_again(quarantine.config, self._own)
        self._still_to_read = StillToRead(quarantine.config, self._own)
        self._twins: dict[Identity, list[tuple[str, str]]] | None = None
        """Looked for where there are several slices."""

    def may_be_read_again(self, line: BadLine) -> str | None:
        """Why a record waits that names no source table: a table that it may be for reads it again."""
        if line.source is not None:
            return None
        return next((waiting.words for waiting in self._waiting if waiting.reads(line.topic)), None)

    def refusal(self, table: str) -> str | None:
        """Why records of a table are not taken now: it is behind, or they are late. One that is not there takes all."""
        waiting = self._waits(table)
        if waiting is not None:
            return waiting
        if table not in self._refusals and self._even_if_older:
            self._refusals[table] = None
        if table not in self._refusals:
            found = self._own.catalog.find(TableName.of(table)) if "." in table else None
            self._refusals[table] = None if found is None else refusal(table, found)
        return self._refusals[table]

    def _waits(self, table: str) -> str | None:
        return next((one.words for one in self._waiting if one.table == table), None)

    def is_any(self) -> bool:
        """Whether the quarantine has a record that the selection takes, wherever it stands."""
        bad = self.quarantine.bad
        return is_taken(bad, self.quarantine.names, bad.files(), self._selection)

    def nothing(self, selection: Selection) -> str:
        """Why nothing of a selection was retried, once all was looked at."""
        bad, names = self.quarantine.bad, self.quarantine.names
        if sum(map(Counter.total, self.kept.values())):
            return f"nothing to retry: all records{selection.words} stay in {bad.location}"
        if self._edited is not None:
            return f"nothing to retry: {bad.location} has no record of --file{selection.words} (any more)"
        if self.is_any():
            return (
                f"nothing to retry yet: the records{selection.words} are of a batch that may run again; start the"
                " pipeline, then call again"
            )
        return f"nothing to retry: {no_records(bad, names, bad.files(), selection)}"

    def chosen(self, progress: BarProgress) -> Iterator[list[Chosen]]:
        """What is to be retried, slice by slice. A slice must be out of its files before the next one is asked for.

        Where there are several slices, lines of one record that lie far apart leave the quarantine with the first.
        """
        waiting = deque(file for file in self.quarantine.bad.files() if file.is_final and file.owner != self.name)
        progress.begin("retrying", len(waiting))
        chosen: list[Chosen] = []
        while waiting:
            size = sum(len(text) for _, text in chosen)
            for one in self.chosen_of(waiting[0]):
                chosen.append(one)
                size += len(one[1])
                if len(chosen) >= SLICE_RECORDS or size >= SLICE_BYTES:
                    if self._twins is None:
                        self._twins = twins(self.quarantine.bad)
                    yield chosen
                    chosen = []
                    break
            else:
                waiting.popleft()
                progress.advance(1)
        if chosen:
            yield chosen

    def chosen_of(self, file: BadFile) -> Iterator[Chosen]:
        """What is to be retried of one file."""
        table_of = self.quarantine.names.of
        kept = self.kept[file.path] = Counter[str]()
        for line in self.quarantine.bad.lines([file], lambda: None):
            if not isinstance(line, BadLine) or not self._selection.takes(line, table_of):
                continue
            text = line.text if self._edited is None else self._edited.of(line)
            if text is None:
                continue
            table = table_of(line)
            why = self.may_be_read_again(line) or self._still_to_read.words(line, table) or self.refusal(table)
            if why is None:
                yield line, text
            else:
                kept[why] += 1

    def slice_of(self, number: int, chosen: Sequence[Chosen]) -> Slice:
        """Make a slice durable. A record that stands in several lines is taken once, as the last of them has it.

        Of different records that had one place the last is taken; the others stay for the next retry.
        """
        texts = {line.record: text for line, text in chosen}
        contents = {line.record: line.content for line, _ in chosen}
        taken: dict[str, list[str]] = {}
        for line, _ in chosen:
            if line.content != contents[line.record]:
                continue
            taken.setdefault(line.file.place, []).append(digest(line.text))
            for place, twin in (self._twins or {}).get(identity(line), ()):
                taken.setdefault(place, []).append(twin)
        fed = {self.quarantine.names.of(line) for line, _ in chosen}
        after = {str(table): self._newest_snapshot(table) for table in self._own.names() if str(table) in fed}
        slice_ = Slice(
            self.name, number, self._even_if_older, now_ms(), len(texts), taken, after, self._edited is not None
        )
        self.slices.write(slice_, texts.values())
        faults.reached("slice-written", number)
        return slice_

    def _newest_snapshot(self, table: TableName) -> int:
        return self._own.catalog.files(table).snapshots.latest_id() or 0

    def check_may_finish(self, slice_: Slice) -> None:
        """Raise ConfigError where a table is behind that records of an earlier retry are for."""
        for line in self.slices.lines(slice_) if self._waiting else ():
            table = self.quarantine.names.of(line)
            why = self._waits(table) or self.may_be_read_again(line)
            if why is not None:
                raise ConfigError(f"a retry has not ended, {slice_.name} of it is to be finished first: {why}")

    def finish(self, slice_: Slice, apply: Apply) -> Applied:
        """Apply a slice and take it out of the quarantine; gives it up if nothing of it could be applied."""
        try:
            applied = apply(slice_)
        except TidemarkError as error:
            if is_begun(self.quarantine.config, own_tables(self.quarantine.config), slice_):
                text = (
                    f"{error}; some tables have, or may have, their records of slice {slice_.name}: the next retry does"
                    f" the others. To give it up, remove {slice_.name} below the quarantine; its records stay there"
                )
                raise error.told(text) from error
            self.slices.forget(slice_)
            raise
        faults.reached("slice-applied", slice_.number)
        self.slices.take_out(slice_)
        faults.reached("slice-taken-out", slice_.number)
        self.slices.forget(slice_)
        return applied


def retry(file: Path, selection: Selection, edited_file: Path | None, even_if_older: bool, dry_run: bool) -> None:
    """Read records of the quarantine again and apply them."""
    quarantine = opened(file)
    edited = None if edited_file is None else EditedLines(edited_file)
    if edited is None:
        _retry(Retry(quarantine, selection, None, even_if_older), quarantine, selection, None, dry_run)
        return
    with edited:
        _retry(Retry(quarantine, selection, edited, even_if_older), quarantine, selection, edited, dry_run)


def _retry(job: Retry, quarantine: Opened, selection: Selection, edited: EditedLines | None, dry_run: bool) -> None:
    check_known(quarantine.config, quarantine.bad, quarantine.names, selection)
    why = None if selection.table is None else job.refusal(selection.table)
    if why is not None:
        if edited is None and not job.is_any():
            say(job.nothing(selection))
            return
        raise ConfigError(why)
    if dry_run:
        _tell_dry_run(job, selection)
        return
    with watched("files") as progress:
        total = retried(job, quarantine, progress, _tell)
    _tell_total(total, job, selection)
    _tell_kept(job)
    unknown = [] if edited is None else edited.unknown()
    if unknown:
        numbers = ", ".join(first_of([str(number) for number in unknown], 10))
        _tell(f"{counted(len(unknown), 'line')} of --file are of records that are not there (any more): line {numbers}")
    if total.records and total.failed == total.records:
        raise typer.Exit(_ALL_FAILED)


def retried(job: Retry, quarantine: Opened, progress: BarProgress, tell: Callable[[str], None]) -> Applied:
    """Apply all that the job chooses, once what an earlier one has left is done; ``tell`` gets words for who waits."""
    total = Applied()
    with alone(quarantine.bad), applier(quarantine.config, tell) as apply:
        take_out_good_alone(quarantine.config, quarantine.bad)
        for slice_ in job.slices.unfinished():
            job.check_may_finish(slice_)
            tell(f"finishing {slice_.name} of a retry that has ended: {counted(slice_.record_count, 'record')}")
            total = total.plus(job.finish(slice_, apply))
        for number, chosen in enumerate(job.chosen(progress)):
            total = total.plus(job.finish(job.slice_of(number, chosen), apply))
    return total


def retry_quietly(config: PipelineConfig, selection: Selection, tell: Callable[[str], None]) -> str:
    """The same for somebody who has no terminal; gives what became of it in words. On any thread."""
    quarantine = Opened(config)
    job = Retry(quarantine, selection, None, even_if_older=False)
    total = retried(job, quarantine, BarProgress(Console(quiet=True), "files"), tell)
    kept = sum((Counter(reasons) for reasons in job.kept.values()), Counter[str]())
    told = [f"retried {counted(total.records, 'record')}: {total.with_rows:,} are in their tables"]
    told += skip_words(total.skipped)
    told += [f"{total.failed:,} failed again and stay in the quarantine"] if total.failed else []
    told += [f"{counted(number, 'record')} not retried: {why}" for why, number in kept.items()]
    return "; ".join(told)


def _tell_dry_run(job: Retry, selection: Selection) -> None:
    quarantine = job.quarantine
    tables: dict[tuple[str, int, int], str] = {}
    with watched("files") as progress:
        files = [file for file in quarantine.bad.files() if file.is_final]
        progress.begin("reading the quarantine", len(files))
        for file in files:
            tables.update((line.record, quarantine.names.of(line)) for line, _ in job.chosen_of(file))
            progress.advance(1)
    total = Counter(tables.values())
    if total:
        lines = [f"  {table}: {counted(number, 'record')}" for table, number in sorted(total.items())]
        say("\n".join([f"would retry {counted(total.total(), 'record')}:", *lines]))
    else:
        say(job.nothing(selection))
    _tell_kept(job)


def _tell_total(total: Applied, job: Retry, selection: Selection) -> None:
    if not total.records:
        say(job.nothing(selection))
        return
    told = [f"{total.with_rows:,} are in their tables", *skip_words(total.skipped)]
    if total.failed:
        told.append(f"{total.failed:,} failed again and stay in the quarantine")
    reasons = [f"  {n:,}: {shown(why)}" for why, n in sorted(total.reasons.items(), key=lambda item: -item[1])]
    head = f"retried {counted(total.records, 'record')}: {', '.join(told)}"
    say("\n".join([head, *first_of(reasons, _REASONS_TOLD, "reasons")]))


def _tell_kept(job: Retry) -> None:
    kept: Counter[str] = sum(job.kept.values(), Counter())
    for why, number in kept.items():
        _tell(f"{counted(number, 'record')} not retried: {why}")


def _tell(text: str) -> None:
    say(text, err=True)
