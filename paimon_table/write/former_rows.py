"""Finds rows that a table no longer has in its last snapshots."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from paimon_table.errors import CorruptFile
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import load_state
from paimon_table.write.bucket_writer import BucketWriter, WriterEnvironment

FORMER_SNAPSHOTS = 20
"""The number of snapshots to search."""


def former_rows(
    ctx: TableContext, bucket: BucketId, keys: pa.Table, environment: WriterEnvironment, live: Iterable[DataFileMeta]
) -> pa.Table:
    """The rows of these keys in the newest snapshot that has any of them; none if no searched snapshot has.

    ``live`` are the current files of the bucket: this deletes the lookup files of all others.
    """
    found = ctx.schema.arrow_schema.empty_table()
    writers: list[BucketWriter] = []
    latest, earliest = ctx.snapshots.latest_id() or 0, ctx.snapshots.earliest_id() or 1
    for snapshot_id in range(latest, max(earliest, latest - FORMER_SNAPSHOTS) - 1, -1):
        try:
            state = load_state(ctx.io, ctx.paths, ctx.snapshots.read(snapshot_id))
            writers.append(BucketWriter(ctx, bucket, state.live_files().of(bucket), environment))
            found = writers[-1].lookup(keys)
        except (FileNotFoundError, CorruptFile):
            if ctx.snapshots.find(snapshot_id) is not None:
                raise
            break  # it has expired, as have all before it
        if len(found):
            break
    for writer in writers:
        writer.forget_all_but(live)
    return found
