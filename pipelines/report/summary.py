"""The summary of `tidemark run --once`: the written tables, a sample of the rows, and what to try next."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipelines.report.heartbeat import duration_words
from pipelines.report.progress import asides, reasons_text
from pipelines.report.row_output import add_rows, is_number, print_table, rich_table
from pipelines.report.run_totals import Totals
from pipelines.report.safe_text import shown
from pipelines.report.table_report import waiting_text
from sinks.write.unsent import unsent_texts
from sources.wording import counted

HIDDEN_SHOWN = 8


@dataclass(frozen=True, slots=True)
class TableSummary:
    """One Paimon table after the run; counts are of the present table."""

    identifier: str
    path: str
    row_count: int
    bucket_count: int
    snapshot_count: int
    changelog_row_count: int
    is_counted: bool = True
    """Whether ``row_count`` is exact; else it is the stored rows before merging, an upper bound."""
    waiting_row_count: int = 0
    """Rows in postponed buckets, which ``row_count`` leaves out."""


@dataclass(frozen=True, slots=True)
class TableSample:
    """A few rows of one table, and a few of its newest changes with `_row_kind` first; None without a changelog."""

    identifier: str
    rows: pa.Table
    changes: pa.Table | None
    hidden_columns: tuple[str, ...] = ()
    """Columns of the table that the sample leaves out."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One pipeline after `run --once`."""

    pipeline: str
    totals: Totals
    tables: tuple[TableSummary, ...]
    sample: TableSample | None = None
    quarantine: str | None = None
    unread: Mapping[str, str] = field(default_factory=dict)
    """Tables that could not be read for the summary, and why."""
    losses: tuple[str, ...] = ()
    """Records that disappeared before they were read, in words."""
    behind: tuple[str, ...] = ()
    """Tables that do not have all that was read, in words."""
    waited_s: float = 0.0
    """How long the run has waited for transient failures to end."""
    unfinished: tuple[str, ...] = ()
    """Files and topics that could not be read, in words."""
    why_nothing: str | None = None
    """Why there was nothing to read; None if the tables had it all."""
    is_complete: bool = True
    """Whether the run read all that there was; False if a signal stopped it."""
    file: str | None = None
    """The pipeline file, by which commands reach tables of a server or whose storage needs options."""
    is_of_server: bool = False
    """Whether the tables are those of a REST catalog, which names them."""


def print_summary(summary: RunSummary, console: Console | None = None) -> None:
    """Print to stdout."""
    out = console or Console(highlight=False)
    _say(out, headline(summary), "bold")
    for line in beside_lines(summary):
        _say(out, line)
    if summary.waited_s:
        _say(out, f"waited {duration_words(summary.waited_s)} for transient failures to end")
    for loss in summary.losses:
        _say(out, f"lost before it was read: {loss}")
    for unfinished in summary.unfinished:
        _say(out, f"not all was read: {unfinished}", "bold")
    for table_behind in summary.behind:
        _say(out, table_behind, "bold")
    for identifier, unsent in summary.totals.unsent.items():
        for text in unsent_texts(unsent):
            _say(out, f"{identifier}: {text}", "bold")
    if summary.tables:
        out.print()
        print_table(_tables(summary.tables), out.file)
    for table in summary.tables:
        if table.waiting_row_count:
            waiting = waiting_text(table.waiting_row_count, short_path(table.path))
            _say(out, f"{table.identifier}: {waiting}")
    for identifier, reason in summary.unread.items():
        _say(out, f"{identifier} was written, but cannot be read: {reason}")
    if summary.sample is not None:
        _print_rows(f"{summary.sample.identifier}, some rows", summary.sample.rows, summary.sample.hidden_columns, out)
        if summary.sample.changes is not None:
            title = f"{summary.sample.identifier}, some of its newest changes"
            _print_rows(title, summary.sample.changes, summary.sample.hidden_columns, out)
    if summary.tables:
        out.print()
        out.print(Text("Try next:", style="bold"))
        for command in next_commands(summary, own_command()):
            _say(out, "  " + command)


def headline(summary: RunSummary) -> str:
    """One line: how much came in how fast, or that there was nothing new."""
    totals = summary.totals
    if not totals.record_count and totals.beside:
        return f"{summary.pipeline}: nothing new for the stream"
    if not totals.record_count and summary.unfinished and summary.why_nothing:
        return f"{summary.pipeline}: nothing was read"
    if not totals.record_count and summary.why_nothing:
        return f"{summary.pipeline}: nothing was read: {summary.why_nothing}"
    if not totals.record_count and not summary.is_complete:
        return f"{summary.pipeline}: stopped before the first batch; the next start reads what there is"
    if not totals.record_count:
        return f"{summary.pipeline}: nothing new since the last run"
    line = f"{summary.pipeline}: {counted(totals.record_count, 'event')} in {totals.seconds:.1f} s{_rate_text(totals)}"
    if totals.counts.quarantined:
        where = f" in {summary.quarantine}" if summary.quarantine else ""
        line += f"; {totals.counts.quarantined:,} quarantined{where}"
        reasons = reasons_text(totals.quarantined_reasons, len(totals.quarantined_reasons))
        line += f": {reasons}" if reasons else ""
    return line + asides(totals.counts)


