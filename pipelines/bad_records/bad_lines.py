"""The lines of a pipeline's quarantine, read one after the other: where each lies, and which are damaged.

A line is a record as ``sinks.quarantine`` writes it. One that is no such record (torn, edited by hand) is damaged: it
is told by its place and never lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from paimon_table.storage.file_io import FileIO, FoundFile
from pipelines.checkpoint.book import Book, Pause
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.replay_state import Replays, ReplayState
from pipelines.config.config import PipelineConfig
from pipelines.storage import quarantine_of
from sinks.quarantine import LINES, NOTES

RETRY = "retry-"
"""Begins the directories of retries, beside those of queries."""

REPLAY = "replay-"
"""Begins those of replays."""

SLICE = "slice-"
"""Begins the directories in them of what is being retried."""

PLAN = "slice.json"
"""The file in such a directory that makes it one: written last, removed first."""

RECORDS = "records.jsonl"
"""The file in it with the lines of its records."""

_BLOCK_BYTES = 4 << 20
_BATCH = "batch-"
_CONTENT = ("ts", "key", "key_b64", "payload", "payload_b64", "headers", "headers_b64")


RecordPlace: TypeAlias = tuple[str, int, int]
"""Topic, partition and offset of a record."""


@dataclass(frozen=True, slots=True)
class BadFile:
    """A file of bad records: what one task has put there at once, so it fits into memory."""

    path: str
    owner: str
    """The directory below the quarantine: the query that wrote it, or the retry."""
    batch: int
    is_final: bool
    """Whether its batch is done: one that may run again writes its files anew."""
    size_bytes: int = 0
    modified_ms: int = 0

    @property
    def place(self) -> str:
        return f"{self.owner}/{_BATCH}{self.batch:012d}/{self.path.rpartition('/')[2]}"


@dataclass(frozen=True, slots=True)
class BadLine:
    """A bad record and its line."""

    file: BadFile
    number: int
    text: bytes
    topic: str
    partition: int
    offset: int
    ts: int | None
    reason: str
    source: tuple[str | None, str | None, str] | None
    """Names of the source table (database, schema, table), where the record told them."""

    @property
    def record(self) -> RecordPlace:
        """Where the source had the record. A topic that is made anew, or a replaced dump, has others in its places."""
        return (self.topic, self.partition, self.offset)

    @property
    def content(self) -> str:
        """The record without its place, and without what was thought of it."""
        said = json.loads(self.text)
        return json.dumps({name: said.get(name) for name in _CONTENT if name in said})

    @property
    def place(self) -> str:
        return f"{self.file.place}:{self.number}"


@dataclass(frozen=True, slots=True)
class DamagedLine:
    """A line that is no record."""

    file: BadFile
    number: int
    text: bytes
    problem: str

    @property
    def place(self) -> str:
        return f"{self.file.place}:{self.number}"


class BadLines:
    """The quarantine of one pipeline, which may be running."""

    def __init__(self, config: PipelineConfig) -> None:
        self.io, self.path = quarantine_of(config)
        self.location = config.quarantine
        checkpoint = Checkpoint(config)
        self._query = checkpoint.query_id
        self._undone = _undone_batches(checkpoint)

    def files(self) -> list[BadFile]:
        """All files, batch after batch; within a batch by topic, partition and offset."""
        return self._files(LINES)

    def notes(self) -> list[BadFile]:
        """The notes of records that are good by now, in the same order; see ``sinks.quarantine``."""
        return self._files(NOTES)

    def unapplied(self) -> list[BadFile]:
        """The records of retries that have ended before they were done, some of which are in no other file any more."""
        names = begun_slices(self.io, self.path)
        return [BadFile(f"{self.path}/{name}/{RECORDS}", name.partition("/")[0], 0, False) for name in names]

    def _files(self, ending: str) -> list[BadFile]:
        found = []
        for owner in sorted(self.io.list_names(self.path), key=lambda name: (name == self._query, name)):
            inside = names_inside(self.io, f"{self.path}/{owner}")
            is_done = not (
                owner.startswith(RETRY) and any(_is_begun(self.io, self.path, owner, name) for name in inside)
            )
            for directory in inside:
                number = directory.removeprefix(_BATCH)
                if directory == number or not number.isdecimal():
                    continue
                batch = f"{self.path}/{owner}/{directory}"
                files = [file for file in self._files_inside(batch) if file.name.endswith(ending)]
                is_final = is_done and self._is_final(owner, int(number))
                found += [
                    BadFile(f"{batch}/{file.name}", owner, int(number), is_final, file.size_bytes, file.modified_ms)
                    for file in sorted(files, key=lambda file: _order(file.name))
                ]
        return found

    def _files_inside(self, path: str) -> list[FoundFile]:
        try:
            return self.io.list_files(path)
        except NotADirectoryError:
            return []

    def _is_final(self, owner: str, batch: int) -> bool:
        return batch < self._undone.get(owner, batch + 1)

    def lines(self, files: list[BadFile], on_file: Callable[[], None]) -> Iterator[BadLine | DamagedLine]:
        """The lines of the files; ``on_file`` is called after each. One that goes away meanwhile has none."""
        for file in files:
            try:
                for number, text in enumerate(raw_lines(self.io, file.path), 1):
                    if text.strip():
                        yield read_line(file, number, text)
            except FileNotFoundError:
                pass
            on_file()


def _undone_batches(checkpoint: Checkpoint) -> dict[str, int]:
    """By directory of the quarantine the first batch of it that may run, or run again."""
    query, closed = checkpoint.query_id, checkpoint.closed_batch
    if query is None:
        return {}
    undone = {query: 0 if closed is None else closed + 1}
    for pause in Book(checkpoint).pauses.values():
        undone[aside_owner(query, pause)] = 0 if pause.slice is None else pause.slice.number
    for state in Replays(checkpoint).all():
        undone[replay_owner(state)] = state.number
    return undone


def aside_owner(query: str, pause: Pause) -> str:
    """The directory of the bad records of a table that is caught up."""
    return query + pause.aside_name


def replay_owner(state: ReplayState) -> str:
    """The directory of the bad records of a replay."""
    return f"{REPLAY}{state.id}"


def names_inside(io: FileIO, path: str) -> list[str]:
    """What a directory holds; nothing if the path is that of a file."""
    try:
        return io.list_names(path)
    except NotADirectoryError:
        return []


def begun_slices(io: FileIO, path: str) -> Iterator[str]:
    """The slices of retries in the quarantine at ``path`` that are to be done, as ``retry-ID/slice-N``."""
    for owner in io.list_names(path):
        for name in names_inside(io, f"{path}/{owner}") if owner.startswith(RETRY) else ():
            if _is_begun(io, path, owner, name):
                yield f"{owner}/{name}"


def _is_begun(io: FileIO, path: str, owner: str, name: str) -> bool:
    """Whether it is a slice that is to be done; what else is left of one when a retry is killed says nothing."""
    return name.startswith(SLICE) and io.exists(f"{path}/{owner}/{name}/{PLAN}")


def raw_lines(io: FileIO, path: str) -> Iterator[bytes]:
    """The lines of a file without their ends, read in blocks."""
    with io.open_input(path) as stream:
        rest = b""
        while block := stream.read(_BLOCK_BYTES):
            *whole, rest = (rest + block).split(b"\n")
            yield from whole
        if rest:
            yield rest


def read_line(file: BadFile, number: int, text: bytes) -> BadLine | DamagedLine:
    """What the line holds."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        return DamagedLine(file, number, text, f"it is no JSON: {error}")
    if not isinstance(fields, dict):
        return DamagedLine(file, number, text, "it is no JSON object")
    topic, partition, offset = (fields.get(name) for name in ("topic", "partition", "offset"))
    for name, value, kind in (("topic", topic, str), ("partition", partition, int), ("offset", offset, int)):
        if not isinstance(value, kind) or isinstance(value, bool):
            return DamagedLine(file, number, text, f"its field {name!r} is missing or of another kind")
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


def _order(name: str) -> tuple[str, tuple[int, ...]]:
    """By topic, then by the numbers that a file's name ends with: partition, first offset, task and stretch."""
    topic, *numbers = name.rpartition(".")[0].rsplit("-", 4)
    return topic, tuple(int(number) if number.isdecimal() else 0 for number in numbers)
