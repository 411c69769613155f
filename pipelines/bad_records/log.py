"""The log of facts about bad records: the history of each record in the quarantine (a dead-letter queue).

    QUARANTINE/log/000000000017.json              one entry, written whole and never changed
    QUARANTINE/OWNER/batch-000000000012/*.jsonl   the complete records that entries name

The driver writes ``Sealed`` before the first commit of a step. It names the files of the step's bad records. It also
has the places of formerly bad records that the step applies to tables. ``Applied`` follows the commit and names the
snapshot that has them. ``Closed`` says that a user dropped records, or that a retry skipped them. ``Switched`` ends a
rebuild: records that its steps have sealed count from then on. ``Voided`` names entries that no longer count, because
their table was rolled back. ``facts`` computes the result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from paimon_table.errors import BrokenInvariant, CorruptFile
from paimon_table.storage.file_io import FileIO
from pipelines.checkpoint.checkpoint import NOT_AS_WRITTEN
from pipelines.checkpoint.document import check_format

DIRECTORY = "log"
_NAME = re.compile(r"[0-9]{12}\.json")
_ATTEMPTS = 1_000
"""The most entries that others may write while this process writes one."""


RETRY = "retry-"
"""Prefix of the directories of retries, which are next to those of queries."""

REPLAY = "replay-"
"""Prefix of the directories of replays."""


def replay_owner(id_: str) -> str:
    """The directory of the bad records of a replay."""
    return f"{REPLAY}{id_}"


class Place(NamedTuple):
    """The identity of a record.

    A recreated topic has another id, if ids are known; a replaced dump has other times.
    """

    topic: str
    """``malformed:FILE`` for a line of a dump that is not a record; the offset is its byte then."""
    topic_id: str
    """Empty if unknown."""
    partition: int
    offset: int
    ts: int | None
    """The record's own time (ms)."""


class Document(BaseModel):
    """A value in the log; fields of newer versions are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Stretch(Document):
    """Records of one partition, in any order."""

    topic: str
    topic_id: str = ""
    partition: int
    offsets: tuple[int, ...]
    ts: tuple[int | None, ...]

    def places(self) -> Iterable[Place]:
        for offset, ts in zip(self.offsets, self.ts, strict=True):
            yield Place(self.topic, self.topic_id, self.partition, offset, ts)


Stretches: TypeAlias = tuple[Stretch, ...]


class Evidence(Document):
    """The snapshot with which a table got records."""

    table: str
    created_ms: int
    """The creation time of the table."""
    snapshot_id: int
    time_ms: int


class Sealed(Document):
    """A step that is about to commit, with its bad records."""

    kind: Literal["sealed"] = "sealed"
    step: str
    """Its directory below the quarantine."""
    user: str = ""
    """The commit user and number of the step, and the earliest time of its commit."""
    number: int = 0
    since_ms: int | None = None
    rebuild: str = ""
    """The rebuild that it belongs to: the step counts once that has switched."""
    bad: Mapping[str, Stretches] = {}
    """By name of the step's files."""
    good: Mapping[str, Stretches] = {}
    """By table: formerly bad records."""


class Applied(Document):
    """Records that a table has."""

    kind: Literal["applied"] = "applied"
    by: str
    """The step."""
    evidence: Evidence
    places: Stretches


class Closed(Document):
    """Records that no table will have."""

    kind: Literal["closed"] = "closed"
    why: Literal["dropped", "skipped"]
    places: Stretches


class Switched(Document):
    """A rebuild whose content the table has taken over."""

    kind: Literal["switched"] = "switched"
    rebuild: str
    evidence: Evidence


class Voided(Document):
    """``Applied`` and ``Switched`` entries that no longer count."""

    kind: Literal["voided"] = "voided"
    entries: tuple[int, ...]


Entry: TypeAlias = Sealed | Applied | Closed | Switched | Voided
_ENTRY: TypeAdapter[Entry] = TypeAdapter(Annotated[Entry, Field(discriminator="kind")])


