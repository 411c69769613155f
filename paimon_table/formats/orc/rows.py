"""ORC files that are written row by row.

Arrow writes an instant before 1970 with a fraction of a second as negative nanoseconds, which Java cannot read. pyorc
writes it as Java does, but many times slower. Like Java's, its files shift instants of the last second before 1970 by
one second, because ORC cannot distinguish them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pyorc

from paimon_table.rows.nested_arrays import any_leaf
from paimon_table.timestamps import NANOS_PER_SECOND, UNITS_PER_SECOND, holds_timestamps
from paimon_table.types import TIMESTAMPS, DataField, DataType, Root, timestamp_unit

UTC = ZoneInfo("UTC")
TIMESTAMP_KINDS = (pyorc.TypeKind.TIMESTAMP, pyorc.TypeKind.TIMESTAMP_INSTANT)

_STRIPE_BYTES = 8 << 20


def has_early_fractions(rows: pa.Table, fields: Sequence[DataField]) -> bool:
    """Whether a timestamp is before 1970 and not a whole second."""
    return any(any_leaf(rows.column(f.name), f.type, _is_early_fraction) for f in fields if holds_timestamps(f.type))


def _is_early_fraction(values: pa.Array, t: DataType) -> bool:
    if t.root not in TIMESTAMPS:
        return False
    early = values.cast(pa.int64()).drop_null()
    early = early.filter(pc.less(early, 0))
    return bool((early.to_numpy() % UNITS_PER_SECOND[timestamp_unit(t.precision or 0)]).any())


class Nanoseconds(pyorc.converters.ORCConverter):
    """Timestamps as nanoseconds since the epoch, in Python's whole numbers."""

    @staticmethod
    def from_orc(seconds: int, nanoseconds: int, timezone: ZoneInfo) -> int:
        return seconds * NANOS_PER_SECOND + nanoseconds

    @staticmethod
    def to_orc(obj: int, timezone: ZoneInfo) -> tuple[int, int]:
        return divmod(obj, NANOS_PER_SECOND)


class Days(pyorc.converters.ORCConverter):
    """Dates as days since the epoch, because Python's own class has only the years 1 to 9999."""

    @staticmethod
    def from_orc(days: int) -> int:
        return days

    @staticmethod
    def to_orc(obj: int) -> int:
        return obj


def converters() -> dict[pyorc.TypeKind, type[pyorc.converters.ORCConverter]]:
    """Converters for reading and writing, so that every value fits its Python object."""
    return {pyorc.TypeKind.DATE: Days, **dict.fromkeys(TIMESTAMP_KINDS, Nanoseconds)}


class OrcRowWriter:
    """An open ORC file; its size grows by whole stripes."""

    def __init__(
        self, stream: pa.NativeFile, fields: Sequence[DataField], schema: pa.Schema, codec: pyorc.CompressionKind
    ) -> None:
        """``schema`` has the stored Arrow types of the fields; their metadata becomes the attributes of the columns."""
        self._fields = fields
        self._file = pyorc.Writer(
            stream, _struct(schema), compression=codec, stripe_size=_STRIPE_BYTES, timezone=UTC, converters=converters()
        )

    def accepts(self, rows: pa.Table) -> bool:
        return True

    def write(self, rows: pa.Table) -> None:
        columns = [[v for chunk in rows.column(f.name).chunks for v in _plain(chunk, f.type)] for f in self._fields]
        self._file.writerows(zip(*columns, strict=True))

    def close(self) -> None:
        self._file.close()


_SIMPLE: dict[pa.DataType, type[pyorc.TypeDescription]] = {
    pa.bool_(): pyorc.Boolean,
    pa.int8(): pyorc.TinyInt,
    pa.int16(): pyorc.SmallInt,
    pa.int32(): pyorc.Int,
    pa.int64(): pyorc.BigInt,
    pa.float32(): pyorc.Float,
    pa.float64(): pyorc.Double,
    pa.string(): pyorc.String,
    pa.binary(): pyorc.Binary,
    pa.date32(): pyorc.Date,
}


def _struct(fields: Iterable[pa.Field]) -> pyorc.Struct:
    return pyorc.Struct(**{field.name: _orc_type(field) for field in fields})


def _orc_type(field: pa.Field) -> pyorc.TypeDescription:
    described = _described(field.type)
    described.set_attributes({key.decode(): value.decode() for key, value in (field.metadata or {}).items()})
    return described


def _described(t: pa.DataType) -> pyorc.TypeDescription:
    if pa.types.is_timestamp(t):
        return pyorc.Timestamp() if t.tz is None else pyorc.TimestampInstant()
    if pa.types.is_decimal(t):
        return pyorc.Decimal(t.precision, t.scale)
    if pa.types.is_map(t):
        return pyorc.Map(_orc_type(t.key_field), _orc_type(t.item_field))
    if pa.types.is_list(t):
        return pyorc.Array(_orc_type(t.value_field))
    if pa.types.is_struct(t):
        return _struct(t)
    return _SIMPLE[t]()


def _plain(values: pa.Array, t: DataType) -> list[Any]:
    """The values in pyorc's form."""
    match t.root, t.element, t.key, t.value:
        case ((Root.TIMESTAMP | Root.TIMESTAMP_LTZ), _, _, _):
            factor = NANOS_PER_SECOND // UNITS_PER_SECOND[timestamp_unit(t.precision or 0)]
            return [None if value is None else value * factor for value in values.cast(pa.int64()).to_pylist()]
        case ((Root.TIME | Root.DATE), _, _, _):
            return list(values.cast(pa.int32()).to_pylist())
        case Root.ARRAY, DataType() as element, _, _:
            return _pieces(values, _plain(values.values, element))
        case Root.MULTISET, DataType() as element, _, _:
            return _dicts(values, _plain(values.keys, element), values.items.to_pylist())
        case Root.MAP, _, DataType() as key, DataType() as value:
            return _dicts(values, _plain(values.keys, key), _plain(values.items, value))
        case Root.ROW, _, _, _:
            children = [_plain(values.field(i), f.type) for i, f in enumerate(t.fields)]
            rows = zip(*children, strict=True)
            return [row if ok else None for ok, row in zip(values.is_valid().to_pylist(), rows, strict=True)]
        case _:
            return list(values.to_pylist())


def _pieces(values: pa.Array, items: list[Any]) -> list[Any]:
    """``items`` cut at the offsets of a list or map array."""
    offsets, valid = values.offsets.to_pylist(), values.is_valid().to_pylist()
    return [items[a:b] if ok else None for (a, b), ok in zip(pairwise(offsets), valid, strict=True)]


def _dicts(values: pa.Array, keys: list[Any], items: list[Any]) -> list[Any]:
    pieces = _pieces(values, list(zip(keys, items, strict=True)))
    return [None if piece is None else dict(piece) for piece in pieces]
