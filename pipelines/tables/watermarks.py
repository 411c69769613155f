"""Watermarks of snapshots: the event time up to which a table is complete, from a column with that time.

Implements the snapshot field ``watermark`` as Flink's sink fills it. The watermark is the least time over the
partitions of the source: the newest event of each, minus a delay. The engine never moves it back. Late rows are written
like all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from paimon_table import TableSchema
from paimon_table.errors import ConfigError
from paimon_table.nearest_name import did_you_mean
from paimon_table.surroundings import now_ms
from paimon_table.types import TIMESTAMPS
from pipelines.config.table_rules import TargetRule
from pipelines.config.watermark import Watermark
from sinks.commit.positions import TopicPartition

EventTimes: TypeAlias = Mapping[TopicPartition, int]
"""The newest event time (ms) of each partition."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The progress of a partition."""

    newest_ms: int
    """In event time."""
    at_ms: int
    """The time of its last rows."""


def seen_with(seen: Mapping[TopicPartition, Seen], found: EventTimes, now_ms: int) -> dict[TopicPartition, Seen]:
    """The times of the partitions after a batch with ``found``."""
    newer = {
        place: Seen(max(newest_ms, seen[place].newest_ms) if place in seen else newest_ms, now_ms)
        for place, newest_ms in found.items()
    }
    return {**seen, **newer}


def watermark_of(seen: Mapping[TopicPartition, Seen], rule: Watermark, now_ms: int) -> int | None:
    """The watermark (ms); None if no partition has one."""
    telling = [of.newest_ms for of in seen.values() if now_ms - of.at_ms <= rule.idle_ms]
    return min(telling) - rule.delay_ms if telling else None


class Watermarks:
    """The watermarks of a pipeline's tables during its process; belongs to the thread of the batches.

    A new process knows a partition again after its first rows.
    """

    def __init__(self, now_ms: Callable[[], int] = now_ms) -> None:
        self._now_ms = now_ms
        self._seen: dict[str, Mapping[TopicPartition, Seen]] = {}

    def next(self, identifier: str, rule: Watermark, found: EventTimes) -> int | None:
        """The watermark of the table after a batch with the times ``found``."""
        moment = self._now_ms()
        self._seen[identifier] = seen_with(self._seen.get(identifier, {}), found, moment)
        return watermark_of(self._seen[identifier], rule, moment)


def check_event_time(rule: TargetRule, schema: TableSchema, identifier: str) -> None:
    """Refuse a watermark of a column that the table lacks, or that is not a time."""
    if rule.watermark is None:
        return
    name = rule.watermark.column
    if not schema.has_column(name):
        raise ConfigError(
            f"rule into {rule.into}: watermark.column: table {identifier} has no column {name!r};"
            f" {did_you_mean(name, schema.column_names)}"
        )
    found = schema.field(name).type
    if found.root not in TIMESTAMPS:
        raise ConfigError(
            f"rule into {rule.into}: watermark.column: {name} of table {identifier} is {found}, which is not a"
            f" time. Declare `{name}: TIMESTAMP(3)` under columns.types of a new table, or name another column"
        )
