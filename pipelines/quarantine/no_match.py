"""What to say when ``--table`` and ``--reason`` take no record: which ones there are."""

from __future__ import annotations

from paimon_table.errors import ConfigError
from paimon_table.nearest_name import did_you_mean
from pipelines.bad_records.bad_lines import BadFile, BadLine, BadLines
from pipelines.config.config import PipelineConfig
from pipelines.prepared import table_names
from pipelines.quarantine.selection import Group, Selection, grouped
from pipelines.report.safe_text import shown
from pipelines.tables.target_names import NO_TABLE, TargetNames
from sources.wording import counted, first_of

SHOWN = 20
_LONGEST_REASON = 100


def group_line(group: Group) -> str:
    """A group of records for people."""
    return f"  {group.table}: {counted(group.count, 'record')}: {shown(group.reason, _LONGEST_REASON)}"


def is_taken(bad: BadLines, names: TargetNames, files: list[BadFile], selection: Selection) -> bool:
    """Whether the selection takes any record; reads up to the first one."""
    lines = bad.lines(files, lambda: None)
    return any(isinstance(line, BadLine) and selection.takes(line, names.of) for line in lines)


def check_known(config: PipelineConfig, bad: BadLines, names: TargetNames, selection: Selection) -> None:
    """ConfigError for a ``--table`` that the pipeline does not have and that no record is for."""
    table = selection.table
    if table in (None, NO_TABLE):
        return
    known = table_names(config)
    if table in known or is_taken(bad, names, bad.files(), Selection(table)):
        return
    raise ConfigError(f"--table: pipeline {config.name} has no table {table!r}; {did_you_mean(str(table), known)}")


def no_records(bad: BadLines, names: TargetNames, files: list[BadFile], selection: Selection) -> str:
    """That the selection takes none, with the reasons there are instead: those of its table, or else all."""
    head = f"no records{selection.words} in {bad.location}"
    if selection.is_all:
        return head
    groups = grouped((line for line in bad.lines(files, lambda: None) if isinstance(line, BadLine)), names.of)
    of_table = [group for group in groups if group.table == selection.table]
    if not groups:
        return f"{head}, which holds none at all"
    there = f"table {selection.table}" if of_table else "the quarantine"
    lines = [group_line(group) for group in of_table or groups]
    return "\n".join([f"{head}; {there} has these:", *first_of(lines, SHOWN, "groups")])
