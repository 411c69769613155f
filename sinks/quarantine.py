"""The files of records that decode tasks cannot decode or convert, as JSON lines: each record complete, with the
reason.

A line is the record in the form of a dump (as ``kcat -J`` prints it), so that it can be fixed and retried. Its records
are in the quarantine only after the driver has sealed the step, which adds the file to the log of facts
(``pipelines.bad_records.log``). A batch that runs again, or that must not fill the quarantine, leaves files that are
not in the log. Tidemark never reads these files, and removes them.

The name of a file has the topic, partition and offset of its first record, the task, its range of records and the run
of the batch. So no two files get one name, and a task that Spark retries within a run writes the same files.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from paimon_table.storage.file_io import FileIO

_TOPIC_CHARACTERS = 100
"""The longest topic in a file name. Topics have up to 249 characters, whole file names up to 255."""

LINES = ".jsonl"
"""The end of the file names."""


class SourceNames(Protocol):
    """A source table."""

    @property
    def database(self) -> str | None: ...
    @property
    def schema(self) -> str | None: ...
    @property
    def table(self) -> str: ...


class BadRecord(Protocol):
    """The facts about a record for the quarantine."""

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
    """The files of bad records of one owner (a query, a replay, a retry): a directory with one for each step."""

    io: FileIO
    path: str
    task: int = 0
    """Number of the decode task in its job."""
    takes_bad: bool = True
    """False: a bad record stops the pipeline (``on_bad_record: fail``); earlier records stay in the quarantine."""
    run: str = ""
    """Distinguishes the files of this run of the step from the files of its earlier runs."""

    @property
    def root(self) -> str:
        """The quarantine of the pipeline, which has the log."""
        return self.path.rpartition("/")[0]

    def step(self, batch_id: int) -> str:
        """The directory of a step, below the quarantine of the pipeline."""
        return f"{self.path.rpartition('/')[2]}/batch-{batch_id:012d}"

    def directory(self, batch_id: int) -> str:
        return f"{self.root}/{self.step(batch_id)}"

    def add(self, batch_id: int, stretch: int, records: Sequence[BadRecord]) -> str:
        """Write bad records, at least one; returns the name of their file.

        ``stretch`` counts the calls of this task.
        """
        first, directory = records[0], self.directory(batch_id)
        run = f"-{self.run}" if self.run else ""
        name = f"{_readable(first.topic)}-{first.partition}-{first.offset}-{self.task}-{stretch}{run}{LINES}"
        text = "".join(json.dumps(record_line(record), ensure_ascii=False) + "\n" for record in records)
        self.io.mkdirs(directory)
        self.io.write(f"{directory}/{name}", text.encode())
        return name


def record_line(record: BadRecord) -> dict[str, Any]:
    """A bad record as a line of a dump; bytes that are not UTF-8 are in base64 under ``<name>_b64``."""
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
    """Names and values in turn."""
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
    """The topic, shortened for a file name; two topics may give the same text."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in topic)[:_TOPIC_CHARACTERS]
