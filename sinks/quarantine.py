"""Where records go that cannot be decoded or converted: one directory of JSON lines per batch.

A line holds the place of the record, the reason and the whole record, so that it can be mended and replayed. The files
of a batch lie in a directory of its own, which is emptied before the batch (re)runs: a replayed batch leaves each bad
record once.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from paimon_table.file_io import FileIO


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


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A directory that holds the bad records of one pipeline. Used by the driver (clear) and by decode tasks (add)."""

    io: FileIO
    path: str

    def clear(self, batch_id: int) -> None:
        """Forget what an earlier run of this batch left; its directory holds nothing else."""
        directory = self.directory(batch_id)
        for name in self.io.list_names(directory):
            self.io.delete(f"{directory}/{name}")

    def add(self, batch_id: int, records: Iterable[BadRecord]) -> None:
        """Write the records of one stretch of one topic partition; the file is named after the first of them."""
        rows = list(records)
        if not rows:
            return
        first = rows[0]
        directory = self.directory(batch_id)
        self.io.mkdirs(directory)
        topic = "".join(c if c.isalnum() or c in "._-" else "_" for c in first.topic)
        text = "".join(json.dumps(record_line(r), ensure_ascii=False) + "\n" for r in rows)
        self.io.write(f"{directory}/{topic}-{first.partition}-{first.offset}.jsonl", text.encode())

    def directory(self, batch_id: int) -> str:
        return f"{self.path}/batch-{batch_id:012d}"


def record_line(record: BadRecord) -> dict[str, Any]:
    """A bad record as one JSON object; bytes that are no UTF-8 text stand in base64 under ``<name>_base64``."""
    line: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "reason": record.reason,
    }
    line.update(_text("key", record.key))
    line.update(_text("value", record.value))
    line["headers"] = [{"key": name, **_text("value", value)} for name, value in record.headers]
    return line


def _text(name: str, value: bytes | None) -> Mapping[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}
