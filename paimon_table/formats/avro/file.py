"""Data files in the Avro format: whole rows, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.formats.avro.blocks import MalformedBlock
from paimon_table.formats.avro.columns import read_columns
from paimon_table.formats.avro.container import Block, ContainerReader, ContainerWriter, MalformedContainer
from paimon_table.formats.avro.encoding import Ragged, encode
from paimon_table.formats.avro.layout import UnknownLayout
from paimon_table.formats.avro.schema import file_schema
from paimon_table.formats.avro.values import from_records
from paimon_table.formats.avro.walk import MAX_LANES, UnevenLanes
from paimon_table.formats.file_format import DamagedFile, FileFormat, FormatWriter, Restriction, none_altered
from paimon_table.formats.key_value_layout import key_value_fields
from paimon_table.formats.known_formats import AVRO
from paimon_table.options.table_options import TableOptions
from paimon_table.rows.chunks import one_array
from paimon_table.schema.table_schema import TableSchema
from paimon_table.types import DataField

_BLOCK_BYTES = 24 << 10
"""The size of a block before compression. Readers decode many blocks in parallel, so small ones are faster to read."""

_ENCODED_ROWS = 1 << 12
_ENCODED_BYTES = 8 << 20
"""The size in memory of the rows that are encoded at a time."""

_ENOUGH_BLOCKS = 64
"""Decoding more blocks in parallel is hardly faster."""

_GROUP_ROWS = MAX_LANES
"""The rows that fill a group. No block is empty, so a group has at most as many blocks."""

_GROUP_BYTES = 8 << 20
"""The size that fills a group, give or take one block."""

_LARGEST_GROUP_BYTES = 1 << 30
"""Arrow counts the bytes of the texts of an array with 32 bits."""

_FEWEST_BLOCKS = 6
"""With fewer blocks in parallel, reading record by record is faster."""

_RECORDS_AT_ONCE = 1 << 14
"""The number of records that are Python values at a time, because these take much more memory than columns."""


class AvroWriter:
    """An open Avro file."""

    def __init__(self, stream: pa.NativeFile, name: str, schema: TableSchema, codec: str, zstd_level: int) -> None:
        self._fields = key_value_fields(schema)
        self._file = ContainerWriter(stream, file_schema(self._fields), AVRO.codecs[codec], zstd_level, name)

    def accepts(self, rows: pa.Table) -> bool:
        return True

    def write(self, rows: pa.Table) -> None:
        row_bytes = max(rows.nbytes / max(rows.num_rows, 1), 1)
        encoded_rows = max(1, min(_ENCODED_ROWS, int(_ENCODED_BYTES / row_bytes)))
        for start in range(0, rows.num_rows, encoded_rows):
            self._write_records(encode_records(rows.slice(start, encoded_rows), self._fields))

    def _write_records(self, records: pa.BinaryArray) -> None:
        block_rows = max(1, len(records) * _BLOCK_BYTES // max(records.nbytes, 1))
        for start in range(0, len(records), block_rows):
            block = records.slice(start, block_rows)
            _, offsets, data = block.buffers()
            first, last = (np.frombuffer(offsets, np.int32)[place] for place in (start, start + len(block)))
            self._file.write_block(len(block), data.slice(first, last - first).to_pybytes())

    def close(self) -> None:
        """Write the last block, which ends the file."""


class AvroReader:
    """An open Avro file; a context manager."""

    row_count = None

    def __init__(self, stream: pa.NativeFile, name: str, columns: Sequence[DataField]) -> None:
        self._columns = columns
        try:
            self._file = ContainerReader(stream, name)
        except MalformedContainer as error:
            raise DamagedFile(str(error)) from error

    def read(self) -> pa.Table:
        return pa.concat_tables(list(self._tables(_GROUP_ROWS)) or [from_records([], self._columns)])

    def batches(self, batch_rows: int, restriction: Restriction | None) -> Iterator[tuple[int, pa.Table]]:
        """All rows: an Avro file has no statistics."""
        position = 0
        for rows in self._tables(batch_rows):
            for start in range(0, rows.num_rows, batch_rows):
                yield position + start, rows.slice(start, batch_rows)
            position += rows.num_rows

    def _tables(self, least_rows: int) -> Iterator[pa.Table]:
        try:
            for blocks in _groups(self._file.blocks(), min(least_rows, _GROUP_ROWS)):
                yield self._table(blocks)
        except (MalformedContainer, MalformedBlock) as error:
            raise DamagedFile(str(error)) from error

    def _table(self, blocks: Sequence[Block]) -> pa.Table:
        if len(blocks) >= _FEWEST_BLOCKS and sum(len(block.data) for block in blocks) < _LARGEST_GROUP_BYTES:
            with suppress(UnknownLayout, UnevenLanes):
                return read_columns(self._file.schema, blocks, self._columns)
        return read_records(self._file, blocks, self._columns)

    def __enter__(self) -> AvroReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """The stream belongs to the caller."""


def encode_records(rows: pa.Table, fields: Sequence[DataField]) -> pa.BinaryArray:
    """Each row as a record of the fields."""
    parts = [_pieces(encode(one_array(rows.column(f.name)), f.type, f.name)) for f in fields]
    return pc.binary_join_element_wise(*parts, b"")


def _pieces(values: Ragged) -> pa.BinaryArray:
    offsets = np.zeros(len(values.lengths) + 1, np.int32)
    np.cumsum(values.lengths, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(values.data))]
    return pa.BinaryArray.from_buffers(pa.binary(), len(values.lengths), buffers)


def _groups(blocks: Iterable[Block], least_rows: int) -> Iterator[Sequence[Block]]:
    """Blocks to decode together: enough blocks, but not too many rows or bytes, to limit memory."""
    group: list[Block] = []
    rows = size = 0
    for block in blocks:
        if block.record_count == 0:
            continue
        group.append(block)
        rows, size = rows + block.record_count, size + len(block.data)
        if size >= _GROUP_BYTES or (rows >= least_rows and len(group) >= _ENOUGH_BLOCKS):
            yield group
            group, rows, size = [], 0, 0
    if group:
        yield group


def read_records(file: ContainerReader, blocks: Sequence[Block], columns: Sequence[DataField]) -> pa.Table:
    """The records of the blocks for any schema of the file, through Python values.

    Raises MalformedContainer, also if the schema does not fit the columns, and pa.ArrowInvalid.
    """
    tables, records = [], []
    for block in blocks:
        records += file.records(block)
        if len(records) >= _RECORDS_AT_ONCE or block is blocks[-1]:
            tables.append(_columns_of(records, columns))
            records = []
    return pa.concat_tables(tables)


def _columns_of(records: Sequence[dict[str, Any]], columns: Sequence[DataField]) -> pa.Table:
    try:
        return from_records(records, columns)
    except (KeyError, TypeError, AttributeError) as error:
        raise MalformedContainer(f"its records do not have the types of the columns: {error!r}") from error


def _open_writer(
    stream: pa.NativeFile, name: str, first: pa.Table, schema: TableSchema, codec: str, options: TableOptions
) -> FormatWriter:
    return AvroWriter(stream, name, schema, codec, options.zstd_level)


AVRO_FILES = FileFormat(AVRO, none_altered, _open_writer, AvroReader)
