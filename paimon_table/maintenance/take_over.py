"""Replaces the content of a table by that of a branch, in one step.

The take-over publishes one OVERWRITE snapshot of the table, which deletes all table files and adds the branch's files.
It moves and copies no file, because files of branches are in the table's directories. So the snapshot is the only step,
on file systems and on object storage. Readers see either the old rows or the new ones. The table keeps its identity,
tags, consumers and history.
"""

from __future__ import annotations

from collections.abc import Mapping

from paimon_table.commit.commit import TableCommit
from paimon_table.maintenance.compaction import compact, compact_pending
from paimon_table.maintenance.job import Job
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.index_file import IndexChange
from paimon_table.metadata.manifest import ADD
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.metadata.snapshot import Snapshot
from paimon_table.metadata.table_state import TableState
from paimon_table.table import Table


def settle(branch: Table, job: Job, *, fully: bool) -> None:
    """Compact the new content until it can be taken over.

    Rows that are not yet visible to readers, or not yet in the changelog, would later appear in the table's changelog
    as new rows. ``fully``: every key has one row, so all merge options read the same rows.
    """
    if fully:
        compact(branch, job, lambda _: True, fully=True)
    else:
        compact_pending(branch, job, lambda _: True)


def take_over(branch: Table, commit: TableCommit, identifier: int, properties: Mapping[str, str]) -> Snapshot | None:
    """Publish the newest content of ``branch`` as the content of the table of ``commit``; None if both are empty.

    If other writers have committed to the table since ``commit`` was refreshed, raises CommitConflict and publishes
    nothing.
    """
    messages = _messages(branch.state(), branch.options.bucket)
    return commit.replace_all(identifier, messages, properties, commit.state.identity).overwrite


def _messages(content: TableState, bucket_option: int) -> list[CommitMessage]:
    """One message for each bucket with data or index files."""
    buckets = dict.fromkeys([*content.files, *(entry.bucket for entry in content.index)])
    return [
        CommitMessage(
            bucket=bucket,
            total_buckets=content.buckets_beside(bucket) if bucket in content.files else bucket_option,
            new_files=content.files_of(bucket),
            append_index=IndexChange(after=tuple(e.file for e in content.index if e.bucket == bucket)),
        )
        for bucket in buckets
    ]


def adds_files(table: Table, snapshot: Snapshot) -> bool:
    """Whether a snapshot added data files, unlike one that only drops partitions."""
    return any(entry.kind == ADD for entry in ManifestReader(table.io, table.paths).delta_entries(snapshot))
