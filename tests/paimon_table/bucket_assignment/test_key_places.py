"""Sorted hashes are found whatever their number, with a sample of them and without."""

from __future__ import annotations

import numpy as np
import pytest

from paimon_table.bucket_assignment.key_places import UNKNOWN, place_of, sample_of

LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1


@pytest.mark.parametrize("count", [1, 2, 255, 256, 257, 511, 512, 513, 5_000])
@pytest.mark.parametrize("seed", range(5))
def test_with_and_without_a_sample_the_same_is_found(count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    spread = random.choice([count // 4 + 1, count * 4, HIGHEST])  # many of them twice, few, hardly any
    held = np.sort(random.integers(-spread, spread, count)).astype(np.int32)
    held[-1] = HIGHEST
    buckets = random.integers(0, 100, count).astype(np.int16)
    asked = np.sort(np.r_[held, held + 1, random.integers(-spread, spread, 50), LOWEST, HIGHEST]).astype(np.int32)

    found = place_of(asked, held, buckets, sample_of(held))

    first = {int(h): int(b) for h, b in zip(held[::-1], buckets[::-1], strict=True)}
    assert found.tolist() == [first.get(int(h), UNKNOWN) for h in asked]
    assert found.tolist() == place_of(asked, held, buckets).tolist()


def test_nothing_is_found_among_none() -> None:
    none = np.empty(0, np.int32)

    assert place_of(np.array([1], np.int32), none, np.empty(0, np.int16), sample_of(none)).tolist() == [UNKNOWN]