def beside_lines(summary: RunSummary) -> list[str]:
    """The numbers of records that were read alongside the stream, and of the bad ones among them."""
    lines = []
    for identifier, count in sorted(summary.totals.beside.items()):
        line = f"{identifier}: {counted(count, 'record')} read alongside the stream, to catch it up"
        bad = summary.totals.beside_quarantined.get(identifier, {})
        if bad:
            where = f" in {summary.quarantine}" if summary.quarantine else ""
            line += f"; {sum(bad.values()):,} quarantined{where}: {reasons_text(bad, len(bad))}"
        lines.append(line)
    return lines


def _rate_text(totals: Totals) -> str:
    """The rate without the first batch, which is not typical."""
    records, seconds = totals.record_count - totals.first_record_count, totals.seconds - totals.first_seconds
    if records <= 0 or seconds <= 0:
        return ", most of it the start of Spark's workers"
    start = (
        f" after the first batch, which took {totals.first_seconds:.1f} s with start-up" if totals.first_seconds else ""
    )
    return f", {records / seconds:,.0f} events/s{start}"


def next_commands(summary: RunSummary, command: str) -> list[str]:
    """Commands to copy, for the sampled table or the first one; ``command`` starts Tidemark."""
    sampled = (t for t in summary.tables if summary.sample and t.identifier == summary.sample.identifier)
    chosen = next(sampled, summary.tables[0])
    path = short_path(chosen.path)
    if (summary.is_of_server or chosen.path.startswith("s3:")) and summary.file is not None:
        path = f"{shlex.quote(chosen.identifier)} -c {short_path(summary.file)}"
    has_changelog = summary.sample is None or summary.sample.changes is not None
    return [
        f"{command} table scan {path} --limit 10",
        *([f"{command} table changes {path} --format json"] if has_changelog else []),
        f"{command} table snapshots {path}",
        f"{command} table files {path}",
    ]


def _say(out: Console, text: str, style: str = "") -> None:
    """One line; names, values and reasons in it come from topics and tables."""
    out.print(Text(shown(text), style=style), soft_wrap=True)


def _tables(tables: Sequence[TableSummary]) -> Table:
    names = ("rows", "buckets", "snapshots", "changelog rows")
    drawn = rich_table([("table", False), *((name, True) for name in names)])
    for table in tables:
        rows = f"{'' if table.is_counted else 'at most '}{table.row_count:,}"
        counts = (table.bucket_count, table.snapshot_count, table.changelog_row_count)
        drawn.add_row(Text(shown(table.identifier)), rows, *(f"{count:,}" for count in counts))
    return drawn


def _print_rows(title: str, rows: pa.Table, hidden_columns: Sequence[str], out: Console) -> None:
    drawn = rich_table([(f.name, is_number(f.type)) for f in rows.schema])
    add_rows(drawn, rows)
    out.print()
    _say(out, title + ":", "bold")
    print_table(drawn, out.file)
    if hidden_columns:
        names = ", ".join(hidden_columns[:HIDDEN_SHOWN]) + (", ..." if len(hidden_columns) > HIDDEN_SHOWN else "")
        _say(out, f"columns not shown: {names}", "dim")


def own_command(
    started_as: str | None = None, python: str = sys.executable, which: Callable[[str], str | None] = shutil.which
) -> str:
    """``tidemark`` if the PATH has this command, or else the typed command, or else ``python -m tidemark``."""
    typed = Path(sys.argv[0] if started_as is None else started_as)
    if typed.name != "tidemark" or not typed.is_file():
        return f"{'python' if which('python') == python else _shell_word(python)} -m tidemark"
    on_path = which("tidemark")
    if on_path is not None and os.path.samefile(on_path, typed):
        return "tidemark"
    return _shell_word(str(typed))


def short_path(location: str) -> str:
    """A directory below the working directory as a relative path, anything else as it is; quoted for the shell."""
    here = Path.cwd()
    path = Path(location)
    return shlex.quote(str(path.relative_to(here)) if path.is_absolute() and path.is_relative_to(here) else location)


def _shell_word(path: str) -> str:
    word = short_path(path)
    return word if "/" in word else f"./{word}"
