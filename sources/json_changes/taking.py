"""Taking entries of an array."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def taken(values: pa.Array, indices: npt.NDArray[np.int64]) -> pa.Array:
    """The entries at these indices; if they are all entries in order, the array itself, not a copy."""
    if len(indices) == len(values) and (np.diff(indices) == 1).all():
        return values
    return values.take(pa.array(indices))
