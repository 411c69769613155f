"""INT96 columns of Parquet files: their twelve bytes, and the timestamps in them.

Arrow converts INT96 into 64-bit timestamps and does not report overflows. Therefore the footer is changed in memory:
these columns become FIXED_LEN_BYTE_ARRAY(12), which has the same bytes.

A value is the nanoseconds of a day and the day's Julian number. Java writes times before 1970 as the next day with
negative nanoseconds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from paimon_table.formats.file_format import DamagedFile, UnreadableValue
from paimon_table.formats.parquet.thrift_compact import (
    I32,
    BrokenThrift,
    Struct,
    Value,
    read_struct,
    struct_bytes,
    zigzag,
)
from paimon_table.timestamps import NANOS_PER_SECOND, UNITS_PER_SECOND, beyond_64_bits
from paimon_table.types import TIMESTAMPS, DataType, arrow_type

RAW_BYTES = 12
_MAGIC = b"PAR1"
_TAIL_BYTES = 8
"""The length of the footer and the magic."""
_INT96 = Value(I32, zigzag(3))
_FIXED_LEN_BYTE_ARRAY = Value(I32, zigzag(7))
_LENGTH = Value(I32, zigzag(RAW_BYTES))
_SCHEMA, _ROW_GROUPS, _COLUMNS, _META_DATA = 2, 4, 1, 3
"""Ids of fields in FileMetaData, RowGroup and ColumnChunk."""
_TYPE, _TYPE_LENGTH, _STATISTICS = 1, 2, 12
"""Ids of fields in SchemaElement and ColumnMetaData."""

_EPOCH_DAY = 2_440_588
_SECONDS_PER_DAY = 86_400
_NANOS_PER_DAY = _SECONDS_PER_DAY * NANOS_PER_SECOND
_NEAR_DAYS = 106_000
"""The days around the epoch that fit into 64 bits of nanoseconds, with some to spare."""
_PARTS = np.dtype([("nanos", "<i8"), ("day", "<i4")])

Int64s = npt.NDArray[np.int64]


def raw_metadata(stream: pa.NativeFile) -> pq.FileMetaData:
    """The metadata of the file with INT96 columns as FIXED_LEN_BYTE_ARRAY(12) without statistics."""
    size_bytes = stream.size()
    stream.seek(size_bytes - _TAIL_BYTES)
    footer_bytes = int.from_bytes(stream.read(4), "little")
    stream.seek(size_bytes - _TAIL_BYTES - footer_bytes)
    try:
        footer = read_struct(stream.read(footer_bytes))
    except BrokenThrift as error:
        raise DamagedFile(f"its footer is damaged: {error}") from error
    for element in footer[_SCHEMA].data.items:
        if element.get(_TYPE) == _INT96:
            rest = {field: value for field, value in element.items() if field > _TYPE_LENGTH}
            element.clear()
            element.update({_TYPE: _FIXED_LEN_BYTE_ARRAY, _TYPE_LENGTH: _LENGTH, **rest})
    for group in footer[_ROW_GROUPS].data.items:
        for chunk in group[_COLUMNS].data.items:
            _make_raw(chunk[_META_DATA].data)
    changed = struct_bytes(footer)
    return pq.read_metadata(pa.BufferReader(_MAGIC + changed + len(changed).to_bytes(4, "little") + _MAGIC))


def _make_raw(column: Struct) -> None:
    if column[_TYPE] == _INT96:
        column[_TYPE] = _FIXED_LEN_BYTE_ARRAY
        column.pop(_STATISTICS, None)


def is_raw(t: pa.DataType) -> bool:
    """Whether this is the Arrow type of such columns; no other type of Paimon is stored as it."""
    return bool(t == pa.binary(RAW_BYTES))


def timestamps(raw: pa.Array, t: DataType) -> pa.Array:
    """Timestamps of the type from their raw form; finer digits than the type's are cut off.

    Raises UnreadableValue for a value that does not fit into 64 bits in the unit of the type, DamagedFile for a type
    that is not a timestamp.
    """
    target = arrow_type(t)
    if t.root not in TIMESTAMPS:
        raise DamagedFile(f"a column of type {t} is stored as INT96")
    data = raw.buffers()[1]
    if data is None or raw.null_count == len(raw):
        return pa.nulls(len(raw), target)
    parts = np.frombuffer(data, _PARTS, len(raw), RAW_BYTES * raw.offset)
    days, nanos = parts["day"].astype(np.int64) - _EPOCH_DAY, parts["nanos"].astype(np.int64)
    is_null = None
    if raw.null_count:
        is_null = raw.is_null().to_numpy(zero_copy_only=False)
        days[is_null] = nanos[is_null] = 0
    units = _units(days, nanos, t, UNITS_PER_SECOND[target.unit])
    return pa.array(units, pa.int64(), mask=is_null).cast(target)


def _units(days: Int64s, nanos: Int64s, t: DataType, units_per_second: int) -> Int64s:
    if max(-days.min(), days.max()) <= _NEAR_DAYS and max(-nanos.min(), nanos.max()) <= _NANOS_PER_DAY:
        # Everything fits into nanoseconds.
        total: Int64s = days * _NANOS_PER_DAY + nanos
        return total if units_per_second == NANOS_PER_SECOND else total // (NANOS_PER_SECOND // units_per_second)
    carry, nanos = np.divmod(nanos, NANOS_PER_SECOND)
    seconds = days * _SECONDS_PER_DAY + carry
    fractions = nanos // (NANOS_PER_SECOND // units_per_second)
    far = _first_outside(seconds, fractions, units_per_second)
    if far is not None:
        raise UnreadableValue(beyond_64_bits(t, int(seconds[far]), int(nanos[far])))
    # If the product wraps around, adding the fraction brings it back into range.
    units: Int64s = seconds * units_per_second + fractions
    return units


def _first_outside(seconds: Int64s, fractions: Int64s, units_per_second: int) -> int | None:
    """The position of a value that does not fit into 64 bits of the unit."""
    first = divmod(-(1 << 63), units_per_second)
    last = divmod((1 << 63) - 1, units_per_second)
    early = (seconds < first[0]) | (seconds == first[0]) & (fractions < first[1])
    late = (seconds > last[0]) | (seconds == last[0]) & (fractions > last[1])
    wrong = early | late
    return int(wrong.argmax()) if wrong.any() else None
