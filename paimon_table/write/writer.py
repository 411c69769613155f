"""Writers of buckets: their common contract, and the choice of one for a table."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from paimon_table.metadata.bucket_id import POSTPONED, BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import BucketState
from paimon_table.write.append_writer import AppendWriter
from paimon_table.write.bucket_writer import BucketWriter, WriterEnvironment
from paimon_table.write.postponed_writer import PostponedWriter


class Writer(Protocol):
    """The only writer of its bucket while it exists; runs in the process that has the rows, usually an executor.

    Tables without buckets may have several writers, which compact only on request.

    All messages must be committed, in order; their files are durable. After an exception drop the writer: its files
    since the last message are unreferenced.
    """

    def write(self, rows: pa.Table) -> None:
        """Add rows in arrival order: the table's columns and ``_VALUE_KIND``. Earlier calls arrived earlier.

        Raises MalformedRecord for values that the table cannot store, ConfigError if the bucket cannot be written.
        """
        ...

    def prepare_commit(self, full_compact: bool = False) -> CommitMessage:
        """Make the rows so far durable and compact: both parts of the message."""
        ...

    def prepare_append(self) -> CommitMessage:
        """Make the rows so far durable, without compacting: the message's APPEND part."""
        ...

    def bytes_to_compact(self, full_compact: bool = False) -> int:
        """The size of the files that ``compact_only`` would take first, once the prepared files are committed.

        0: it would change nothing.
        """
        ...

    def compact_only(self, full_compact: bool = False) -> CommitMessage:
        """Compact the existing files, after ``prepare_append`` or in a new writer: the message's COMPACT part."""
        ...

    @property
    def kept_bytes(self) -> int:
        """The size of the rows that stay in memory for ``compact_only``."""
        ...

    def release_memory(self) -> None:
        """Drop these rows from memory; compactions then read them from their files."""
        ...


def open_writer(ctx: TableContext, bucket: BucketId, state: BucketState, environment: WriterEnvironment) -> Writer:
    """A writer that starts from ``state``, the state of the bucket in the snapshot that its commits build on."""
    if not ctx.schema.primary_keys:
        return AppendWriter(ctx, bucket, state, environment)
    if bucket.bucket == POSTPONED:
        return PostponedWriter(ctx, bucket, state, environment)
    return BucketWriter(ctx, bucket, state, environment)
