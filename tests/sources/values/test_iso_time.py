"""ISO dates and times agree with Python's where Python has them, and go on beyond its years."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.values.iso_time import (
    NANOS_PER_DAY,
    date_of,
    days_of,
    format_date,
    format_time,
    format_timestamp,
    parse_date,
    parse_time,
    parse_timestamp,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.dates())
def test_dates_are_those_of_python(day: date) -> None:
    days = (day - date(1970, 1, 1)).days

    assert parse_date(day.isoformat()) == days
    assert format_date(days) == day.isoformat()


@given(st.integers(-200_000_000, 200_000_000))
def test_every_day_has_one_date(days: int) -> None:
    assert days_of(*date_of(days)) == days


@given(st.datetimes(), st.integers(-14 * 60, 14 * 60))
def test_instants_are_those_of_python(moment: datetime, offset_minutes: int) -> None:
    zoned = moment.replace(tzinfo=timezone(timedelta(minutes=offset_minutes)))
    micros = (zoned - EPOCH) // timedelta(microseconds=1)

    assert parse_timestamp(zoned.isoformat()) == (micros * 1000, True)
    assert parse_timestamp(moment.isoformat(" ")) == (
        (moment.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1) * 1000,
        False,
    )


@given(st.integers(-(10**21), 10**21), st.booleans())
def test_written_timestamps_are_read_back(nanos: int, zoned: bool) -> None:
    assert parse_timestamp(format_timestamp(nanos, zoned)) == (nanos, zoned)


def test_goldengate_writes_a_colon_before_the_time() -> None:
    assert parse_timestamp("1994-09-30:15:33:00.5") == parse_timestamp("1994-09-30T15:33:00.5")


def test_years_before_one_and_the_end_of_the_day() -> None:
    assert format_date(parse_date("-0043-03-15") or 0) == "-0043-03-15"
    assert parse_time("24:00:00") == NANOS_PER_DAY
    assert format_time(NANOS_PER_DAY) == "24:00:00"
    assert parse_time("10:11:12+02") == parse_time("08:11:12")
    assert format_time(86_399_123_456_000) == "23:59:59.123456"


def test_a_blank_may_stand_before_an_offset() -> None:
    text = "2024-05-11 02:00:00.276489 +03:00"
    assert parse_timestamp(text) == parse_timestamp(text.replace(" +", "+")) is not None
    assert [parse_timestamp(other) for other in (text + " ", "2024-05-11 +03:00", "2024-05-11 02:00:00 Z")] == [
        None
    ] * 3


@pytest.mark.parametrize(
    "text", ["", "2024-02-30", "2024-13-01", "2024-2-1", "x", "2024-02-29T25:00:00Z", "12:60", "24:00:01"]
)
def test_other_texts_are_refused(text: str) -> None:
    assert parse_date(text) is None
    assert parse_timestamp(text) is None
    assert parse_time(text) is None
