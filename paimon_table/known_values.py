"""Results computed once for a value that many batches share, such as the schema of a table.

A batch of many tables with few rows each spends most of its time on results that depend only on the schemas. Schemas
and options are frozen, but have mappings and therefore no hash: identity distinguishes them. So they stay the same
object from batch to batch, in the driver and in the processes of its tasks (``Packed``).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache, wraps
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_MOST = 4096
"""The number of cached values, for example one schema for each of as many tables."""


def once_for_each(work_out: Callable[[K], V], most: int = _MOST) -> Callable[[K], V]:
    """``work_out`` with a cache by object; it depends only on its frozen argument. Threads may share it.

    With more than ``most`` objects, ``work_out`` may be called again.
    """
    known: dict[int, tuple[K, V]] = {}

    @wraps(work_out)
    def look_up(value: K) -> V:
        found = known.get(id(value))
        if found is not None and found[0] is value:
            return found[1]
        result = work_out(value)
        if len(known) >= most:
            known.clear()
        known[id(value)] = (value, result)  # a reference to the value, so that no other object gets its identity
        return result

    return look_up


class Packed:
    """A frozen dataclass that a process unpickles once: equal pickles give the same object."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Callable[..., object], tuple[type[Any], bytes]]:
        return _unpacked, (type(self), _packed(self))


@once_for_each
def _packed(value: Any) -> bytes:
    return pickle.dumps(tuple(getattr(value, field.name) for field in fields(value)))


@lru_cache(_MOST)
def _unpacked(kind: type[Any], data: bytes) -> object:
    made = object.__new__(kind)
    for field, content in zip(fields(kind), pickle.loads(data), strict=True):
        object.__setattr__(made, field.name, content)
    return made
