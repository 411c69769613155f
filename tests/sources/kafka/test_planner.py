"""What the planner of direct reading answers Spark, with the offsets of a scripted Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from paimon_table.errors import Outage
from sources.kafka.lost_records import RecordsLost, TopicsChanged
from sources.kafka.offset_ranges import OffsetRange, from_bytes, text_of
from sources.kafka.planner import TOPICS_S, KafkaPlanner
from sources.loss import Loss
from sources.positions import Bounds, Place

A, B = ("t", 0), ("t", 1)


class Kafka:
    """Stands for the brokers."""

    def __init__(self, held: Mapping[Place, Bounds]) -> None:
        self.held = dict(held)
        self.is_away = False
        self.now_s = 0.0
        self.told: list[Loss] = []
        self.is_closed = False
        self.most = 1000

    def places(self) -> frozenset[Place]:
        self._look()
        return frozenset(self.held)

    def ends_of(self, places: Sequence[Place]) -> Mapping[Place, int]:
        self._look()
        return {place: self.held[place].readable_end for place in places}

    def begins(self, places: Sequence[Place]) -> Mapping[Place, int]:
        self._look()
        return {place: self.held[place].begin for place in places}

    def bounds_of(self, places: Sequence[Place]) -> Mapping[Place, Bounds]:
        self._look()
        return {place: self.held[place] for place in places}

    def close(self) -> None:
        self.is_closed = True

    def _look(self) -> None:
        if self.is_away:
            raise Outage("away")

    def planner(self, most: int = 1000, goes_on: bool = False) -> KafkaPlanner:
        tells = self.told.extend if goes_on else None
        self.most = most
        return KafkaPlanner(self, lambda: {A: 3}, lambda: self.most, 2, 60.0, tells, lambda: self.now_s)


def test_batches_follow_each_other_to_the_end_and_nothing_more_is_the_same_text() -> None:
    kafka = Kafka({A: Bounds(3, 13, 13)})
    planner = kafka.planner(most=6)
    start = planner.initial_offset()
    assert start == text_of({A: 3})
    ends, cuts = [], []
    for _ in range(3):
        start = planner.latest_offset(start)
        ends.append(start)
        cuts.append(planner.is_cut)
    assert cuts[:2] == [True, False]
    assert ends == [text_of({A: 9}), text_of({A: 13}), text_of({A: 13})]
    spaced = '{"t": {"0": 13}}'
    assert planner.latest_offset(spaced) == spaced, "another text would be a batch without records"


def test_a_new_partition_is_read_from_its_first_record() -> None:
    kafka = Kafka({A: Bounds(0, 5, 5)})
    planner = kafka.planner()
    end = planner.latest_offset(text_of({A: 5}))
    kafka.held[B] = Bounds(0, 4, 4)
    assert planner.latest_offset(end) == end, "the list of topics counts for a moment"
    kafka.now_s += TOPICS_S
    new_end = planner.latest_offset(end)
    assert new_end == text_of({A: 5, B: 4})
    assert [from_bytes(share) for share in planner.shares(end, new_end)] == [[OffsetRange(B, 0, 4)]]


def test_a_new_partition_that_has_lost_its_first_records_is_refused_or_told() -> None:
    kafka = Kafka({A: Bounds(0, 5, 5), B: Bounds(2, 4, 4)})
    with pytest.raises(RecordsLost, match="topic t partition 1: offsets 0 to 1 are gone"):
        kafka.planner().shares(text_of({A: 5}), text_of({A: 5, B: 4}))
    shares = kafka.planner(goes_on=True).shares(text_of({A: 5}), text_of({A: 5, B: 4}))
    assert [from_bytes(share) for share in shares] == [[OffsetRange(B, 2, 4)]]
    assert [(loss.place, loss.begin, loss.end) for loss in kafka.told] == [(B, 0, 2)]


def test_an_outage_is_waited_for_and_ends_the_query_only_after_patience() -> None:
    kafka = Kafka({A: Bounds(0, 5, 5)})
    planner, start = kafka.planner(), text_of({A: 1})
    kafka.is_away = True
    assert planner.latest_offset(start) == start
    kafka.now_s = 59.0
    assert planner.latest_offset(start) == start
    kafka.is_away = False
    assert planner.latest_offset(start) == text_of({A: 5})
    kafka.is_away, kafka.now_s = True, 100.0
    assert planner.latest_offset(start) == start
    kafka.now_s = 160.0
    with pytest.raises(Outage):
        planner.latest_offset(start)


def test_a_held_end_stays_whatever_comes() -> None:
    kafka = Kafka({A: Bounds(0, 5, 5)})
    planner = kafka.planner()
    planner.hold_end()
    kafka.held[A] = Bounds(0, 9, 9)
    kafka.is_away = True
    assert planner.latest_offset(text_of({A: 0})) == text_of({A: 5})


def test_a_partition_that_ends_before_what_was_read_is_lost_unless_a_transaction_is_open() -> None:
    kafka = Kafka({A: Bounds(0, 4, 4)})
    start = text_of({A: 7})
    with pytest.raises(RecordsLost, match="topic t partition 0: offsets from 7 on are gone"):
        kafka.planner().latest_offset(start)
    with pytest.raises(TopicsChanged, match="the query restarts"):
        kafka.planner(goes_on=True).latest_offset(start)
    kafka.held[A] = Bounds(0, 4, 9)
    assert kafka.planner().latest_offset(start) == start


def test_a_topic_that_is_gone_is_refused_or_left_out() -> None:
    kafka = Kafka({A: Bounds(0, 5, 5)})
    start = text_of({A: 5, ("gone", 0): 8})
    with pytest.raises(RecordsLost, match="topic gone partition 0"):
        kafka.planner().latest_offset(start)
    assert kafka.planner(goes_on=True).latest_offset(start) == text_of({A: 5})


def test_a_query_that_ends_leaves_no_connection_to_kafka() -> None:
    """Of a long run with many transient failures, each of which starts a query."""
    kafka = Kafka({A: Bounds(0, 5, 5)})
    planner = kafka.planner()
    planner.latest_offset(text_of({A: 5}))
    planner.stop()
    assert kafka.is_closed


def test_topics_that_wait_for_their_turn_come_first_in_the_next_batch() -> None:
    topics = {(f"t{n:02}", 0): Bounds(0, 52, 52) for n in range(16)}
    early, late = (dict.fromkeys((p for p in topics if (p[0] < "t08") is is_early), 50) for is_early in (True, False))
    kafka = Kafka(topics)
    planner = kafka.planner(most=32)
    each = planner.latest_offset(text_of(dict.fromkeys(topics, 0)))
    assert each == text_of(dict.fromkeys(topics, 2)), "every topic has a first turn"
    kafka.most = 384
    half = planner.latest_offset(each)
    assert half == text_of(dict.fromkeys(topics, 2) | early) and planner.is_cut
    assert planner.latest_offset(half) == text_of(early | late) and planner.is_cut
    assert planner.latest_offset(text_of(early | late)) == text_of(dict.fromkeys(topics, 52)) and not planner.is_cut
