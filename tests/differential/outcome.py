"""What came of a history: written by one implementation, read by both, commit by commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from paimon_table.table import Table
from tests.differential.bitmaps import ordered_bitmap64
from tests.differential.history import History, Row
from tests.support.plain_values import Plain, sort_key, sorted_rows

Rows = list[list[Plain]]
Changes = Mapping[str, Rows]
"""Key to its changes in order."""


@dataclass(frozen=True, slots=True)
class CommitOutcome:
    """The table after one commit and the changes of the commit; after one with ``error`` nothing follows."""

    content: Mapping[str, Rows]
    """Reader ("java", "tidemark") to sorted rows."""
    changes: Mapping[str, Changes]
    """Reader to changes per key."""
    levels: tuple[tuple[int, int], ...] = ()
    """(level, row count) of every file, sorted."""
    error: str | None = None


NO_ROWS: Mapping[str, Rows] = {"java": [], "tidemark": []}
NO_CHANGES: Mapping[str, Changes] = {"java": {}, "tidemark": {}}


def failed(error: str) -> CommitOutcome:
    return CommitOutcome({}, {}, error=error)


def snapshots_of_commits(table: Table) -> dict[int, list[int]]:
    """Commit identifier to its snapshot ids, ascending."""
    out: dict[int, list[int]] = {}
    for snapshot_id in range(1, (table.snapshots.latest_id() or 0) + 1):
        out.setdefault(table.snapshots.read(snapshot_id).commit_identifier, []).append(snapshot_id)
    return out


def levels_at(table: Table, snapshot_id: int) -> tuple[tuple[int, int], ...]:
    state = table.state(table.snapshots.read(snapshot_id))
    return tuple(sorted((file.level, file.row_count) for files in state.files.values() for file in files))


def content_of(history: History, rows: Iterable[Row]) -> Rows:
    """Rows ``(values...)`` sorted, with free orders made equal."""
    return sorted_rows(_ordered(history, row, 0) for row in rows)


def changes_of(history: History, rows: Iterable[Row]) -> Changes:
    """Rows ``(kind, values...)`` per key; the order among keys is free."""
    out: dict[str, Rows] = {}
    for row in rows:
        out.setdefault(history.key_of(tuple(row)), []).append(_ordered(history, row, 1))
    return out


def _ordered(history: History, row: Iterable[Plain], shift: int) -> list[Plain]:
    out = list(row)
    for i, (name, _) in enumerate(history.columns, start=shift):
        if name in history.unordered and isinstance(out[i], list):
            out[i] = sorted(out[i], key=sort_key)
        if out[i] is not None and history.options.get(f"fields.{name}.aggregate-function") == "rbm64":
            out[i] = ordered_bitmap64(out[i])
    return out
