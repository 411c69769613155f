"""Buckets spread evenly over write tasks, by the very hash that Spark's partitioner uses."""

from __future__ import annotations

from collections import Counter

import pytest

from paimon_table.bucket_assignment.lanes import Lane
from sinks.exchange.slots import slot_keys, slot_of, spark_hash_int


@pytest.mark.parametrize(("value", "expected"), [(0, 933211791), (1, -559580957), (2, 1765031574), (-1, -1604776387)])
def test_the_hash_is_that_of_spark_sql(value: int, expected: int) -> None:
    assert spark_hash_int(value) == expected


@pytest.mark.parametrize("slots", [1, 2, 3, 8, 200])
def test_every_slot_has_a_key_that_spark_sends_to_it(slots: int) -> None:
    assert [spark_hash_int(key) % slots for key in slot_keys(slots)] == list(range(slots))


def test_buckets_of_a_table_are_spread_evenly() -> None:
    owners = Counter(slot_of(3, Lane(bytes(12), number), 4) for number in range(16))

    assert set(owners.values()) == {4}
