"""Lag of partitions from what was read and where they end, at times that the tests choose."""

from __future__ import annotations

from sources.lag import Lag, PlaceLag

ORDERS = ("shop.orders", 0)


def only(lag: Lag, now_s: float) -> PlaceLag:
    (place,) = lag.places(now_s)
    return place


def test_nothing_is_said_of_a_partition_before_its_end_is_seen() -> None:
    lag = Lag()
    lag.read_to({ORDERS: 7}, {ORDERS: 90.0})
    assert only(lag, 100.0) == PlaceLag("shop.orders", 0, 7, None, None, None)


def test_nothing_is_said_before_anything_is_read() -> None:
    lag = Lag()
    lag.ends_at({ORDERS: 7}, 100.0)
    assert only(lag, 100.0) == PlaceLag("shop.orders", 0, None, 7, None, None)


def test_a_partition_that_is_read_whole_is_not_late_however_old_its_records_are() -> None:
    lag = Lag()
    lag.read_to({ORDERS: 7}, {ORDERS: 90.0})
    lag.ends_at({ORDERS: 7}, 5000.0)
    assert only(lag, 9000.0) == PlaceLag("shop.orders", 0, 7, 7, 0, 0.0)


def test_the_lag_is_no_longer_than_since_the_newest_record_that_was_read() -> None:
    lag = Lag()
    lag.read_to({ORDERS: 7}, {ORDERS: 90.0})
    lag.ends_at({ORDERS: 10}, 100.0)
    assert only(lag, 130.0) == PlaceLag("shop.orders", 0, 7, 10, 3, 40.0)


def test_a_record_after_a_quiet_time_is_late_since_the_last_look_that_did_not_see_it() -> None:
    lag = Lag()
    lag.read_to({ORDERS: 7}, {ORDERS: 90.0})
    for now_s in (100.0, 110.0, 5000.0):
        lag.ends_at({ORDERS: 7}, now_s)
    lag.ends_at({ORDERS: 8}, 5010.0)
    lag.ends_at({ORDERS: 20}, 5020.0)
    assert only(lag, 5021.0).seconds == 21.0


def test_the_lag_follows_reading_through_a_backlog() -> None:
    lag = Lag()
    lag.read_to({ORDERS: 0})
    for minute in range(10):
        lag.ends_at({ORDERS: 100 * minute}, 60.0 * minute)
    assert only(lag, 600.0).seconds == 600.0
    lag.read_to({ORDERS: 450})
    assert (only(lag, 600.0).records, only(lag, 600.0).seconds) == (450, 360.0)


def test_how_late_a_backlog_is_that_was_there_before_the_start_is_not_known_before_it_is_read() -> None:
    lag = Lag()
    lag.read_to({ORDERS: 5})
    lag.ends_at({ORDERS: 10}, 100.0)
    assert (only(lag, 130.0).records, only(lag, 130.0).seconds) == (5, None)


def test_clocks_that_differ_make_no_lag_below_zero() -> None:
    lag = Lag()
    lag.read_to({ORDERS: 7}, {ORDERS: 500.0})
    lag.ends_at({ORDERS: 9}, 100.0)
    assert only(lag, 101.0).seconds == 0.0


def test_what_was_read_is_never_taken_back_and_an_older_end_is_no_lag_below_zero() -> None:
    lag = Lag()
    lag.ends_at({ORDERS: 9}, 100.0)
    lag.read_to({ORDERS: 12})
    lag.read_to({ORDERS: 11})
    assert only(lag, 101.0) == PlaceLag("shop.orders", 0, 12, 12, 0, 0.0)


def test_partitions_that_are_gone_are_forgotten() -> None:
    lag = Lag()
    lag.ends_at({ORDERS: 9, ("gone", 0): 4}, 100.0)
    lag.read_to({("gone", 0): 4})
    lag.ends_at({ORDERS: 9}, 110.0)
    assert [place.topic for place in lag.places(110.0)] == ["shop.orders"]
    assert lag.positions() == {}


def test_the_memory_of_ends_is_bounded() -> None:
    lag = Lag()
    lag.read_to({ORDERS: 0})
    for number in range(10_000):
        lag.ends_at({ORDERS: number}, float(number))
    lag.read_to({ORDERS: 9_990})
    assert only(lag, 10_000.0).seconds == 10.0
