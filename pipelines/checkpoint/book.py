"""The book of a checkpoint: one small document, ``tidemark/tables.json``, about the tables of its pipeline.

Spark's own files record how far the stream has read. They do not record which tables it writes, which tables are
paused, and how often the pipeline has committed to each. The book is one document for all this. It is written in one
atomic step, so its parts agree after any kill.

``Book`` reads the document once, keeps it in memory, and writes changes. A pause is durable before the batch that skips
the table counts as done. After each slice, the catch-up records its progress (``Reached``) in the pause. A slice that
runs again finds its own commits in the table.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from urllib.parse import quote

from pydantic import NonNegativeInt, TypeAdapter

from paimon_table.errors import WHERE_MORE, ConfigError
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.document import FORMAT, NEWEST
from pipelines.checkpoint.reached import Reached, moved, places_in
from sinks.commit.positions import FedBy, Position, cut_key, offsets_of
from sources.positions import Place

log = logging.getLogger(__name__)

FILE = "tidemark/tables.json"

CHECKED_AGAIN_S = 60.0
"""How often batches and slices check for a second process that writes the document; other changes always check."""

_LONGEST_NAME = 200
"""File systems allow 255 bytes: a directory of the quarantine has room for the name and its prefix."""


class Cause(StrEnum):
    """Why a table is paused."""

    FAILED = "failed"
    """It could not be written, or lacks records; every start catches it up."""
    BAD_RECORDS = "bad-records"
    """Too many of its records are bad, which a mistake in the file or the connector does; every start tries again."""
    ASKED = "asked"
    """A user has paused it, and only a request ends that."""
    NEW = "new"
    """It is filled from the first record (``backfill``)."""
    NEW_KEY = "new-key"
    """Its source has another primary key: it is read up to there, and a new table reads on from there."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A table that is not in the stream. ``begin`` and ``after`` are positions in the text of the source."""

    table: str
    cause: Cause
    reason: str
    since_ms: NonNegativeInt
    """Unique among the pauses of a table: the commit user of its slices is named after it."""
    batch: NonNegativeInt
    """The first batch of the stream without the table."""
    begin: str | None
    """The begin of that batch; None: the earliest record."""
    after: str | None = None
    """The end of that batch, if it was running: the table may have its rows."""
    topics: tuple[str, ...] = ()
    """The topics known to feed the table; an empty tuple: all topics."""
    reached: Reached | None = None
    """How far it is caught up; None: that has not begun."""
    public_reason: str = WHERE_MORE
    """The reason without values of rows."""
    has_rule: bool = True
    """Whether a rule writes the table. Without one its place is kept, and nothing catches it up."""

    @property
    def tries_again(self) -> bool:
        """Whether a start catches the table up without being asked."""
        return self.has_rule and self.cause is not Cause.ASKED

    @property
    def is_due(self) -> bool:
        """Whether Tidemark catches the table up at once."""
        return self.cause in (Cause.NEW, Cause.NEW_KEY)

    @property
    def position(self) -> str | None:
        """The position from which the table misses records; None: from the earliest record."""
        return self.begin if self.reached is None else self.reached.position

    @property
    def aside_name(self) -> str:
        """The name that separates the bad records of the table's catch-up from the bad records of the stream."""
        return f"+{_file_name(self.table)}-{self.since_ms}"

    def moved(self, places: Mapping[Place, int | None]) -> Pause:
        """The pause with other positions in partitions of Kafka, see ``Book.move``."""
        reached = None if self.reached is None else self.reached.moved(places)
        return replace(self, begin=moved(self.begin, places), after=moved(self.after, places), reached=reached)


