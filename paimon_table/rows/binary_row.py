"""BinaryRow: Paimon's row bytes for keys, partitions and statistics.

Implements the BinaryRow layout (all integers little-endian) and its serialized form, which puts the number of fields as
4 big-endian bytes in front. Single rows go through plain Python; whole columns go through ``row_words``.

Python values of single rows: BOOLEAN bool; integers int; FLOAT, DOUBLE float; CHAR, VARCHAR str; BINARY, VARBINARY
bytes; DECIMAL Decimal; DATE date; TIME time; TIMESTAMP datetime, local-zoned ones with tzinfo UTC. A timestamp of more
than 6 digits is an int of nanoseconds since the epoch. Serializing also accepts ints: days for DATE, milliseconds for
TIME, and the unit of the Arrow form for timestamps. Dates and timestamps outside of Python's years are returned as such
ints.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.errors import BrokenInvariant, CorruptFile, UnsupportedFeature
from paimon_table.rows.row_words import LONGEST_INLINE, Length, RowWords, Words, header_bytes, row_word_blocks
from paimon_table.timestamps import NANOS_PER_SECOND, beyond_64_bits
from paimon_table.types import BINARIES, CHARACTERS, TIMESTAMPS, DataType, Root

_EPOCH_DATE = dt.date(1970, 1, 1).toordinal()
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_EXACT = Context(prec=80)
_FORMATS = {
    Root.BOOLEAN: struct.Struct("<?"),
    Root.TINYINT: struct.Struct("<b"),
    Root.SMALLINT: struct.Struct("<h"),
    Root.INT: struct.Struct("<i"),
    Root.BIGINT: struct.Struct("<q"),
    Root.FLOAT: struct.Struct("<f"),
    Root.DOUBLE: struct.Struct("<d"),
    Root.DATE: struct.Struct("<i"),
    Root.TIME: struct.Struct("<i"),
}
_LONG = struct.Struct("<q")
_SLOT = struct.Struct("<II")
_ARITY = struct.Struct(">i")
_ARITY_BYTES = 4


@dataclass(frozen=True, slots=True)
class BinaryRows:
    """Many rows in one buffer, without arity prefix; row i is ``data[offsets[i]:offsets[i + 1]]``."""

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def row(self, position: int) -> bytes:
        return self.data[self.offsets[position] : self.offsets[position + 1]].tobytes()


# ---------------------------------------------------------------- many rows


def serialize_rows(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]) -> BinaryRows:
    """One BinaryRow per row of the columns, which are fields 0, 1, ... of the row; at least one column is needed."""
    blocks = [_materialize(words) for words in row_word_blocks(columns, types)]
    if not blocks:
        return BinaryRows(np.zeros(0, np.uint8), np.zeros(1, np.int64))
    lengths = np.concatenate([lengths for _, lengths in blocks])
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return BinaryRows(np.concatenate([data for data, _ in blocks]).view(np.uint8), offsets)


def serialize_row_at(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType], position: int) -> bytes:
    """Serialized row (with arity prefix) of one row of the columns; negative positions count from the end."""
    if not types:
        return _ARITY.pack(0) + bytes(header_bytes(0))
    position %= len(columns[0])
    rows = serialize_rows([column.slice(position, 1) for column in columns], types)
    return _ARITY.pack(len(types)) + rows.row(0)


def _materialize(block: RowWords) -> tuple[Words, npt.NDArray[np.int64]]:
    """The words of a block, row after row, and the byte length of each row."""
    lengths = _per_row(block.byte_lengths, block.row_count)
    starts = (np.cumsum(lengths) - lengths) >> 3
    out = np.zeros(int(lengths.sum()) >> 3, np.uint64)
    for position, word in enumerate(block.fixed):
        out[starts + position] = word
    starts = starts + len(block.fixed)
    for tail in block.tails:
        word_counts = _per_row(tail.byte_lengths, block.row_count) >> 3
        for position in range(int(word_counts.max())):
            rows = np.flatnonzero(word_counts > position)
            out[starts[rows] + position] = tail.words(position, rows)
        starts = starts + word_counts
    return out, lengths


def _per_row(length: Length, row_count: int) -> npt.NDArray[np.int64]:
    return np.full(row_count, length, np.int64) if isinstance(length, int) else length


# ---------------------------------------------------------------- one row out


def serialize_row(values: Sequence[Any], types: Sequence[DataType]) -> bytes:
    """Serialized row with arity prefix; ``values`` in the Python forms of the module's docstring, None is NULL."""
    if len(values) != len(types):
        raise BrokenInvariant(f"{len(values)} values for a row of {len(types)} fields; pass one value for each field")
    header = _ARITY_BYTES + header_bytes(len(types))
    row = bytearray(header + 8 * len(types))
    _ARITY.pack_into(row, 0, len(types))
    for position, (value, t) in enumerate(zip(values, types, strict=True)):
        slot = header + 8 * position
        if value is None:
            bit = position + 8
            row[_ARITY_BYTES + (bit >> 3)] |= 1 << (bit & 7)
            _reserve_null(row, slot, t)
        else:
            _put(row, slot, value, t)
    return bytes(row)


