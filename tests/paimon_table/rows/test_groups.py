"""Rows by their numbers, and numbers without their repetitions."""

from __future__ import annotations

import numpy as np
import pytest

from paimon_table.rows.groups import first_of_each, groups_of

LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1


@pytest.mark.parametrize(
    ("numbers", "dtype"),
    [
        ([3, -1, 3, 0, -1], np.int16),
        ([3, -1, 3, 0, -1], np.int64),
        ([32_767, -32_768, 32_767, 0], np.int32),
        ([32_768, -32_768, 0, 32_768], np.int32),
        ([32_767, -32_769, 0, -32_769], np.int32),
        ([65_536, 0, 65_536, 1], np.int64),
        ([1 << 31, 2, 0, 1 << 31], np.uint32),
        ([HIGHEST, LOWEST, 0, HIGHEST], np.int32),
        ([65_535, 1, 65_535], np.uint16),
        ([], np.int32),
    ],
)
def test_groups_come_in_the_order_of_their_numbers(numbers: list[int], dtype: type[np.integer]) -> None:
    found = [(number, places.tolist()) for number, places in groups_of(np.array(numbers, dtype))]

    assert found == [(n, [at for at, each in enumerate(numbers) if each == n]) for n in sorted(set(numbers))]


@pytest.mark.parametrize("dtype", [np.int16, np.uint32, np.int64])
def test_rows_stay_in_order_within_their_group(dtype: type[np.integer]) -> None:
    numbers = np.random.default_rng(3).integers(0, 4, 5_000).astype(dtype)

    found = {number: places.tolist() for number, places in groups_of(numbers)}

    assert found == {number: np.flatnonzero(numbers == number).tolist() for number in range(4)}


@pytest.mark.parametrize("span", [1, 50, HIGHEST])
@pytest.mark.parametrize("count", [0, 1, 2, 1_000])
def test_the_first_of_each_number_is_told(span: int, count: int) -> None:
    random = np.random.default_rng(count)
    numbers = random.integers(-span, span, count).astype(np.int32)
    numbers[: count // 3] = random.choice(np.array([LOWEST, -1, 0, HIGHEST], np.int32), count // 3)

    each, first, which = first_of_each(numbers)

    expected = np.unique(numbers, return_index=True, return_inverse=True)
    assert [found.tolist() for found in (each, first, which)] == [found.tolist() for found in expected]
    assert each.dtype == np.int32
