"""The code of `tidemark quarantine list`, `show` and `drop`; ``quarantine_commands`` has the arguments."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from rich.text import Text

from paimon_table.errors import ConfigError
from pipelines.bad_records.dead_letters import BadLine, remove_payloads
from pipelines.bad_records.log import Closed, Place, stretches
from pipelines.config.config_file import load_pipeline
from pipelines.jobs.consent import confirm
from pipelines.jobs.job_progress import watched
from pipelines.quarantine.selection import SHOWN, Group, Opened, Selection, grouped, shown_kind
from pipelines.quarantine.slices import Slices, alone
from pipelines.report.output import RowFormat, checked_stdout, quiet_pipe
from pipelines.report.row_output import print_table, rich_table
from pipelines.report.safe_text import json_line, safe_json, shown
from pipelines.report.say import say
from sources.wording import counted, first_of

_LONGEST_VALUE = 2_000
_LONGEST_PLACE = 100


def list_groups(file: Path, selection: Selection, output: RowFormat) -> None:
    """Print the groups of records."""
    quarantine = Opened(load_pipeline(file))
    facts = quarantine.bad.facts().in_file_order()
    with watched("records") as progress:
        groups = grouped(quarantine.records(facts, selection, progress), quarantine.names.of)
    with quiet_pipe():
        _print_groups(groups, output, checked_stdout())
    total = sum(group.count for group in groups)
    tables = len({group.table for group in groups})
    if total:
        words = (
            f"{counted(total, 'record')} of {counted(tables, 'table')} in {counted(facts.file_count, 'file')} below "
        )
        say(words + quarantine.bad.location, err=True)
    else:
        say(quarantine.no_records(selection), err=True)
    _say_unfinished(quarantine)
    quarantine.tell_damaged()


def _say_unfinished(quarantine: Opened) -> None:
    slices = Slices(quarantine.bad.io, quarantine.bad.path).unfinished()
    if slices:
        waiting = counted(sum(len(slice_.records) for slice_ in slices), "record")
        say(f"a retry of {waiting} was interrupted; the next retry finishes it", err=True)


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
        cells = (group.table, shown_kind(group.reason), f"{group.count:,}", moment(group.first_ms))
        place = shown(f"{example.topic} {example.partition}:{example.offset}", _LONGEST_PLACE)
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
    """Print records: for people, or as lines for editing."""
    if output not in (RowFormat.JSON, RowFormat.TABLE):
        raise ConfigError("--format: records are printed as table or json")
    quarantine = Opened(load_pipeline(file))
    most = limit if limit is not None else SHOWN if output is RowFormat.TABLE else None
    printed = left = 0
    with quiet_pipe(), watched("records") as progress:
        out = checked_stdout()
        for line in quarantine.records(quarantine.bad.facts().in_file_order(), selection, progress):
            if most is not None and printed >= most:
                left += 1
                if limit is not None:
                    break
                continue
            printed += 1
            if output is RowFormat.JSON:
                out.write(safe_json(line.text.decode(errors="replace")) + "\n")
            else:
                out.write(_record_words(line, quarantine.names.of(line)))
    if not printed:
        say(quarantine.no_records(selection), err=True)
    elif left and limit is None:
        say(f"and {counted(left, 'more record')}; --limit shows more, --format json all", err=True)
    quarantine.tell_damaged()


def _record_words(line: BadLine, table: str) -> str:
    fields: dict[str, Any] = json.loads(line.text)
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


def _value(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if isinstance(value, str):
        return value
    encoded = fields.get(f"{name}_b64")
    return f"{encoded} (base64)" if isinstance(encoded, str) else "NULL"


def moment(time_ms: int | None) -> str:
    """The time of a record for people; invalid times stay numbers."""
    if time_ms is None:
        return "-"
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"


def drop(file: Path, selection: Selection, yes: bool, dry_run: bool) -> None:
    """Remove records from the quarantine, after a confirmation."""
    quarantine = Opened(load_pipeline(file))
    quarantine.check_known(selection.table)
    facts = quarantine.bad.facts().in_file_order()
    with watched("records") as progress:
        groups = grouped(quarantine.records(facts, selection, progress), quarantine.names.of)
    total = sum(group.count for group in groups)
    damaged = quarantine.damaged_count if selection.is_all else 0
    _say_unfinished(quarantine)
    if not total and not damaged:
        say(f"nothing to drop: {quarantine.no_records(selection)}")
        return
    lines = [group.words for group in groups]
    also = [f"  {counted(damaged, 'damaged line')}"] if damaged else []
    head = (
        f"{'would drop' if dry_run else 'dropping'} {counted(total, 'record')}; a later read can quarantine them again:"
    )
    say("\n".join([head, *first_of(lines, SHOWN, "groups"), *also]))
    if dry_run:
        return
    confirm("Drop them?", yes, done="dropped")
    with alone(quarantine.bad), watched("records") as progress:
        dropped: set[Place] = (
            {*facts.places()}
            if selection.is_all
            else {line.record for line in quarantine.records(facts, selection, progress)}
        )
        log = quarantine.bad.log
        log.append(Closed(why="dropped", places=stretches(dropped)))
        is_all = selection.is_all
        still = {*quarantine.bad.facts().places()} if is_all else set()
        remove_payloads(
            log, log.entries.values(), lambda at: at in dropped or (is_all and at not in still), damaged=is_all
        )
    say(f"dropped {counted(total + damaged, 'line')}")
