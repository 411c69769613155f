"""Data files in the ORC format.

Texts of every length are ORC strings and TIME is an ORC int of milliseconds. As in Paimon, whose ORC type CHAR pads
values, CHAR values lose trailing blanks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as po
import pyorc

from paimon_table.formats.file_format import DamagedFile, FileFormat, FormatWriter, Restriction, is_storage_failure
from paimon_table.formats.key_value_layout import key_value_fields, schema_with_ids
from paimon_table.formats.known_formats import ORC
from paimon_table.formats.orc.rows import OrcRowWriter, has_early_fractions
from paimon_table.formats.orc.timestamps import far_timestamps
from paimon_table.options.table_options import TableOptions
from paimon_table.rows.batch_size import in_batches, packed, unpacked
from paimon_table.rows.nested_arrays import column_with_leaves, list_array, map_array, struct_array
from paimon_table.schema.table_schema import TableSchema
from paimon_table.timestamps import UNITS_PER_SECOND, holds_timestamps
from paimon_table.types import TIMESTAMPS, DataField, DataType, Root

_ROW_CODECS = {
    "zstd": pyorc.CompressionKind.ZSTD,
    "snappy": pyorc.CompressionKind.SNAPPY,
    "zlib": pyorc.CompressionKind.ZLIB,
    "lz4": pyorc.CompressionKind.LZ4,
    "none": pyorc.CompressionKind.NONE,
}
_SMALLEST_BATCH = 10_000
_PACKED_FROM_BYTES = 4 << 20
_PACKED_FROM_RATIO = 8
"""From these sizes in memory on, a stripe is kept compressed, because Arrow reads whole stripes, one per open run."""

_ID = b"paimon.id"
"""Metadata of Arrow fields becomes the attributes of ORC columns."""


class OrcWriter:
    """An open ORC file; a call of ``write`` ends a stripe unless its rows fill no buffer."""

    def __init__(
        self, stream: pa.NativeFile, first: pa.Table, fields: Sequence[DataField], schema: pa.Schema, codec: str
    ) -> None:
        self._fields = fields
        self._schema = schema
        # The writer ends a stripe when a batch has made it larger than the limit.
        batch_rows = max(first.num_rows, _SMALLEST_BATCH)
        self._file = po.ORCWriter(stream, batch_size=batch_rows, stripe_size=1, compression=ORC.codecs[codec])

    def accepts(self, rows: pa.Table) -> bool:
        return not has_early_fractions(rows, self._fields)

    def write(self, rows: pa.Table) -> None:
        columns = [_stored(rows.column(field.name), field.type) for field in self._schema]
        self._file.write(pa.Table.from_arrays(columns, schema=self._schema))

    def close(self) -> None:
        self._file.close()


class OrcReader:
    """An open ORC file; a context manager."""

    def __init__(self, stream: pa.NativeFile, name: str, columns: Sequence[DataField]) -> None:
        self._stream = stream
        with _told_apart():
            self._file = po.ORCFile(stream)
        self._columns = [f for f in columns if f.name in self._file.schema.names]

    @property
    def row_count(self) -> int:
        return int(self._file.nrows)

    def read(self) -> pa.Table:
        return pa.concat_tables(self._stripe(number) for number in range(self._file.nstripes))

    def batches(self, batch_rows: int, restriction: Restriction | None) -> Iterator[tuple[int, pa.Table]]:
        """All stripes: Arrow does not expose their statistics."""
        position = 0
        for number in range(self._file.nstripes):
            for rows in self._stripe_batches(number, batch_rows):
                yield position, rows
                position += rows.num_rows

    def _stripe_batches(self, number: int, batch_rows: int) -> Iterator[pa.Table]:
        """Batches of a stripe. Rows that take far more space in memory than in the file stay compressed until their
        turn."""
        rows = self._stripe(number)
        batches = in_batches(rows, batch_rows)
        encoded_bytes = self._file.content_length * rows.num_rows // max(self._file.nrows, 1)
        if rows.nbytes > max(_PACKED_FROM_BYTES, _PACKED_FROM_RATIO * encoded_bytes):
            batches = unpacked(packed(batches, rows.schema))
        return batches

    def _stripe(self, number: int) -> pa.Table:
        try:
            rows = self._columns_of_stripe(number, self._columns)
        except pa.ArrowInvalid:
            # Arrow reads timestamps as nanoseconds in 64 bits, which do not cover all years.
            near = [f for f in self._columns if not holds_timestamps(f.type)]
            far = [f for f in self._columns if holds_timestamps(f.type)]
            if not far:
                raise
            rows = self._columns_of_stripe(number, near)
            for f, column in zip(far, far_timestamps(self._stream, number, far), strict=True):
                rows = rows.append_column(f.name, column)
        columns = [_loaded(rows.column(f.name), f.type) for f in self._columns]
        return pa.table(columns, names=[f.name for f in self._columns])

    def _columns_of_stripe(self, number: int, columns: Sequence[DataField]) -> pa.Table:
        positions = [self._file.schema.get_field_index(f.name) for f in columns]
        with _told_apart():
            return pa.Table.from_batches([self._file.read_stripe(number, columns=positions)])

    def __enter__(self) -> OrcReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """The stream belongs to the caller."""


@contextmanager
def _told_apart() -> Iterator[None]:
    """Distinguishes errors: Arrow raises a plain OSError for damaged ORC files, storage raises more specific errors."""
    try:
        yield
    except OSError as error:
        if not is_storage_failure(error):
            raise DamagedFile(str(error)) from error
        raise


def _stored_type(t: DataType) -> DataType:
    """The type that is written: ORC has no NOT NULL, and Arrow writes no times of day to it."""
    if t.root is Root.TIME:
        return DataType(Root.INT)
    return replace(
        t,
        nullable=True,
        element=None if t.element is None else _stored_type(t.element),
        key=None if t.key is None else _stored_type(t.key),
        value=None if t.value is None else _stored_type(t.value),
        fields=tuple(replace(f, type=_stored_type(f.type)) for f in t.fields),
    )


def _stored(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_nested(target):
        # A copy, because Arrow's ORC writer reads the validity of a slice from the start of its buffer.
        column = column.take(pa.array(range(len(column)), pa.int64()))
    return pa.chunked_array([_stored_array(chunk, target) for chunk in column.chunks], target)


def _stored_array(values: pa.Array, target: pa.DataType) -> pa.Array:
    """The values in the stored type; every value below a NULL becomes NULL, as Arrow's ORC writer would write it."""
    if pa.types.is_struct(target):
        children = enumerate(values.flatten())
        return struct_array(values, [_stored_array(child, target.field(i).type) for i, child in children], target)
    if pa.types.is_map(target):
        keys, items = _stored_array(values.keys, target.key_type), _stored_array(values.items, target.item_type)
        return map_array(values, keys, items, target)
    if pa.types.is_list(target):
        return list_array(values, _stored_array(values.values, target.value_type), target)
    return values.cast(target)