@dataclass(frozen=True, slots=True)
class Ruleless:
    """A source table that fed a table, and that no rule routes to it now; others may still feed it."""

    source: FedBy
    batch: NonNegativeInt
    """The first batch without its records."""
    begin: str | None
    """The begin of that batch, in the text form of the source; None: the earliest record."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One table."""

    created_ms: NonNegativeInt | None = None
    """Time of its first schema, which another table of the name does not have; None: it was never written."""
    commits: NonNegativeInt = 0
    """How often the pipeline has committed to it. After a kill it may be lower than the table's own count."""
    snapshot_id: NonNegativeInt = 0
    """The snapshot that showed the last of them; 0 if none did."""
    topics: tuple[str, ...] = ()
    """The topics that fed the table."""
    pause: Pause | None = None
    """None: it is in the stream."""
    paused_ms: NonNegativeInt = 0
    """``since_ms`` of its last pause that has ended."""
    ruleless: tuple[Ruleless, ...] = ()
    offsets: Mapping[str, Mapping[str, NonNegativeInt]] = field(default_factory=dict)
    """The next offsets after ``commits``, by topic and partition; used if snapshots no longer show them."""

    def noted(self, found: Entry) -> Entry:
        """With the table's present creation time, commits, snapshot and topics.

        The count decreases only for a recreated table; a table that lacks commits must be noticed.
        """
        commits, snapshot_id = found.commits, found.snapshot_id
        if self.commits and self.created_ms == found.created_ms:
            commits, snapshot_id = max(commits, self.commits), max(snapshot_id, self.snapshot_id)
        return replace(
            self,
            created_ms=found.created_ms,
            commits=commits,
            snapshot_id=snapshot_id,
            topics=found.topics,
            offsets=found.offsets,
        )

    def written_as(self, created_ms: int) -> Entry:
        """The entry of a table that gets rows; a recreated table has no commits yet."""
        if self.created_ms in (created_ms, None):
            return replace(self, created_ms=created_ms)
        return replace(self, created_ms=created_ms, commits=0, snapshot_id=0, topics=(), offsets={})

    def moved(self, places: Mapping[Place, int | None]) -> Entry:
        """With other positions in partitions of Kafka, see ``Book.move``."""
        offsets = {
            topic: {
                partition: at if end is None else min(at, end)
                for partition, at in of_topic.items()
                if (end := places.get((topic, int(partition)), at)) is not None
            }
            for topic, of_topic in self.offsets.items()
        }
        pause = None if self.pause is None else self.pause.moved(places)
        ruleless = tuple(replace(one, begin=moved(one.begin, places)) for one in self.ruleless)
        return replace(self, offsets=offsets, pause=pause, ruleless=ruleless)

    def without(self, recreated: Collection[str]) -> Entry:
        """Without offsets of topics that were recreated."""
        return replace(self, offsets={topic: of for topic, of in self.offsets.items() if topic not in recreated})

    def position(self, commit_user: str) -> Position:
        """The position of the table as noted."""
        offsets = offsets_of(self.offsets)
        return Position(commit_user, offsets, commit_count=self.commits, snapshot_id=self.snapshot_id)

    def missing_commits(self, created_ms: int | None, commits: int) -> int:
        """The number of recorded commits that a table with ``commits`` lacks; 0 for another table of the name."""
        return max(0, self.commits - commits) if self.created_ms == created_ms else 0

    def next_pause_ms(self, now_ms: int) -> int:
        """``since_ms`` of a pause that begins now."""
        return max(now_ms, self.paused_ms + 1, 0 if self.pause is None else self.pause.since_ms + 1)

    def resumed(self) -> Entry:
        """In the stream again."""
        return self if self.pause is None else replace(self, pause=None, paused_ms=self.pause.since_ms)

    def may_have(self, since_ms: int, number: int, *, by_number: bool) -> bool:
        """Whether a table may have a slice of the pause from ``since_ms``, this one or one before it.

        ``by_number``: slices are planned here before they are read.
        """
        if self.pause is None:
            return since_ms <= self.paused_ms
        if since_ms != self.pause.since_ms:
            return since_ms < self.pause.since_ms
        reached = self.pause.reached
        if reached is None or (by_number and reached.end is None):
            return reached is not None and number < reached.number
        return number <= reached.number


