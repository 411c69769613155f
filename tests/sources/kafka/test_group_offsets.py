"""Offsets of a consumer group: told once, told again after a failure, and never in the way."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from paimon_table.errors import ConfigError
from sources.kafka.group_offsets import GroupOffsets
from sources.positions import Place

ORDERS, ITEMS = ("shop.orders", 0), ("shop.items", 0)


class Kafka:
    """Keeps offsets; refuses while it is told to."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Mapping[Place, int]]] = []
        self.refusal = ""

    def commit(self, group_id: str, offsets: Mapping[Place, int]) -> None:
        if self.refusal:
            raise ConfigError(self.refusal)
        self.told.append((group_id, dict(offsets)))


def test_only_what_is_new_is_told() -> None:
    kafka, at = Kafka(), {ORDERS: 5, ITEMS: 1}
    group = GroupOffsets("shop", "lake", lambda: at)
    group.tell(kafka.commit)
    group.tell(kafka.commit)
    at[ORDERS] = 9
    assert group.is_due
    group.tell(kafka.commit)
    assert kafka.told == [("lake", {ORDERS: 5, ITEMS: 1}), ("lake", {ORDERS: 9})]
    assert not group.is_due


def test_a_refusal_is_told_once_and_what_it_kept_back_comes_later(caplog: pytest.LogCaptureFixture) -> None:
    kafka = Kafka()
    group = GroupOffsets("shop", "lake", lambda: {ORDERS: 5})
    kafka.refusal = "other consumers are members of the group"
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            group.tell(kafka.commit)
        kafka.refusal = ""
        group.tell(kafka.commit)
    assert [record.getMessage() for record in caplog.records] == [
        "shop: offsets of group lake are not committed: other consumers are members of the group",
        "shop: offsets of group lake are committed again",
    ]
    assert (group.failure_count, kafka.told) == (3, [("lake", {ORDERS: 5})])
