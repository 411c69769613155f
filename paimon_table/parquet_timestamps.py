"""Timestamps in Parquet files: nanoseconds as INT96, and reading INT96 without losing range or precision.

Java Paimon reads nanoseconds from INT96 only, and pyarrow writes either all timestamps of a file as INT96 or none.
INT96 holds every timestamp, an Arrow value of nanoseconds only those of the years 1677 to 2262: columns of coarser
types are therefore read as microseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from paimon_table.errors import UnsupportedFeature
from paimon_table.types import TIMESTAMPS, DataType


def holds_nanoseconds(t: DataType) -> bool:
    """Whether the type is or contains a timestamp of more than 6 digits."""
    if t.root in TIMESTAMPS:
        return (t.precision or 0) > 6
    return any(holds_nanoseconds(part) for _, part in t.parts)


def has_nanosecond_columns(schema: pa.Schema) -> bool:
    """Whether an Arrow schema has a timestamp of nanoseconds somewhere."""
    return any(_is_nanoseconds(f.type) for f in schema)


def _is_nanoseconds(t: pa.DataType) -> bool:
    if pa.types.is_timestamp(t):
        return bool(t.unit == "ns")
    return any(_is_nanoseconds(t.field(i).type) for i in range(t.num_fields))


class ParquetRows:
    """An open Parquet file whose INT96 columns come as microseconds, those in ``nanosecond_columns`` as nanoseconds.

    A context manager. Raises UnsupportedFeature for a value that nanoseconds in 64 bits cannot hold.
    """

    def __init__(self, stream: pa.NativeFile, nanosecond_columns: Collection[str]) -> None:
        # Storage with slow round trips gets few large reads; mapped files need no copy of their pages.
        pre_buffer = not isinstance(stream, pa.MemoryMappedFile)
        self._file = pq.ParquetFile(stream, pre_buffer=pre_buffer, coerce_int96_timestamp_unit="us")
        self._fine = sorted(set(nanosecond_columns) & self._int96_columns()) if nanosecond_columns else []
        self._fine_file = (
            pq.ParquetFile(stream, metadata=self._file.metadata, pre_buffer=pre_buffer) if self._fine else None
        )

    def _int96_columns(self) -> set[str]:
        schema = self._file.schema
        leaves = (schema.column(i) for i in range(len(schema.names)))
        return {leaf.path.partition(".")[0] for leaf in leaves if leaf.physical_type == "INT96"}

    @property
    def num_row_groups(self) -> int:
        return int(self._file.num_row_groups)

    def first_row(self, group: int) -> int:
        """Position in the file of the first row of a row group."""
        metadata = self._file.metadata
        return sum(metadata.row_group(before).num_rows for before in range(group))

    def read(self, columns: Sequence[str]) -> pa.Table:
        """All rows of the columns."""
        rows = self._file.read(columns=list(columns), use_threads=False)
        fine = [name for name in self._fine if name in columns]
        if self._fine_file is None or not fine:
            return rows
        return _with_nanoseconds(rows, self._fine_file.read(columns=fine, use_threads=False))

    def batches(self, batch_rows: int, groups: Sequence[int], columns: Sequence[str]) -> Iterator[pa.Table]:
        """The rows of the row groups, at most ``batch_rows`` at a time."""
        rows = self._file.iter_batches(batch_rows, list(groups), columns=list(columns), use_threads=False)
        fine = [name for name in self._fine if name in columns]
        if self._fine_file is None or not fine:
            yield from (pa.Table.from_batches([batch]) for batch in rows)
            return
        exact = self._fine_file.iter_batches(batch_rows, list(groups), columns=fine, use_threads=False)
        for batch, fine_batch in zip(rows, exact, strict=True):
            yield _with_nanoseconds(pa.Table.from_batches([batch]), pa.Table.from_batches([fine_batch]))

    def __enter__(self) -> ParquetRows:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._file.close()
        if self._fine_file is not None:
            self._fine_file.close()


def _with_nanoseconds(rows: pa.Table, fine: pa.Table) -> pa.Table:
    """``rows`` with the columns of ``fine``, after a look at the microseconds whether they are in range."""
    for name in fine.column_names:
        coarse = rows.column(name)
        if pa.types.is_timestamp(coarse.type) and not _in_nanosecond_range(coarse):
            raise UnsupportedFeature(
                f"column {name!r} holds a timestamp of nanoseconds outside of the years 1677 to 2262; change the "
                "column to TIMESTAMP(6) with the engine that wrote it"
            )
        rows = rows.set_column(rows.schema.get_field_index(name), name, fine.column(name))
    return rows


def _in_nanosecond_range(microseconds: pa.ChunkedArray) -> bool:
    """Whether all values fit; may miss values of the years 2262 to 2846.

    Java stores times before 1970 as a negative time of the day, which Arrow takes for an unsigned one: nanoseconds wrap
    around to the right value, microseconds are then too large by 2^64 / 1000.
    """
    values = microseconds.cast(pa.int64()).fill_null(0).to_numpy()
    first, last = -(1 << 63) // 1000, ((1 << 63) - 1) // 1000
    wrapped = values - (1 << 64) // 1000
    fits = [(first <= times) & (times <= last) for times in (values, wrapped)]
    return bool(np.all(fits[0] | fits[1]))
