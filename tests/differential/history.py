"""A history of one table: its schema and what arrived commit by commit; can be printed and read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tests.support.plain_values import Plain

Row = tuple[Plain, ...]
"""``(kind, values...)``."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Rows in arrival order; ``full_compact`` ends the commit with a full compaction. Without rows it only compacts."""

    rows: tuple[Row, ...]
    full_compact: bool = False


@dataclass(frozen=True, slots=True)
class History:
    """Columns are (name, SQL type). ``unordered`` are array columns whose element order is free."""

    columns: tuple[tuple[str, str], ...]
    primary_key: tuple[str, ...]
    options: Mapping[str, str]
    commits: tuple[Commit, ...]
    keeps_writer: bool = False
    """One writer for all commits instead of a new one for each."""
    unordered: tuple[str, ...] = field(default=())

    @property
    def engine(self) -> str:
        return self.options.get("merge-engine", "deduplicate")

    @property
    def producer(self) -> str:
        return self.options.get("changelog-producer", "none")

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, in arrival order."""
        return tuple(row for commit in self.commits for row in commit.rows)

    def with_commits(self, commits: tuple[Commit, ...]) -> History:
        return replace(self, commits=commits)

    def key_of(self, row: Row) -> str:
        """The key of a row ``(kind, values...)`` as text; without one the first column, whose rows keep their order."""
        key = self.primary_key or (self.columns[0][0],)
        positions = [i for i, (name, _) in enumerate(self.columns, start=1) if name in key]
        return json.dumps([row[i] for i in positions])

    def text(self) -> str:
        """JSON with one row a line, which ``from_text`` reads back."""
        head = asdict(replace(self, commits=()))
        del head["commits"]
        lines = [json.dumps(head)[:-1] + ', "commits": [']
        for position, commit in enumerate(self.commits, start=1):
            rows = ",\n   ".join(json.dumps(row) for row in commit.rows)
            end = "]]}" if position == len(self.commits) else "],"
            lines.append(f"  [{json.dumps(commit.full_compact)}, [{rows}]{end}")
        return "\n".join(lines) if self.commits else lines[0] + "]}"


def from_text(text: str) -> History:
    """The history that ``History.text`` printed."""
    document: dict[str, Any] = json.loads(text)
    commits = tuple(Commit(tuple(tuple(row) for row in rows), full) for full, rows in document.pop("commits"))
    return History(
        columns=tuple((name, sql) for name, sql in document["columns"]),
        primary_key=tuple(document["primary_key"]),
        options=document["options"],
        commits=commits,
        keeps_writer=document["keeps_writer"],
        unordered=tuple(document["unordered"]),
    )
