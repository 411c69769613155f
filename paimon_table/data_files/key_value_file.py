"""Writing and reading data and changelog files.

Implements the key-value file of the Paimon format, for all file formats: the column layout, the file's metadata, and
reading it under the table's current schema. In memory rows are Arrow tables of ``_SEQUENCE_NUMBER``, ``_VALUE_KIND``
and the value columns in schema order, sorted by key; the ``_KEY_*`` copies exist in files only.

Files of a table without primary key have only the value columns, in the order of arrival. In memory their rows look
like all others: each is an insert with the first sequence number of its file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.data_files.altered_values import check_keys
from paimon_table.data_files.file_in_progress import FileInProgress
from paimon_table.data_files.read_plan import SYSTEM_COLUMNS, ReadPlan
from paimon_table.deletion_vectors.deletion_vector import DeletionVector, without_deleted
from paimon_table.errors import BrokenInvariant, CorruptFile, UnsupportedFeature
from paimon_table.formats.file_format import (
    DAMAGES,
    DamagedFile,
    FormatReader,
    MissingColumn,
    Restriction,
    UnreadableValue,
    is_storage_failure,
)
from paimon_table.formats.key_value_layout import key_value_schema
from paimon_table.formats.known_formats import known_format
from paimon_table.formats.registry import FORMATS
from paimon_table.metadata.data_file import DataFileMeta, FileSource
from paimon_table.metadata.paths import TablePaths
from paimon_table.metadata.table_context import TableContext
from paimon_table.options.file_settings import FileSettings, data_file_settings, format_of
from paimon_table.row_kind import SEQUENCE_NUMBER, VALUE_KIND
from paimon_table.step_times import timed

ROW_GROUP_BYTES = 32 << 20
"""The size in memory at which a row group ends; a reader needs memory for about one row group per open file."""

ROW_GROUP_ROWS = 1 << 17
SMALLEST_ROW_GROUP = 1_000
"""The least number of rows of a row group, except the last one; files are split only between row groups."""

SMALLEST_BLOCK = 100
"""The least number of rows if ``file.block-size`` sets the size of row groups; Java checks the size after this many
rows."""

BATCH_ROWS = 1 << 16


@dataclass(slots=True)
class FileNames:
    """Names for the files of one writer. All prefixes share one UUID and one counter."""

    uuid: str
    counter: int = 0

    def next(self, prefix: str, extension: str) -> str:
        name = f"{prefix}{self.uuid}-{self.counter}.{extension}"
        self.counter += 1
        return name


# ---------------------------------------------------------------- writing


class KeyValueFileWriter:
    """Writes sorted rows, given in chunks of any size, with memory for about one row group.

    Use it as a context manager: an exception in the block aborts the writer. ``close`` returns the metadata of the
    files, which are durable after ``FileIO.sync``. Not thread safe.
    """

    def __init__(
        self,
        ctx: TableContext,
        directory: str,
        level: int,
        source: FileSource,
        prefix: str,
        names: FileNames,
        clock_ms: Callable[[], int],
        rolls: bool = True,
        settings: FileSettings | None = None,
    ) -> None:
        """``prefix`` is ``data-`` or ``changelog-`` (see the options); ``clock_ms`` returns milliseconds since the
        epoch.

        Without ``rolls`` all rows go into one file, however large it becomes. ``settings`` default to the settings for
        data files of the level.
        """
        self._ctx = ctx
        self._directory = directory
        self._level = level
        self._source = source
        self._prefix = prefix
        self._names = names
        self._clock_ms = clock_ms
        self._settings = settings or data_file_settings(ctx.options, level)
        self._target_bytes = ctx.options.target_file_size_bytes if rolls else None
        has_blocks = known_format(self._settings).has_blocks
        self._block_bytes = ctx.options.file_block_size_bytes if has_blocks else None
        self._file_schema = key_value_schema(ctx.schema)
        self._row_schema = self._file_schema if ctx.schema.primary_keys else _with_system(self._file_schema)
        self._buffer: list[pa.Table] = []
        self._buffered_rows = 0
        self._buffered_bytes = 0
        self._file: FileInProgress | None = None
        self._finished: list[DataFileMeta] = []
        self._disk_bytes_per_row: float | None = None

    @timed("write")
    def write(self, rows: pa.Table) -> None:
        """Append rows that sort after all rows so far; they are written when a row group is full."""
        if rows.num_rows == 0:
            return
        self._buffer.append(self._with_keys(rows))
        self._buffered_rows += rows.num_rows
        self._buffered_bytes += rows.nbytes
        while self._buffered_rows >= (group_rows := self._next_group_rows()):
            self._write_group(group_rows)

    @timed("write")
    def close(self) -> tuple[DataFileMeta, ...]:
        """Finish the last file. Every returned file is complete, and durable after ``FileIO.sync``; without rows there
        is none."""
        while self._buffered_rows:
            self._write_group(min(self._buffered_rows, self._next_group_rows()))
        self._finish_file()
        files, self._finished = tuple(self._finished), []
        return files

    def abort(self) -> None:
        """Remove all files that ``close`` has not returned. They are unreferenced, because nobody has their
        metadata."""
        self._buffer, self._buffered_rows, self._buffered_bytes = [], 0, 0
        if self._file is not None:
            self._file.discard()
            self._file = None
        for file in self._finished:
            self._ctx.delete_file_in(self._directory, file)
        self._finished = []

    def __enter__(self) -> KeyValueFileWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is not None:
            self.abort()

    def _next_group_rows(self) -> int:
        """The number of rows of the next row group: what fits the memory limit and, by the rows so far, the rest of the
        file."""
        memory_bytes_per_row = max(self._buffered_bytes / max(self._buffered_rows, 1), 1)
        left = self._rows_left(memory_bytes_per_row)
        if self._block_bytes is None:
            return max(SMALLEST_ROW_GROUP, int(min(ROW_GROUP_ROWS, ROW_GROUP_BYTES / memory_bytes_per_row, left)))
        fitting = max(ROW_GROUP_BYTES, self._block_bytes) / memory_bytes_per_row
        in_block = self._block_bytes / max(self._disk_bytes_per_row or memory_bytes_per_row, 1)
        return max(SMALLEST_BLOCK, int(min(in_block, fitting, left)))

    def _rows_left(self, memory_bytes_per_row: float) -> float:
        """The number of rows until the current file reaches the target size."""
        if self._target_bytes is None:
            return math.inf
        written_bytes = self._file.size_bytes if self._file is not None else 0
        disk_bytes_per_row = self._disk_bytes_per_row or memory_bytes_per_row
        return (self._target_bytes - written_bytes) / max(disk_bytes_per_row, 1)

    def _write_group(self, row_count: int) -> None:
        rows = pa.concat_tables(self._buffer)
        self._buffer = [rows.slice(row_count)] if row_count < rows.num_rows else []
        self._buffered_bytes -= self._buffered_bytes * row_count // self._buffered_rows
        self._buffered_rows -= row_count
        group = rows.slice(0, row_count)
        check_keys(group, self._ctx.schema, self._settings, self._directory)
        if self._file is not None and not self._file.writer.accepts(group):
            self._finish_file()
        if self._file is None:
            name = self._names.next(self._prefix, self._settings.extension)
            self._file = FileInProgress.open(self._ctx, self._directory, name, self._settings, group)
        self._file.write(group)
        self._disk_bytes_per_row = self._file.size_bytes / self._file.row_count
        if self._rows_left(self._disk_bytes_per_row) < SMALLEST_ROW_GROUP / 2:
            self._finish_file()

    def _with_keys(self, rows: pa.Table) -> pa.Table:
        """Key copies (no bytes are copied), then the given columns."""
        schema = self._ctx.schema
        names = (*schema.trimmed_primary_keys, SEQUENCE_NUMBER, VALUE_KIND, *schema.column_names)
        try:
            table = pa.Table.from_arrays([rows.column(name) for name in names], schema=self._row_schema)
        except (KeyError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise BrokenInvariant(
                f"rows for {self._directory} do not have the columns of schema {schema.id} ({error}); they have "
                f"{rows.schema.to_string(show_field_metadata=False)}"
            ) from error
        for column, f in zip(table.columns, self._row_schema, strict=True):
            if column.null_count and not f.nullable:
                raise BrokenInvariant(
                    f"rows for {self._directory} have NULL in column {f.name!r}, which is NOT NULL; quarantine them"
                )
        return table

    def _finish_file(self) -> None:
        if self._file is None:
            return
        self._finished.append(self._file.finish(self._level, self._source, self._clock_ms()))
        self._file = None


def _with_system(file_schema: pa.Schema) -> pa.Schema:
    """The columns of rows for a file without sequence numbers and kinds."""
    return pa.schema([*SYSTEM_COLUMNS, *file_schema])


# ---------------------------------------------------------------- reading


def read_key_value_file(
    ctx: TableContext,
    directory: str,
    file: DataFileMeta,
    columns: Sequence[str] | None = None,
    partition: Sequence[Any] = (),
    deleted: DeletionVector | None = None,
) -> pa.Table:
    """All rows of a file: ``_SEQUENCE_NUMBER``, ``_VALUE_KIND`` and the named value columns (None: all), in this order.

    Columns follow the current schema of ``ctx``, whatever schema the file was written with. ``partition`` holds the
    values of the partition columns, as ``TableContext.partition_values`` gives them, and fills these columns; if it is
    empty, they come from the file. Rows that are ``deleted`` are left out. Raises CorruptFile if the file is missing,
    unreadable or contradicts ``file``.
    """
    plan = ReadPlan.make(ctx, file, columns, partition)
    with _opened(ctx, directory, file, plan) as reader:
        rows = plan.apply(reader.read())
        _check_row_count(file, rows.num_rows)
    return without_deleted(rows, 0, deleted)


def iter_key_value_batches(
    ctx: TableContext,
    directory: str,
    file: DataFileMeta,
    columns: Sequence[str] | None = None,
    partition: Sequence[Any] = (),
    batch_rows: int = BATCH_ROWS,
    predicate: pc.Expression | None = None,
    deleted: DeletionVector | None = None,
) -> Iterator[pa.Table]:
    """The rows of ``read_key_value_file`` in file order, at most ``batch_rows`` at a time.

    With ``predicate``, row groups in which no row can satisfy it may be left out; rows of other groups are not
    filtered. The predicate is about physical columns, so it is not used for files of another schema version.
    """
    plan = ReadPlan.make(ctx, file, columns, partition)
    restriction = None
    if predicate is not None and file.schema_id == ctx.schema.id:
        restriction = Restriction(predicate, ctx.schema.arrow_schema)
    row_count = 0
    with _opened(ctx, directory, file, plan) as reader:
        for position, batch in reader.batches(batch_rows, restriction):
            row_count += batch.num_rows
            yield without_deleted(plan.apply(batch), position, deleted)
        if restriction is None:
            _check_row_count(file, row_count)


def _check_row_count(file: DataFileMeta, row_count: int) -> None:
    if row_count != file.row_count:
        raise DamagedFile(f"it has {row_count} rows, but its manifest states {file.row_count}")


@contextmanager
def _opened(ctx: TableContext, directory: str, file: DataFileMeta, plan: ReadPlan) -> Iterator[FormatReader]:
    path = TablePaths.data_file(directory, file)
    name = format_of(file.file_name)
    file_format = FORMATS.get(name)
    if file_format is None:
        raise UnsupportedFeature(
            f"{path}: format {name!r} is not supported; compact it into one of: {', '.join(FORMATS)}"
        )
    if file.external_path is not None and path.startswith("s3:") != ctx.paths.root.startswith("s3:"):
        raise UnsupportedFeature(
            f"{file.external_path} is outside of its table (data-file.external-paths) on other storage, which is not "
            "supported; read the table with Paimon's own readers"
        )
    try:
        with ctx.io.open_input(path) as stream:
            if stream.size() != file.file_size_bytes:
                raise DamagedFile(f"it has {stream.size()} bytes, but its manifest states {file.file_size_bytes}")
            with file_format.open_reader(stream, file.file_name, plan.physical_columns) as reader:
                if reader.row_count is not None:
                    _check_row_count(file, reader.row_count)
                yield reader
    except FileNotFoundError as error:
        raise CorruptFile(
            f"{path} is missing; if its snapshot has expired, read a newer one, otherwise restore the file"
        ) from error
    except UnreadableValue as error:
        raise UnsupportedFeature(
            f"{path}: {error}; change the column to TIMESTAMP(6) and compact the table fully with the engine that "
            "wrote the file"
        ) from error
    except OSError as error:
        if is_storage_failure(error):
            raise
        raise _damaged(path, name, error) from error
    except (MissingColumn, KeyError) as error:
        # pyarrow reports a missing column by a KeyError.
        raise _damaged(path, name, error, ctx.paths.schema_file(file.schema_id)) from error
    except DAMAGES as error:
        raise _damaged(path, name, error) from error


def _damaged(path: str, format_name: str, error: Exception, schema_path: str | None = None) -> CorruptFile:
    """``schema_path`` is the schema file with the columns, if that file may be the damaged one."""
    reason = " ".join(str(error).split()) or repr(error)
    if schema_path is not None:
        return CorruptFile(
            f"{path} is not readable as {format_name} with the columns of {schema_path} ({reason}). "
            "One of the two files is damaged: restore it from a backup"
        )
    return CorruptFile(f"{path} is not readable as {format_name} ({reason}); restore it from a backup")
