"""Whether the rows of a commit were written for other buckets than the table has now."""

from __future__ import annotations

from collections.abc import Callable

from paimon_table.commit.conflict import find_bucket_change, find_waiting
from paimon_table.commit.delta import Delta
from paimon_table.metadata.bucket_id import DYNAMIC, POSTPONED
from paimon_table.metadata.manifest import ADD
from paimon_table.metadata.snapshot import CommitKind
from paimon_table.metadata.table_state import TableState


def find_other_buckets(
    state: TableState, delta: Delta, newest_option: Callable[[], int], *, has_key: bool, root: str
) -> str | None:
    """Why the rows of ``delta`` were written for other buckets than the table has now, and what to do.

    ``newest_option`` reads the current option ``bucket``, which others may have changed; it is called only if needed.
    """
    if any(entry.kind == ADD and entry.bucket.bucket == POSTPONED for entry in delta.entries):
        number = newest_option()
        if number != POSTPONED:
            return f"its rows would wait for a bucket, but 'bucket' has become {number}: write them again"
    if has_key and _adds_dynamic(delta):
        number = newest_option()
        if number != DYNAMIC:
            return f"its rows were written for dynamic buckets, but 'bucket' has become {number}: write them again"
    if delta.kind is CommitKind.OVERWRITE:
        return None
    behind = find_waiting(state, delta.entries) if delta.kind is CommitKind.APPEND else None
    if behind is not None:
        return (
            f"it adds rows to bucket {behind.bucket} of a partition in which older rows still wait for a bucket "
            f"('bucket' was {POSTPONED}). Assign buckets to them with 'tidemark table compact {root}'"
        )
    changed = find_bucket_change(state, delta.entries)
    return changed and f"{changed}; set 'bucket' back or overwrite the partition to rescale it"


def _adds_dynamic(delta: Delta) -> bool:
    """Whether it adds rows to dynamic buckets. Compactions may add rows to buckets that another writer began."""
    is_compaction = delta.kind is CommitKind.COMPACT
    return not is_compaction and any(e.kind == ADD and e.total_buckets == DYNAMIC for e in delta.entries)
