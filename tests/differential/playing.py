"""Plays a history with Tidemark and with Java Paimon and reads both tables with both."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from paimon_table.errors import TidemarkError
from paimon_table.table import Table
from tests.differential.history import Commit, History, Row
from tests.differential.outcome import (
    NO_CHANGES,
    NO_ROWS,
    CommitOutcome,
    changes_of,
    content_of,
    failed,
    levels_at,
    snapshots_of_commits,
)
from tests.interop.java_paimon import JavaPaimon
from tests.interop.worker import WorkerError
from tests.support.table_driver import TableDriver, new_table

Played = Sequence[CommitOutcome]
"""One outcome a commit, up to the first that failed."""


@dataclass(frozen=True, slots=True)
class Player:
    """Plays histories below ``directory``; each play wipes what the one before left there."""

    java: JavaPaimon
    directory: Path

    def by_tidemark(self, history: History) -> Played:
        """UnsupportedFeature when the table is refused; other errors of Tidemark are the outcome of a commit."""
        path = self._fresh("tidemark")
        table = new_table(path, history.columns, history.primary_key, (), _one_bucket(history))
        driver = TableDriver(table, self.directory / "lookup", keeps_writers=history.keeps_writer)
        error = None
        for commit in history.commits:
            try:
                _commit(driver, commit)
            except TidemarkError as raised:
                error = f"{type(raised).__name__}: {raised}"
                break
        return self._outcomes(path, history, error)

    def by_java(self, history: History) -> Played:
        path = self._fresh("java")
        self.java.create_table(str(path), [*history.columns], history.primary_key, (), _one_bucket(history))
        commits = [(commit.rows, commit.full_compact) for commit in history.commits]
        error = self.java.play(str(path), commits, keeps_writer=history.keeps_writer)
        return self._outcomes(path, history, error)

    def _fresh(self, name: str) -> Path:
        path = self.directory / name
        shutil.rmtree(path, ignore_errors=True)
        return path

    def _outcomes(self, path: Path, history: History, error: str | None) -> Played:
        table = Table.open_for_reading(str(path))
        driver = TableDriver(table, self.directory / "lookup")
        java_changes = {change.snapshot_id: change.rows for change in self.java.changes(str(path))}
        own_changes = {change.snapshot_id: change.rows for change in driver.changes()}
        out: list[CommitOutcome] = []
        snapshots = snapshots_of_commits(table)
        for identifier in range(1, len(history.commits) + 1):
            if identifier not in snapshots:
                if error is not None and identifier > max(snapshots, default=0):
                    break
                # A commit that changes nothing may make no snapshot.
                out.append(replace(out[-1], changes=NO_CHANGES) if out else CommitOutcome(NO_ROWS, NO_CHANGES))
                continue
            ids = snapshots[identifier]
            try:
                content = self._content(path, history, driver, ids[-1])
            except (WorkerError, TidemarkError) as raised:
                return [*out, failed(f"reading: {raised}")]
            changes = {
                "java": changes_of(history, _of(java_changes, ids)),
                "tidemark": changes_of(history, _of(own_changes, ids)),
            }
            out.append(CommitOutcome(content, changes, levels_at(table, ids[-1])))
        return out if error is None else [*out, failed(error)]

    def _content(
        self, path: Path, history: History, driver: TableDriver, snapshot_id: int
    ) -> dict[str, list[list[object]]]:
        by_java = self.java.read(str(path), {"scan.snapshot-id": str(snapshot_id)})
        return {
            "java": content_of(history, (tuple(row[1:]) for row in by_java)),
            "tidemark": content_of(history, (tuple(row) for row in driver.content(snapshot_id))),
        }


def _one_bucket(history: History) -> dict[str, str]:
    return {"bucket": "1", **history.options}


def _commit(driver: TableDriver, commit: Commit) -> None:
    if commit.rows:
        driver.commit(commit.rows, full_compact=commit.full_compact)
    else:
        driver.compact()


def _of(changes: dict[int, list[list[object]]], snapshot_ids: Sequence[int]) -> list[Row]:
    return [tuple(row) for snapshot_id in snapshot_ids for row in changes.get(snapshot_id, ())]
