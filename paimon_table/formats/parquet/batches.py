"""Parquet rows in batches of about equal size in memory; where sizes of values vary the first batch is small."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_table.formats.parquet.timestamps import ParquetRows
from paimon_table.rows.batch_size import BATCH_BYTES, rows_per_batch
from paimon_table.types import DataField

_FIRST_ROWS = 64
_GROWTH = 16
"""How many times more rows than the one before a batch may have: later rows can be larger than the first ones."""


class SizedParquetRows(ParquetRows):
    """As ParquetRows, with batches that have few rows where rows are large."""

    def __init__(
        self, stream: pa.NativeFile, columns: Sequence[DataField], metadata: pq.FileMetaData | None = None
    ) -> None:
        super().__init__(stream, columns, metadata)
        self._next_rows: int | None = None

    def batches(self, batch_rows: int, groups: Sequence[int], columns: Sequence[str]) -> Iterator[pa.Table]:
        """The rows of the row groups, at most ``batch_rows`` at a time and as few as the size demands."""
        next_rows = self._next_rows or _first_rows([self._file.schema_arrow.field(name).type for name in columns])
        for rows in super().batches(min(batch_rows, next_rows), groups, columns):
            self._next_rows = next_rows = min(rows_per_batch(rows), next_rows * _GROWTH)
            # Holds for the next batch of a row group that is being read.
            self._file.reader.set_batch_size(min(batch_rows, next_rows))
            yield rows


def _first_rows(types: Sequence[pa.DataType]) -> int:
    """As many as fit a batch if that is certain."""
    try:
        row_bits: int = sum(t.bit_width for t in types)
    except ValueError:
        return _FIRST_ROWS
    return max(1, 8 * BATCH_BYTES // max(row_bits, 1))
