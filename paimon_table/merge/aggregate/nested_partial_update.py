"""nested_partial_update: an array of rows as a small table, where per nested key NULL fields leave the older value."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

from paimon_table.merge.aggregate.column_function import ColumnFunction, SimpleAccumulator
from paimon_table.merge.aggregate.function import Accumulator
from paimon_table.merge.aggregate.nested_rows import NestedRows, present, sample_rows
from paimon_table.options.field_options import FieldOptions
from paimon_table.options.names import NESTED_KEY, NESTED_KEY_NULL_STRATEGY
from paimon_table.types import DataType


@dataclass(frozen=True, slots=True)
class NestedPartialUpdate(ColumnFunction):
    """Cannot retract."""

    rows: NestedRows

    can_retract: ClassVar[bool] = False
    settings: ClassVar[tuple[str, ...]] = (NESTED_KEY, NESTED_KEY_NULL_STRATEGY)

    @classmethod
    def sample_type(cls, options: FieldOptions) -> DataType:
        return sample_rows(options)

    @property
    def name(self) -> str:
        return "nested_partial_update"

    @property
    def keeps_single(self) -> bool:
        return False

    def accumulator(self) -> Accumulator:
        return SimpleAccumulator(self._updated, self._retract)

    def _updated(self, accumulated: Any, value: Any) -> Any:
        if value is None:
            return accumulated
        by_key: dict[Hashable, tuple[Any, ...]] = {}
        for row in (*present(accumulated or ()), *present(value)):
            key = self.rows.key_of(row)
            if key is not None:
                before = by_key.get(key)
                by_key[key] = row if before is None else _overlaid(before, row)
        return tuple(by_key.values())

    def _retract(self, accumulated: Any, value: Any) -> Any:
        self.refuse_retract()


def _overlaid(before: tuple[Any, ...], row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(old if new is None else new for old, new in zip(before, row, strict=True))
