"""The code of `tidemark quarantine retry`: rereads bad records and applies them, slice by slice, each exactly once.

A call takes the records that are open at its begin, in order of their places. Records that fail again wait for the next
call. Each slice is frozen before it is applied, and then checked again: the log of facts shows what has happened to a
record since.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import typer
from rich.console import Console

from paimon_table import TableName
from paimon_table.errors import ConfigError, TidemarkError
from paimon_table.surroundings import now_ms
from pipelines.bad_records.dead_letters import BadLine
from pipelines.bad_records.log import RETRY, stretches
from pipelines.config.config import PipelineConfig
from pipelines.config.config_file import load_pipeline
from pipelines.jobs.job_progress import BarProgress, watched
from pipelines.prepared import own_tables
from pipelines.quarantine.applying import Applied, Apply, applier, is_begun
from pipelines.quarantine.edited_lines import EditedLines
from pipelines.quarantine.older_records import refusal
from pipelines.quarantine.overtaken import History, steps_of
from pipelines.quarantine.selection import Opened, Selection
from pipelines.quarantine.slices import Slice, Slices, alone
from pipelines.quarantine.waiting import Waiting
from pipelines.report.arguments import FAILED
from pipelines.report.safe_text import shown
from pipelines.report.say import say
from sinks import faults
from sources.wording import counted, first_of, skip_words

SLICE_RECORDS = 20_000
SLICE_BYTES = 32 << 20
"""Bytes of records in a slice; the memory in use is a few times as large."""

_REASONS_SHOWN = 5

Chosen: TypeAlias = tuple[BadLine, bytes]
"""A record in the quarantine, and the line to read for it."""


class Retry:
    """One call of the command."""

    def __init__(
        self, quarantine: Opened, selection: Selection, edited: EditedLines | None, even_if_older: bool
    ) -> None:
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        self.name = f"{RETRY}{moment}-{uuid.uuid4().hex[:8]}"
        self.slices = Slices(quarantine.bad.io, quarantine.bad.path)
        self.kept: Counter[str] = Counter()
        """The number of records that stay, by the reason of their table."""
        self.quarantine = quarantine
        self.selection = selection
        self._edited = edited
        self._even_if_older = even_if_older
        self._own = own_tables(quarantine.config)
        self._steps = steps_of(quarantine.bad.log)
        self._histories: dict[str, tuple[str, History] | None] = {}
        self._waiting = Waiting(quarantine.config, self._own)

    @property
    def kept_words(self) -> list[str]:
        """The number of records that stay, with the reason, in words."""
        return [f"{counted(number, 'record')} not retried: {why}" for why, number in self.kept.items()]

    def waits(self, table: str) -> str | None:
        """Why the call takes no record of a table: the table is behind."""
        return self._waiting.of_table(table)

    def _late(self, line: BadLine, table: str) -> str | None:
        """Why the call does not take a record that may be older than the row of its key; a missing table takes all.

        If the history of the table shows later changes, they decide when the record is applied.
        """
        if self._even_if_older:
            return None
        if table not in self._histories:
            found = self._own.catalog.find(TableName.of(table)) if "." in table else None
            why = None if found is None else refusal(table, found)
            self._histories[table] = None if found is None or why is None else (why, History(found))
        known, step = self._histories[table], self._steps.get(line.record)
        if known is None or (step is not None and known[1].before(*step) is not None):
            return None
        return known[0]

    def nothing(self) -> str:
        """Why the call retried nothing, after it has checked all records."""
        location, words = self.quarantine.bad.location, self.selection.words
        if self.kept:
            return f"nothing to retry: all records{words} stay in {location}"
        if self._edited is not None:
            return f"nothing to retry: {location} has no record of --file{words}"
        return f"nothing to retry: {self.quarantine.no_records(self.selection)}"

    def chosen(self, progress: BarProgress) -> Iterator[Chosen]:
        """The open records to retry, in order of their places."""
        for line in self.quarantine.records(self.quarantine.bad.facts(), self.selection, progress):
            text = line.text if self._edited is None else self._edited.of(line)
            if text is None:
                continue
            table = self.quarantine.names.of(line)
            why = self._waiting.words(line, table) or self._late(line, table)
            if why is None:
                yield line, text
            else:
                self.kept[why] += 1

    def slice_of(self, number: int, chosen: Sequence[Chosen]) -> Slice:
        """Make a slice durable."""
        fed = {self.quarantine.names.of(line) for line, _ in chosen}
        after = {str(table): self._newest_snapshot(table) for table in self._own.names() if str(table) in fed}
        slice_ = Slice(
            retry=self.name,
            number=number,
            even_if_older=self._even_if_older,
            started_ms=now_ms(),
            places=stretches(line.record for line, _ in chosen),
            after=after,
            later=self.quarantine.names.later(chosen[0][0]),
            is_edited=self._edited is not None,
        )
        self.slices.write(slice_, [text for _, text in chosen], self.quarantine.bad.log)
        faults.reached("slice-written", number)
        return slice_

    def _newest_snapshot(self, table: TableName) -> int:
        return self._own.catalog.files(table).snapshots.latest_id() or 0

    def check_may_finish(self, slice_: Slice) -> None:
        """Raise ConfigError if an earlier retry has records of a table that is now behind."""
        for line in self.slices.lines(slice_) if self._waiting.reading_again else ():
            why = self._waiting.of_table(self.quarantine.names.of(line)) or self._waiting.of_topic(line)
            if why is not None:
                raise ConfigError(f"an earlier retry is unfinished, and its {slice_.name} must finish first: {why}")

    def finish(self, slice_: Slice, apply: Apply) -> Applied:
        """Apply a slice, then forget it; a slice that fails midway stays for the next retry to finish."""
        try:
            applied = apply(slice_)
        except TidemarkError as error:
            if is_begun(self.quarantine.config, own_tables(self.quarantine.config), slice_):
                text = (
                    f"{error}; some tables have, or may have, their records of slice {slice_.name}: the next retry "
                    f"finishes the others. To abandon it, remove {slice_.name} below the quarantine; its records stay "
                    f"in the quarantine"
                )
                raise error.told(text) from error
            self.slices.forget(slice_)
            raise
        faults.reached("slice-applied", slice_.number)
        self.slices.forget(slice_)
        return applied


def sliced(chosen: Iterator[Chosen], later_of: Callable[[BadLine], tuple[str, ...]]) -> Iterator[list[Chosen]]:
    """The records in parts that are applied together, each with one record in a place and one id of a topic.

    The records of a part belong to tables that the same tables continue, by ``later_of``.
    """
    part: list[Chosen] = []
    later: list[Chosen] = []
    size, ids, later_tables = 0, dict[str, str](), tuple[str, ...]()
    for one in chosen:
        line = one[0]
        if part and line.record[:4] == part[-1][0].record[:4]:
            later.append(one)
            continue
        is_full = len(part) >= SLICE_RECORDS or size >= SLICE_BYTES
        is_other = ids.get(line.topic, line.topic_id) != line.topic_id or later_of(line) != later_tables
        if part and (is_full or is_other):
            yield part
            part, size, ids = [], 0, {}
        part.append(one)
        later_tables = later_of(line)
        size += len(one[1])
        ids[line.topic] = line.topic_id
    if part:
        yield part
    if later:
        yield from sliced(iter(later), later_of)


def retry(file: Path, selection: Selection, edited_file: Path | None, even_if_older: bool, dry_run: bool) -> None:
    """Read records of the quarantine again and apply them."""
    quarantine = Opened(load_pipeline(file))
    edited = None if edited_file is None else EditedLines(edited_file)
    job = Retry(quarantine, selection, edited, even_if_older)
    quarantine.check_known(selection.table)
    why = None if selection.table is None else job.waits(selection.table)
    if why is not None and (edited is not None or quarantine.is_any(selection)):
        raise ConfigError(why)
    if why is not None:
        say(job.nothing())
        return
    if dry_run:
        _say_dry_run(job)
        return
    with watched("records") as progress:
        total = retried(job, progress, _say)
    if selection.table is not None and job.kept and not total.records:
        raise ConfigError("\n".join(job.kept))
    _say_total(total, job)
    unknown = [] if edited is None else edited.unknown()
    if unknown:
        numbers = ", ".join(first_of([str(number) for number in unknown], 10))
        _say(f"{counted(len(unknown), 'line')} of --file name records that are not in the quarantine: line {numbers}")
    if total.records and total.failed == total.records:
        raise typer.Exit(FAILED)  # the reason why they are bad still holds


def retried(job: Retry, progress: BarProgress, tell: Callable[[str], None]) -> Applied:
    """Finish an interrupted retry, then apply the chosen records; ``tell`` gets words for the user."""
    total = Applied()
    with alone(job.quarantine.bad), applier(job.quarantine.given, tell) as applying:
        for slice_ in job.slices.unfinished():
            job.check_may_finish(slice_)
            count = counted(len(slice_.records), "record")
            tell(f"finishing {slice_.name} of an interrupted retry: {count}")
            total = total.plus(job.finish(slice_, applying.do))
        for number, chosen in enumerate(sliced(job.chosen(progress), job.quarantine.names.later)):
            total = total.plus(job.finish(job.slice_of(number, chosen), applying.do))
    return total


def retry_quietly(config: PipelineConfig, selection: Selection, tell: Callable[[str], None]) -> str:
    """Retry without a terminal; returns the outcome in words. On any thread."""
    job = Retry(Opened(config), selection, None, even_if_older=False)
    total = retried(job, BarProgress(Console(quiet=True), "records"), tell)
    return f"retried {counted(total.records, 'record')}: {'; '.join([*_became(total), *job.kept_words])}"


def _became(total: Applied) -> list[str]:
    """The outcome of retried records, in words."""
    stay = "stays" if total.failed == 1 else "stay"
    failed = [f"{total.failed:,} {stay} in the quarantine"] if total.failed else []
    there = "1 is in its table" if total.with_rows == 1 else f"{total.with_rows:,} are in their tables"
    return [there, *skip_words(total.skipped), *failed]


def _say_dry_run(job: Retry) -> None:
    with watched("records") as progress:
        tables = Counter(job.quarantine.names.of(line) for line, _ in job.chosen(progress))
    if tables:
        lines = [f"  {table}: {counted(number, 'record')}" for table, number in sorted(tables.items())]
        say("\n".join([f"would retry {counted(tables.total(), 'record')}:", *lines]))
    else:
        say(job.nothing())
    _say_kept(job)


def _say_total(total: Applied, job: Retry) -> None:
    if total.records:
        reasons = [f"  {n:,}: {shown(why)}" for why, n in sorted(total.reasons.items(), key=lambda item: -item[1])]
        head = f"retried {counted(total.records, 'record')}: {', '.join(_became(total))}"
        say("\n".join([head, *first_of(reasons, _REASONS_SHOWN, "reasons")]))
    else:
        say(job.nothing())
    _say_kept(job)


def _say_kept(job: Retry) -> None:
    for words in job.kept_words:
        _say(words)
    job.quarantine.tell_damaged()


def _say(text: str) -> None:
    say(text, err=True)
