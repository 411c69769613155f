"""Shared parts of the aggregate functions: their column, and the fold of simple functions.

A simple function is two pure functions of (accumulated value, value of the record).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Self

import pyarrow as pa

from paimon_table.errors import ConfigError, MalformedRecord
from paimon_table.merge.aggregate.function import Accumulator, Mask
from paimon_table.options.field_options import FieldOptions, naming_option
from paimon_table.rows import python_values
from paimon_table.rows.numeric import NUMERIC
from paimon_table.rows.words import Indices
from paimon_table.types import DataField, DataType, Root, arrow_type, string

Step = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class ColumnFunction:
    """One function bound to one column; see ``AggregateFunction``."""

    column: str
    type: DataType

    name: ClassVar[str]
    """Its name in the options."""
    is_commutative: ClassVar[bool] = False
    can_retract: ClassVar[bool] = True
    """False in functions that call ``refuse_retract``."""
    accumulates: ClassVar[bool] = False
    """Whether a repeated stored value would count again, as in sums and lists."""
    settings: ClassVar[tuple[str, ...]] = ()
    """The options of the column that the function uses."""

    @classmethod
    def sample_type(cls, options: FieldOptions) -> DataType:
        """A type that the function accepts with these options of the column."""
        return string()

    @classmethod
    def bound(cls, field: DataField, options: FieldOptions) -> Self:
        """The function for a column. Raises ConfigError if it does not take the column's type, or these options."""
        return cls(field.name, field.type)

    @classmethod
    def check(cls, fits: bool, field: DataField, options: FieldOptions, wanted: str) -> None:
        """Raise ConfigError unless the type of the column ``fits``; ``wanted`` are the types that do."""
        if not fits:
            raise ConfigError(
                f"column {field.name!r}: aggregate function {cls.name!r} takes {wanted}, not {field.type}; change the "
                f"column's type or fields.{field.name}.aggregate-function",
                option=naming_option(field.name, options),
                column=field.name,
            )

    @property
    def keeps_single(self) -> bool:
        """Whether a single added value is always the result."""
        return True

    def accumulator(self) -> Accumulator:
        raise NotImplementedError

    def reduce(self, values: pa.Array, starts: Indices, is_retract: Mask | None) -> pa.Array | None:
        return None

    def to_python(self, values: pa.Array) -> list[Any]:
        return python_values.to_python(values)

    def to_arrow(self, values: list[Any]) -> pa.Array:
        return python_values.to_arrow(values, arrow_type(self.type))

    def refuse_retract(self) -> NoReturn:
        """Raise an error: this function cannot retract values."""
        raise MalformedRecord(
            f"column {self.column!r}: aggregate function {self.name!r} does not support retraction (-U and -D rows); "
            f"set fields.{self.column}.ignore-retract=true to let it ignore them"
        )

    def refuse_retracts(self, is_retract: Mask | None) -> None:
        """Raise this error if any value is to be retracted."""
        if is_retract is not None and is_retract.any():
            self.refuse_retract()


@dataclass(frozen=True, slots=True)
class NumberFunction(ColumnFunction):
    """A function of numbers, in whatever order."""

    is_commutative: ClassVar[bool] = True
    accumulates: ClassVar[bool] = True

    @classmethod
    def sample_type(cls, options: FieldOptions) -> DataType:
        return DataType(Root.INT)

    @classmethod
    def bound(cls, field: DataField, options: FieldOptions) -> Self:
        cls.check(field.type.root in NUMERIC, field, options, "a numeric type")
        return cls(field.name, field.type)


class SimpleAccumulator:
    """Folds with pure functions; for an older value, the accumulated value is the newer argument."""

    __slots__ = ("_add", "_retract", "value")

    def __init__(self, add: Step, retract: Step) -> None:
        self._add = add
        self._retract = retract
        self.value: Any = None

    def add(self, value: Any) -> None:
        self.value = self._add(self.value, value)

    def add_older(self, value: Any) -> None:
        self.value = self._add(value, self.value)

    def retract(self, value: Any) -> None:
        self.value = self._retract(self.value, value)


def skipping_nulls(step: Step) -> Step:
    """The step on two values; if one is NULL, the other is the result."""

    def stepped(accumulated: Any, value: Any) -> Any:
        if accumulated is None:
            return value
        return accumulated if value is None else step(accumulated, value)

    return stepped
