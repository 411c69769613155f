"""Deleting all rows of a table row by row, so that every reader of its changes sees them go.

Readers of Paimon pass over OVERWRITE snapshots when they follow a table, and these bring no changelog. So a table that
is emptied in its stream gets a -D for each of its rows, in an ordinary commit.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import pyarrow as pa

from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.snapshot import Snapshot
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import LiveFiles
from paimon_table.row_kind import VALUE_KIND, RowKind
from paimon_table.scan.scan import TableScan
from paimon_table.scan.splits import Split
from paimon_table.write.bucket_writer import WriterEnvironment
from paimon_table.write.writer import open_writer


@dataclass(frozen=True, slots=True)
class Emptied:
    """What empties a table, not committed yet."""

    messages: tuple[CommitMessage, ...]
    """The APPEND part of the commit, one for each bucket with rows."""
    due: tuple[BucketId, ...]
    """The buckets to compact once that is committed."""
    row_count: int


def why_not_emptied(ctx: TableContext) -> str | None:
    """Why not every row of the table can be deleted by a -D; None where that can be done."""
    schema, options = ctx.schema, ctx.options
    if not schema.primary_keys:
        return "the table has no primary key"
    if options.merge_engine != "deduplicate":
        return f"the merge engine is {options.merge_engine}, which combines several records in a row"
    if options.ignore_delete or options.rowkind_field is not None:
        return "its options leave deletes out, or take them from a column"
    if options.sequence_fields:
        return "'sequence.field' lets a deleted row win over a newer one with a lower value"
    if options.is_postponed or options.snapshot_ordering or (options.write_only and options.hides_level0):
        return "its rows wait for a compaction job, so not all of them can be seen"
    if not set(schema.partition_keys) <= set(schema.primary_keys):
        return "its rows move between partitions"
    return None


def emptied(ctx: TableContext, snapshot: Snapshot | None, live: LiveFiles, environment: WriterEnvironment) -> Emptied:
    """Write a -D for every row of ``snapshot``, whose files are ``live``; in memory of bounded size.

    The table is one that ``why_not_emptied`` has nothing against.
    """
    scan, of_buckets = TableScan.make(ctx), defaultdict[BucketId, list[Split]](list)
    for split in scan.plan(snapshot):
        of_buckets[split.bucket].append(split)
    messages, due, row_count = [], [], 0
    for bucket, splits in of_buckets.items():
        writer = open_writer(ctx, bucket, live.of(bucket), environment)
        for split in splits:
            for rows in scan.read(split):
                row_count += rows.num_rows
                kinds = pa.repeat(pa.scalar(int(RowKind.DELETE), pa.int8()), rows.num_rows)
                writer.write(rows.append_column(VALUE_KIND, kinds))
        message = writer.prepare_append()
        if not message.is_empty:
            messages.append(message)
            if writer.needs_compaction():
                due.append(bucket)
        writer.release_memory()
    return Emptied(tuple(messages), tuple(due), row_count)
