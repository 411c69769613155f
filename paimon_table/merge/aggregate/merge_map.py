"""merge_map: entries of newer maps replace entries of the same key. A retract removes its keys, for any values.

Keys are compared by content. Entries keep the order in which their keys first arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Self, TypeAlias

import numpy as np
import pyarrow as pa

from paimon_table.merge.aggregate.column_function import ColumnFunction
from paimon_table.merge.aggregate.folding import with_folded
from paimon_table.merge.aggregate.function import Accumulator, Mask
from paimon_table.merge.aggregate.segments import any_of, lengths, non_null
from paimon_table.options.field_options import FieldOptions
from paimon_table.rows.python_values import Identity, identity_of
from paimon_table.rows.words import Indices
from paimon_table.types import NESTED, DataField, DataType, Root, arrow_type, parse_type

Entry: TypeAlias = tuple[Any, Any]
Entries: TypeAlias = dict[Hashable, Entry]


@dataclass(frozen=True, slots=True)
class MergeMap(ColumnFunction):
    identity: Identity | None
    """Of the keys."""

    name: ClassVar[str] = "merge_map"

    @classmethod
    def sample_type(cls, options: FieldOptions) -> DataType:
        return parse_type("MAP<STRING, STRING>")

    @classmethod
    def bound(cls, field: DataField, options: FieldOptions) -> Self:
        cls.check(field.type.root is Root.MAP, field, options, "MAP")
        assert field.type.key is not None
        return cls(field.name, field.type, identity_of(arrow_type(field.type.key)))

    def accumulator(self) -> Accumulator:
        return MapAccumulator(self.identity, dict.__setitem__)

    def reduce(self, values: pa.Array, starts: Indices, is_retract: Mask | None) -> pa.Array | None:
        key = self.type.key
        if key is None or key.root in {*NESTED, Root.FLOAT, Root.DOUBLE}:
            return None
        chosen = non_null(values, starts)
        if len(chosen.values) == 0:
            return chosen.spread(chosen.values)
        reduced = chosen.spread(_newest_entries(chosen.values, chosen.starts))
        if is_retract is None:
            return reduced
        return with_folded(self, values, starts, is_retract, reduced, any_of(is_retract, starts))


def _newest_entries(maps: pa.MapArray, starts: Indices) -> pa.MapArray:
    """One map per segment, with the last entry of each key at the place of its first."""
    offsets = maps.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    keys, items = maps.keys.slice(first, last - first), maps.items.slice(first, last - first)
    entry_starts = offsets[starts] - first
    segment = np.repeat(np.arange(len(starts)), lengths(entry_starts, last - first))
    encoded = keys.dictionary_encode()
    group = segment * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy(zero_copy_only=False)
    _, first_at, number = np.unique(group, return_index=True, return_inverse=True)
    last_at = np.empty(len(first_at), np.int64)
    last_at[number] = np.arange(len(group))
    in_order = np.argsort(first_at, kind="stable")
    counts = np.bincount(segment[first_at], minlength=len(starts))
    out_offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.MapArray.from_arrays(
        pa.array(out_offsets),
        keys.take(pa.array(first_at[in_order])),
        items.take(pa.array(last_at[in_order])),
        type=maps.type,
    )


class MapAccumulator:
    """Entries by the identity of their keys."""

    __slots__ = ("_entries", "_identity", "_put", "_refuse")

    def __init__(
        self,
        identity: Identity | None,
        put: Callable[[Entries, Hashable, Entry], None],
        refuse: Callable[[], NoReturn] | None = None,
    ) -> None:
        """``put`` lets an entry take its place among the others, under its key; ``refuse`` raises for retracts."""
        self._identity = identity or _itself
        self._put = put
        self._refuse = refuse
        self._entries: Entries | None = None

    @property
    def value(self) -> Any:
        return None if self._entries is None else tuple(self._entries.values())

    @value.setter
    def value(self, value: Any) -> None:
        self._entries = None if value is None else {self._identity(entry[0]): entry for entry in value}

    def add(self, value: Any) -> None:
        if value is None:
            return
        if self._entries is None:
            self.value = value
        else:
            for entry in value:
                self._put(self._entries, self._identity(entry[0]), entry)

    def add_older(self, value: Any) -> None:
        newer, self.value = self.value, value
        self.add(newer)

    def retract(self, value: Any) -> None:
        if self._refuse is not None:
            self._refuse()
        for key, _ in value or ():
            if self._entries is not None:
                self._entries.pop(self._identity(key), None)


def _itself(value: Any) -> Any:
    return value