def _reserve_null(row: bytearray, slot: int, t: DataType) -> None:
    """Reserve zeros for the item of a NULL, if its type has an item of fixed size."""
    if t.root is Root.DECIMAL and (t.precision or 0) > 18:
        _append(row, slot, 0, bytes(16))
    elif t.root in TIMESTAMPS and (t.precision or 0) > 3:
        _append(row, slot, 0, bytes(8))


def _append(row: bytearray, slot: int, low: int, item: bytes) -> None:
    """Append an item, padded to words, to the row, and put a reference to it into the slot."""
    _SLOT.pack_into(row, slot, low, len(row) - _ARITY_BYTES)
    row += item + bytes(-len(item) % 8)


def _put(row: bytearray, slot: int, value: Any, t: DataType) -> None:
    if t.root in CHARACTERS:
        _put_bytes(row, slot, value.encode())
    elif t.root in BINARIES:
        _put_bytes(row, slot, value)
    elif t.root is Root.DECIMAL:
        _put_decimal(row, slot, unscaled(value, t.scale or 0), t.precision or 0)
    elif t.root in TIMESTAMPS:
        precision = t.precision or 0
        if precision <= 3:
            _LONG.pack_into(row, slot, _timestamp_units(value, precision))
        else:
            per_milli = 1_000 if precision <= 6 else 1_000_000
            millis, rest = divmod(_timestamp_units(value, precision), per_milli)
            _append(row, slot, rest * (1_000_000 // per_milli), _LONG.pack(millis))
    elif t.root is Root.DATE and isinstance(value, dt.date):
        _FORMATS[Root.DATE].pack_into(row, slot, value.toordinal() - _EPOCH_DATE)
    elif t.root is Root.TIME and isinstance(value, dt.time):
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        _FORMATS[Root.TIME].pack_into(row, slot, seconds * 1_000 + value.microsecond // 1_000)
    elif t.root in _FORMATS:
        _FORMATS[t.root].pack_into(row, slot, value)
    else:
        raise UnsupportedFeature(f"a value of type {t} cannot be part of a key or a partition; use an atomic column")


def _put_bytes(row: bytearray, slot: int, value: bytes) -> None:
    if len(value) > LONGEST_INLINE:
        _append(row, slot, len(value), value)
        return
    row[slot : slot + len(value)] = value
    row[slot + 7] = 0x80 | len(value)


def _put_decimal(row: bytearray, slot: int, number: int, precision: int) -> None:
    if precision <= 18:
        _LONG.pack_into(row, slot, number)
        return
    bits = (number if number >= 0 else ~number).bit_length()
    item = number.to_bytes(bits // 8 + 1, "big", signed=True)
    _append(row, slot, len(item), item.ljust(16, b"\0"))


def unscaled(value: Decimal, scale: int) -> int:
    """The unscaled integer of a decimal of this scale; the value must not have more digits after the point."""
    scaled = value.scaleb(scale, _EXACT)
    number = int(scaled)
    if number != scaled:
        raise BrokenInvariant(f"decimal {value} has more than {scale} digits after the point; round it first")
    return number


def _timestamp_units(value: dt.datetime | int, precision: int) -> int:
    if isinstance(value, int):
        return value
    if value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    micros = (value - _EPOCH) // _MICROSECOND
    return micros // 1_000 if precision <= 3 else micros if precision <= 6 else micros * 1_000


# ---------------------------------------------------------------- one row in


def deserialize_row(data: bytes, types: Sequence[DataType]) -> tuple[Any, ...]:
    """Python values (see the module's docstring) of a serialized row; raises CorruptFile if it cannot be one."""
    return tuple(
        None if raw is None else _python(raw, t) for raw, t in zip(_raw_fields(data, types), types, strict=True)
    )


def comparable_key(data: bytes, types: Sequence[DataType]) -> tuple[tuple[Any, ...], ...]:
    """A tuple that ``<`` orders as Paimon orders keys, from a serialized row.

    NULL sorts first, strings and binaries by unsigned bytes, -0.0 before 0.0, NaN last.
    """
    return tuple(
        (0,) if raw is None else (1, _ordered_float(raw, t)) if isinstance(raw, float) else (1, raw)
        for raw, t in zip(_raw_fields(data, types), types, strict=True)
    )


def raw_field(data: bytes, position: int, t: DataType) -> Any:
    """One value in its internal form, which sorts like the values; raises CorruptFile if the row cannot have it."""
    try:
        (arity,) = _ARITY.unpack_from(data)
        if data[_ARITY_BYTES + ((position + 8) >> 3)] & (1 << (position & 7)):
            return None
        return _raw(data, _ARITY_BYTES + header_bytes(arity) + 8 * position, t)
    except (struct.error, IndexError) as error:
        raise CorruptFile(f"a serialized row of {len(data)} bytes ends early; the metadata file is damaged") from error


def raw_fields(rows: Sequence[bytes], position: int, t: DataType) -> list[Any]:
    """``raw_field`` of each of many rows, all of as many fields as the first one."""
    try:
        (arity,) = _ARITY.unpack_from(rows[0])
        mark, bit = _ARITY_BYTES + ((position + 8) >> 3), 1 << (position & 7)
        slot, read = _ARITY_BYTES + header_bytes(arity) + 8 * position, _reader(t)
        return [None if row[mark] & bit else read(row, slot) for row in rows]
    except (struct.error, IndexError) as error:
        raise CorruptFile("a serialized row ends early; the metadata file is damaged") from error


def python_value(raw: Any, t: DataType) -> Any:
    """The Python value (see the module's docstring) of an internal form."""
    return None if raw is None else _python(raw, t)


def _raw_fields(data: bytes, types: Sequence[DataType]) -> list[Any]:
    """Field values in the internal form: int, float, bytes, unscaled int, timestamp as int of its Arrow unit."""
    header = _ARITY_BYTES + header_bytes(len(types))
    try:
        arity = _ARITY.unpack_from(data)[0]
        if arity != len(types):
            raise CorruptFile(
                f"a serialized row has {arity} fields, not the expected {len(types)}; check the schema id"
            )
        return [
            None if data[_ARITY_BYTES + ((i + 8) >> 3)] & (1 << (i & 7)) else _raw(data, header + 8 * i, t)
            for i, t in enumerate(types)
        ]
    except (struct.error, IndexError) as error:
        raise CorruptFile(f"a serialized row of {len(data)} bytes ends early; the metadata file is damaged") from error


def _raw(data: bytes, slot: int, t: DataType) -> Any:
    return _reader(t)(data, slot)


def _reader(t: DataType) -> Callable[[bytes, int], Any]:
    """A function that reads the internal form of a value from a serialized row, by the place of its slot."""
    if t.root in CHARACTERS or t.root in BINARIES:
        return _bytes
    precision = t.precision or 0
    if t.root is Root.DECIMAL and precision > 18:
        return lambda data, slot: int.from_bytes(_item(data, slot), "big", signed=True)
    if t.root in TIMESTAMPS and precision > 3:
        return _micros if precision <= 6 else lambda data, slot: _nanoseconds(*_moment(data, slot), t)
    if t.is_nested:
        raise UnsupportedFeature(f"a value of type {t} cannot be part of a key or a partition; use an atomic column")
    unpack = _FORMATS.get(t.root, _LONG).unpack_from
    return lambda data, slot: unpack(data, slot)[0]


def _bytes(data: bytes, slot: int) -> bytes:
    mark = data[slot + 7]
    return data[slot : slot + (mark & 0x7F)] if mark & 0x80 else _item(data, slot)


def _micros(data: bytes, slot: int) -> int:
    millis, nanos = _moment(data, slot)
    return millis * 1_000 + nanos // 1_000


def _moment(data: bytes, slot: int) -> tuple[int, int]:
    """Milliseconds since the epoch, and the nanoseconds of the last one."""
    nanos, offset = _SLOT.unpack_from(data, slot)
    return _LONG.unpack_from(data, _ARITY_BYTES + offset)[0], nanos


def _nanoseconds(millis: int, nanos: int, t: DataType) -> int:
    units = millis * 1_000_000 + nanos
    if not -(1 << 63) <= units < 1 << 63:
        problem = beyond_64_bits(t, *divmod(units, NANOS_PER_SECOND))
        raise UnsupportedFeature(
            f"the key, partition or bounds in the metadata of a file have {problem}. Read the table with Paimon's own "
            "engines and write it into a new one with TIMESTAMP(6)"
        )
    return units


def _item(data: bytes, slot: int) -> bytes:
    length, offset = _SLOT.unpack_from(data, slot)
    start = _ARITY_BYTES + offset
    if start + length > len(data):
        raise CorruptFile(f"a serialized row of {len(data)} bytes ends early; the metadata file is damaged")
    return data[start : start + length]


def _python(raw: Any, t: DataType) -> Any:
    match t.root:
        case Root.CHAR | Root.VARCHAR:
            return raw.decode()
        case Root.DECIMAL:
            return Decimal(raw).scaleb(-(t.scale or 0), _EXACT)
        case Root.DATE:
            return _date(raw)
        case Root.TIME:
            return (_EPOCH + dt.timedelta(milliseconds=raw)).time()
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ if (t.precision or 0) <= 6:
            return _datetime(raw, t)
        case _:
            return raw


def _date(days: int) -> dt.date | int:
    ordinal = days + _EPOCH_DATE
    return dt.date.fromordinal(ordinal) if 1 <= ordinal <= dt.date.max.toordinal() else days


def _datetime(units: int, t: DataType) -> dt.datetime | int:
    try:
        value = _EPOCH + dt.timedelta(microseconds=units if (t.precision or 0) > 3 else units * 1_000)
    except OverflowError:
        return units
    return value.replace(tzinfo=dt.UTC) if t.root is Root.TIMESTAMP_LTZ else value


def _ordered_float(value: float, t: DataType) -> int:
    """An int in the order of Java's Float.compare and Double.compare."""
    if value != value:
        return 1 << 64
    bits: int = _LONG.unpack(struct.pack("<d", value))[0]
    return bits if bits >= 0 else bits ^ 0x7FFF_FFFF_FFFF_FFFF
