"""A compaction of one table without progress output; its result in words for the caller."""

from __future__ import annotations

from paimon_table import Table
from paimon_table.maintenance.compaction import compact
from paimon_table.maintenance.postponed import compact_postponed
from pipelines.jobs.job_progress import new_job
from sources.wording import counted


def compact_fully(table: Table) -> str:
    """Give postponed rows their buckets and merge all files of each bucket. Pipelines may write at the same time."""
    given = compact_postponed(table, new_job(), lambda _: True, fully=True)
    done = compact(table.refreshed(), new_job(), lambda _: True, fully=True)
    if not done.snapshot_ids and not given.snapshot_ids:
        return "nothing to compact"
    before, after = given.files_before + done.files_before, given.files_after + done.files_after
    return f"compacted: {counted(before, 'file')} -> {counted(after, 'file')}"
