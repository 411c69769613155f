"""Rows by a number that each of them has."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt


def groups_of(numbers: npt.NDArray[np.integer]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """(number, positions in order) for each number that occurs."""
    if len(numbers) == 0:
        return
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    for start, end in zip(starts, np.r_[starts[1:], len(ordered)], strict=True):
        yield int(ordered[start]), order[start:end]
