"""Writing and reading the data and changelog files of primary-key tables.

Implements the key-value file of the Paimon format as Parquet: the column layout, the file's metadata, and reading it
under the table's current schema. In memory rows are Arrow tables of ``_SEQUENCE_NUMBER``, ``_VALUE_KIND`` and the value
columns in schema order, sorted by key; the ``_KEY_*`` copies exist in files only.
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
import pyarrow.dataset as ds

from paimon_table.data_file import SEQUENCE_NUMBER, VALUE_KIND, DataFileMeta, FileSource
from paimon_table.errors import BrokenInvariant, CorruptFile, UnsupportedFeature
from paimon_table.file_in_progress import FileInProgress
from paimon_table.parquet_schema import key_value_schema
from paimon_table.parquet_timestamps import ParquetRows, holds_nanoseconds
from paimon_table.paths import TablePaths
from paimon_table.schema_mapping import conform_column
from paimon_table.table import TableContext
from paimon_table.types import DataField, arrow_schema, arrow_type

ROW_GROUP_BYTES = 32 << 20
"""Size in memory at which a row group ends; a reader holds about one of them per open file."""

ROW_GROUP_ROWS = 1 << 17
SMALLEST_ROW_GROUP = 1_000
"""Rows that a row group has at least, except the last one; files are cut only between row groups."""

BATCH_ROWS = 1 << 16
_FORMAT = "parquet"
_SYSTEM_FIELDS = (pa.field(SEQUENCE_NUMBER, pa.int64(), False), pa.field(VALUE_KIND, pa.int8(), False))


@dataclass(slots=True)
class FileNames:
    """Names for the files of one writer, which share one UUID and one counter whatever their prefix."""

    uuid: str
    counter: int = 0

    def next(self, prefix: str) -> str:
        name = f"{prefix}{self.uuid}-{self.counter}.{_FORMAT}"
        self.counter += 1
        return name


# ---------------------------------------------------------------- writing


def write_key_value_file(
    ctx: TableContext,
    directory: str,
    rows: pa.Table,
    level: int,
    source: FileSource,
    prefix: str,
    names: FileNames,
    clock_ms: Callable[[], int],
) -> DataFileMeta:
    """Write sorted rows, at least one, into one file of any size; the file is durable when this returns."""
    with KeyValueFileWriter(ctx, directory, level, source, prefix, names, clock_ms, rolls=False) as writer:
        writer.write(rows)
        return writer.close()[0]


def write_rolling(
    ctx: TableContext,
    directory: str,
    rows: pa.Table,
    level: int,
    source: FileSource,
    prefix: str,
    names: FileNames,
    clock_ms: Callable[[], int],
) -> tuple[DataFileMeta, ...]:
    """Write sorted rows into files of about ``target-file-size``; no rows give no files."""
    with KeyValueFileWriter(ctx, directory, level, source, prefix, names, clock_ms) as writer:
        writer.write(rows)
        return writer.close()


class KeyValueFileWriter:
    """Writes sorted rows, given in chunks of any size, with memory for about one row group.

    Use as a context manager: leaving the block by an exception aborts the writer. ``close`` gives the
    metadata of the files, all of them durable. Not thread safe.
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
    ) -> None:
        """``prefix`` is ``data-`` or ``changelog-`` (see the options); ``clock_ms`` gives milliseconds since the epoch.

        Without ``rolls`` all rows go into one file, however large it becomes.
        """
        self._ctx = ctx
        self._directory = directory
        self._level = level
        self._source = source
        self._prefix = prefix
        self._names = names
        self._clock_ms = clock_ms
        self._target_bytes = ctx.options.target_file_size_bytes if rolls else None
        self._file_schema = key_value_schema(ctx.schema)
        self._buffer: list[pa.Table] = []
        self._buffered_rows = 0
        self._buffered_bytes = 0
        self._file: FileInProgress | None = None
        self._finished: list[DataFileMeta] = []
        self._disk_bytes_per_row: float | None = None

    def write(self, rows: pa.Table) -> None:
        """Append rows that sort behind all rows so far; they are written when a row group is full."""
        if rows.num_rows == 0:
            return
        self._buffer.append(self._with_keys(rows))
        self._buffered_rows += rows.num_rows
        self._buffered_bytes += rows.nbytes
        while self._buffered_rows >= (group_rows := self._next_group_rows()):
            self._write_group(group_rows)

    def close(self) -> tuple[DataFileMeta, ...]:
        """Finish the last file. Every returned file is complete and durable; no rows give no files."""
        while self._buffered_rows:
            self._write_group(min(self._buffered_rows, self._next_group_rows()))
        self._finish_file()
        files, self._finished = tuple(self._finished), []
        return files

    def abort(self) -> None:
        """Remove all files that ``close`` has not handed out. They are unreferenced: nobody has their metadata."""
        self._buffer, self._buffered_rows, self._buffered_bytes = [], 0, 0
        if self._file is not None:
            self._file.discard()
            self._file = None
        for file in self._finished:
            self._ctx.io.delete(TablePaths.data_file(self._directory, file))
        self._finished = []

    def __enter__(self) -> KeyValueFileWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is not None:
            self.abort()

    def _next_group_rows(self) -> int:
        """Rows of the next row group: what fits the memory limit and, by experience so far, the rest of the file."""
        memory_bytes_per_row = max(self._buffered_bytes / max(self._buffered_rows, 1), 1)
        fitting = ROW_GROUP_BYTES / memory_bytes_per_row
        return max(SMALLEST_ROW_GROUP, int(min(ROW_GROUP_ROWS, fitting, self._rows_left(memory_bytes_per_row))))

    def _rows_left(self, memory_bytes_per_row: float) -> float:
        """How many more rows the current file takes until it has the target size."""
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
        if self._file is None:
            self._file = FileInProgress.open(self._ctx, self._directory, self._names.next(self._prefix), group)
        self._file.write(group)
        self._disk_bytes_per_row = self._file.size_bytes / self._file.row_count
        if self._rows_left(self._disk_bytes_per_row) < SMALLEST_ROW_GROUP / 2:
            self._finish_file()

    def _with_keys(self, rows: pa.Table) -> pa.Table:
        """The columns of the file: key copies (no bytes are copied), then the given ones."""
        schema = self._ctx.schema
        names = (*schema.trimmed_primary_keys, SEQUENCE_NUMBER, VALUE_KIND, *schema.column_names)
        try:
            table = pa.Table.from_arrays([rows.column(name) for name in names], schema=self._file_schema)
        except (KeyError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise BrokenInvariant(
                f"rows for {self._directory} do not have the columns of schema {schema.id} ({error}); they have "
                f"{rows.schema.to_string(show_field_metadata=False)}"
            ) from error
        for column, f in zip(table.columns, self._file_schema, strict=True):
            if column.null_count and not f.nullable:
                raise BrokenInvariant(
                    f"rows for {self._directory} hold NULL in column {f.name!r}, which is NOT NULL; quarantine them"
                )
        return table

    def _finish_file(self) -> None:
        if self._file is None:
            return
        self._finished.append(self._file.finish(self._level, self._source, self._clock_ms()))
        self._file = None


# ---------------------------------------------------------------- reading


def read_key_value_file(
    ctx: TableContext,
    directory: str,
    file: DataFileMeta,
    columns: Sequence[str] | None = None,
    partition: Sequence[Any] = (),
) -> pa.Table:
    """All rows of a file: ``_SEQUENCE_NUMBER``, ``_VALUE_KIND`` and the named value columns (None: all), in this order.

    Columns are those of the current schema of ``ctx``, whatever schema the file was written with. ``partition`` holds
    the values of the partition columns, as ``TableContext.partition_values`` gives them, and fills these columns; when
    it is empty they come from the file. Raises CorruptFile if the file is missing, unreadable or contradicts ``file``.
    """
    plan = _ReadPlan.make(ctx, file, columns, partition)
    with _opened(ctx, directory, file, plan) as parquet:
        rows = plan.apply(parquet.read(plan.physical_columns))
    if rows.num_rows != file.row_count:
        raise CorruptFile(f"{directory}/{file.file_name} has {rows.num_rows} rows, its metadata says {file.row_count}")
    return rows


def iter_key_value_batches(
    ctx: TableContext,
    directory: str,
    file: DataFileMeta,
    columns: Sequence[str] | None = None,
    partition: Sequence[Any] = (),
    batch_rows: int = BATCH_ROWS,
    predicate: pc.Expression | None = None,
) -> Iterator[pa.Table]:
    """The rows of a file as ``read_key_value_file`` gives them, in file order, at most ``batch_rows`` at a time.

    ``predicate`` may leave out row groups in which no row can satisfy it; rows of other groups are not filtered. It is
    about physical columns, so it is not used for files of another schema version.
    """
    plan = _ReadPlan.make(ctx, file, columns, partition)
    with _opened(ctx, directory, file, plan) as parquet:
        groups = list(range(parquet.num_row_groups))
        if predicate is not None and file.schema_id == ctx.schema.id:
            groups = _matching_row_groups(ctx, directory, file, predicate)
        for group in groups:
            for batch in parquet.batches(batch_rows, [group], plan.physical_columns):
                yield plan.apply(batch)


@contextmanager
def _opened(ctx: TableContext, directory: str, file: DataFileMeta, plan: _ReadPlan) -> Iterator[ParquetRows]:
    path = TablePaths.data_file(directory, file)
    extension = file.file_name.rpartition(".")[2]
    if extension != _FORMAT:
        raise UnsupportedFeature(f"{path}: format {extension!r} is not supported; compact with file.format={_FORMAT}")
    try:
        with ctx.io.open_input(path) as stream, ParquetRows(stream, plan.nanosecond_columns) as parquet:
            yield parquet
    except FileNotFoundError as error:
        raise CorruptFile(
            f"{path} is missing; if its snapshot has expired meanwhile, read a newer one, otherwise restore the file"
        ) from error
    except pa.ArrowInvalid as error:
        raise CorruptFile(f"{path} is not readable as {_FORMAT} ({error}); restore it from a backup") from error


def _matching_row_groups(ctx: TableContext, directory: str, file: DataFileMeta, predicate: pc.Expression) -> list[int]:
    with ctx.io.open_input(TablePaths.data_file(directory, file)) as stream:
        fragment = ds.ParquetFileFormat().make_fragment(stream)
        return [group.id for group in fragment.subset(predicate, schema=ctx.schema.arrow_schema).row_groups]


@dataclass(frozen=True, slots=True)
class _ReadPlan:
    """How the columns of one file become the requested columns of the current schema."""

    requested: tuple[DataField, ...]
    written: dict[str, DataField]
    """Column in the file for each requested column that the file has."""
    constants: dict[str, pa.Scalar]
    """Values of partition columns."""

    @classmethod
    def make(
        cls, ctx: TableContext, file: DataFileMeta, columns: Sequence[str] | None, partition: Sequence[Any]
    ) -> _ReadPlan:
        schema = ctx.schema
        file_schema = schema if file.schema_id == schema.id else ctx.schemas.get(file.schema_id)
        if file_schema is None:
            raise CorruptFile(
                f"{file.file_name} was written with schema {file.schema_id}, which the table does not have; "
                "restore the schema file, or open the table again if the schema is newer"
            )
        requested = schema.fields if columns is None else tuple(schema.field(name) for name in columns)
        partition_values = zip(schema.partition_fields, partition, strict=True) if partition else ()
        constants = {f.name: pa.scalar(value, arrow_type(f.type)) for f, value in partition_values}
        by_id = {f.id: f for f in file_schema.fields}
        written = {f.name: by_id[f.id] for f in requested if f.id in by_id and f.name not in constants}
        return cls(requested, written, constants)

    @property
    def physical_columns(self) -> list[str]:
        return [SEQUENCE_NUMBER, VALUE_KIND, *(f.name for f in self.written.values())]

    @property
    def nanosecond_columns(self) -> list[str]:
        return [f.name for f in self.written.values() if holds_nanoseconds(f.type)]

    def apply(self, physical: pa.Table) -> pa.Table:
        columns = [physical.column(SEQUENCE_NUMBER), physical.column(VALUE_KIND)]
        columns += [self._column(physical, f) for f in self.requested]
        return pa.Table.from_arrays(columns, schema=pa.schema([*_SYSTEM_FIELDS, *arrow_schema(self.requested)]))

    def _column(self, physical: pa.Table, wanted: DataField) -> pa.ChunkedArray:
        target = arrow_type(wanted.type)
        constant = self.constants.get(wanted.name)
        if constant is not None:
            return pa.chunked_array([pa.repeat(constant, physical.num_rows)], target)
        written = self.written.get(wanted.name)
        if written is None or written.name not in physical.column_names:
            return pa.chunked_array([pa.nulls(physical.num_rows, target)], target)
        return conform_column(physical.column(written.name), written, wanted)
