"""One data file while it is written, and its metadata.

Implements what Paimon's manifests record about a file: exact size, keys, sequence numbers, deletes, statistics.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from paimon_table.data_files.stats import ColumnRange, column_modes, column_ranges, key_stats, stats_of_ranges
from paimon_table.file_index.index_builder import INDEX_SUFFIX, FileIndexBuilder
from paimon_table.formats.file_format import FormatWriter
from paimon_table.formats.key_value_layout import key_value_fields
from paimon_table.formats.registry import format_for
from paimon_table.metadata.bucket_id import EMPTY_ROW
from paimon_table.metadata.data_file import DataFileMeta, FileSource, SimpleStats
from paimon_table.metadata.table_context import TableContext
from paimon_table.options.file_settings import FileSettings
from paimon_table.row_kind import SEQUENCE_NUMBER, VALUE_KIND, are_retracts
from paimon_table.rows.binary_row import serialize_row_at
from paimon_table.storage.file_io import naming_file


@dataclass(slots=True)
class FileInProgress:
    """An open file; rows have the columns of the file, sequence number and kind, and are sorted by key across calls.

    In a table without primary key they are in any order, and the file has no sequence numbers and kinds.
    """

    ctx: TableContext
    directory: str
    name: str
    settings: FileSettings
    resources: ExitStack
    stream: pa.NativeFile
    writer: FormatWriter
    index: FileIndexBuilder | None
    columns: list[str]
    """The columns of the file."""
    min_key: bytes
    max_key: bytes = b""
    row_count: int = 0
    delete_row_count: int = 0
    sequence_numbers: list[int] = field(default_factory=list)
    ranges: tuple[ColumnRange, ...] = ()

    @classmethod
    def open(
        cls, ctx: TableContext, directory: str, name: str, settings: FileSettings, first_rows: pa.Table
    ) -> FileInProgress:
        """Create the file; ``first_rows`` are its first rows, which this does not write yet."""
        file_format = format_for(settings, ctx.schema.fields)
        columns = [f.name for f in key_value_fields(ctx.schema)]
        stored = first_rows.select(columns)
        with ExitStack() as opening:
            stream = opening.enter_context(ctx.io.open_output(f"{directory}/{name}"))
            writer = file_format.open_writer(stream, name, stored, ctx.schema, settings.compression, ctx.options)
            resources = opening.pop_all()
        indexed = ctx.options.bloom_filters if settings.is_indexed else ()
        index = FileIndexBuilder(indexed, ctx.schema) if indexed else None
        key = _key_at(ctx, first_rows, 0)
        return cls(ctx, directory, name, settings, resources, stream, writer, index, columns, key)

    @property
    def _path(self) -> str:
        return f"{self.directory}/{self.name}"

    @property
    def size_bytes(self) -> int:
        return int(self.stream.tell())

    def write(self, rows: pa.Table) -> None:
        """Write one row group."""
        with naming_file(self._path):
            self.writer.write(rows.select(self.columns))
        if self.index is not None:
            self.index.add(rows)
        schema = self.ctx.schema
        leading = next(iter(schema.trimmed_primary_keys), None) if self.settings.is_sorted else None
        ranges = column_ranges(rows, schema.fields, sorted_by=leading)
        merged = (old.with_more(new) for old, new in zip(self.ranges, ranges, strict=True)) if self.ranges else ranges
        self.ranges = tuple(merged)
        sequence_numbers = rows.column(SEQUENCE_NUMBER).to_numpy()
        self.sequence_numbers += (int(sequence_numbers.min()), int(sequence_numbers.max()))
        self.delete_row_count += int(np.count_nonzero(are_retracts(rows.column(VALUE_KIND).to_numpy())))
        self.row_count += rows.num_rows
        self.max_key = _key_at(self.ctx, rows, -1)

    def finish(self, level: int, source: FileSource, now_ms: int) -> DataFileMeta:
        """Write the footer, then describe the file; it is durable after ``FileIO.sync``."""
        with naming_file(self._path):
            self.writer.close()
            size_bytes = self.size_bytes
            self.resources.close()
        extra_files, embedded_index = self._write_index()
        schema, options = self.ctx.schema, self.ctx.options
        keys = [self.ranges[schema.fields.index(f)] for f in schema.key_fields]
        modes = column_modes(schema.fields, options, self.settings.stats_mode)
        stats, stats_cols = stats_of_ranges(self.ranges, schema.fields, modes, options.stats_dense_store)
        return DataFileMeta(
            file_name=self.name,
            file_size_bytes=size_bytes,
            row_count=self.row_count,
            min_key=self.min_key,
            max_key=self.max_key,
            key_stats=key_stats(keys, schema.key_fields) if keys else SimpleStats(),
            value_stats=stats,
            min_sequence_number=min(self.sequence_numbers),
            max_sequence_number=max(self.sequence_numbers),
            schema_id=schema.id,
            level=level,
            extra_files=extra_files,
            embedded_index=embedded_index,
            creation_time_ms=local_wall_clock_ms(now_ms),
            delete_row_count=self.delete_row_count,
            file_source=source,
            value_stats_cols=stats_cols,
        )

    def _write_index(self) -> tuple[tuple[str, ...], bytes | None]:
        """Write the index: returns the extra files and the embedded index. A large index is a separate file, durable on
        return."""
        if self.index is None:
            return (), None
        data = self.index.to_bytes()
        if len(data) <= self.ctx.options.file_index_in_manifest_bytes:
            return (), data
        name = f"{self.name}{INDEX_SUFFIX}"
        try:
            self.ctx.io.write(f"{self.directory}/{name}", data)
        except BaseException:
            # Unreferenced: without its index the data file gets no metadata.
            self.ctx.io.delete(f"{self.directory}/{self.name}")
            raise
        return (name,), None

    def discard(self) -> None:
        """Close and remove the unfinished file."""
        with suppress(_Discarded), self.resources:
            # After a failed write Parquet's writer raises a RuntimeError; report the earlier failure.
            with suppress(OSError, pa.ArrowException, RuntimeError):
                self.writer.close()
            raise _Discarded


class _Discarded(Exception):
    """Signals the output stream that the file is not wanted."""


def _key_at(ctx: TableContext, rows: pa.Table, position: int) -> bytes:
    fields = ctx.schema.key_fields
    if not fields:
        return EMPTY_ROW
    return serialize_row_at([rows.column(f.name) for f in fields], [f.type for f in fields], position)


def local_wall_clock_ms(epoch_ms: int) -> int:
    """The local time of an instant, as milliseconds since 1970-01-01 00:00 local time."""
    return epoch_ms + time.localtime(epoch_ms / 1_000).tm_gmtoff * 1_000
