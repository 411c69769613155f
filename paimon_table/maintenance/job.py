"""What the caller passes to a maintenance job: an environment, and an observer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from paimon_table.commit.commit import TableCommit
from paimon_table.table import Table
from paimon_table.write.bucket_writer import WriterEnvironment

ATTEMPTS = 5
"""How often a step is repeated because other writers committed to the same files."""


class Progress(Protocol):
    """Observes a job. ``advance`` may raise to end the job, which then removes the files it has written."""

    def begin(self, step: str, count: int, unit: str = "rows") -> None:
        """Report the start of a step over this many stored rows, or other items."""
        ...

    def advance(self, count: int) -> None:
        """Report ``count`` more units as done."""
        ...


class Unwatched:
    """No observer."""

    def begin(self, step: str, count: int, unit: str = "rows") -> None: ...

    def advance(self, count: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Job:
    """One job: its commits have a unique user and rising identifiers."""

    environment: WriterEnvironment
    progress: Progress = field(default_factory=Unwatched)
    identifiers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def commit_to(self, table: Table) -> TableCommit:
        """A committer with a unique user."""
        return table.new_commit(
            self.environment.new_uuid(),
            clock_ms=self.environment.clock_ms,
            new_uuid=self.environment.new_uuid,
            is_new_user=True,
        )
