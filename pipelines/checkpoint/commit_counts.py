"""How often the pipeline had committed to each table: a small file of ours that tells tables older than it.

The stream is past what such a table misses: it was restored from a backup, or rolled back. Snapshots count the commits
of their pipeline; the checkpoint keeps the count of each table behind every batch. After a kill it may be lower than
that of the table, never higher.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from pipelines.checkpoint.checkpoint import Checkpoint

FILE = "tidemark/commits.json"


@dataclass(frozen=True, slots=True)
class Commits:
    """Those of one table."""

    created_ms: int
    """Of the table: one that was made anew under its name has another."""
    count: int
    topics: tuple[str, ...]
    """Those that fed it."""
    snapshot_id: int = 0
    """The newest snapshot of the table that was seen with them: one with less was rolled back, or restored."""


class CommitCounts:
    """The counts of one checkpoint, kept up by the driver."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._known: Mapping[str, Commits] | None = None

    @property
    def all(self) -> Mapping[str, Commits]:
        """By table; read when they are first needed."""
        if self._known is None:
            self._known = {} if self._checkpoint.is_new else self._checkpoint.document(FILE, _counts) or {}
        return self._known

    def note(self, counts: Mapping[str, Commits]) -> None:
        """Keep the counts of these tables durably; costs nothing where nothing is new.

        A count goes down for a table that was made anew alone: one that lacks commits is to be noticed.
        """
        self._write({name: self._at_least(name, commits) for name, commits in counts.items()})

    def lower(self, table: str, count: int, snapshot_id: int) -> None:
        """The table has that many commits, and snapshots up to this one; what it lacks will be read again."""
        self._write({table: replace(self.all[table], count=count, snapshot_id=snapshot_id)})

    def _at_least(self, table: str, commits: Commits) -> Commits:
        known = self.all.get(table)
        if known is None or known.created_ms != commits.created_ms:
            return commits
        snapshot_id = max(commits.snapshot_id, known.snapshot_id)
        return replace(commits, count=max(commits.count, known.count), snapshot_id=snapshot_id)

    def _write(self, counts: Mapping[str, Commits]) -> None:
        new = {**self.all, **counts}
        if new != self.all:
            document = {table: asdict(commits) for table, commits in sorted(new.items())}
            self._checkpoint.write(FILE, json.dumps(document, indent=1).encode())
            self._known = new


def _counts(data: bytes) -> dict[str, Commits]:
    return {
        str(table): Commits(
            int(of["created_ms"]), int(of["count"]), tuple(map(str, of["topics"])), int(of.get("snapshot_id", 0))
        )
        for table, of in json.loads(data).items()
    }
