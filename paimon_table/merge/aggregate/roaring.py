"""rbm32 and rbm64: the union of serialised Roaring bitmaps; cannot retract.

rbm32 holds the portable 32-bit form. rbm64 holds the tree form of Java's 64-bit bitmap, see ``roaring64``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pyroaring import BitMap

from paimon_table.errors import CorruptFile, MalformedRecord
from paimon_table.merge.aggregate.column_function import ColumnFunction
from paimon_table.merge.aggregate.function import Accumulator
from paimon_table.merge.aggregate.roaring64 import parse_tree, tree_bytes
from paimon_table.options.field_options import FieldOptions
from paimon_table.types import DataField, DataType, Root, parse_type

Bitmaps = dict[int, BitMap]
"""32-bit bitmaps by the upper 32 bits of their values; only number 0 for 32-bit bitmaps."""


@dataclass(frozen=True, slots=True)
class BitmapUnion(ColumnFunction):
    bits: ClassVar[int]
    is_commutative: ClassVar[bool] = True
    can_retract: ClassVar[bool] = False

    @classmethod
    def sample_type(cls, options: FieldOptions) -> DataType:
        return parse_type("BYTES")

    @classmethod
    def bound(cls, field: DataField, options: FieldOptions) -> Self:
        cls.check(field.type.root is Root.VARBINARY, field, options, "VARBINARY")
        return cls(field.name, field.type)

    def accumulator(self) -> Accumulator:
        return _BitmapAccumulator(self)

    def parse(self, serialised: bytes) -> Bitmaps:
        """Raises MalformedRecord if the bytes are not a bitmap of this kind."""
        try:
            return parse_tree(serialised) if self.bits == 64 else {0: BitMap.deserialize(serialised)}
        except (CorruptFile, ValueError, RuntimeError) as error:
            raise MalformedRecord(
                f"column {self.column!r}: {len(serialised)} bytes are not a serialised {self.bits}-bit Roaring bitmap "
                f"({error}); correct the rows"
            ) from error

    def serialise(self, bitmaps: Mapping[int, BitMap]) -> bytes:
        for bitmap in bitmaps.values():
            bitmap.run_optimize()
        if self.bits == 64:
            return tree_bytes(bitmaps)
        serialised: bytes = bitmaps[0].serialize()
        return serialised


@dataclass(frozen=True, slots=True)
class Bitmap32(BitmapUnion):
    name: ClassVar[str] = "rbm32"
    bits: ClassVar[int] = 32


@dataclass(frozen=True, slots=True)
class Bitmap64(BitmapUnion):
    name: ClassVar[str] = "rbm64"
    bits: ClassVar[int] = 64


class _BitmapAccumulator:
    """Parses the first bitmap only when a second one arrives."""

    __slots__ = ("_bitmaps", "_function", "_plain")

    def __init__(self, function: BitmapUnion) -> None:
        self._function = function
        self._plain: bytes | None = None
        self._bitmaps: Bitmaps | None = None

    @property
    def value(self) -> Any:
        return self._plain if self._bitmaps is None else self._function.serialise(self._bitmaps)

    @value.setter
    def value(self, value: Any) -> None:
        self._plain, self._bitmaps = value, None

    def add(self, value: Any) -> None:
        if value is None:
            return
        if self._bitmaps is None:
            if self._plain is None:
                self._plain = value
                return
            self._bitmaps = self._function.parse(self._plain)
        for upper, bitmap in self._function.parse(value).items():
            if upper in self._bitmaps:
                self._bitmaps[upper] |= bitmap
            else:
                self._bitmaps[upper] = bitmap

    def add_older(self, value: Any) -> None:
        self.add(value)

    def retract(self, value: Any) -> None:
        self._function.refuse_retract()
