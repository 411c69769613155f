"""Slices beside a stream take about as long each time, whatever a record and a commit take."""

from __future__ import annotations

import pytest

from pipelines.catchup.slices import FIRST_RECORDS, LEAST_RECORDS, SLICE_S, SlicePace

MOST = 500_000


def sizes(pace: SlicePace, count: int, same_s: float, record_s: float) -> list[int]:
    """So many slices where each takes ``same_s``, and ``record_s`` for each record."""
    done = []
    for _ in range(count):
        done.append(pace.records)
        pace.done(done[-1], same_s + record_s * done[-1])
    return done


@pytest.mark.parametrize("record_s", [1 / 200_000, 1 / 50_000, 1 / 10_000, 1 / 2_000])
@pytest.mark.parametrize("same_s", [0.0, 0.3, 0.9])
def test_slices_come_to_take_as_long_as_they_may(record_s: float, same_s: float) -> None:
    done = sizes(SlicePace(MOST), 12, same_s, record_s)
    assert same_s + record_s * done[-1] == pytest.approx(SLICE_S, rel=0.15)
    assert max(same_s + record_s * size for size in done[1:]) < 1.5 * SLICE_S


def test_the_first_slice_is_small_and_none_is_four_times_as_large_as_the_one_before() -> None:
    done = sizes(SlicePace(MOST), 6, 0.0, 1e-7)
    assert done == [FIRST_RECORDS, 40_000, 160_000, MOST, MOST, MOST]


def test_what_each_slice_takes_alike_is_no_more_than_half_of_it() -> None:
    """Small slices would not be shorter, only more."""
    done = sizes(SlicePace(MOST), 12, 3.0, 1 / 20_000)
    assert done[-1] == pytest.approx(60_000, rel=0.15)


def test_no_slice_is_so_small_that_the_work_never_ends() -> None:
    assert sizes(SlicePace(MOST), 5, 0.0, 1.0)[-1] == LEAST_RECORDS
    assert sizes(SlicePace(300), 5, 0.0, 1.0) == [300] * 5


def test_one_slow_slice_is_forgotten() -> None:
    pace = SlicePace(MOST)
    usual = sizes(pace, 10, 0.2, 1 / 20_000)[-1]
    pace.done(usual, 30.0)  # a compaction
    assert sizes(pace, 8, 0.2, 1 / 20_000)[-1] == pytest.approx(usual, rel=0.15)


def test_the_last_slice_of_what_there_is_says_nothing_of_the_next() -> None:
    pace = SlicePace(MOST)
    usual = sizes(pace, 10, 0.2, 1 / 20_000)[-1]
    before = pace.records
    pace.done(12, 0.2)
    assert pace.records == before == pytest.approx(usual, rel=0.1)


def test_where_no_stream_waits_slices_are_as_large_as_batches() -> None:
    assert sizes(SlicePace(MOST, None), 3, 5.0, 1.0) == [MOST] * 3
