"""The time in the values of a partition.

Implements ``partition.timestamp-pattern``, in which ``$column`` stands for a value (by default that of the first
column), and ``partition.timestamp-formatter``, a Java pattern for dates and times. Values of type DATE and TIMESTAMP
become texts such as 2024-01-31 and 2024-01-31 10:00:00.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from paimon_table.options.partition_time_pattern import DEFAULT_PATTERN, formatter_pattern
from paimon_table.options.retention_options import RetentionOptions
from paimon_table.types import TIMESTAMPS, DataField, Root, timestamp_unit

_EPOCH = datetime(1970, 1, 1)
_UNIT_MICROS = {"ms": 1000.0, "us": 1.0, "ns": 0.001}


@dataclass(frozen=True, slots=True)
class PartitionTimes:
    """Reads the times of a table's partitions."""

    fields: Sequence[DataField]
    pattern: str | None
    form: re.Pattern[str]

    @staticmethod
    def of(fields: Sequence[DataField], options: RetentionOptions) -> PartitionTimes:
        """The times of a table's partitions; raises ConfigError for an unsupported formatter."""
        text = options.partition_timestamp_formatter
        return PartitionTimes(
            fields, options.partition_timestamp_pattern, DEFAULT_PATTERN if text is None else formatter_pattern(text)
        )

    def time(self, values: Sequence[object]) -> datetime | None:
        """The time of a partition by its values; None if they are not a time."""
        texts = {f.name: _text_or_none(value, f) for f, value in zip(self.fields, values, strict=True)}
        if self.pattern is None:
            text = texts[self.fields[0].name]
        else:
            text = _filled(self.pattern, texts)
        match = None if text is None else self.form.fullmatch(text)
        return None if match is None else _moment(match.groupdict())


def _filled(pattern: str, texts: Mapping[str, str | None]) -> str | None:
    names = "|".join(re.escape(name) for name in sorted(texts, key=len, reverse=True))
    if any(texts[name] is None for name in re.findall(rf"\$({names})", pattern)):
        return None
    return re.sub(rf"\$({names})", lambda found: texts[found.group(1)] or "", pattern)


def _text_or_none(value: object, field: DataField) -> str | None:
    try:
        return None if value is None else _text(value, field)
    except OverflowError:  # beyond the years 1 to 9999, such as PostgreSQL's infinity
        return None


def _text(value: object, field: DataField) -> str:
    if field.type.root is Root.DATE:
        day = value if isinstance(value, date) else date(1970, 1, 1) + timedelta(days=int(str(value)))
        return day.isoformat()
    if field.type.root in TIMESTAMPS:
        if isinstance(value, datetime):
            return value.replace(tzinfo=None).isoformat(" ")
        micros = int(str(value)) * _UNIT_MICROS[timestamp_unit(field.type.precision or 0)]
        return (_EPOCH + timedelta(microseconds=micros)).isoformat(" ")
    return str(value)


def _moment(parts: Mapping[str, str | None]) -> datetime | None:
    """The moment. As in Paimon, excess days and hours run into the next month or day. None outside of the years 1 to
    9999."""
    number = {name: int(text or 0) for name, text in parts.items()}
    months = number["y"] * 12 + number["M"] - 1
    try:
        first = datetime(months // 12, months % 12 + 1, 1)
        return first + timedelta(
            days=number["d"] - 1,
            hours=number.get("H", 0),
            minutes=number.get("m", 0),
            seconds=number.get("s", 0),
        )
    except (ValueError, OverflowError):
        return None
