"""Deletes all rows of a table one by one, so that every reader of its changes sees the deletes.

Paimon's streaming readers skip OVERWRITE snapshots, which have no changelog. So a TRUNCATE in the stream writes a -D
for each row of the table, in an ordinary commit.
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
    """The messages that empty a table, not committed yet."""

    messages: tuple[CommitMessage, ...]
    """The APPEND part of the commit, one for each bucket with rows."""
    due: tuple[BucketId, ...]
    """The buckets to compact after the commit."""
    row_count: int


def why_not_emptied(ctx: TableContext) -> str | None:
    """Why some rows of the table cannot be deleted by a -D; None if all can."""
    schema, options = ctx.schema, ctx.options
    if not schema.primary_keys:
        return "the table has no primary key"
    if options.merge_engine != "deduplicate":
        return f"the merge engine {options.merge_engine} combines several records in a row"
    if options.ignore_delete or options.rowkind_field is not None:
        return "its options ignore deletes, or mark them in a column"
    if options.sequence_fields:
        return "'sequence.field' lets a deleted row win over a newer one with a lower value"
    if options.is_postponed or options.snapshot_ordering or (options.write_only and options.hides_level0):
        return "its rows wait for a compaction job, so some are not visible"
    if not set(schema.partition_keys) <= set(schema.primary_keys):
        return "its rows move between partitions"
    return None


def emptied(ctx: TableContext, snapshot: Snapshot | None, live: LiveFiles, environment: WriterEnvironment) -> Emptied:
    """Write a -D for every row of ``snapshot``, whose files are ``live``; with bounded memory.

    ``why_not_emptied`` must return None for the table.
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
            if writer.bytes_to_compact():
                due.append(bucket)
        writer.release_memory()
    return Emptied(tuple(messages), tuple(due), row_count)
