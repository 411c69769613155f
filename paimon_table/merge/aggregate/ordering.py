"""The order of values as Python compares them: unsigned bytes of text, NaN largest, -0.0 below 0.0."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from paimon_table.types import CHARACTERS, Root


def order_key(root: Root) -> Callable[[Any], Any] | None:
    """A function that maps non-null values of the type to sort keys; None if the values themselves sort correctly."""
    if root in CHARACTERS:
        return str.encode
    if root in {Root.FLOAT, Root.DOUBLE}:
        return _float_key
    return None


@dataclass(frozen=True, slots=True)
class NullsFirst:
    """Maps values to sort keys, with NULL as the smallest."""

    root: Root

    def __call__(self, value: Any) -> tuple[bool, Any]:
        if value is None:
            return (False, 0)
        key = order_key(self.root)
        return (True, value if key is None else key(value))


def _float_key(value: float) -> tuple[bool, float, float]:
    if math.isnan(value):
        return (True, 0.0, 0.0)
    return (False, value, math.copysign(1.0, value))
