"""hll_sketch and theta_sketch: the union of serialised Apache DataSketches; cannot retract.

Needs the package ``datasketches``, which comes with the extra ``tidemark-cdc[sketches]``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, Self

from paimon_table.errors import ConfigError, MalformedRecord
from paimon_table.merge.aggregate.column_function import ColumnFunction, SimpleAccumulator, skipping_nulls
from paimon_table.merge.aggregate.function import Accumulator
from paimon_table.options.field_options import FieldOptions, naming_option
from paimon_table.types import DataField, DataType, Root, parse_type

try:
    import datasketches
except ImportError:
    datasketches = None

_THETA_LG_K = 12
_THETA_FLAGS_AT, _THETA_PROBABILITY_AT = 5, 12
_THETA_IS_EMPTY, _THETA_IS_SINGLE = 4, 32
_HLL_LG_K_AT = 3
"""The byte of a serialised HLL sketch with the binary logarithm of its number of buckets."""


@dataclass(frozen=True, slots=True)
class SketchUnion(ColumnFunction):
    is_commutative: ClassVar[bool] = True
    can_retract: ClassVar[bool] = False

    @classmethod
    def sample_type(cls, options: FieldOptions) -> DataType:
        return parse_type("BYTES")

    @classmethod
    def bound(cls, field: DataField, options: FieldOptions) -> Self:
        cls.check(field.type.root is Root.VARBINARY, field, options, "VARBINARY")
        _library(field.name, cls.name, naming_option(field.name, options))
        return cls(field.name, field.type)

    def accumulator(self) -> Accumulator:
        return SimpleAccumulator(skipping_nulls(self._union), self._retract)

    @staticmethod
    def united(library: ModuleType, accumulated: bytes, value: bytes) -> bytes:
        """The union of two sketches; ``value`` is the newer one."""
        raise NotImplementedError

    def _union(self, accumulated: bytes, value: bytes) -> bytes:
        try:
            return self.united(_library(self.column, self.name), accumulated, value)
        except (ValueError, RuntimeError, IndexError) as error:
            raise MalformedRecord(
                f"column {self.column!r}: {self.name} got bytes that are not such a sketch ({error}); correct the rows"
            ) from error

    def _retract(self, accumulated: Any, value: Any) -> Any:
        self.refuse_retract()


@dataclass(frozen=True, slots=True)
class HllSketch(SketchUnion):
    name: ClassVar[str] = "hll_sketch"

    @staticmethod
    def united(library: ModuleType, accumulated: bytes, value: bytes) -> bytes:
        """The union is as fine as the newer sketch and never finer than the coarser one."""
        union = library.hll_union(value[_HLL_LG_K_AT])
        union.update(library.hll_sketch.deserialize(value))
        union.update(library.hll_sketch.deserialize(accumulated))
        merged: bytes = union.get_result(library.tgt_hll_type.HLL_4).serialize_compact()
        return merged


@dataclass(frozen=True, slots=True)
class ThetaSketch(SketchUnion):
    name: ClassVar[str] = "theta_sketch"

    @staticmethod
    def united(library: ModuleType, accumulated: bytes, value: bytes) -> bytes:
        union = library.theta_union(_THETA_LG_K)
        union.update(library.compact_theta_sketch.deserialize(accumulated))
        union.update(library.compact_theta_sketch.deserialize(value))
        merged = bytearray(union.get_result().serialize())
        # The C++ library leaves two things out that Java writes: the mark of a single value, the sampling probability.
        if merged[0] > 1:
            struct.pack_into("<f", merged, _THETA_PROBABILITY_AT, 1.0)
        elif not merged[_THETA_FLAGS_AT] & _THETA_IS_EMPTY:
            merged[_THETA_FLAGS_AT] |= _THETA_IS_SINGLE
        return bytes(merged)


def _library(column: str, function: str, option: str | None = None) -> ModuleType:
    if datasketches is None:
        raise ConfigError(
            f"column {column!r}: aggregate function {function!r} needs the package datasketches; install "
            "tidemark-cdc[sketches]",
            option=option,
            column=column,
        )
    library: ModuleType = datasketches
    return library