UNKNOWN = Entry()
"""The entry of a table that the checkpoint does not know."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The document."""

    pipeline: str
    topics: Mapping[str, str] = field(default_factory=dict)
    """The topics whose records are read: by name the id that Kafka gave each."""
    cuts: Mapping[str, str] = field(default_factory=dict)
    """At which offsets partitions were cut off, see ``cut_key``."""
    earlier: tuple[str, ...] | None = None
    """The tables that the pipeline had written when the checkpoint was new; None: not searched yet."""
    tables: Mapping[str, Entry] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)
    """The formats that were chosen for topics, where the file leaves that to their first records."""

    @property
    def written(self) -> dict[str, int]:
        """The tables written under the checkpoint, with the time of their first schema."""
        return {name: entry.created_ms for name, entry in self.tables.items() if entry.created_ms is not None}

    def entry(self, table: str) -> Entry:
        return self.tables.get(table, UNKNOWN)

    def with_tables(self, entries: Mapping[str, Entry]) -> Contents:
        return replace(self, tables={**self.tables, **entries})


_FORM = TypeAdapter(Contents)


def to_bytes(contents: Contents) -> bytes:
    """The document as its file has it."""
    return json.dumps({FORMAT: NEWEST, **_FORM.dump_python(contents, mode="json")}, indent=1, sort_keys=True).encode()


def from_bytes(data: bytes) -> Contents:
    """The inverse of ``to_bytes``; ignores fields of newer versions. Raises ValueError for anything else."""
    return _FORM.validate_json(data, strict=True)