def _loaded(column: pa.ChunkedArray, t: DataType) -> pa.ChunkedArray:
    return column_with_leaves(column, t, _without_padding) if _contains(t, Root.CHAR) else column


def _without_padding(values: pa.Array, t: DataType) -> pa.Array:
    return pc.utf8_rtrim(values, characters=" ") if t.root is Root.CHAR else values


def _contains(t: DataType, root: Root) -> bool:
    return t.root is root or any(_contains(part, root) for _, part in t.parts)


def _open_writer(
    stream: pa.NativeFile, name: str, first: pa.Table, schema: TableSchema, codec: str, options: TableOptions
) -> FormatWriter:
    fields = key_value_fields(schema)
    stored = schema_with_ids([replace(f, type=_stored_type(f.type)) for f in fields], _ID)
    if has_early_fractions(first, fields):
        return OrcRowWriter(stream, fields, stored, _ROW_CODECS[codec])
    return OrcWriter(stream, first, fields, stored, codec)


def _altered(values: pa.Array, t: DataType) -> pa.Array | None:
    """CHAR values lose trailing blanks, and instants of the last second before 1970 come back one second later."""
    if t.root is Root.CHAR:
        return pc.ends_with(values, " ")
    if t.root in TIMESTAMPS:
        numbers = values.cast(pa.int64())
        return pc.and_(pc.less(numbers, 0), pc.greater(numbers, -UNITS_PER_SECOND[values.type.unit]))
    return None


ORC_FILES = FileFormat(ORC, _altered, _open_writer, OrcReader)
