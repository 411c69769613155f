"""Where records go that cannot be decoded or converted: one directory of JSON lines per batch.

A line is the whole record in the form of a dump (as ``kcat -J`` prints it) with the reason, so that it can be mended
and read again by a pipeline whose source is files. The files of a batch lie in a directory of its own, which is emptied
before the batch (re)runs: a replayed batch leaves each bad record once. Lines of tables that have the batch already
stay, in a file of their own. Files are named after the task that writes them and its stretch of records, so two never
meet, and a task that Spark tries again writes the same ones.

A batch may bring records that another directory still holds, once what was wrong with them is mended: a table that is
caught up or built anew reads them again. It leaves notes of them in its own directory, lines of the same form in files
with another ending, and they leave the quarantine when what the batch is part of is done.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from paimon_table.storage.file_io import FileIO

_TOPIC_CHARACTERS = 100
"""Of the topic in a file name: topics have up to 249, file names 255 with all that comes after and before."""


_KEPT = "kept"
"""The file of lines that outlast a run, without its ending; those of tasks have dashes in their names."""

LINES = ".jsonl"
NOTES = ".good"
"""How the files end."""

_THOUGHT = ("reason", "source")


class SourceNames(Protocol):
    """A source table."""

    @property
    def database(self) -> str | None: ...
    @property
    def schema(self) -> str | None: ...
    @property
    def table(self) -> str: ...


class BadRecord(Protocol):
    """What the quarantine needs to know of a record."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int | None: ...
    @property
    def reason(self) -> str: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Iterable[tuple[str, bytes | None]]: ...
    @property
    def source(self) -> SourceNames | None: ...


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A directory that holds the bad records of one pipeline. Used by the driver (clear) and by decode tasks (add)."""

    io: FileIO
    path: str
    task: int = 0
    """Number of the decode task in its job."""
    has_kept: bool = False
    """Whether lines of an earlier run of the batch stay: their records are not written again."""
    takes_bad: bool = True
    """False: a bad record stops the pipeline (``on_bad_record: fail``); what is here from before stays in order."""

    def clear(self, batch_id: int, keeps: Callable[[Mapping[str, Any] | None], bool] = lambda _: False) -> Quarantine:
        """Forget what an earlier run of this batch left, but for the lines that ``keeps`` asks for; for its next run.

        So it is with the notes of records that were good.

        A line that is no JSON object is shown to it as None.
        """
        directory = self.directory(batch_id)
        all_names = self.io.list_names(directory)
        notes = [name for name in all_names if name.endswith(NOTES)]
        lines = [name for name in all_names if not name.endswith(NOTES)]
        self._keep(directory, notes, NOTES, keeps)
        return replace(self, has_kept=self._keep(directory, lines, LINES, keeps))

    def _keep(
        self, directory: str, names: list[str], ending: str, keeps: Callable[[Mapping[str, Any] | None], bool]
    ) -> bool:
        """Leave in one file what ``keeps`` asks for of several; gives whether there is any."""
        kept = [line for name in names for line in self._lines(f"{directory}/{name}") if keeps(_fields(line))]
        if kept:
            self.io.write(f"{directory}/{_KEPT}{ending}", b"".join(line + b"\n" for line in dict.fromkeys(kept)))
        for name in names:
            if name != f"{_KEPT}{ending}" or not kept:
                self.io.delete(f"{directory}/{name}")
        return bool(kept)

    def _lines(self, path: str) -> list[bytes]:
        return [line for line in self.io.read(path).split(b"\n") if line.strip()]

    def add(self, batch_id: int, stretch: int, records: Iterable[BadRecord]) -> None:
        """Write bad records; ``stretch`` counts how often this task has done that."""
        directory = self.directory(batch_id)
        file = f"{directory}/{_KEPT}{LINES}"
        kept = {_record(_fields(line)) for line in self._lines(file)} if self.has_kept else set()
        rows = [record for record in records if not kept or _record(record_line(record)) not in kept]
        self._write(batch_id, stretch, rows, LINES)

    def note_good(self, batch_id: int, stretch: int, records: Iterable[BadRecord]) -> None:
        """Note records that are good and that the quarantine holds elsewhere; ``stretch`` as in ``add``."""
        self._write(batch_id, stretch, list(records), NOTES)

    def _write(self, batch_id: int, stretch: int, rows: Sequence[BadRecord], ending: str) -> None:
        if not rows:
            return
        first, directory = rows[0], self.directory(batch_id)
        self.io.mkdirs(directory)
        name = f"{_readable(first.topic)}-{first.partition}-{first.offset}-{self.task}-{stretch}{ending}"
        text = "".join(json.dumps(record_line(r), ensure_ascii=False) + "\n" for r in rows)
        self.io.write(f"{directory}/{name}", text.encode())

    def directory(self, batch_id: int) -> str:
        return f"{self.path}/batch-{batch_id:012d}"


def _fields(line: bytes) -> Mapping[str, Any] | None:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def _record(line: Mapping[str, Any] | None) -> str:
    """What a line holds of its record, without what was thought of it."""
    return json.dumps({name: value for name, value in (line or {}).items() if name not in _THOUGHT})


def record_line(record: BadRecord) -> dict[str, Any]:
    """A bad record as a line of a dump; bytes that are no UTF-8 text stand in base64 under ``<name>_b64``."""
    line: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "ts": record.timestamp_ms,
        "reason": record.reason,
    }
    if record.source is not None:
        line["source"] = [record.source.database, record.source.schema, record.source.table]
    headers = list(record.headers)
    if headers:
        line.update(_headers(headers))
    line.update(_content("key", record.key))
    line.update(_content("payload", record.value))
    return line


def _headers(headers: Sequence[tuple[str, bytes | None]]) -> Mapping[str, list[str | None]]:
    """Names and values by turns."""
    values = [value for _, value in headers]
    if all(value is None or _text(value) is not None for value in values):
        name, texts = "headers", [None if value is None else _text(value) for value in values]
    else:
        name, texts = "headers_b64", [None if value is None else base64.b64encode(value).decode() for value in values]
    return {name: [part for (key, _), text in zip(headers, texts, strict=True) for part in (key, text)]}


def _content(name: str, value: bytes | None) -> Mapping[str, str | None]:
    text = None if value is None else _text(value)
    if value is not None and text is None:
        return {f"{name}_b64": base64.b64encode(value).decode()}
    return {name: text}


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _readable(topic: str) -> str:
    """The topic as far as it fits into a file name; other topics may give the same."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in topic)[:_TOPIC_CHARACTERS]
