"""Which tables of a pipeline are behind its stream: a small file of ours for each, in the checkpoint.

A mark is durable before the batch that leaves its table out counts as done, and says where the table begins to miss
records. What catches it up writes each slice into the mark before it reads it, as Spark writes the offsets of a batch:
a slice that is done again has the same records and the same number, so that its commit is found. A mark stays as
``joined`` when its table is in the stream again: a file that is deleted can come back with a power cut, and would have
records read twice.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Self
from urllib.parse import quote

from paimon_table.errors import WHERE_MORE
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.document import known_fields

log = logging.getLogger(__name__)

DIRECTORY = "tidemark/behind"


_LONGEST_NAME = 200
"""File systems take 255 bytes: with what stands around a name, a mark and a directory of the quarantine have room."""


def _file_name(table: str) -> str:
    """The identifier of a table as a part of file names; of a long one the begin, and what tells it from others."""
    quoted = quote(table, safe="")
    if len(quoted) <= _LONGEST_NAME:
        return quoted
    return f"{quoted[: _LONGEST_NAME - 33]}-{hashlib.sha256(table.encode()).hexdigest()[:32]}"


class Cause(StrEnum):
    """Why a table is behind."""

    FAILED = "failed"
    """It could not be written; every start tries it again."""
    BAD_RECORDS = "bad-records"
    """Too many of its records are bad, which a mistake in the file or the connector does; every start tries again."""
    ASKED = "asked"
    """Somebody has paused it, and only a request ends that."""
    NEW = "new"
    """It is filled from the first record (``backfill``)."""
    AWAY = "away"
    """No rule writes it for now: the stream goes on without it, and nothing brings it up before a rule does."""
    JOINED = "joined"
    """It is not: it has caught up."""


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """The slice that is being read, or was read last."""

    number: int
    begin: str | None
    end: str
    planned_at_ms: int
    """Its commits cannot be older."""


@dataclass(frozen=True, slots=True)
class BehindMark:
    """One table that is, or was, behind. ``begin`` and ``after`` are positions in the text of the source."""

    table: str
    cause: Cause
    reason: str
    since_ms: int
    batch: int
    """The first batch of the stream that left the table out."""
    begin: str | None
    """Where that batch begins; None: at the first record that there is."""
    after: str | None = None
    """Where it ends, if it was running: its rows may be in the table after all."""
    topics: tuple[str, ...] = ()
    """Those known to feed the table."""
    slice: SlicePlan | None = None
    public_reason: str = WHERE_MORE
    """The reason without values of rows."""
    is_held: bool = False
    """Of a table that is away: somebody had paused it before, and only a request ends that."""

    @property
    def is_behind(self) -> bool:
        """Whether the stream leaves the table out."""
        return self.cause not in (Cause.JOINED, Cause.AWAY)

    @property
    def misses_records(self) -> bool:
        """Whether it lacks what the stream has passed: it is behind, or no rule writes it for now."""
        return self.cause is not Cause.JOINED

    @property
    def tries_again(self) -> bool:
        """Whether a start catches the table up without being asked."""
        return self.cause in (Cause.FAILED, Cause.BAD_RECORDS, Cause.NEW)

    @property
    def position(self) -> str | None:
        """Where the next slice begins once the last one is done."""
        return self.begin if self.slice is None else self.slice.end

    @property
    def begun(self) -> str | None:
        """Where the last slice begins, which may not be done; before the first one as ``position``."""
        return self.begin if self.slice is None else self.slice.begin

    def has_planned(self, since_ms: int, number: int) -> bool:
        """Whether a slice of the mark from ``since_ms``, this one or one before it, was planned as this says."""
        if since_ms != self.since_ms:
            return since_ms < self.since_ms
        return not self.misses_records or (self.slice is not None and number <= self.slice.number)

    @property
    def aside_name(self) -> str:
        """What tells the bad records that are met while the table is caught up from those of the stream."""
        return f"+{_file_name(self.table)}-{self.since_ms}"

    def to_bytes(self) -> bytes:
        return json.dumps({**asdict(self), "cause": self.cause.value}, indent=1).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """ValueError and its like (``NOT_AS_WRITTEN``) for what is no mark."""
        document = json.loads(data)
        plan, topics = document.pop("slice"), document["topics"]
        if not isinstance(topics, list) or not all(isinstance(topic, str) for topic in topics):
            raise TypeError("the topics are of another kind")
        document |= {"cause": Cause(document["cause"]), "topics": tuple(topics)}
        piece = None if plan is None else SlicePlan(**known_fields(SlicePlan, plan))
        mark = cls(**known_fields(cls, document), slice=piece)
        numbers = [mark.since_ms, mark.batch, *(() if plan is None else (plan["number"], plan["planned_at_ms"]))]
        positions = [mark.begin, mark.after, *(() if plan is None else (plan["begin"], plan["end"]))]
        if not isinstance(mark.table, str) or not all(type(number) is int and number >= 0 for number in numbers):
            raise TypeError("a name or a number is of another kind")
        if not all(isinstance(one, str | None) for one in positions):
            raise TypeError("a position is of another kind")
        return mark


class BehindMarks:
    """The marks of one checkpoint, kept up by the driver. A new checkpoint has none: there positions say it all."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._marks = self._read()

    @property
    def all(self) -> Mapping[str, BehindMark]:
        """By table, those that have joined included."""
        return dict(self._marks)

    def put(self, mark: BehindMark) -> None:
        """Make a mark durable in place of the table's earlier one."""
        if self._marks.get(mark.table) != mark:
            self._checkpoint.write(f"{DIRECTORY}/{_file_name(mark.table)}.json", mark.to_bytes())
            self._marks = {**self._marks, mark.table: mark}

    def add_topics(self, table: str, topics: Iterable[str]) -> None:
        """Topics of which the table has missed records too."""
        mark = self._marks[table]
        if mark.topics:  # none stands for all
            self.put(replace(mark, topics=tuple(sorted({*mark.topics, *topics}))))

    def move(self, places: Mapping[tuple[str, int], int | None]) -> None:
        """Change where tables that are behind go on in partitions of Kafka.

        With None they begin anew there, as the topic was made anew; else at that offset, if they had come further: the
        partition ends there now.
        """
        gone = {place for place, end in places.items() if end is None}
        for mark in self._marks.values() if places else ():
            if mark.misses_records:
                _tell_gone(mark, gone)
            plan = mark.slice
            if plan is not None:
                plan = replace(plan, begin=moved(plan.begin, places), end=moved(plan.end, places) or "{}")
            self.put(replace(mark, begin=moved(mark.begin, places), after=moved(mark.after, places), slice=plan))

    def places(self) -> set[tuple[str, int]]:
        """The partitions of Kafka that the marks have offsets in."""
        plans = [mark.slice for mark in self._marks.values() if mark.slice is not None]
        positions = [position for mark in self._marks.values() for position in (mark.begin, mark.after)]
        positions += [position for plan in plans for position in (plan.begin, plan.end)]
        return {place for position in positions for place in places_in(position)}

    def reload(self) -> None:
        """Look again: somebody else in this process may have changed them."""
        self._marks = self._read()

    def _read(self) -> dict[str, BehindMark]:
        marks = [] if self._checkpoint.is_new else self._checkpoint.documents(DIRECTORY, BehindMark.from_bytes)
        return {mark.table: mark for mark in marks}


