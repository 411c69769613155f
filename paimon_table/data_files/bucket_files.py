"""Reads the data files of one bucket in bounded pieces and writes new ones.

Rows are tables of ``row_schema``: sequence number, row kind, all columns of the table's current schema. Files that this
process has just written can stay in memory, so that they need not be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa

from paimon_table.data_files.altered_values import has_altered_values
from paimon_table.data_files.joined_files import joined_files
from paimon_table.data_files.key_value_file import BATCH_ROWS, FileNames, KeyValueFileWriter, iter_key_value_batches
from paimon_table.deletion_vectors.deletion_vector import DeletionVector, without_deleted
from paimon_table.deletion_vectors.deletion_vector_index import BucketDeletions
from paimon_table.known_values import once_for_each
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.data_file import DataFileMeta, FileSource
from paimon_table.metadata.table_context import TableContext
from paimon_table.options.file_settings import FileSettings, changelog_file_settings, data_file_settings, format_of
from paimon_table.row_kind import SEQUENCE_NUMBER, VALUE_KIND
from paimon_table.schema.table_schema import TableSchema


@once_for_each
def row_schema(schema: TableSchema) -> pa.Schema:
    """The columns in which the engine holds stored rows."""
    system = [pa.field(SEQUENCE_NUMBER, pa.int64(), False), pa.field(VALUE_KIND, pa.int8(), False)]
    return pa.schema([*system, *schema.arrow_schema])


class BucketFiles:
    """Files of one (partition, bucket) of a table, by their metadata."""

    def __init__(
        self,
        ctx: TableContext,
        bucket: BucketId,
        names: FileNames,
        clock_ms: Callable[[], int],
        deletions: BucketDeletions,
    ) -> None:
        """``deletions`` says which stored rows are deleted; it may change while the files are used."""
        self.row_schema = row_schema(ctx.schema)
        self.schema_id = ctx.schema.id
        self.schema_ids = frozenset(ctx.schemas)
        self._ctx = ctx
        self._names = names
        self._clock_ms = clock_ms
        self._deletions = deletions
        self._directory = ctx.bucket_dir(bucket)
        self._partition = ctx.partition_values(bucket.partition)
        self._in_memory: dict[str, pa.Table] = {}

    def batches(self, file: DataFileMeta, batch_rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        """The live rows of a file in key order, at most ``batch_rows`` at a time unless they are in memory."""
        deleted = self.deleted(file)
        position = 0
        for rows in self.stored_batches(file, batch_rows):
            yield without_deleted(rows, position, deleted)
            position += rows.num_rows

    def deleted(self, file: DataFileMeta) -> DeletionVector | None:
        """Which rows of a file are deleted; None if no row is deleted."""
        return self._deletions.of(file.file_name)

    def stored_batches(self, file: DataFileMeta, batch_rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        """As ``batches``, but with the deleted rows: row i of all batches together is at position i of the file."""
        rows = self._in_memory.get(file.file_name)
        if rows is not None:
            yield rows
            return
        for batch in iter_key_value_batches(self._ctx, self._directory, file, None, self._partition, batch_rows):
            yield pa.Table.from_arrays(batch.columns, schema=self.row_schema)

    def data_writer(self, level: int, source: FileSource) -> KeyValueFileWriter:
        """A writer of data files that rolls at the target size."""
        options = self._ctx.options
        return self._writer(level, source, options.data_file_prefix, data_file_settings(options, level))

    def changelog_writer(self, level: int, source: FileSource) -> KeyValueFileWriter:
        """A writer of changelog files; ``level`` is the level of the step that produces them."""
        options = self._ctx.options
        return self._writer(level, source, options.changelog_file_prefix, changelog_file_settings(options, level))

    def joined(self, files: Sequence[DataFileMeta]) -> tuple[DataFileMeta, ...] | None:
        """The files joined into larger ones without decoding; None if their rows must be rewritten."""
        if any(self.deleted(file) is not None for file in files):
            return None
        return joined_files(self._ctx, self._directory, files, self._names, self._clock_ms)

    def _writer(self, level: int, source: FileSource, prefix: str, settings: FileSettings) -> KeyValueFileWriter:
        return KeyValueFileWriter(
            self._ctx, self._directory, level, source, prefix, self._names, self._clock_ms, settings=settings
        )

    def keep_in_memory(self, files: tuple[DataFileMeta, ...], rows: pa.Table) -> None:
        """Keep the rows just written, in order, to these files in memory, for files that do not alter them."""
        for file, its_rows in self.read_as_written(files, rows):
            self._in_memory[file.file_name] = its_rows

    def read_as_written(self, files: Iterable[DataFileMeta], rows: pa.Table) -> Iterator[tuple[DataFileMeta, pa.Table]]:
        """Of the files to which rows were written, in order: those that do not alter their rows, with their rows."""
        start = 0
        for file in files:
            its_rows = rows.slice(start, file.row_count)
            start += file.row_count
            if not has_altered_values(its_rows, self._ctx.schema, format_of(file.file_name)):
                yield file, its_rows

    def rows_in_memory(self, file: DataFileMeta) -> pa.Table | None:
        return self._in_memory.get(file.file_name)

    def release_memory(self) -> None:
        """Drop all rows from memory; later reads use the files."""
        self._in_memory.clear()

    def delete(self, file: DataFileMeta) -> None:
        """Remove a file. The caller proves that no snapshot and no commit message names it."""
        self._ctx.delete_file_in(self._directory, file)
