"""Time zones as Paimon's options name them: a region, an offset, or the time zone of the process."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from paimon_table.errors import ConfigError

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")


def zone_of(option: str, text: str | None) -> tzinfo | None:
    """The zone of this name; None means the zone of the process. Raises ConfigError for an unknown zone."""
    if text is None:
        return None
    if text in {"UTC", "GMT", "UT", "Z"}:
        return UTC
    match = _OFFSET.fullmatch(text)
    try:
        if match is None:
            return ZoneInfo(text)
        sign, hours, minutes = match.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
        return timezone(offset if sign == "+" else -offset)
    except (KeyError, ValueError, OSError) as error:
        raise ConfigError(
            f"option {option!r}: {text!r} is not a time zone; write one such as Europe/Berlin or GMT-08:00",
            option=option,
        ) from error


def local_time(time_ms: int, zone: tzinfo | None) -> datetime:
    """The local time in the zone at a moment, without the zone."""
    return datetime.fromtimestamp(time_ms / 1000, zone).replace(tzinfo=None)


def moment_ms(local: datetime, zone: tzinfo | None) -> int:
    """The moment of a local time in the zone; of two, the earlier."""
    return round((local.replace(tzinfo=zone) if zone is not None else local.astimezone()).timestamp() * 1000)
