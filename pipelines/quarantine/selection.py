"""Which of the bad records a command is about, and their groups: by table and kind of reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pipelines.bad_records.bad_lines import BadLine
from pipelines.batch.decode_task import kind_of_reason

MOST_GROUPS = 1_000
"""Beyond so many, records of further kinds of reasons of a table are counted together."""

EXAMPLES = 3
OTHER_REASONS = "(other reasons)"


@dataclass(frozen=True, slots=True)
class Selection:
    """What ``--table`` and ``--reason`` say; None stands for all."""

    table: str | None = None
    reason: str | None = None

    @property
    def is_all(self) -> bool:
        return self.table is None and self.reason is None

    def takes(self, line: BadLine, table_of: Callable[[BadLine], str]) -> bool:
        """Whether the line is of the table and its reason is of the kind, or has the text in it."""
        return (self.reason is None or self._is_reason(line.reason)) and (
            self.table is None or table_of(line) == self.table
        )

    def _is_reason(self, reason: str) -> bool:
        return self.reason is not None and (self.reason in reason or self.reason == kind_of_reason(reason))

    @property
    def words(self) -> str:
        """How the selection follows a noun: `` of table lake.orders with reason '...'``."""
        table = "" if self.table is None else f" of table {self.table}"
        return table + ("" if self.reason is None else f" with a reason like {self.reason!r}")


@dataclass(slots=True)
class Group:
    """Bad records of one table with one kind of reason."""

    table: str
    reason: str
    count: int = 0
    first_ms: int | None = None
    """Lowest and highest time of the records, as Kafka has them."""
    last_ms: int | None = None
    examples: list[BadLine] = field(default_factory=list)

    def add(self, line: BadLine) -> None:
        self.count += 1
        if line.ts is not None:
            self.first_ms = line.ts if self.first_ms is None else min(line.ts, self.first_ms)
            self.last_ms = line.ts if self.last_ms is None else max(line.ts, self.last_ms)
        if len(self.examples) < EXAMPLES:
            self.examples.append(line)


def grouped(lines: Iterable[BadLine], table_of: Callable[[BadLine], str]) -> list[Group]:
    """The groups, those of one table together, the largest first."""
    groups: dict[tuple[str, str], Group] = {}
    for line in lines:
        table, reason = table_of(line), kind_of_reason(line.reason)
        if (table, reason) not in groups and len(groups) >= MOST_GROUPS:
            reason = OTHER_REASONS
        groups.setdefault((table, reason), Group(table, reason)).add(line)
    return sorted(groups.values(), key=lambda group: (group.table, -group.count, group.reason))
