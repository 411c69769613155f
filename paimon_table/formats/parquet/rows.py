"""The rows of a Parquet file, in batches of about equal size in memory, with INT96 in its full range and precision.

Java Paimon reads nanoseconds from INT96 only, and pyarrow writes either all timestamps of a file as INT96 or none.
INT96 can store every timestamp; an Arrow value in nanoseconds only the years 1677 to 2262.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_table.formats.file_format import UnreadableValue
from paimon_table.formats.parquet.checksums import open_parquet
from paimon_table.formats.parquet.int96 import is_raw, raw_metadata, timestamps
from paimon_table.rows.batch_size import BATCH_BYTES, rows_per_batch
from paimon_table.rows.nested_arrays import column_with_leaves
from paimon_table.timestamps import holds_timestamps
from paimon_table.types import DataField, DataType


def has_nanosecond_columns(schema: pa.Schema) -> bool:
    """Whether an Arrow schema has a timestamp of nanoseconds somewhere."""
    return any(_is_nanoseconds(f.type) for f in schema)


def _is_nanoseconds(t: pa.DataType) -> bool:
    if pa.types.is_timestamp(t):
        return bool(t.unit == "ns")
    return any(_is_nanoseconds(t.field(i).type) for i in range(t.num_fields))


_FIRST_ROWS = 64
_GROWTH = 16
"""The largest growth of a batch over the previous one: later rows can be larger than the first ones."""


class ParquetRows:
    """An open Parquet file whose INT96 columns come in the unit of their type.

    A context manager. Raises UnreadableValue for a value that does not fit into 64 bits of this unit.
    """

    def __init__(
        self, stream: pa.NativeFile, columns: Sequence[DataField], metadata: pq.FileMetaData | None = None
    ) -> None:
        # Storage with slow round trips needs few large reads; mapped files need no copy of their pages.
        pre_buffer = not isinstance(stream, pa.MemoryMappedFile)
        self._file = open_parquet(stream, metadata=metadata, pre_buffer=pre_buffer)
        # Arrow gives nanoseconds for INT96 and, rarely, for INT64.
        schema = self._file.schema_arrow
        timed = [f for f in columns if holds_timestamps(f.type) and f.name in schema.names]
        fine = [f for f in timed if _is_nanoseconds(schema.field(f.name).type)]
        stored = _int96_columns(self._file) if fine else frozenset()
        self._next_rows: int | None = None
        self._int96 = [f for f in fine if f.name in stored]
        if self._int96:
            self._file.close()
            self._file = open_parquet(stream, metadata=raw_metadata(stream), pre_buffer=pre_buffer)

    @property
    def metadata(self) -> pq.FileMetaData:
        return self._file.metadata

    @property
    def row_count(self) -> int:
        return int(self._file.metadata.num_rows)

    @property
    def num_row_groups(self) -> int:
        return int(self._file.num_row_groups)

    def first_row(self, group: int) -> int:
        """Position in the file of the first row of a row group."""
        metadata = self._file.metadata
        return sum(metadata.row_group(before).num_rows for before in range(group))

    def read(self, columns: Sequence[str]) -> pa.Table:
        """All rows of the columns."""
        return self._converted(self._file.read(columns=list(columns), use_threads=False))

    def batches(self, batch_rows: int, groups: Sequence[int], columns: Sequence[str]) -> Iterator[pa.Table]:
        """The rows of the row groups, at most ``batch_rows`` at a time and as few as the size demands."""
        next_rows = self._next_rows or _first_rows([self._file.schema_arrow.field(name).type for name in columns])
        first_rows = min(batch_rows, next_rows)
        for batch in self._file.iter_batches(first_rows, list(groups), columns=list(columns), use_threads=False):
            rows = self._converted(pa.Table.from_batches([batch]))
            self._next_rows = next_rows = min(rows_per_batch(rows), next_rows * _GROWTH)
            # Applies from the next batch on, even within a row group.
            self._file.reader.set_batch_size(min(batch_rows, next_rows))
            yield rows

    def _converted(self, rows: pa.Table) -> pa.Table:
        for f in self._int96:
            position = rows.schema.get_field_index(f.name)
            if position >= 0:
                rows = rows.set_column(position, f.name, _column(rows.column(position), f))
        return rows

    def __enter__(self) -> ParquetRows:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._file.close()


def _first_rows(types: Sequence[pa.DataType]) -> int:
    """The number of rows that certainly fit into a batch."""
    try:
        row_bits: int = sum(t.bit_width for t in types)
    except ValueError:
        return _FIRST_ROWS
    return max(1, 8 * BATCH_BYTES // max(row_bits, 1))


def _int96_columns(file: pq.ParquetFile) -> frozenset[str]:
    schema = file.schema
    leaves = (schema.column(i) for i in range(len(schema.names)))
    return frozenset(leaf.path.partition(".")[0] for leaf in leaves if leaf.physical_type == "INT96")


def _column(values: pa.ChunkedArray, f: DataField) -> pa.ChunkedArray:
    try:
        return column_with_leaves(values, f.type, _leaf)
    except UnreadableValue as error:
        raise UnreadableValue(f"column {f.name!r} holds {error}") from error


def _leaf(values: pa.Array, t: DataType) -> pa.Array:
    return timestamps(values, t) if is_raw(values.type) else values
