"""The buckets of hashes, of many of them at once."""

from __future__ import annotations

import numpy as np
import pytest

from paimon_table.bucket_assignment.key_places import UNKNOWN, place_of
from paimon_table.rows.sorted_values import SortedValues

LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1


@pytest.mark.parametrize("count", [1, 2, 5_000, 20_000])
@pytest.mark.parametrize("seed", range(5))
def test_of_a_hash_that_is_there_twice_the_first_bucket_counts(count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    spread = random.choice([count // 4 + 1, count * 4, HIGHEST])  # many of them twice, few, hardly any
    held = np.sort(random.integers(-spread, spread, count)).astype(np.int32)
    held[-1] = HIGHEST
    buckets = random.integers(0, 100, count).astype(np.int16)
    asked = np.sort(np.r_[held, held + 1, random.integers(-spread, spread, 50), LOWEST, HIGHEST]).astype(np.int32)

    found = place_of(asked, SortedValues(held), buckets)

    first = {int(h): int(b) for h, b in zip(held[::-1], buckets[::-1], strict=True)}
    assert found.tolist() == [first.get(int(h), UNKNOWN) for h in asked]


def test_one_bucket_may_stand_for_all() -> None:
    held = SortedValues(np.array([LOWEST, -1, HIGHEST], np.int32))

    found = place_of(np.array([LOWEST, -1, 0, HIGHEST], np.int32), held, np.array([7], np.int16))

    assert found.tolist() == [7, 7, UNKNOWN, 7]


def test_nothing_is_found_among_none() -> None:
    none = SortedValues(np.empty(0, np.int32))

    assert place_of(np.array([1], np.int32), none, np.empty(0, np.int16)).tolist() == [UNKNOWN]
