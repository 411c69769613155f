"""Exact reading and writing of ISO 8601 dates and times, for years far outside the range of Python's datetime.

Instants and times of day are nanoseconds as plain integers; dates are days since 1970-01-01 (proleptic Gregorian,
year 0 is 1 BC), as in Paimon and PostgreSQL.
"""

from __future__ import annotations

import re

NANOS_PER_SECOND = 1_000_000_000
NANOS_PER_DAY = 86_400 * NANOS_PER_SECOND

_DATE = r"(?P<year>[+-]?\d{4,6}|[+-]\d{7,9})-(?P<month>\d\d)-(?P<day>\d\d)"
_TIME = r"(?P<hour>\d\d)(?::(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?)?)?"
_ZONE = r"(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?"
_DATE_TEXT = re.compile(_DATE + "Z?", re.ASCII)
_TIME_TEXT = re.compile(_TIME + _ZONE, re.ASCII)
_TIMESTAMP_TEXT = re.compile(f"{_DATE}(?:[T :]{_TIME}(?: (?=[+-]))?)?{_ZONE}", re.ASCII)
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def parse_date(text: str) -> int | None:
    """Days of ``yyyy-MM-dd`` (a trailing Z is allowed), or None for other text."""
    match = _DATE_TEXT.fullmatch(text)
    return None if match is None else _days(match)


def parse_time(text: str) -> int | None:
    """Nanoseconds of the day of ``HH:mm[:ss[.fraction]]``, moved to UTC if a zone is given; 24:00:00 is allowed."""
    match = _TIME_TEXT.fullmatch(text)
    if match is None or match["minute"] is None:
        return None
    nanos = _nanos_of_day(match, allow_midnight_end=True)
    if nanos is None or match["zone"] is None:
        return nanos
    return (nanos - _zone_nanos(match["zone"])) % NANOS_PER_DAY


def parse_timestamp(text: str) -> tuple[int, bool] | None:
    """Nanoseconds since 1970-01-01T00:00:00 and whether the text has a zone (then they are UTC), else None.

    Oracle writes a blank before an offset, GoldenGate a colon before the time.
    """
    match = _TIMESTAMP_TEXT.fullmatch(text)
    if match is None:
        return None
    days, nanos = _days(match), _nanos_of_day(match)
    if days is None or nanos is None:
        return None
    zone = match["zone"]
    total = days * NANOS_PER_DAY + nanos
    return (total, False) if zone is None else (total - _zone_nanos(zone), True)


def _days(match: re.Match[str]) -> int | None:
    year, month, day = int(match["year"]), int(match["month"]), int(match["day"])
    if not 1 <= month <= 12:
        return None
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= day <= _MONTH_DAYS[month - 1] + leap:
        return None
    return days_of(year, month, day)


def _nanos_of_day(match: re.Match[str], allow_midnight_end: bool = False) -> int | None:
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    nanos = int((match["fraction"] or "").ljust(9, "0"))
    total = (hour * 3600 + minute * 60 + second) * NANOS_PER_SECOND + nanos
    if minute > 59 or second > 59:
        return None
    if hour > 23 and not (allow_midnight_end and total == NANOS_PER_DAY):
        return None
    return total


def _zone_nanos(zone: str) -> int:
    if zone == "Z":
        return 0
    digits = zone[1:].replace(":", "")
    seconds = int(digits[:2]) * 3600 + int(digits[2:] or 0) * 60
    return (-seconds if zone[0] == "-" else seconds) * NANOS_PER_SECOND


def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a proleptic Gregorian date; years count from March so that leap days come last."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def date_of(days: int) -> tuple[int, int, int]:
    """Year, month and day of a day number; the inverse of ``days_of``."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    return year_of_era + era * 400 + (month <= 2), month, day


def format_date(days: int) -> str:
    year, month, day = date_of(days)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def format_time(nanos: int) -> str:
    """``HH:mm:ss`` and the fraction without trailing zeros; the end of the day is 24:00:00.

    Times of MySQL are durations and may lie outside of the day: ``-838:59:59``.
    """
    sign = "-" if nanos < 0 else ""
    seconds, fraction = divmod(abs(nanos), NANOS_PER_SECOND)
    text = f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:09d}".rstrip("0") if fraction else text


def format_timestamp(nanos: int, zoned: bool) -> str:
    """``yyyy-MM-ddTHH:mm:ss[.fraction]``, with a Z if it is an instant."""
    days, nanos_of_day = divmod(nanos, NANOS_PER_DAY)
    return f"{format_date(days)}T{format_time(nanos_of_day)}{'Z' if zoned else ''}"
