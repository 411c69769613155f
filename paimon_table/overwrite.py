"""INSERT OVERWRITE: replacing all rows of partitions in one snapshot.

Implements Paimon's OVERWRITE commit of primary-key tables. Which partitions are replaced: with
``dynamic-partition-overwrite`` (the default) those of the new rows, otherwise those of a static partition, which may
name some of the partition columns; an unpartitioned table is replaced as a whole. Every live file of them goes, with
its deletion vectors. The new rows are written as into empty buckets and may have another number of buckets. Nothing
enters the changelog.

Where Paimon publishes the compaction of the new rows as a second snapshot, the files that are left at the end of the
write make up the one snapshot here: a crash leaves the old rows or the new ones, compacted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from paimon_table.binary_row import deserialize_row, serialize_row
from paimon_table.bucket_writer import BucketWriter, WriterEnvironment
from paimon_table.commit_delta import Delta
from paimon_table.conflict import find_overlap
from paimon_table.data_file import BucketId, CommitMessage, DataFileMeta
from paimon_table.errors import BrokenInvariant, ConfigError
from paimon_table.index_manifest import IndexEntry
from paimon_table.manifest import ADD, DELETE, ManifestEntry
from paimon_table.options import TableOptions
from paimon_table.paths import TablePaths
from paimon_table.schema import TableSchema
from paimon_table.snapshot import CommitKind
from paimon_table.table import TableContext
from paimon_table.table_state import TableState

Covers = Callable[[bytes], bool]
"""Whether a partition, as a serialized row, is replaced."""

# ---------------------------------------------------------------- writing


class OverwriteWriter:
    """Writes the new rows of one bucket; for one commit. What the bucket holds so far plays no part."""

    def __init__(self, ctx: TableContext, bucket: BucketId, environment: WriterEnvironment) -> None:
        self._ctx = replace(ctx, options=_without_changelog(ctx.options))
        self._bucket = bucket
        self._writer = BucketWriter(self._ctx, bucket, (), environment)

    def write(self, rows: pa.Table) -> None:
        """Add rows in arrival order, as ``BucketWriter.write`` does."""
        self._writer.write(rows)

    def prepare(self, full_compact: bool = False) -> CommitMessage | None:
        """Flush and compact; the message names the files that are left, all of them durable, as new ones.

        None when every row was ignored (``ignore-delete``); a message without files when only deletes were written.
        """
        written = self._writer.prepare_commit(full_compact)
        if not written.new_files:
            return None
        left = {(file.level, file.file_name): file for file in written.new_files}
        for file in written.compact_before:
            left.pop((file.level, file.file_name))
        left |= {(file.level, file.file_name): file for file in written.compact_after}
        names = {file.file_name for file in left.values()}
        for file in written.new_files:
            if file.file_name not in names:
                # Unreferenced: made by this writer, which has merged it, and named by no message.
                self._delete(file)
        return CommitMessage(
            bucket=self._bucket,
            total_buckets=self._ctx.options.bucket,
            new_files=_upgraded(tuple(left.values()), self._ctx),
            compact_index=written.compact_index,
        )

    def _delete(self, file: DataFileMeta) -> None:
        self._ctx.io.delete(self._ctx.data_file(self._bucket, file))
        for extra in TablePaths.extra_files(self._ctx.bucket_dir(self._bucket), file):
            self._ctx.io.delete(extra)


def _without_changelog(options: TableOptions) -> TableOptions:
    """The same table, compacted the same way, without a changelog."""
    return replace(options, changelog_producer="none", force_lookup=options.needs_lookup)


def _upgraded(files: tuple[DataFileMeta, ...], ctx: TableContext) -> tuple[DataFileMeta, ...]:
    """Files that need no merge on the highest level.

    Files with retracts stay where they are, though Paimon moves them too: what a single retract means is decided by the
    compaction that finds it on level 0.
    """
    needs_merge = any(file.level > 0 or file.delete_row_count != 0 for file in files)
    if not ctx.options.overwrite_upgrade or needs_merge:
        return files
    if find_overlap(files, [f.type for f in ctx.schema.key_fields]) is not None:
        return files
    return tuple(file.at_level(ctx.options.max_level) for file in files)


# ---------------------------------------------------------------- what is replaced


@dataclass(frozen=True, slots=True)
class StaticPartition:
    """Partition columns and their values, in the Python forms of ``binary_row``; the other columns are free."""

    schema: TableSchema
    values: Mapping[str, Any]

    def __post_init__(self) -> None:
        for name in self.values:
            if name not in self.schema.partition_keys:
                raise ConfigError(
                    f"{name!r} is no partition column, so it cannot be overwritten by its value; partition columns: "
                    f"{list(self.schema.partition_keys)}"
                )

    def covers(self, partition: bytes) -> bool:
        """Whether a partition, as a serialized row, has these values."""
        fields = self.schema.partition_fields
        if not self.values:
            return True
        row = deserialize_row(partition, [field.type for field in fields])
        types = [field.type for field in fields if field.name in self.values]
        named = [value for field, value in zip(fields, row, strict=True) if field.name in self.values]
        wanted = [self.values[field.name] for field in fields if field.name in self.values]
        return serialize_row(named, types) == serialize_row(wanted, types)


def replaced_partitions(
    schema: TableSchema, options: TableOptions, messages: Sequence[CommitMessage], partition: Mapping[str, Any] | None
) -> Covers:
    """Which partitions an overwrite with these messages replaces; ``partition`` is the static one, if any.

    A message stands for rows of its partition even if it names no files.
    ConfigError for rows outside of the static partition: they would replace what nobody named.
    """
    static = StaticPartition(schema, partition or {})
    written = {message.bucket.partition for message in messages}
    for found in written:
        if not static.covers(found):
            values = deserialize_row(found, [field.type for field in schema.partition_fields])
            raise ConfigError(
                f"rows of partition {values} do not belong to the partition {dict(static.values)} that is overwritten; "
                "leave them out, or give no partition to overwrite those of the rows"
            )
    if schema.partition_keys and options.dynamic_partition_overwrite:
        return written.__contains__
    return static.covers


# ---------------------------------------------------------------- committing


def overwrite_delta(messages: Sequence[CommitMessage], covers: Covers, state: TableState) -> Delta:
    """The snapshot that follows ``state``: every file of the replaced partitions goes, those of ``messages`` come."""
    for message in messages:
        if message.changelog_files or message.compact_changelog or message.compact_before or message.compact_after:
            raise BrokenInvariant(
                f"bucket {message.bucket.bucket} was not written by an OverwriteWriter: its message has a changelog or "
                "a compaction, which an overwrite cannot publish; write it again"
            )
    gone = [
        ManifestEntry(DELETE, bucket, state.total_buckets[bucket.partition], file)
        for bucket, files in state.files.items()
        if covers(bucket.partition)
        for file in files
    ]
    come = [ManifestEntry(ADD, m.bucket, m.total_buckets, file) for m in messages for file in m.new_files]
    index_gone = [
        IndexEntry(DELETE, entry.bucket, entry.file) for entry in state.index if covers(entry.bucket.partition)
    ]
    index_come = [IndexEntry(ADD, m.bucket, file) for m in messages for file in m.compact_index.after]
    return Delta(CommitKind.OVERWRITE, tuple(gone + come), (), tuple(index_gone + index_come))
