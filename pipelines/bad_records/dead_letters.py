"""The open records of a pipeline's quarantine, read from their files.

A line is a record as ``sinks.quarantine`` writes it, or as a user fixed it in its file. Any other line (torn, edited by
hand) is damaged: it is reported with its place and never lost.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from paimon_table.storage.file_io import FileIO
from pipelines.bad_records.facts import Facts, Judge, TableJudge, facts_of
from pipelines.bad_records.log import Entry, Place, QuarantineLog, Sealed, places_in
from pipelines.config.config import PipelineConfig
from pipelines.storage import catalog_of, quarantine_of

PART = 5_000
"""Records that are looked up in their files at once."""

_KEPT_BYTES = 64 << 20
"""Of files that were read, as long as they are."""

_CONTENT = ("ts", "key", "key_b64", "payload", "payload_b64", "headers", "headers_b64")


@dataclass(frozen=True, slots=True)
class BadLine:
    """A bad record and its line."""

    file: str
    """Its path below the quarantine."""
    number: int
    text: bytes
    topic: str
    partition: int
    offset: int
    ts: int | None
    reason: str
    source: tuple[str | None, str | None, str] | None
    """Names of the source table (database, schema, table), if the record has them."""
    topic_id: str = ""

    @property
    def record(self) -> Place:
        """Which record it is."""
        return Place(self.topic, self.topic_id, self.partition, self.offset, self.ts)

    def of_topic(self, topic_id: str) -> BadLine:
        """The same record of the topic with an id."""
        return replace(self, topic_id=topic_id) if topic_id else self

    @property
    def content(self) -> str:
        """The record without its place and without the reason why it is bad."""
        said = json.loads(self.text)
        return json.dumps({name: said.get(name) for name in _CONTENT if name in said})

    @property
    def place(self) -> str:
        return f"{self.file}:{self.number}"

    @property
    def owner(self) -> str:
        """The directory of the query, replay or retry that put it there."""
        return self.file.partition("/")[0]

    @property
    def step(self) -> int:
        """The number of its batch."""
        return int(self.file.split("/")[1].rpartition("-")[2])


@dataclass(frozen=True, slots=True)
class DamagedLine:
    """A line that is not a record, or with number 0 a record whose line is gone."""

    file: str
    number: int
    text: bytes
    problem: str

    @property
    def place(self) -> str:
        return f"{self.file}:{self.number}" if self.number else self.file


class DeadLetters:
    """The quarantine of one pipeline, which may be running."""

    def __init__(self, config: PipelineConfig, log: QuarantineLog | None = None) -> None:
        self.io, self.path = quarantine_of(config)
        self.location = config.quarantine
        self.log = log or QuarantineLog(self.io, self.path)
        self.config = config

    def judge(self) -> TableJudge:
        """Finds which records are in their tables now."""
        return TableJudge(catalog_of(self.config))

    def facts(self, judge: Judge | None = None) -> Facts:
        """Which records are open now."""
        self.log.refresh()
        return facts_of(self.log, judge or self.judge())

    def lines(
        self, facts: Facts | None = None, on_part: Callable[[int], None] = lambda _: None
    ) -> Iterator[BadLine | DamagedLine]:
        """The lines of open records in the order of ``facts``, each once; ``on_part`` gets the number done."""
        facts = self.facts().in_file_order() if facts is None else facts
        files = _Files(self.io, self.path, facts)
        for begin in range(0, len(facts), PART):
            end = min(len(facts), begin + PART)
            for at in range(begin, end):
                yield from files.damaged(int(facts.file[at]))
                yield files.line(at)
            on_part(end - begin)

    def records(self, facts: Facts | None = None) -> Iterator[BadLine]:
        """The open records, without what is damaged."""
        return (line for line in self.lines(facts) if isinstance(line, BadLine))


class _Files:
    """The files that were read last: neighbouring records are mostly in the same ones."""

    def __init__(self, io: FileIO, path: str, facts: Facts) -> None:
        self._io = io
        self._path = path
        self._facts = facts
        self._kept: OrderedDict[int, Mapping[Place, BadLine]] = OrderedDict()
        self._sizes: dict[int, int] = {}
        self._damaged: list[DamagedLine] = []
        self._read: set[int] = set()

    def line(self, at: int) -> BadLine | DamagedLine:
        place, file = self._facts.place(at), int(self._facts.file[at])
        found = self._of(file).get(place._replace(topic_id=""))
        if found is None:
            where = f"{shown(place)} is open, but its line is missing from the file: restore the line, or drop all"
            return DamagedLine("/".join(self._facts.files[file]), 0, b"", where)
        return found.of_topic(place.topic_id)

    def damaged(self, file: int) -> Iterator[DamagedLine]:
        """The damaged lines of a file, once."""
        self._of(file)
        yield from self._damaged
        self._damaged.clear()

    def _of(self, file: int) -> Mapping[Place, BadLine]:
        if file in self._kept:
            self._kept.move_to_end(file)
            return self._kept[file]
        found: dict[Place, BadLine] = {}
        for line in lines_of(self._io, self._path, "/".join(self._facts.files[file])):
            if isinstance(line, BadLine):
                found[line.record] = line
            elif file not in self._read:
                self._damaged.append(line)
        self._read.add(file)
        self._kept[file] = found
        self._sizes[file] = sum(len(line.text) for line in found.values())
        while len(self._kept) > 1 and sum(self._sizes.values()) > _KEPT_BYTES:
            del self._sizes[self._kept.popitem(last=False)[0]]
        return found


def shown(place: Place) -> str:
    """A record in words."""
    return f"record {place.topic} partition {place.partition} offset {place.offset}"


def lines_of(io: FileIO, path: str, file: str) -> Iterator[BadLine | DamagedLine]:
    """The lines of a file below the quarantine at ``path``; none if the file does not exist."""
    try:
        data = io.read(f"{path}/{file}")
    except FileNotFoundError:
        return
    for number, text in enumerate(data.split(b"\n"), 1):
        if text.strip():
            yield read_line(file, number, text)


def read_line(file: str, number: int, text: bytes) -> BadLine | DamagedLine:
    """The content of the line."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        return DamagedLine(file, number, text, f"it is not JSON: {error}")
    if not isinstance(fields, dict):
        return DamagedLine(file, number, text, "it is not a JSON object")
    topic, partition, offset = (fields.get(name) for name in ("topic", "partition", "offset"))
    for name, value, kind in (("topic", topic, str), ("partition", partition, int), ("offset", offset, int)):
        if not isinstance(value, kind) or isinstance(value, bool):
            return DamagedLine(file, number, text, f"its field {name!r} is missing or has another type")
    ts, reason = fields.get("ts", fields.get("timestamp_ms")), fields.get("reason")
    return BadLine(
        file,
        number,
        text,
        str(topic),
        int(partition or 0),
        int(offset or 0),
        ts if isinstance(ts, int) else None,
        reason if isinstance(reason, str) else "no reason is given",
        _source(fields.get("source")),
    )


