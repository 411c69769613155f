"""Batches and slices take about as long each time, whatever a record and a commit take; batches begin when due."""

from __future__ import annotations

from typing import Any

import pytest

from sources.pace import FIRST_RECORDS, LEAST_RECORDS, Cadence, Pace

MOST = 500_000
TARGET_S = 2.0


def sizes(pace: Pace, count: int, same_s: float, record_s: float) -> list[int]:
    """So many slices where each takes ``same_s``, and ``record_s`` for each record."""
    done = []
    for _ in range(count):
        done.append(pace.records)
        pace.done(done[-1], same_s + record_s * done[-1])
    return done


@pytest.mark.parametrize("record_s", [1 / 200_000, 1 / 50_000, 1 / 10_000, 1 / 2_000])
@pytest.mark.parametrize("same_s", [0.0, 0.3, 0.9])
def test_slices_come_to_take_as_long_as_they_may(record_s: float, same_s: float) -> None:
    done = sizes(Pace(MOST, TARGET_S), 12, same_s, record_s)
    assert same_s + record_s * done[-1] == pytest.approx(TARGET_S, rel=0.15)
    assert max(same_s + record_s * size for size in done[1:]) < 1.5 * TARGET_S


def test_the_first_slice_is_small_and_none_is_four_times_as_large_as_the_one_before() -> None:
    done = sizes(Pace(MOST, TARGET_S), 6, 0.0, 1e-7)
    assert done == [FIRST_RECORDS, 40_000, 160_000, MOST, MOST, MOST]


def test_what_each_slice_takes_alike_is_no_more_than_half_of_it() -> None:
    """Small slices would not be shorter, only more."""
    done = sizes(Pace(MOST, TARGET_S), 12, 3.0, 1 / 20_000)
    assert done[-1] == pytest.approx(60_000, rel=0.15)


def test_no_slice_is_so_small_that_the_work_never_ends() -> None:
    assert sizes(Pace(MOST, TARGET_S), 5, 0.0, 1.0)[-1] == LEAST_RECORDS
    assert sizes(Pace(300, TARGET_S), 5, 0.0, 1.0) == [300] * 5


def test_one_slow_slice_is_forgotten() -> None:
    pace = Pace(MOST, TARGET_S)
    usual = sizes(pace, 10, 0.2, 1 / 20_000)[-1]
    pace.done(usual, 30.0)  # a compaction
    assert sizes(pace, 8, 0.2, 1 / 20_000)[-1] == pytest.approx(usual, rel=0.15)


def test_the_last_slice_of_what_there_is_says_nothing_of_the_next() -> None:
    pace = Pace(MOST, TARGET_S)
    usual = sizes(pace, 10, 0.2, 1 / 20_000)[-1]
    before = pace.records
    pace.done(12, 0.2)
    assert pace.records == before == pytest.approx(usual, rel=0.1)


def test_where_no_stream_waits_slices_are_as_large_as_batches() -> None:
    assert sizes(Pace(MOST, None), 3, 5.0, 1.0) == [MOST] * 3


class Topic:
    """Stands for a planner: so many records come at once, and a batch takes ten."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.waited_s: list[float] = []
        self.end = 0
        self.is_cut = False
        self.looks = 0

    def latest_offset(self, start: str) -> str:
        self.looks += 1
        end = min(self.end, int(start) + 10)
        self.is_cut = end < self.end
        return str(end)

    def sleep(self, seconds: float) -> None:
        self.waited_s.append(seconds)
        self.now_s += seconds


@pytest.mark.parametrize("interval_s", [0.0, 0.1, 60.0])
def test_batches_begin_an_interval_apart_but_at_once_while_records_are_left(interval_s: float) -> None:
    topic = Topic()
    cadence = Cadence(interval_s, lambda: topic.now_s, topic.sleep)
    began: list[Any] = []
    topic.end, at = 35, "0"
    while len(began) < 6:
        end = cadence.latest_offset(topic, at)
        if end != at:
            began.append((round(topic.now_s - 100, 3), end))
            topic.end += 3 if end == str(topic.end) else 0
            at = end
    times = [0.0, 0.0, 0.0, 0.0, interval_s, 2 * interval_s]
    assert began == [
        (pytest.approx(t, abs=0.001), end) for t, end in zip(times, ["10", "20", "30", "35", "38", "41"], strict=True)
    ]
    assert all(wait_s <= 0.25 for wait_s in topic.waited_s), "a question that waits cannot be interrupted"


def test_an_idle_source_is_looked_at_now_and_then_and_read_as_soon_as_it_has_records() -> None:
    topic = Topic()
    cadence = Cadence(60.0, lambda: topic.now_s, topic.sleep)
    while topic.now_s < 160.0:
        assert cadence.latest_offset(topic, "0") == "0"
    assert topic.looks == pytest.approx(10, abs=2)
    topic.end = 1
    while cadence.latest_offset(topic, "0") == "0":
        assert topic.now_s < 167.0
