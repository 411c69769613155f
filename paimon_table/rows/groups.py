"""Rows grouped by a number that each row has, and distinct numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt


def groups_of(numbers: npt.NDArray[np.integer]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """(number, positions in order) for each number that occurs."""
    if len(numbers) == 0:
        return
    order = np.argsort(_narrow(numbers), kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    for start, end in zip(starts, np.r_[starts[1:], len(ordered)], strict=True):
        yield int(ordered[start]), order[start:end]


def first_of_each(
    numbers: npt.NDArray[np.int32],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The numbers in order, each once; the first position of each; which of them is at each position.

    As ``np.unique``, which sorts positions and takes five times as long.
    """
    packed = numbers.astype(np.int64) << 32 | np.arange(len(numbers))
    packed.sort()
    ordered, positions = (packed >> 32).astype(np.int32), packed & 0xFFFF_FFFF
    is_first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    which = np.empty(len(ordered), np.int64)
    which[positions] = np.cumsum(is_first) - 1
    return ordered[is_first], positions[is_first], which


def _narrow(numbers: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
    """The numbers in 16 bits if they fit: NumPy sorts these by radix, several times as fast as wider ones."""
    limits = np.iinfo(np.int16)
    if numbers.itemsize > 2 and numbers.min() >= limits.min and numbers.max() <= limits.max:
        return numbers.astype(np.int16)
    return numbers
