"""The functions whose result is one of the values: the first or last, with or without NULLs, and primary keys.

They only return the position of the value, so a merge of whole rows can take all columns at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from paimon_table.merge.aggregate.column_function import ColumnFunction, SimpleAccumulator
from paimon_table.merge.aggregate.function import Accumulator, Mask
from paimon_table.merge.aggregate.segments import ends, validity
from paimon_table.rows.words import Indices


@dataclass(frozen=True, slots=True)
class Picked:
    """For each key the position of its value; ``is_null`` marks the keys whose value is NULL, None if there are
    none."""

    positions: Indices
    is_null: Mask | None = None

    def take(self, values: pa.Array) -> pa.Array:
        return values.take(pa.array(self.positions, mask=self.is_null))


@dataclass(frozen=True, slots=True)
class PickingFunction(ColumnFunction):
    """A function whose result is one of the values or NULL."""

    needs_validity: ClassVar[bool] = False
    """Whether it matters which values are NULL."""

    def pick(self, is_valid: Mask | None, starts: Indices, total: int, is_retract: Mask | None) -> Picked:
        """The position of each key's value among ``total`` values; ``is_valid`` None means that none is NULL."""
        raise NotImplementedError

    def reduce(self, values: pa.Array, starts: Indices, is_retract: Mask | None) -> pa.Array | None:
        is_valid = validity(values) if self.needs_validity and values.null_count else None
        return self.pick(is_valid, starts, len(values), is_retract).take(values)


@dataclass(frozen=True, slots=True)
class PrimaryKey(PickingFunction):
    """primary-key: the newest value, even of a retract; all values of a key are equal."""

    name: ClassVar[str] = "primary-key"

    def accumulator(self) -> Accumulator:
        return SimpleAccumulator(_newer, _newer)

    def pick(self, is_valid: Mask | None, starts: Indices, total: int, is_retract: Mask | None) -> Picked:
        return Picked(ends(starts, total))


@dataclass(frozen=True, slots=True)
class LastValue(PickingFunction):
    """last_value: the newest value, also NULL; NULL after any retract."""

    name: ClassVar[str] = "last_value"

    def accumulator(self) -> Accumulator:
        return SimpleAccumulator(_newer, _none)

    def pick(self, is_valid: Mask | None, starts: Indices, total: int, is_retract: Mask | None) -> Picked:
        last = ends(starts, total)
        return Picked(last, None if is_retract is None else is_retract[last])


@dataclass(frozen=True, slots=True)
class LastNonNullValue(PickingFunction):
    """last_non_null_value: the newest value that is not NULL; NULL after a retract of one."""

    name: ClassVar[str] = "last_non_null_value"
    needs_validity: ClassVar[bool] = True

    def accumulator(self) -> Accumulator:
        return SimpleAccumulator(_newer_non_null, _cleared)

    def pick(self, is_valid: Mask | None, starts: Indices, total: int, is_retract: Mask | None) -> Picked:
        last = ends(starts, total)
        if is_valid is not None and not is_valid[last].all():
            last = np.maximum.reduceat(np.where(is_valid, np.arange(total), -1), starts)
        if is_retract is None:
            return Picked(last, None if (last >= 0).all() else last < 0)
        return Picked(last, (last < 0) | is_retract[last])


@dataclass(frozen=True, slots=True)
class FirstValue(PickingFunction):
    """first_value: the oldest value, also NULL; cannot retract."""

    name: ClassVar[str] = "first_value"
    can_retract: ClassVar[bool] = False

    def accumulator(self) -> Accumulator:
        return _FirstAccumulator(self)

    def pick(self, is_valid: Mask | None, starts: Indices, total: int, is_retract: Mask | None) -> Picked:
        self.refuse_retracts(is_retract)
        return Picked(starts)


@dataclass(frozen=True, slots=True)
class FirstNonNullValue(PickingFunction):
    """first_non_null_value: the oldest value that is not NULL; cannot retract."""

    name: ClassVar[str] = "first_non_null_value"
    needs_validity: ClassVar[bool] = True
    can_retract: ClassVar[bool] = False

    def accumulator(self) -> Accumulator:
        return _FirstNonNullAccumulator(self)

    def pick(self, is_valid: Mask | None, starts: Indices, total: int, is_retract: Mask | None) -> Picked:
        self.refuse_retracts(is_retract)
        if is_valid is None:
            return Picked(starts)
        first = np.minimum.reduceat(np.where(is_valid, np.arange(total), total), starts)
        return Picked(np.minimum(first, total - 1), first == total)


@dataclass(frozen=True, slots=True)
class FirstNotNullValue(FirstNonNullValue):
    """The same by another name."""

    name: ClassVar[str] = "first_not_null_value"


class _FirstAccumulator:
    """Keeps the first value. An older value replaces it; of several older values, the last added counts."""

    __slots__ = ("_function", "_has_value", "value")

    def __init__(self, function: ColumnFunction) -> None:
        self._function = function
        self._has_value = False
        self.value: Any = None

    def add(self, value: Any) -> None:
        if not self._has_value:
            self._has_value = True
            self.value = value

    def add_older(self, value: Any) -> None:
        if self._has_value:
            self.value = value
        self._has_value = True

    def retract(self, value: Any) -> None:
        self._function.refuse_retract()


class _FirstNonNullAccumulator:
    """Keeps the first non-null value. An older value replaces it, even NULL."""

    __slots__ = ("_function", "_has_value", "value")

    def __init__(self, function: ColumnFunction) -> None:
        self._function = function
        self._has_value = False
        self.value: Any = None

    def add(self, value: Any) -> None:
        if not self._has_value and value is not None:
            self._has_value = True
            self.value = value

    def add_older(self, value: Any) -> None:
        if self._has_value or self.value is None:
            self.value = value
        else:
            self._has_value = True

    def retract(self, value: Any) -> None:
        self._function.refuse_retract()


def _newer(accumulated: Any, value: Any) -> Any:
    return value


def _none(accumulated: Any, value: Any) -> Any:
    return None


def _newer_non_null(accumulated: Any, value: Any) -> Any:
    return accumulated if value is None else value


def _cleared(accumulated: Any, value: Any) -> Any:
    return accumulated if value is None else None
