"""One Parquet file of a primary-key table while it is written, and the metadata that it gets.

Implements what Paimon's manifests record about a file: exact size, keys, sequence numbers, deletes, statistics.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from paimon_table.binary_row import serialize_row_at
from paimon_table.data_file import SEQUENCE_NUMBER, VALUE_KIND, DataFileMeta, FileSource
from paimon_table.parquet_encoding import parquet_writer
from paimon_table.stats import ColumnRange, column_modes, column_ranges, key_stats, stats_of_ranges
from paimon_table.table import TableContext


@dataclass(slots=True)
class FileInProgress:
    """An open file; rows have the columns of the file and are sorted by key, also across calls."""

    ctx: TableContext
    name: str
    resources: ExitStack
    stream: pa.NativeFile
    parquet: pq.ParquetWriter
    min_key: bytes
    max_key: bytes = b""
    row_count: int = 0
    delete_row_count: int = 0
    sequence_numbers: list[int] = field(default_factory=list)
    ranges: tuple[ColumnRange, ...] = ()

    @classmethod
    def open(cls, ctx: TableContext, directory: str, name: str, first_rows: pa.Table) -> FileInProgress:
        resources = ExitStack()
        stream = resources.enter_context(ctx.io.open_output(f"{directory}/{name}"))
        parquet = parquet_writer(stream, first_rows, ctx.options, ctx.schema.trimmed_primary_keys)
        return cls(ctx, name, resources, stream, parquet, _key_at(ctx, first_rows, 0))

    @property
    def size_bytes(self) -> int:
        return int(self.stream.tell())

    def write(self, rows: pa.Table) -> None:
        """Write one row group."""
        self.parquet.write_table(rows, row_group_size=rows.num_rows)
        schema = self.ctx.schema
        ranges = column_ranges(rows, schema.fields, sorted_by=schema.trimmed_primary_keys[0])
        merged = (old.with_more(new) for old, new in zip(self.ranges, ranges, strict=True)) if self.ranges else ranges
        self.ranges = tuple(merged)
        sequence_numbers = rows.column(SEQUENCE_NUMBER).to_numpy()
        self.sequence_numbers += (int(sequence_numbers.min()), int(sequence_numbers.max()))
        self.delete_row_count += int(np.count_nonzero(rows.column(VALUE_KIND).to_numpy() & 1))
        self.row_count += rows.num_rows
        self.max_key = _key_at(self.ctx, rows, -1)

    def finish(self, level: int, source: FileSource, now_ms: int) -> DataFileMeta:
        """Write the footer, make the file durable, then describe it."""
        self.parquet.close()
        size_bytes = self.size_bytes
        self.resources.close()
        schema, options = self.ctx.schema, self.ctx.options
        keys = [self.ranges[schema.fields.index(f)] for f in schema.key_fields]
        modes = column_modes(schema.fields, options)
        stats, stats_cols = stats_of_ranges(self.ranges, schema.fields, modes, options.stats_dense_store)
        return DataFileMeta(
            file_name=self.name,
            file_size_bytes=size_bytes,
            row_count=self.row_count,
            min_key=self.min_key,
            max_key=self.max_key,
            key_stats=key_stats(keys, schema.key_fields),
            value_stats=stats,
            min_sequence_number=min(self.sequence_numbers),
            max_sequence_number=max(self.sequence_numbers),
            schema_id=schema.id,
            level=level,
            creation_time_ms=_local_wall_clock_ms(now_ms),
            delete_row_count=self.delete_row_count,
            file_source=source,
            value_stats_cols=stats_cols,
        )

    def discard(self) -> None:
        """Close and remove the unfinished file."""
        with suppress(_Discarded), self.resources:
            with suppress(OSError, pa.ArrowException):
                self.parquet.close()
            raise _Discarded


class _Discarded(Exception):
    """Tells the output stream that the file is not wanted."""


def _key_at(ctx: TableContext, rows: pa.Table, position: int) -> bytes:
    fields = ctx.schema.key_fields
    return serialize_row_at([rows.column(f.name) for f in fields], [f.type for f in fields], position)


def _local_wall_clock_ms(epoch_ms: int) -> int:
    """What a local clock shows at that moment, as milliseconds since 1970-01-01 00:00 of that clock."""
    return epoch_ms + time.localtime(epoch_ms / 1_000).tm_gmtoff * 1_000
