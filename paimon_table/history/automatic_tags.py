"""Automatic tags, one for each period that has passed.

Implements ``tag.automatic-creation`` = process-time: the first snapshot that is published after a period, and a delay,
gets the tag of the period. Periods without snapshots have no tag. The names of tags show which periods have one.
Periods are counted from 1970-01-01 in local time; a tag is named after the start of its period.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from paimon_table.history.tags import Tag, TagStore
from paimon_table.metadata.snapshot import Snapshot, SnapshotStore
from paimon_table.metadata.table_context import TableContext
from paimon_table.options.names import PROCESS_TIME_ZONE
from paimon_table.options.retention_options import RetentionOptions
from paimon_table.options.time_zones import local_time, moment_ms, zone_of


def make_automatic_tags(ctx: TableContext, now: datetime) -> list[str]:
    """Create the automatic tags that are due; returns their names, none if the table has no automatic tags."""
    store, made = TagStore(ctx.io, ctx.paths), list[str]()
    for name, snapshot in _due_tags(ctx):
        text = ctx.io.read(ctx.paths.snapshot_file(snapshot.id))
        if store.create(name, text, now, ctx.options.retention.tag_default_time_ms):
            made.append(name)
    return made


def would_make_tags(ctx: TableContext) -> list[str]:
    """The names of the tags that ``make_automatic_tags`` would create; creates none."""
    store = TagStore(ctx.io, ctx.paths)
    return [name for name, _ in _due_tags(ctx) if store.find(name) is None]


def _due_tags(ctx: TableContext) -> Iterator[tuple[str, Snapshot]]:
    """The names of tags that are due, and their snapshots, in rising order."""
    options = ctx.options.retention
    if options.tag_creation == "none":
        return
    zone = zone_of(PROCESS_TIME_ZONE, options.tag_time_zone)
    period, delay = TagPeriod.of(options), timedelta(milliseconds=options.tag_delay_ms)
    store = TagStore(ctx.io, ctx.paths)
    newest = max(((begin, name) for name in store.names() if (begin := period.begin(name))), default=None)
    tag = None if newest is None else store.find(newest[1])
    expected = None if newest is None else newest[0] + period.length
    next_id = 1 if tag is None else tag.snapshot.id + 1
    while True:
        due_ms = None if expected is None else moment_ms(expected + period.length + delay, zone)
        snapshot_id = first_since(ctx.snapshots, next_id, due_ms)
        snapshot = None if snapshot_id is None else ctx.snapshots.find(snapshot_id)
        if snapshot is None:
            return
        begin = period.before(local_time(snapshot.time_ms, zone))
        if options.tag_automatic_completion and expected is not None:
            begin = expected
        yield period.name(begin), snapshot
        expected, next_id = begin + period.length, snapshot.id + 1


def first_since(snapshots: SnapshotStore, first_id: int, time_ms: int | None) -> int | None:
    """The first snapshot from ``first_id`` on that was not published before a time; reads a few, not all."""
    earliest, latest = snapshots.earliest_id(), snapshots.latest_id()
    if earliest is None or latest is None:
        return None
    low, high = max(earliest, first_id), latest + 1
    while low < high and time_ms is not None:
        middle = (low + high) // 2
        snapshot = snapshots.find(middle)
        if snapshot is None or snapshot.time_ms < time_ms:  # a missing snapshot was older
            low = middle + 1
        else:
            high = middle
    return low if low <= latest else None


def superfluous_tags(ctx: TableContext, tags: Sequence[Tag]) -> list[Tag]:
    """Automatic tags beyond ``tag.num-retained-max``: the tags of the oldest snapshots."""
    options = ctx.options.retention
    if options.tag_creation == "none" or options.tag_num_max is None:
        return []
    period = TagPeriod.of(options)
    automatic = [tag for tag in tags if period.begin(tag.name) is not None]
    kept = _ids(automatic)[-options.tag_num_max :]
    return [tag for tag in automatic if tag.snapshot.id not in kept]


def _ids(tags: Iterable[Tag]) -> list[int]:
    return sorted({tag.snapshot.id for tag in tags})


_EPOCH = datetime(1970, 1, 1)
_DAY = {"with_dashes": "%Y-%m-%d", "without_dashes": "%Y%m%d", "without_dashes_and_spaces": "%Y%m%d"}
_HOUR = {"with_dashes": "%Y-%m-%d %H", "without_dashes": "%Y%m%d %H", "without_dashes_and_spaces": "%Y%m%d%H"}
_MINUTE = "%Y%m%d%H%M"
_DIGITS = {"%Y": r"\d{4}", "%m": r"\d{2}", "%d": r"\d{2}", "%H": r"\d{2}", "%M": r"\d{2}"}


@dataclass(frozen=True, slots=True)
class TagPeriod:
    """The length of a period, and the names of its tags."""

    length: timedelta
    form: str
    """The format of names for ``strftime``."""

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
        """The start of the last period that had ended at ``time``."""
        return _EPOCH + (time - _EPOCH) // self.length * self.length - self.length

    def name(self, begin: datetime) -> str:
        return begin.strftime(self.form)

    def begin(self, name: str) -> datetime | None:
        """The start of the period in the name of a tag; None for names of other tags."""
        if self.length == timedelta(days=1) and self.form != _MINUTE:
            name = name.split(" ")[0]
        pattern = re.sub("%.", lambda part: _DIGITS[part.group()], self.form)
        if not re.fullmatch(pattern, name, re.ASCII):
            return None
        try:
            return datetime.strptime(name, self.form)
        except ValueError:
            return None
