"""Checks the number of buckets of a partition, which must be the same for its files and all writers.

Implements Paimon's rule that a changed ``bucket`` option takes effect with the next INSERT OVERWRITE of a partition.
The check covers the whole partition: even if a bucket has no files, another one may have rows of its keys.
"""

from __future__ import annotations

from paimon_table.errors import BucketCountChanged
from paimon_table.metadata.bucket_id import DYNAMIC
from paimon_table.metadata.table_context import TableContext


def check_bucket_count(ctx: TableContext, partition: bytes, present: int | None) -> None:
    """Raises BucketCountChanged unless rows may be written with the ``bucket`` option of ``ctx``.

    ``present`` is the number of buckets of the partition's live files; None without files, -1 for dynamic buckets.
    """
    wanted = ctx.options.bucket
    if present is None or present in (0, wanted) or ctx.options.is_postponed:
        return
    path = ctx.partition_path(partition)
    what = f"partition {path} of {ctx.paths.root}" if path else ctx.paths.root
    command = f"'tidemark table rescale {ctx.paths.root} --buckets {wanted}' or by " if ctx.options.has_key else ""
    back = "" if DYNAMIC in (present, wanted) else f"set 'bucket' back to {present}, or "
    raise BucketCountChanged(
        f"{what}: rows would be written with bucket num {wanted}, but the previous bucket num is {present}. Nothing "
        f"was written: {back}rescale it, by {command}INSERT OVERWRITE of all its rows"
    )
