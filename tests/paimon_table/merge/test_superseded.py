"""Which versions of a key a lookup table merges."""

import numpy as np
import pytest

from paimon_table.merge.sort import KeyGroups
from paimon_table.merge.superseded import without_superseded


@pytest.mark.parametrize(
    ("levels", "kept"),
    [
        ([[0]], [[0]]),
        ([[0, 0, 0]], [[0, 0, 0]]),
        ([[5]], [[5]]),
        ([[5, 4]], [[4]]),
        ([[4, 5, 3]], [[3]]),
        ([[5, 0, 4, 0]], [[0, 4, 0]]),
        ([[5, 4], [0], [5, 0], [4, 3, 5]], [[4], [0], [5, 0], [3]]),
        ([], []),
    ],
)
def test_the_lowest_upper_level_replaces_the_higher_ones(levels: list[list[int]], kept: list[list[int]]) -> None:
    flat = np.array([level for key in levels for level in key], np.int64)
    starts = np.cumsum([0, *map(len, levels)])[:-1]
    backwards = np.arange(len(flat))[::-1]

    groups = without_superseded(KeyGroups(backwards, starts), flat[::-1])

    counted = np.split(flat[::-1][groups.indices], groups.starts[1:]) if len(flat) else []
    assert [key.tolist() for key in counted] == kept