def _tell_gone(mark: BehindMark, places: Collection[tuple[str, int]]) -> None:
    """Warn of records that a table which is behind had still to read."""
    offsets = {} if mark.position is None else json.loads(mark.position)
    for topic, partition in sorted(places):
        at = offsets.get(topic, {}).get(str(partition), 0)
        if not mark.topics or topic in mark.topics:
            log.warning(
                "table %s: topic %s partition %d is another one now: what the old one had from offset %s on, and the"
                " table had still to read, is gone",
                mark.table,
                topic,
                partition,
                f"{at:,}",
            )


def places_in(position: str | None) -> set[tuple[str, int]]:
    """The partitions of a position in Kafka."""
    nested = {} if position is None else json.loads(position)
    return {(topic, int(partition)) for topic, offsets in nested.items() for partition in offsets}


def moved(position: str | None, places: Mapping[tuple[str, int], int | None]) -> str | None:
    """A position in Kafka as if these partitions had not been there yet (None), or no further than an offset."""
    if position is None:
        return None
    nested = {topic: dict(offsets) for topic, offsets in json.loads(position).items()}
    for (topic, partition), end in places.items():
        at = nested.get(topic, {})
        if end is None:
            at.pop(str(partition), None)
        elif str(partition) in at:
            at[str(partition)] = min(end, at[str(partition)])
    return json.dumps({topic: offsets for topic, offsets in nested.items() if offsets}, separators=(",", ":"))
