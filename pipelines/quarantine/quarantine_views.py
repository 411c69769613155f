"""What `tidemark quarantine list`, `show` and `drop` do; ``quarantine_commands`` has the arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from rich.text import Text

from paimon_table.errors import ConfigError
from pipelines.bad_records.bad_lines import BadFile, BadLine, BadLines, DamagedLine
from pipelines.config.config import PipelineConfig
from pipelines.config.config_file import load_pipeline
from pipelines.jobs.consent import confirm
from pipelines.jobs.job_progress import BarProgress, watched
from pipelines.prepared import own_tables
from pipelines.quarantine.alone import alone
from pipelines.quarantine.kept_lines import take_out
from pipelines.quarantine.no_match import check_known, group_line, no_records
from pipelines.quarantine.selection import Group, Selection, grouped
from pipelines.quarantine.slices import Slices
from pipelines.report.output import RowFormat, checked_stdout, quiet_pipe
from pipelines.report.row_output import print_table, rich_table
from pipelines.report.safe_text import json_line, safe_json, shown
from pipelines.report.say import say
from pipelines.tables.target_names import TargetNames
from sources.wording import counted, first_of

SHOWN = 20
"""Records that ``show`` prints for people, unless it is told another number."""

_LONGEST_VALUE = 2_000
_LONGEST_REASON = 100
_DAMAGED_TOLD = 10


class Opened:
    """The quarantine of a pipeline file and what is known of its lines."""

    def __init__(self, config: PipelineConfig) -> None:
        if config.source.on_bad_record == "fail":
            raise ConfigError(f"pipeline {config.name} has no quarantine: it says on_bad_record: fail")
        self.config = config
        self.bad = BadLines(config)
        self.names = TargetNames(config, lambda: own_tables(config).positions().known.items())
        self.damaged: list[DamagedLine] = []
        self.damaged_count = 0

    def records(self, files: list[BadFile], progress: BarProgress) -> Iterator[BadLine]:
        """The records of the files; damaged lines are put aside."""
        progress.begin("reading the quarantine", len(files))
        for line in self.bad.lines(files, lambda: progress.advance(1)):
            if isinstance(line, BadLine):
                yield line
                continue
            self.damaged_count += 1
            if len(self.damaged) < _DAMAGED_TOLD:
                self.damaged.append(line)

    def tell_damaged(self) -> None:
        """Say on stderr which lines are no records."""
        for line in self.damaged:
            say(f"damaged: {self.bad.location}/{line.place}: {shown(line.problem, 200)}", err=True)
        more = self.damaged_count - len(self.damaged)
        if more:
            say(f"and {counted(more, 'more damaged line')}", err=True)
        if self.damaged:
            say("damaged lines are counted nowhere and stay; mend them in their files, or drop all", err=True)


def opened(file: Path) -> Opened:
    """The quarantine of the pipeline that ``file`` describes."""
    return Opened(load_pipeline(file))


def list_groups(file: Path, selection: Selection, output: RowFormat) -> None:
    """Print the groups of records."""
    quarantine = opened(file)
    files = quarantine.bad.files()
    with watched("files") as progress:
        records = (r for r in quarantine.records(files, progress) if selection.takes(r, quarantine.names.of))
        groups = grouped(records, quarantine.names.of)
    with quiet_pipe():
        _print_groups(groups, output, checked_stdout())
    total = sum(group.count for group in groups)
    tables = len({group.table for group in groups})
    if total:
        told = f"{counted(total, 'record')} of {counted(tables, 'table')} in {counted(len(files), 'file')} below "
        say(told + quarantine.bad.location, err=True)
    else:
        say(no_records(quarantine.bad, quarantine.names, files, selection), err=True)
    _tell_unfinished(quarantine)
    quarantine.tell_damaged()


def _tell_unfinished(quarantine: Opened) -> None:
    waiting = sum(slice_.record_count for slice_ in Slices(quarantine.bad.io, quarantine.bad.path).unfinished())
    if waiting:
        say(f"a retry of {counted(waiting, 'record')} has not ended; the next retry finishes it", err=True)


def _print_groups(groups: list[Group], output: RowFormat, out: IO[str]) -> None:
    if output is RowFormat.JSON:
        for group in groups:
            out.write(json_line(_group_document(group)) + "\n")
        return
    if output is not RowFormat.TABLE:
        raise ConfigError("--format: groups are printed as table or json")
    if not groups:
        return
    names = ("table", "reason", "records", "first", "last", "such as")
    table = rich_table([(name, name == "records") for name in names])
    for group in groups:
        example = group.examples[0]
        cells = (group.table, shown(group.reason, _LONGEST_REASON), f"{group.count:,}", moment(group.first_ms))
        place = shown(f"{example.topic} {example.partition}:{example.offset}", _LONGEST_REASON)
        table.add_row(*map(Text, (*cells, moment(group.last_ms), place)))
    print_table(table, out)


def _group_document(group: Group) -> dict[str, Any]:
    examples = [
        {"topic": e.topic, "partition": e.partition, "offset": e.offset, "reason": e.reason, "place": e.place}
        for e in group.examples
    ]
    first, last = (None if ms is None else moment(ms) for ms in (group.first_ms, group.last_ms))
    document = {"table": group.table, "reason": group.reason, "records": group.count, "first": first, "last": last}
    return {**document, "examples": examples}


def show(file: Path, selection: Selection, limit: int | None, output: RowFormat) -> None:
    """Print records: for people, or as the lines that they are."""
    if output not in (RowFormat.JSON, RowFormat.TABLE):
        raise ConfigError("--format: records are printed as table or json")
    quarantine = opened(file)
    files = quarantine.bad.files()
    most = limit if limit is not None else SHOWN if output is RowFormat.TABLE else None
    printed = left = 0
    with quiet_pipe(), watched("files") as progress:
        out = checked_stdout()
        for line in quarantine.records(files, progress):
            if not selection.takes(line, quarantine.names.of):
                continue
            if most is not None and printed >= most:
                left += 1
                if limit is not None:
                    break
                continue
            printed += 1
            is_json = output is RowFormat.JSON
            out.write(safe_json(_text(line)) + "\n" if is_json else _told(line, quarantine.names.of(line)))
    if not printed:
        say(no_records(quarantine.bad, quarantine.names, files, selection), err=True)
    elif left and limit is None:
        say(f"and {counted(left, 'more record')}; --limit shows more, --format json all", err=True)
    quarantine.tell_damaged()


def _told(line: BadLine, table: str) -> str:
    fields = _document(line)
    parts = {
        "table": table,
        "time": moment(line.ts),
        "reason": line.reason,
        "key": _value(fields, "key"),
        "payload": _value(fields, "payload"),
        "line": line.place,
    }
    head = f"{shown(line.topic)} partition {line.partition} offset {line.offset}"
    return "\n".join([head, *(f"  {name:8}{shown(text, _LONGEST_VALUE)}" for name, text in parts.items())]) + "\n\n"


def _document(line: BadLine) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(line.text)
    return document


def _value(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if isinstance(value, str):
        return value
    encoded = fields.get(f"{name}_b64")
    return f"{encoded} (base64)" if isinstance(encoded, str) else "NULL"


def _text(line: BadLine) -> str:
    return line.text.decode(errors="replace")


def moment(time_ms: int | None) -> str:
    """The time of a record for people; times that are none stay numbers."""
    if time_ms is None:
        return "-"
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"


def drop(file: Path, selection: Selection, yes: bool, dry_run: bool) -> None:
    """Remove records from the quarantine, once that is confirmed."""
    quarantine = opened(file)
    check_known(quarantine.config, quarantine.bad, quarantine.names, selection)
    files = [f for f in quarantine.bad.files() if f.is_final]
    left = len(quarantine.bad.files()) - len(files)
    with watched("files") as progress:
        records = (r for r in quarantine.records(files, progress) if selection.takes(r, quarantine.names.of))
        groups = grouped(records, quarantine.names.of)
    total = sum(group.count for group in groups)
    damaged = quarantine.damaged_count if selection.is_all else 0
    _tell_unfinished(quarantine)
    if left:
        say(f"{counted(left, 'file')} of a batch that may run again stay", err=True)
    if not total and not damaged:
        say(f"nothing to drop: {no_records(quarantine.bad, quarantine.names, files, selection)}")
        return
    lines = list(map(group_line, groups))
    also = [f"  {counted(damaged, 'damaged line')}"] if damaged else []
    head = f"{'would drop' if dry_run else 'dropping'} {counted(total, 'record')} for good:"
    say("\n".join([head, *first_of(lines, SHOWN, "groups"), *also]))
    if dry_run:
        return
    confirm("Drop them?", yes, done="dropped")
    with alone(quarantine.bad), watched("files") as progress:
        taken = _drop(quarantine, files, selection, progress)
    say(f"dropped {counted(taken, 'line')}")


def _drop(quarantine: Opened, files: list[BadFile], selection: Selection, progress: BarProgress) -> int:
    def is_taken(line: BadLine | DamagedLine) -> bool:
        if isinstance(line, DamagedLine):
            return selection.is_all
        return selection.takes(line, quarantine.names.of)

    progress.begin("dropping", len(files))
    taken = 0
    for file in files:
        taken += take_out(quarantine.bad.io, file, is_taken)
        progress.advance(1)
    return taken