class Book:
    """The document of one checkpoint.

    Batches, compactions and the work alongside them change it from different threads. Only the holder of the checkpoint
    changes it. Others see the state at the time when they created their ``Book``.
    """

    def __init__(self, checkpoint: Checkpoint, now_s: Callable[[], float] = time.monotonic) -> None:
        self._checkpoint = checkpoint
        self._now_s = now_s
        self._checked_s = now_s()
        self._lock = threading.RLock()
        found = checkpoint.document(FILE, from_bytes)
        self._written: bytes | None = None
        """The file as this process wrote it last."""
        self.has_file = found is not None
        """Whether the checkpoint has the document."""
        found = found or Contents(checkpoint.pipeline)
        if not found.written and checkpoint.is_new:  # an entry from before the first planned batch does not count
            found = replace(found, topics={}, cuts={}, tables={}, formats={})
        self._contents = found

    @property
    def contents(self) -> Contents:
        """The whole content of the book, as it is now."""
        return self._contents

    @property
    def tables(self) -> Mapping[str, Entry]:
        """The entry of each table, by its identifier."""
        return self._contents.tables

    @property
    def pauses(self) -> Mapping[str, Pause]:
        """The tables that are not in the stream, also those without a rule."""
        return {name: entry.pause for name, entry in self.tables.items() if entry.pause is not None}

    @property
    def topic_ids(self) -> Mapping[str, str]:
        """The ids of the topics whose records are read, and the cuts of their partitions (``Position.among``).

        Empty if the source has no topics with ids.
        """
        return {**self._contents.topics, **self._contents.cuts}

    @property
    def cuts(self) -> Mapping[str, str]:
        """At which offsets partitions were cut off, see ``cut_key``."""
        return self._contents.cuts

    def entry(self, table: str) -> Entry:
        """The entry of a table."""
        return self._contents.entry(table)

    def change(self, edit: Callable[[Contents], Contents], *, is_routine: bool = False) -> None:
        """Change the document durably, in one step; writes nothing if nothing changes.

        ``edit`` only computes. ``is_routine`` changes come with each batch or slice, and do not reread the document
        first.
        """
        with self._lock:
            new = edit(self._contents)
            if new != self._contents or not self.has_file:
                if not is_routine or self._now_s() - self._checked_s >= CHECKED_AGAIN_S:
                    self._check_alone()
                self._written = to_bytes(new)
                self._checkpoint.write(FILE, self._written)
                self._contents, self.has_file = new, True

    def _check_alone(self) -> None:
        """Raise ConfigError if another process has written the document since this one did."""
        if self._written is not None and self._checkpoint.read(FILE) != self._written:
            raise ConfigError(
                f"another process has since written {FILE} of checkpoint {self._checkpoint.location}: two processes "
                "use one checkpoint. Stop one of them, then restart the other: it continues where the pipeline "
                "stopped"
            )
        self._checked_s = self._now_s()

    def put(self, entries: Mapping[str, Entry]) -> None:
        """Replace the entries of some tables."""
        self.change(lambda contents: contents.with_tables(entries))

    def change_entry(self, table: str, edit: Callable[[Entry], Entry], *, is_routine: bool = False) -> None:
        """Change the entry of one table; ``is_routine`` as for ``change``."""
        self.change(lambda contents: contents.with_tables({table: edit(contents.entry(table))}), is_routine=is_routine)

    def note_commits(self, found: Mapping[str, Entry]) -> None:
        """Note the present state of the tables: their creation, commits, snapshot and topics."""
        self.change(
            lambda now: now.with_tables({name: now.entry(name).noted(of) for name, of in found.items()}),
            is_routine=True,
        )

    def note_topics(self, ids: Mapping[str, str]) -> None:
        """Record the present ids of topics; the cuts of recreated topics no longer count."""
        recreated = self.recreated_topics(ids)

        def edit(contents: Contents) -> Contents:
            cuts = {key: cut for key, cut in contents.cuts.items() if key.partition("/")[0] not in recreated}
            left = contents.with_tables({name: of.without(recreated) for name, of in contents.tables.items()})
            return replace(left, topics={**contents.topics, **ids}, cuts=cuts)

        self.change(edit)

    def cut(self, ends: Mapping[Place, int]) -> None:
        """Note that partitions have lost all from these offsets on, which other records get now."""

        def edit(contents: Contents) -> Contents:
            before = {place: contents.cuts.get(cut_key(place)) for place in ends}
            new = {cut_key(at): f"{before[at]},{end}" if before[at] else str(end) for at, end in ends.items()}
            return replace(contents, cuts={**contents.cuts, **new})

        self.change(edit)

    def find_cuts(self, positions: Iterable[Position], ids: Mapping[str, str]) -> None:
        """Take over the facts that tables stored under an earlier checkpoint, for the topics with these ids.

        Of two histories of a partition the longer one counts: the other is its beginning.
        """
        found = dict(self.cuts)
        for position in positions:
            for key, cuts in position.topics.items():
                topic = key.partition("/")[0]
                is_cut = key != topic and position.topics.get(topic) == ids.get(topic)
                if is_cut and len(cuts.split(",")) > len(found.get(key, "").split(",")) * (key in found):
                    found[key] = cuts
        self.change(lambda contents: replace(contents, cuts=found))

    def recreated_topics(self, ids: Mapping[str, str]) -> list[str]:
        """Noted topics that have another id now: they were deleted and recreated under their names."""
        return sorted(name for name, id_ in self._contents.topics.items() if ids.get(name, id_) != id_)

    def places(self) -> set[Place]:
        """The partitions of Kafka that paused tables and source tables without a rule have offsets in."""
        positions = [one.begin for entry in self.tables.values() for one in entry.ruleless]
        for pause in self.pauses.values():
            positions += [pause.begin, pause.after]
            positions += [] if pause.reached is None else [pause.reached.position, pause.reached.end]
        return {place for position in positions for place in places_in(position)}

    def move(self, places: Mapping[Place, int | None]) -> None:
        """Change where tables outside the stream continue, in partitions of Kafka.

        With None they start over there, as the topic was recreated; else at that offset, if they had come further: the
        partition ends there now.
        """
        if not places:
            return
        for pause in self.pauses.values():
            _warn_of_lost(pause, [place for place, end in places.items() if end is None])

        self.change(lambda contents: contents.with_tables({n: e.moved(places) for n, e in contents.tables.items()}))


def _file_name(table: str) -> str:
    """The identifier of a table as a part of file names; of a long one its begin and a digest."""
    quoted = quote(table, safe="")
    if len(quoted) <= _LONGEST_NAME:
        return quoted
    return f"{quoted[: _LONGEST_NAME - 33]}-{hashlib.sha256(table.encode()).hexdigest()[:32]}"


def _warn_of_lost(pause: Pause, places: Iterable[Place]) -> None:
    """Warn of records of recreated topics that a paused table had not read."""
    offsets = {} if pause.position is None else json.loads(pause.position)
    for topic, partition in sorted(places):
        at = offsets.get(topic, {}).get(str(partition), 0)
        if not pause.topics or topic in pause.topics:
            log.warning(
                "topic %s partition %d was recreated: records from offset %s on that table %s had not read are lost",
                topic,
                partition,
                f"{at:,}",
                pause.table,
            )
