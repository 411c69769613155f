"""Data files in the Parquet format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from types import TracebackType

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from paimon_table.formats.file_format import FileFormat, FormatWriter, Restriction, none_altered
from paimon_table.formats.known_formats import PARQUET
from paimon_table.formats.parquet.checksums import checked_end, checked_metadata
from paimon_table.formats.parquet.encoding import parquet_writer
from paimon_table.formats.parquet.levels import check_level_counts, level_counts
from paimon_table.formats.parquet.rows import ParquetRows
from paimon_table.options.table_options import TableOptions
from paimon_table.schema.table_schema import TableSchema
from paimon_table.types import DataField


class ParquetWriter:
    """An open Parquet file; the fields of the rows carry the ids of Paimon."""

    def __init__(
        self, stream: pa.NativeFile, name: str, first: pa.Table, schema: TableSchema, codec: str, options: TableOptions
    ) -> None:
        keys = schema.trimmed_primary_keys
        self._stream = stream
        self._name = name
        self._footers: list[pq.FileMetaData] = []
        level = options.zstd_level
        self._file: pq.ParquetWriter = parquet_writer(stream, first, codec, level, keys, self._footers)

    def accepts(self, rows: pa.Table) -> bool:
        return True

    def write(self, rows: pa.Table) -> None:
        self._file.write_table(rows, row_group_size=rows.num_rows)

    def close(self) -> None:
        self._file.close()
        while self._footers:
            self._stream.write(checked_end(self._footers.pop(), self._name))


class ParquetReader:
    """An open Parquet file; a context manager."""

    def __init__(self, stream: pa.NativeFile, name: str, columns: Sequence[DataField]) -> None:
        self._stream = stream
        self._columns = [f.name for f in columns]
        self._rows = ParquetRows(stream, columns, checked_metadata(stream, name))

    @property
    def row_count(self) -> int:
        return self._rows.row_count

    def read(self) -> pa.Table:
        rows = self._rows.read(self._columns)
        check_level_counts(self._rows.metadata, range(self._rows.num_row_groups), level_counts(rows))
        return rows

    def batches(self, batch_rows: int, restriction: Restriction | None) -> Iterator[tuple[int, pa.Table]]:
        for group in self._groups(restriction):
            position = self._rows.first_row(group)
            counts: Counter[str] = Counter()
            for batch in self._rows.batches(batch_rows, [group], self._columns):
                counts.update(level_counts(batch))
                yield position, batch
                position += batch.num_rows
            check_level_counts(self._rows.metadata, [group], counts)

    def _groups(self, restriction: Restriction | None) -> list[int]:
        """The row groups whose statistics allow a matching row."""
        if restriction is None:
            return list(range(self._rows.num_row_groups))
        fragment = ds.ParquetFileFormat().make_fragment(self._stream)
        matching = fragment.subset(restriction.predicate, schema=restriction.schema)
        return [group.id for group in matching.row_groups]

    def __enter__(self) -> ParquetReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._rows.__exit__(kind, error, at)


def _open_writer(
    stream: pa.NativeFile, name: str, first: pa.Table, schema: TableSchema, codec: str, options: TableOptions
) -> FormatWriter:
    return ParquetWriter(stream, name, first, schema, codec, options)


PARQUET_FILES = FileFormat(PARQUET, none_altered, _open_writer, ParquetReader)
