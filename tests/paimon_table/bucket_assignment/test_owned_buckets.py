"""Golden sequences of Paimon's assigners: which buckets new keys fill."""

from __future__ import annotations

from collections import Counter

import pytest

from paimon_table.bucket_assignment.owned_buckets import FillLimits, OwnedBuckets, assigner_count
from paimon_table.errors import ConfigError
from paimon_table.options.table_options import TableOptions


def test_an_assigner_fills_its_own_buckets_from_the_lowest_on() -> None:
    buckets = OwnedBuckets(FillLimits(2), 2, 0, {})
    assert buckets.fill(3).tolist() == [0, 0, 2]
    assert buckets.fill(4).tolist() == [2, 4, 4, 6]
    assert buckets.key_counts == {0: 2, 2: 2, 4: 2, 6: 1}


def test_room_in_existing_buckets_is_used_first() -> None:
    buckets = OwnedBuckets(FillLimits(3), 2, 1, {1: 3, 5: 1, 7: 2})
    assert buckets.fill(5).tolist() == [5, 5, 7, 3, 3]


def test_past_the_most_buckets_existing_ones_grow_evenly() -> None:
    buckets = OwnedBuckets(FillLimits(2, 3, True), 1, 0, {})
    assert buckets.fill(6).tolist() == [0, 0, 1, 1, 2, 2]
    assert buckets.fill(4).tolist() == [0, 1, 2, 0]
    assert Counter(buckets.fill(5).tolist()) == {1: 2, 2: 2, 0: 1}


def test_a_lowered_limit_leaves_the_buckets_there_are() -> None:
    buckets = OwnedBuckets(FillLimits(2, 1, True), 1, 0, {0: 2, 4: 5})
    assert buckets.fill(1).tolist() == [0]
    assert buckets.key_counts == {0: 3, 4: 5}


def test_without_a_limit_there_are_as_many_buckets_as_numbers() -> None:
    buckets = OwnedBuckets(FillLimits(1), 1, 0, {})
    assert buckets.fill(32_767)[-1] == 32_766
    with pytest.raises(ConfigError, match=r"dynamic-bucket\.target-row-num"):
        buckets.fill(1)


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 4),
        ({"dynamic_bucket_assigners": 3}, 3),
        ({"dynamic_bucket_assigners": 3, "dynamic_bucket_initial_buckets": 2}, 2),
        ({"dynamic_bucket_max_buckets": 3}, 3),
        ({"dynamic_bucket_max_buckets": 1, "dynamic_bucket_initial_buckets": 8}, 1),
    ],
)
def test_assigners_follow_the_options_alone(options: dict[str, int], count: int) -> None:
    assert assigner_count(TableOptions(**options)) == count  # type: ignore[arg-type]
