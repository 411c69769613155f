"""Data files in the Avro format: whole rows, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType

import pyarrow as pa

from paimon_table.avro_container import ContainerReader, ContainerWriter, MalformedContainer
from paimon_table.avro_encoding import encode_rows
from paimon_table.avro_schema import file_schema, gap
from paimon_table.avro_values import from_records
from paimon_table.file_format import DamagedFile, FileFormat, FormatWriter, Restriction
from paimon_table.options import TableOptions
from paimon_table.parquet_schema import key_value_fields
from paimon_table.schema import TableSchema
from paimon_table.types import DataField

_CODECS = {"zstd": "zstandard", "deflate": "deflate", "null": "null"}
_BLOCK_ROWS = 1 << 12
_ROWS_AT_ONCE = 1 << 14
"""Rows that are Python values at a time, which take much more memory than columns."""


class AvroWriter:
    """An open Avro file."""

    def __init__(self, stream: pa.NativeFile, schema: TableSchema, codec: str, zstd_level: int) -> None:
        self._fields = key_value_fields(schema)
        self._file = ContainerWriter(stream, file_schema(self._fields), _CODECS[codec], zstd_level)

    def accepts(self, rows: pa.Table) -> bool:
        return True

    def write(self, rows: pa.Table) -> None:
        for start in range(0, rows.num_rows, _BLOCK_ROWS):
            block = rows.slice(start, _BLOCK_ROWS)
            self._file.write_block(block.num_rows, encode_rows(block, self._fields))

    def close(self) -> None:
        """The last block ends the file."""


class AvroReader:
    """An open Avro file; a context manager."""

    def __init__(self, stream: pa.NativeFile, columns: Sequence[DataField]) -> None:
        self._columns = columns
        try:
            self._file = ContainerReader(stream)
        except MalformedContainer as error:
            raise DamagedFile(str(error)) from error

    def read(self) -> pa.Table:
        tables = [rows for _, rows in self.batches(_ROWS_AT_ONCE, None)]
        return pa.concat_tables(tables or [from_records([], self._columns)])

    def batches(self, batch_rows: int, restriction: Restriction | None) -> Iterator[tuple[int, pa.Table]]:
        """All rows: an Avro file has no statistics."""
        position = 0
        records = []
        try:
            for block in self._file.blocks():
                records += block
                while len(records) >= batch_rows:
                    yield position, from_records(records[:batch_rows], self._columns)
                    position += batch_rows
                    records = records[batch_rows:]
        except MalformedContainer as error:
            raise DamagedFile(str(error)) from error
        if records:
            yield position, from_records(records, self._columns)

    def __enter__(self) -> AvroReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """The stream belongs to the caller."""


def _open_writer(
    stream: pa.NativeFile, first: pa.Table, schema: TableSchema, codec: str, options: TableOptions
) -> FormatWriter:
    return AvroWriter(stream, schema, codec, options.zstd_level)


AVRO = FileFormat("avro", tuple(_CODECS), gap, _open_writer, AvroReader)