def _source(names: Any) -> tuple[str | None, str | None, str] | None:
    match names:
        case [str() | None as database, str() | None as schema, str() as table]:
            return database, schema, table
        case _:
            return None


def remove_payloads(
    log: QuarantineLog, entries: Iterable[Entry], goes: Callable[[Place], bool], *, damaged: bool = False
) -> None:
    """Remove the lines of records from the files that entries name, in one step for each file.

    ``damaged`` also removes all lines that are not of a record of the entry.
    """
    for entry in (entry for entry in entries if isinstance(entry, Sealed)):
        for name, of in entry.bad.items():
            is_gone = {place._replace(topic_id=""): goes(place) for place in places_in(of)}
            if damaged or any(is_gone.values()):
                _remove_lines(log, f"{entry.step}/{name}", is_gone, damaged)


def _remove_lines(log: QuarantineLog, file: str, is_gone: Mapping[Place, bool], others: bool) -> None:
    lines = [*lines_of(log.io, log.path, file)]
    kept = [li.text for li in lines if not (is_gone.get(li.record, others) if isinstance(li, BadLine) else others)]
    if kept and len(kept) < len(lines):
        log.io.write(f"{log.path}/{file}", b"".join(line + b"\n" for line in kept))
    elif lines and not kept:
        log.io.delete(f"{log.path}/{file}")
        log.io.delete_if_empty(f"{log.path}/{file}".rpartition("/")[0])
