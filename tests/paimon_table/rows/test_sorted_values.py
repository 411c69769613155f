"""Hashes are found among sorted ones whatever their number and wherever they lie, as ``searchsorted`` finds them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from paimon_table.metadata.hash_index import KeyHashes
from paimon_table.rows.sorted_values import SortedValues

LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1
TWICE = np.array([LOWEST, LOWEST, HIGHEST, HIGHEST])
SPREADS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "evenly": lambda random, count: random.integers(LOWEST, HIGHEST + 1, count),
    "none below zero": lambda random, count: random.integers(0, HIGHEST + 1, count),
    "all below zero": lambda random, count: random.integers(LOWEST, 0, count),
    "many of them twice": lambda random, count: random.integers(-count // 8, count // 8 + 1, count),
    "anyway": lambda random, count: np.full(count, -7),
    "around zero and at the ends": lambda random, count: np.r_[TWICE, random.normal(0, 500, count)].astype(np.int64),
}


def drawn(spread: str, count: int) -> KeyHashes:
    return np.sort(SPREADS[spread](np.random.default_rng(count), count)).astype(np.int32)


def asked_of(held: KeyHashes) -> KeyHashes:
    """Those held, their neighbours, some others, and both ends; in any order."""
    near = np.concatenate([held, held + np.int32(1), held - np.int32(1)])
    others = np.random.default_rng(9).integers(LOWEST, HIGHEST + 1, 500).astype(np.int32)
    asked = np.concatenate([near, others, np.array([LOWEST, LOWEST + 1, -1, 0, 1, HIGHEST - 1, HIGHEST], np.int32)])
    return np.random.default_rng(8).permutation(asked)


def assert_found(held: SortedValues) -> None:
    asked = asked_of(held.values)
    assert np.array_equal(held.first_not_below(asked), np.searchsorted(held.values, asked))
    assert np.array_equal(held.first_not_below(np.sort(asked)), np.searchsorted(held.values, np.sort(asked)))


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("count", [0, 1, 2, 63, 64, 4_095, 4_096, 4_097, 8_191, 8_192, 50_000])
def test_as_many_are_below_as_searchsorted_counts(spread: str, count: int) -> None:
    assert_found(SortedValues(drawn(spread, count)))


def test_nobody_asks() -> None:
    assert SortedValues(drawn("evenly", 10_000)).first_not_below(np.empty(0, np.int32)).tolist() == []


def test_a_single_hash_is_asked_for() -> None:
    held = SortedValues(drawn("evenly", 10_000))

    assert held.first_not_below(held.values[-1:]).tolist() == [9_999]
    assert held.first_not_below(np.array([HIGHEST], np.int32)).tolist() == [10_000]


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("count", [0, 100, 4_000, 8_000, 16_000])
def test_added_hashes_are_found_with_the_others(spread: str, count: int) -> None:
    held = SortedValues(drawn("evenly", count))
    every = held.values
    for added in (drawn(spread, 50), np.array([LOWEST, HIGHEST], np.int32), drawn(spread, 700), every[:0]):
        held.first_not_below(every[:1])

        held = held.with_added(added)

        every = np.sort(np.concatenate([every, added]))
        assert np.array_equal(held.values, every)
        assert_found(held)


def test_those_that_were_there_stay_as_they_were() -> None:
    held = SortedValues(drawn("evenly", 10_000))
    assert_found(held)

    held.with_added(drawn("all below zero", 500))

    assert_found(held)
    assert len(held) == 10_000
