"""Values that the source did not send, in events that cannot omit them: a placeholder replaces them."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Mask = npt.NDArray[np.bool_]


class Gaps(Protocol):
    """Distinguishes such values from real ones. A NULL is real."""

    def is_in(self, value: Any) -> bool:
        """Whether a JSON value stands for one that was not sent."""
        ...

    def mask(self, column: pa.Array | list[Any]) -> Mask | None:
        """Which entries of a column of row images were not sent; None if all were."""
        ...


class NoGaps:
    """For formats that send every value."""

    def is_in(self, value: Any) -> bool:
        return False

    def mask(self, column: pa.Array | list[Any]) -> Mask | None:
        return None