def stretches(places: Iterable[Place]) -> Stretches:
    """The places as entries have them."""
    found: dict[tuple[str, str, int], list[Place]] = {}
    for place in sorted(set(places), key=lambda one: (*one[:4], one.ts is not None, one.ts or 0)):
        found.setdefault(place[:3], []).append(place)
    return tuple(
        Stretch(
            topic=topic,
            topic_id=topic_id,
            partition=partition,
            offsets=tuple(place.offset for place in of),
            ts=tuple(place.ts for place in of),
        )
        for (topic, topic_id, partition), of in found.items()
    )


def places_in(of: Iterable[Stretch]) -> Iterator[Place]:
    """The places of stretches."""
    return (place for stretch in of for place in stretch.places())


def places_of(entry: Entry) -> Iterable[Stretch]:
    """All records that an entry names."""
    match entry:
        case Sealed():
            for named in (*entry.bad.values(), *entry.good.values()):
                yield from named
        case Applied() | Closed():
            yield from entry.places


class QuarantineLog:
    """The log of one pipeline, as of its last reading. Its entries stay in memory; used by one thread."""

    def __init__(self, io: FileIO, path: str) -> None:
        self.io = io
        self.path = path
        """The quarantine."""
        self.entries: dict[int, Entry] = {}
        self._is_read = False
        self._unnamed: set[str] = set()
        """Owners whose first step of this process has begun."""

    def refresh(self) -> None:
        """Read the entries that other processes have written since."""
        names = self.io.list_names(f"{self.path}/{DIRECTORY}")
        numbers = sorted(int(name[:12]) for name in names if _NAME.fullmatch(name))
        found: dict[int, Entry] = {}
        for number in numbers:
            entry = self.entries.get(number) or self._read(number)
            if entry is not None:
                found[number] = entry
        self.entries, self._is_read = found, True

    def read(self) -> None:
        """``refresh``, unless the log was already read."""
        if not self._is_read:
            self.refresh()

    def append(self, entry: Entry) -> int:
        """Append an entry durably; returns its number."""
        self.read()
        data = entry.model_dump_json(exclude_defaults=True, indent=1).encode()
        data = json.dumps({"kind": entry.kind, **json.loads(data)}).encode()
        self.io.mkdirs(f"{self.path}/{DIRECTORY}")
        first = max(self.entries, default=-1) + 1
        for number in range(first, first + _ATTEMPTS):
            if self.io.publish(self._file(number), data):
                if number > first:
                    self.refresh()
                self.entries[number] = entry
                return number
        raise BrokenInvariant(f"{self.path}/{DIRECTORY} grows faster than an entry can be written; please report")

    def remove(self, numbers: Collection[int]) -> None:
        """Remove entries that no longer decide about any record."""
        for number in sorted(numbers):
            self.io.delete(self._file(number))
            del self.entries[number]

    @property
    def voided(self) -> frozenset[int]:
        """The numbers of entries that no longer count."""
        return frozenset(n for entry in self.entries.values() if isinstance(entry, Voided) for n in entry.entries)

    def last_sealed(self, step: str) -> Sealed | None:
        """The newest sealed entry of a step."""
        self.read()
        newest_first = reversed(self.entries.values())
        return next((e for e in newest_first if isinstance(e, Sealed) and e.step == step), None)

    def remove_unsealed(self, step: str) -> None:
        """Remove the files that killed runs of a step left; only for an owner's first step, which may run again."""
        owner = step.partition("/")[0]
        if owner in self._unnamed:
            return
        self._unnamed.add(owner)
        sealed = (entry for entry in self.entries.values() if isinstance(entry, Sealed) and entry.step == step)
        named = {name for entry in sealed for name in entry.bad}
        for name in self.io.list_names(f"{self.path}/{step}"):
            if name not in named:
                # No entry names it, and its writer held the checkpoint, which this process holds now.
                self.io.delete(f"{self.path}/{step}/{name}")

    def _read(self, number: int) -> Entry | None:
        file = self._file(number)
        try:
            data = self.io.read(file)
        except FileNotFoundError:
            return None
        try:
            check_format(data, file)
            return _ENTRY.validate_json(data)
        except NOT_AS_WRITTEN as error:
            raise CorruptFile(
                f"{file} is damaged; it holds the state of bad records. Restore it. If you remove it instead, the "
                "quarantine loses the records that the file sealed, and records that it closed are open again"
            ) from error

    def _file(self, number: int) -> str:
        return f"{self.path}/{DIRECTORY}/{number:012d}.json"
