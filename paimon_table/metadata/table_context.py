"""The facts about a table that readers and writers of its files need, as one picklable value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.paths import TablePaths, partition_path
from paimon_table.metadata.snapshot import NewestSnapshot, SnapshotStore
from paimon_table.options.table_options import TableOptions
from paimon_table.rows.binary_row import deserialize_row
from paimon_table.schema.table_schema import TableSchema
from paimon_table.storage.file_io import FileIO


@dataclass(frozen=True, slots=True)
class TableContext:
    """The facts that readers and writers of data files need; has only values, so executors can get a pickle."""

    io: FileIO
    paths: TablePaths
    schema: TableSchema
    options: TableOptions
    schemas: Mapping[int, TableSchema]
    """All schema versions, for files that were written with an older one."""
    newest: NewestSnapshot | None = None
    """The server that names the newest snapshot; None if the files do."""

    @property
    def snapshots(self) -> SnapshotStore:
        return SnapshotStore(self.io, self.paths, self.newest)

    def partition_values(self, partition: bytes) -> tuple[object, ...]:
        """The partition's values in partition column order, from its serialized row."""
        fields = self.schema.partition_fields
        return tuple(deserialize_row(partition, [f.type for f in fields])) if fields else ()

    def partition_path(self, partition: bytes) -> str:
        """The partition's directory below the table, from its serialized row; empty without partition columns."""
        return partition_path(self.partition_values(partition), self.schema.partition_fields, self.options)

    def key_values(self, key: bytes) -> tuple[object, ...] | None:
        """The values of a trimmed primary key, from its serialized row; None if a file has no key."""
        fields = self.schema.key_fields
        return deserialize_row(key, [f.type for f in fields]) if fields and key not in (b"", EMPTY_ROW) else None

    def bucket_dir(self, bucket: BucketId) -> str:
        """Directory of the bucket's data and changelog files."""
        return self.paths.bucket_dir(self.partition_path(bucket.partition), bucket.bucket)

    def data_file(self, bucket: BucketId, file: DataFileMeta) -> str:
        return self.paths.data_file(self.bucket_dir(bucket), file)

    def delete_file(self, bucket: BucketId, file: DataFileMeta) -> None:
        """Delete a data or changelog file and its extra files; missing ones are no error.

        The caller proves that no snapshot and no pending commit message names it.
        """
        self.delete_file_in(self.bucket_dir(bucket), file)

    def remove_unpublished(self, messages: Iterable[CommitMessage]) -> None:
        """Delete the files that the writers of these messages made.

        The caller proves that no snapshot names these files: the messages were not published and never will be.
        """
        for message in messages:
            for file in message.made_files:
                self.delete_file(message.bucket, file)
            for index in (*message.append_index.after, *message.compact_index.after):
                self.io.delete(self.paths.index_file(index.file_name))

    def delete_file_in(self, bucket_dir: str, file: DataFileMeta) -> None:
        """As ``delete_file``, for the directory of a bucket."""
        self.io.delete(self.paths.data_file(bucket_dir, file))
        for extra in self.paths.extra_files(bucket_dir, file):
            self.io.delete(extra)
