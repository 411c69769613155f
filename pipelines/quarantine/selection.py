"""The quarantine for commands: its open records, the records that a command selects, and their groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from paimon_table.errors import ConfigError
from paimon_table.nearest_name import did_you_mean
from pipelines.bad_records.dead_letters import BadLine, DamagedLine, DeadLetters
from pipelines.bad_records.facts import Facts
from pipelines.batch.decode_report import kind_of_reason
from pipelines.config.config import PipelineConfig
from pipelines.jobs.job_progress import BarProgress
from pipelines.prepared import own_tables, table_names
from pipelines.report.safe_text import shown
from pipelines.report.say import say
from pipelines.tables.continued_tables import continued_by, tables_after, with_continued
from pipelines.tables.own_tables import OwnTables
from pipelines.tables.target_names import NO_TABLE, TargetNames
from sources.wording import counted, first_of

MOST_GROUPS = 1_000
"""Beyond this number of kinds of reasons, the other records of a table are counted together."""

SHOWN = 20
"""Groups or records that are printed for people by default."""

EXAMPLES = 3
OTHER_REASONS = "(other reasons)"
_LONGEST_REASON = 100
_DAMAGED_SHOWN = 10


def shown_kind(kind: str) -> str:
    """A kind of reasons as lists print it."""
    return shown(kind, _LONGEST_REASON)


@dataclass(frozen=True, slots=True)
class Selection:
    """The values of ``--table`` and ``--reason``; None: all."""

    table: str | None = None
    reason: str | None = None

    @property
    def is_all(self) -> bool:
        return self.table is None and self.reason is None

    def takes(self, line: BadLine, table_of: Callable[[BadLine], str]) -> bool:
        """Whether the line is of the table and its reason is of the kind, or has the text in it."""
        return self._is_reason(line.reason) and (self.table is None or table_of(line) == self.table)

    def _is_reason(self, reason: str) -> bool:
        if self.reason is None or self.reason in reason:
            return True
        kind = kind_of_reason(reason)
        return self.reason in (kind, shown_kind(kind))

    @property
    def words(self) -> str:
        """The selection in words after a noun: `` of table lake.orders with reason '...'``."""
        table = "" if self.table is None else f" of table {self.table}"
        return table + ("" if self.reason is None else f" with a reason like {self.reason!r}")


@dataclass(slots=True)
class Group:
    """Bad records of one table with one kind of reason."""

    table: str
    reason: str
    count: int = 0
    first_ms: int | None = None
    """Lowest and highest Kafka time of the records."""
    last_ms: int | None = None
    examples: list[BadLine] = field(default_factory=list)

    def add(self, line: BadLine) -> None:
        self.count += 1
        if line.ts is not None:
            self.first_ms = line.ts if self.first_ms is None else min(line.ts, self.first_ms)
            self.last_ms = line.ts if self.last_ms is None else max(line.ts, self.last_ms)
        if len(self.examples) < EXAMPLES:
            self.examples.append(line)

    @property
    def words(self) -> str:
        """The group for people."""
        return f"  {self.table}: {counted(self.count, 'record')}: {shown_kind(self.reason)}"


def grouped(lines: Iterable[BadLine], table_of: Callable[[BadLine], str]) -> list[Group]:
    """The groups, ordered by table, the largest first."""
    groups: dict[tuple[str, str], Group] = {}
    for line in lines:
        table, reason = table_of(line), kind_of_reason(line.reason)
        if (table, reason) not in groups and len(groups) >= MOST_GROUPS:
            reason = OTHER_REASONS
        groups.setdefault((table, reason), Group(table, reason)).add(line)
    return sorted(groups.values(), key=lambda group: (group.table, -group.count, group.reason))


class NamesByPlace:
    """The tables of records: a record from before a change of the primary key belongs to the table of that time."""

    def __init__(self, given: PipelineConfig, own: OwnTables) -> None:
        self._given = given
        self._own = own
        self._known: dict[tuple[str, ...], TargetNames] = {}
        """By the tables that begin later."""

    def later(self, line: BadLine) -> tuple[str, ...]:
        """The tables that continue the one of a record."""
        return tables_after(self._own.continuations, (line.topic, line.partition), line.offset, line.topic_id)

    def of(self, line: BadLine) -> str:
        """See ``TargetNames``."""
        later = self.later(line)
        if later not in self._known:
            config = self._own.config_before(self._given, later)
            self._known[later] = TargetNames(config, lambda: self._own.positions().known.items())
        return self._known[later].of(line)


class Opened:
    """The quarantine of a pipeline, and what is known about its lines."""

    def __init__(self, config: PipelineConfig) -> None:
        if config.source.on_bad_record == "fail":
            raise ConfigError(f"pipeline {config.name} has no quarantine: its file has on_bad_record: fail")
        self.given = config
        """The pipeline as its file has it."""
        own = own_tables(config)
        self.config = with_continued(config, own.continuations)
        self.bad = DeadLetters(config)
        self.names = NamesByPlace(config, own)
        self.damaged: list[DamagedLine] = []
        self.damaged_count = 0

    def records(self, facts: Facts, selection: Selection, progress: BarProgress) -> Iterator[BadLine]:
        """The open records of a selection; collects damaged lines."""
        progress.begin("reading the quarantine", len(facts))
        for line in self.bad.lines(facts, progress.advance):
            if isinstance(line, BadLine):
                if selection.takes(line, self.names.of):
                    yield line
                continue
            self.damaged_count += 1
            if len(self.damaged) < _DAMAGED_SHOWN:
                self.damaged.append(line)

    def tell_damaged(self) -> None:
        """Report on stderr which lines are not records."""
        for line in self.damaged:
            say(f"damaged: {self.bad.location}/{line.place}: {shown(line.problem, 200)}", err=True)
        more = self.damaged_count - len(self.damaged)
        if more:
            say(f"and {counted(more, 'more damaged line')}", err=True)
        if self.damaged:
            say("damaged lines stay and are not counted; fix them in their files, or drop all", err=True)

    def is_any(self, selection: Selection) -> bool:
        """Whether the selection takes any open record; reads up to the first one."""
        return any(selection.takes(line, self.names.of) for line in self.bad.records())

    def check_known(self, table: str | None) -> None:
        """Raise ConfigError for a ``--table`` that the pipeline does not have and that no record belongs to."""
        if table is None or table == NO_TABLE:
            return
        known = table_names(self.config)
        if table not in known and not self.is_any(Selection(table)):
            by = continued_by(own_tables(self.config).continuations, table)
            if by:
                raise ConfigError(
                    f"--table: {table} gets no more records, because {by} continues it; retry those of {by}"
                )
            raise ConfigError(
                f"--table: pipeline {self.config.name} has no table {table!r}; {did_you_mean(table, known)}"
            )

    def no_records(self, selection: Selection) -> str:
        """Words for a selection without records, with the groups that exist: the groups of its table, or else all."""
        head = f"no records{selection.words} in {self.bad.location}"
        if selection.is_all:
            return head
        groups = grouped(self.bad.records(), self.names.of)
        of_table = [group for group in groups if group.table == selection.table]
        if not groups:
            return f"{head}, which has no records"
        there = f"table {selection.table}" if of_table else "the quarantine"
        lines = [group.words for group in of_table or groups]
        return "\n".join([f"{head}; {there} has these:", *first_of(lines, SHOWN, "groups")])
