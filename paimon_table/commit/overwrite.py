"""INSERT OVERWRITE: replacing all rows of partitions in one snapshot.

Implements Paimon's OVERWRITE commit of primary-key tables. With ``dynamic-partition-overwrite`` (the default) it
replaces the partitions of the new rows. Otherwise it replaces the partitions that match a static partition, which may
name some of the partition columns. In an unpartitioned table it replaces all rows. The snapshot deletes every live file
of the replaced partitions, with its deletion vectors. ``write.overwrite_writer`` writes the new rows as into empty
buckets, so the number of buckets may change. An overwrite has no changelog.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from paimon_table.commit.delta import Delta
from paimon_table.errors import BrokenInvariant, ConfigError
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.index_manifest import IndexEntry
from paimon_table.metadata.manifest import ADD, DELETE, ManifestEntry
from paimon_table.metadata.snapshot import CommitKind, SnapshotIdentity
from paimon_table.metadata.table_state import TableState
from paimon_table.options.table_options import TableOptions
from paimon_table.rows.binary_row import deserialize_row, serialize_row
from paimon_table.schema.table_schema import TableSchema

Covers = Callable[[bytes], bool]
"""Whether a partition, as a serialized row, is replaced."""

# ---------------------------------------------------------------- what is replaced


@dataclass(frozen=True, slots=True)
class StaticPartition:
    """Partition columns and their values, in the Python forms of ``binary_row``; other columns may have any value."""

    schema: TableSchema
    values: Mapping[str, Any]

    def __post_init__(self) -> None:
        for name in self.values:
            if name not in self.schema.partition_keys:
                raise ConfigError(
                    f"{name!r} is not a partition column, so it cannot select what to overwrite; partition columns: "
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

    A message counts as rows of its partition even if it names no files. Raises ConfigError for rows outside of the
    static partition, because they would replace rows that the caller did not name.
    """
    static = StaticPartition(schema, partition or {})
    written = {message.bucket.partition for message in messages}
    for found in written:
        if not static.covers(found):
            values = deserialize_row(found, [field.type for field in schema.partition_fields])
            raise ConfigError(
                f"rows of partition {values} are outside of the partition {dict(static.values)} that is overwritten. "
                "Leave them out, or name no partition, which overwrites the partitions of the rows"
            )
    if schema.partition_keys and options.dynamic_partition_overwrite:
        return written.__contains__
    return static.covers


def check_keys_stay_alone(
    schema: TableSchema, messages: Sequence[CommitMessage], covers: Covers, state: TableState
) -> None:
    """Raises ConfigError if new rows may have keys of partitions that stay, in a table where a key has one partition.

    This code does not know the keys, because an overwrite assigns rows as into an empty table.
    """
    is_one_row_a_key = schema.primary_keys and not set(schema.partition_keys) <= set(schema.primary_keys)
    if not is_one_row_a_key or not any(message.new_files for message in messages):
        return
    kept = next((bucket.partition for bucket in state.files if not covers(bucket.partition)), None)
    if kept is not None:
        values = list(deserialize_row(kept, [field.type for field in schema.partition_fields]))
        raise ConfigError(
            f"a key of this table has one row in all partitions together ({', '.join(schema.partition_keys)} is not in "
            f"the primary key). Overwriting single partitions could duplicate rows, because partition {values} stays. "
            "Write the rows without overwriting, which moves them, or overwrite the whole table"
        )


# ---------------------------------------------------------------- committing


def overwrite_delta(messages: Sequence[CommitMessage], covers: Covers, state: TableState) -> Delta:
    """The snapshot that follows ``state``: it deletes every file of the replaced partitions and adds ``messages``."""
    for message in messages:
        if message.changelog_files or message.compact_changelog or message.compact_before or message.compact_after:
            raise BrokenInvariant(
                f"bucket {message.bucket.bucket} was not written by an OverwriteWriter: its message has a changelog or "
                "a compaction, which an overwrite cannot publish; write the bucket again"
            )
    gone = [
        ManifestEntry(DELETE, bucket, state.buckets_beside(bucket), file)
        for bucket, files in state.files.items()
        if covers(bucket.partition)
        for file in files
    ]
    come = [ManifestEntry(ADD, m.bucket, m.total_buckets, file) for m in messages for file in m.new_files]
    index_gone = [
        IndexEntry(DELETE, entry.bucket, entry.file) for entry in state.index if covers(entry.bucket.partition)
    ]
    index_come = [
        IndexEntry(ADD, m.bucket, file) for m in messages for file in (*m.append_index.after, *m.compact_index.after)
    ]
    return Delta(CommitKind.OVERWRITE, tuple(gone + come), (), tuple(index_gone + index_come))


def whole_delta(messages: Sequence[CommitMessage], before: SnapshotIdentity, state: TableState) -> Delta:
    """As ``overwrite_delta`` of the whole table; conflicts with every state but the one at ``before``."""
    delta = overwrite_delta(messages, lambda _: True, state)
    if state.identity == before:
        return delta
    return replace(delta, conflict=f"other writers have committed to the table since snapshot {before.id}")


# ---------------------------------------------------------------- replacing what was read


@dataclass(frozen=True, slots=True)
class PartitionContent:
    """The data and index files of one partition at a snapshot, which show changes by other writers."""

    data: frozenset[tuple[int, int, str]]
    """Bucket, level and name."""
    index: frozenset[str]


def contents_of(state: TableState, partitions: Collection[bytes]) -> dict[bytes, PartitionContent]:
    """The content of each partition in ``state``, by serialized row, including partitions without files."""
    data: dict[bytes, set[tuple[int, int, str]]] = {partition: set() for partition in partitions}
    index: dict[bytes, set[str]] = {partition: set() for partition in partitions}
    for bucket, files in state.files.items():
        if bucket.partition in data:
            data[bucket.partition].update((bucket.bucket, file.level, file.file_name) for file in files)
    for entry in state.index:
        if entry.bucket.partition in index:
            index[entry.bucket.partition].add(entry.file.file_name)
    return {p: PartitionContent(frozenset(data[p]), frozenset(index[p])) for p in data}


def replacing_delta(
    messages: Sequence[CommitMessage], read: Mapping[bytes, PartitionContent], state: TableState
) -> Delta:
    """As ``overwrite_delta`` of the partitions that were ``read``; conflicts with a state in which their content
    differs."""
    strange = next((m for m in messages if m.bucket.partition not in read), None)
    if strange is not None:
        raise BrokenInvariant(f"bucket {strange.bucket.bucket} is in no partition to replace; please report this")
    delta = overwrite_delta(messages, read.__contains__, state)
    present = contents_of(state, read)
    changed = sum(present[partition] != content for partition, content in read.items())
    if not changed:
        return delta
    return replace(
        delta, conflict=f"other writers have changed {changed} of the {len(read)} partitions since they were read"
    )
