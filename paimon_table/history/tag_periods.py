"""The periods of automatic tags, and their names.

Implements Paimon's daily, hourly and two-hourly tags, and tags of any other period. Periods are counted from
1970-01-01 in local time; a tag is named after the start of its period.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from paimon_table.options.retention_options import RetentionOptions

_EPOCH = datetime(1970, 1, 1)
_DAY = {"with_dashes": "%Y-%m-%d", "without_dashes": "%Y%m%d", "without_dashes_and_spaces": "%Y%m%d"}
_HOUR = {"with_dashes": "%Y-%m-%d %H", "without_dashes": "%Y%m%d %H", "without_dashes_and_spaces": "%Y%m%d%H"}
_MINUTE = "%Y%m%d%H%M"
_DIGITS = {"%Y": r"\d{4}", "%m": r"\d{2}", "%d": r"\d{2}", "%H": r"\d{2}", "%M": r"\d{2}"}


@dataclass(frozen=True, slots=True)
class TagPeriod:
    """How long a period is and how its tag is called."""

    length: timedelta
    form: str
    """Of ``strftime``."""

    @staticmethod
    def of(options: RetentionOptions) -> TagPeriod:
        if options.tag_period_duration_ms is not None:
            return TagPeriod(timedelta(milliseconds=options.tag_period_duration_ms), _MINUTE)
        if options.tag_period == "daily":
            return TagPeriod(timedelta(days=1), _DAY[options.tag_period_formatter])
        if options.tag_period == "hourly":
            return TagPeriod(timedelta(hours=1), _HOUR[options.tag_period_formatter])
        return TagPeriod(timedelta(hours=2), _HOUR["with_dashes"])

    def before(self, time: datetime) -> datetime:
        """The begin of the last period that was over at ``time``."""
        return _EPOCH + (time - _EPOCH) // self.length * self.length - self.length

    def name(self, begin: datetime) -> str:
        return begin.strftime(self.form)

    def begin(self, name: str) -> datetime | None:
        """The begin of the period that a tag is called by; None for names of other tags."""
        if self.length == timedelta(days=1) and self.form != _MINUTE:
            name = name.split(" ")[0]
        pattern = re.sub("%.", lambda part: _DIGITS[part.group()], self.form)
        if not re.fullmatch(pattern, name, re.ASCII):
            return None
        try:
            return datetime.strptime(name, self.form)
        except ValueError:
            return None
