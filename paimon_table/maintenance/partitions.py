"""Drops partitions that a user names, and truncates tables.

Implements Paimon's drop of partitions: an OVERWRITE snapshot that deletes their files and adds none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from paimon_table.commit.commit import TableCommit
from paimon_table.commit.overwrite import contents_of
from paimon_table.errors import CommitConflict
from paimon_table.maintenance.job import ATTEMPTS, Job
from paimon_table.metadata.bucket_id import POSTPONED
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import TableState
from paimon_table.table import Table


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """The content of a partition."""

    directory: str
    """The directory below the table; empty without partition columns."""
    bucket_count: int
    files: tuple[DataFileMeta, ...]

    @property
    def row_count(self) -> int:
        """The number of stored rows."""
        return sum(file.row_count for file in self.files)

    @property
    def size_bytes(self) -> int:
        return sum(file.file_size_bytes for file in self.files)


def partition_facts(ctx: TableContext, state: TableState) -> dict[bytes, PartitionFacts]:
    """All partitions with files, by their serialized rows, in the order of their directories."""
    files: dict[bytes, list[DataFileMeta]] = {}
    for bucket, of_bucket in state.files.items():
        files.setdefault(bucket.partition, []).extend(of_bucket)
    facts = {
        p: PartitionFacts(ctx.partition_path(p), state.total_buckets.get(p, POSTPONED), tuple(files[p])) for p in files
    }
    return dict(sorted(facts.items(), key=lambda item: item[1].directory))


@dataclass(frozen=True, slots=True)
class Dropped:
    """The dropped partitions, with their former content, and the snapshot; None if they no longer existed."""

    partitions: Mapping[bytes, PartitionFacts]
    snapshot_id: int | None


def drop_partitions(table: Table, partitions: Iterable[bytes], job: Job) -> Dropped:
    """Drop these partitions with all of their content at that moment, in one snapshot.

    If other writers keep committing to them, raises CommitConflict and drops nothing.
    """
    wanted = set(partitions)

    def dropped(commit: TableCommit) -> Dropped:
        state = commit.refresh()
        facts = {p: fact for p, fact in partition_facts(table.context, state).items() if p in wanted}
        if not facts:
            return Dropped({}, None)
        read = contents_of(state, facts)
        done = commit.replace(next(job.identifiers), (), {}, read, started_ms=job.environment.clock_ms())
        return Dropped(facts, None if done.overwrite is None else done.overwrite.id)

    return _tried(table, job, dropped, "partitions")


def truncate(table: Table, job: Job) -> Dropped:
    """Remove all rows of a table of any kind in one snapshot; a table without files gets no snapshot.

    Implements Paimon's truncateTable, which also removes index files. If other writers keep committing to the table,
    raises CommitConflict and changes nothing.
    """

    def emptied(commit: TableCommit) -> Dropped:
        state = commit.refresh()
        done = commit.replace_all(next(job.identifiers), (), {}, state.identity)
        return Dropped(partition_facts(table.context, state), None if done.overwrite is None else done.overwrite.id)

    return _tried(table, job, emptied, "table")


def _tried(table: Table, job: Job, drop: Callable[[TableCommit], Dropped], what: str) -> Dropped:
    commit = job.commit_to(table)
    for _ in range(ATTEMPTS):
        with suppress(CommitConflict):
            return drop(commit)
    raise CommitConflict(
        f"{table.paths.root}: other writers keep committing to the {what}; nothing was removed: try again, or stop the "
        "pipelines that write the table"
    )
