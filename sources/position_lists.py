"""Lists of column positions, as some columns of change rows have them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def position_lists(masks: Mapping[int, npt.NDArray[np.bool_]], count: int) -> pa.Array:
    """Per row the positions of the columns whose mask marks it."""
    positions = sorted(masks)
    matrix = np.zeros((count, len(positions)), np.bool_)
    for index, position in enumerate(positions):
        matrix[:, index] = masks[position]
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(matrix.sum(axis=1), out=offsets[1:])
    found = np.array(positions, np.int16)[np.nonzero(matrix)[1]]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(found))
