"""collect: the elements of arrays in one array, in order of arrival. With ``distinct`` each element occurs once.

A retract removes one occurrence of each of its elements. Elements are compared by content; NULL is an element.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from paimon_table.merge.aggregate.column_function import ColumnFunction
from paimon_table.merge.aggregate.folding import with_folded
from paimon_table.merge.aggregate.function import Accumulator, Mask
from paimon_table.merge.aggregate.segments import any_of, non_null
from paimon_table.options.field_options import FieldOptions
from paimon_table.options.names import DISTINCT
from paimon_table.rows.python_values import Identity, identity_of
from paimon_table.rows.words import Indices
from paimon_table.types import BINARIES, DataField, DataType, Root, arrow_type, parse_type


@dataclass(frozen=True, slots=True)
class Collect(ColumnFunction):
    distinct: bool
    identity: Identity | None
    """Of the elements."""
    prepends_older: bool
    """Whether the elements of older records go to the front; so where retracts are ignored."""

    name: ClassVar[str] = "collect"
    accumulates: ClassVar[bool] = True
    settings: ClassVar[tuple[str, ...]] = (DISTINCT,)

    @classmethod
    def sample_type(cls, options: FieldOptions) -> DataType:
        return parse_type("ARRAY<STRING>")

    @classmethod
    def bound(cls, field: DataField, options: FieldOptions) -> Self:
        cls.check(field.type.root is Root.ARRAY, field, options, "ARRAY")
        assert field.type.element is not None
        identity = identity_of(arrow_type(field.type.element))
        return cls(field.name, field.type, options.distinct, identity, prepends_older=options.ignore_retract)

    @property
    def keeps_single(self) -> bool:
        return not self.distinct

    def accumulator(self) -> Accumulator:
        return _CollectAccumulator(self)

    @property
    def cleans(self) -> bool:
        """Whether the next add reduces repeated accumulated elements to one."""
        element = self.type.element
        return self.distinct and element is not None and not element.is_nested and element.root not in BINARIES

    def reduce(self, values: pa.Array, starts: Indices, is_retract: Mask | None) -> pa.Array | None:
        if self.distinct:
            return None
        chosen = non_null(values, starts)
        lists = chosen.values
        offsets = lists.offsets.to_numpy()
        offsets = np.append(offsets[chosen.starts], offsets[-1]) if len(lists) else np.zeros(1, np.int32)
        reduced = chosen.spread(pa.ListArray.from_arrays(pa.array(offsets), lists.values, type=values.type))
        if is_retract is None:
            return reduced
        return with_folded(self, values, starts, is_retract, reduced, any_of(is_retract, starts))


class _CollectAccumulator:
    __slots__ = ("_elements", "_function", "_seen")

    def __init__(self, function: Collect) -> None:
        self._function = function
        self._elements: list[Any] | None = None
        self._seen: set[Hashable] | None = None

    @property
    def value(self) -> Any:
        return None if self._elements is None else tuple(self._elements)

    @value.setter
    def value(self, value: Any) -> None:
        self._elements = None if value is None else list(value)
        self._seen = None

    def add(self, value: Any) -> None:
        if self._elements is None and value is None:
            return
        if self._function.distinct:
            self._add_distinct(value or ())
        elif self._elements is None:
            self._elements = list(value)
        elif value is not None:
            self._elements.extend(value)

    def add_older(self, value: Any) -> None:
        if not self._function.prepends_older:
            self.add(value)
            return
        newer, self.value = self.value, value
        self.add(newer)

    def retract(self, value: Any) -> None:
        if self._elements is None or not value:
            return
        left = Counter(self._identities(value))
        kept = []
        for element, identity in zip(self._elements, self._identities(self._elements), strict=True):
            if left[identity]:
                left[identity] -= 1
            else:
                kept.append(element)
        self.value = kept

    def _add_distinct(self, value: Sequence[Any]) -> None:
        before: list[Any] = self._elements or []
        if self._seen is None and self._function.cleans:
            self._elements, self._seen = [], set()
            self._add_unseen(self._elements, self._seen, before)
        elif self._seen is None:
            self._elements, self._seen = before, set(self._identities(before))
        assert self._elements is not None
        self._add_unseen(self._elements, self._seen, value)

    def _add_unseen(self, elements: list[Any], seen: set[Hashable], value: Sequence[Any]) -> None:
        for element, identity in zip(value, self._identities(value), strict=True):
            if identity not in seen:
                seen.add(identity)
                elements.append(element)

    def _identities(self, elements: Sequence[Any]) -> Iterable[Hashable]:
        identity = self._function.identity
        return elements if identity is None else map(identity, elements)
