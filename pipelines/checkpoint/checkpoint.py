"""Spark's checkpoint directory of a pipeline: its content, and whether Spark will be able to read it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from paimon_table.errors import CorruptFile
from paimon_table.storage.file_io import LocalFileIO, numbers_of
from pipelines.checkpoint.document import check_format
from pipelines.config.config import PipelineConfig
from pipelines.storage import storage_of
from sinks.commit.positions import offsets_of
from sources.kafka.offset_ranges import text_of

NOT_AS_WRITTEN = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)
"""Errors from parsing a damaged document: not JSON, other names, or values of other types."""

WAY_OUT = (
    "move the directory away and start again: with on_lost_checkpoint: resume (the default) the pipeline continues "
    "from the positions in the tables. A copy of the checkpoint is usable only if it is from after the last batch"
)

T = TypeVar("T")

_NO_OFFSET = "-"
"""Spark's word for a source that has not reported a position."""


class Checkpoint:
    """Reads the files that Spark keeps: ``metadata``, and one per batch in ``offsets`` and ``commits``."""

    def __init__(self, config: PipelineConfig) -> None:
        self.location = config.checkpoint
        self.pipeline = config.name
        self.io, self.path = storage_of(config, config.checkpoint)

    def write(self, name: str, data: bytes) -> None:
        """Write a file durably; no other user may write it, because it decides what a run considers its own."""
        io = replace(self.io, closed_to_writers=True) if isinstance(self.io, LocalFileIO) else self.io
        io.write(f"{self.path}/{name}", data)

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is none."""
        try:
            return self.io.read(f"{self.path}/{name}")
        except FileNotFoundError:
            return None

    def document(self, name: str, parse: Callable[[bytes], T]) -> T | None:
        """The result of ``parse`` for a file of Tidemark's; None if there is no file.

        Raises CorruptFile, with the file and the remedy, if parsing raises one of ``NOT_AS_WRITTEN``. Raises
        UnsupportedFeature for a newer version, see ``document``.
        """
        data = self.read(name)
        if data is None:
            return None
        try:
            check_format(data, f"file {name} of checkpoint {self.location}")
            return parse(data)
        except NOT_AS_WRITTEN as error:
            raise self.damaged(name, "does not have the content that Tidemark wrote") from error

    def documents(self, directory: str, parse: Callable[[bytes], T]) -> list[T]:
        """``document`` of each file in a directory, by name; skips a file that disappears at the same time."""
        names = self.io.list_names(f"{self.path}/{directory}")
        ours = [name for name in names if name.endswith(".json") and not name.startswith(".")]
        found = [self.document(f"{directory}/{name}", parse) for name in ours]
        return [document for document in found if document is not None]

    @property
    def is_new(self) -> bool:
        """Whether no batch was ever planned."""
        return not self.io.list_names(f"{self.path}/offsets")

    @property
    def planned_batches(self) -> list[int]:
        """The planned batches in rising order; Spark keeps the last hundred."""
        return sorted(self._numbers("offsets"))

    @property
    def query_id(self) -> str | None:
        """The id that Spark gave the query; None before its first start."""
        content = self.read("metadata")
        if content is None:
            return None
        found = _object(content.decode(errors="replace")).get("id")
        if not isinstance(found, str) or not found:
            raise self.damaged("metadata", "has no query id")
        return found

    @property
    def commit_user(self) -> str | None:
        """See ``commit_user``; None before the first start."""
        query_id = self.query_id
        return None if query_id is None else commit_user(self.pipeline, query_id)

    @property
    def closed_batch(self) -> int | None:
        """The last batch that Spark took for done."""
        return max(self._numbers("commits"), default=None)

    @property
    def planned_batch(self) -> int | None:
        """The last batch whose offsets Spark has written."""
        return max(self._numbers("offsets"), default=None)

    def planned_at_ms(self, batch_id: int) -> int | None:
        """When Spark planned the batch for the first time (ms), from the offset log, if there."""
        try:
            return self._planned_at_ms(f"offsets/{batch_id}")
        except FileNotFoundError:
            return None

    def check(self) -> None:
        """Raise CorruptFile, with the file and the remedy, if Spark would fail on the checkpoint or misread it.

        Spark reads the offsets of the last two batches, the last commit and the start of the source. A lost commit does
        no harm: its batch runs again.
        """
        planned, closed = self.planned_batch, self.closed_batch
        if closed is not None and (planned is None or planned < closed):
            raise self.damaged(f"offsets/{closed}", f"is missing, although batch {closed} is done")
        if planned is not None:
            if self.query_id is None:
                raise self.damaged("metadata", f"is missing, although batch {planned} is planned")
            if planned > 0 and planned - 1 not in self._numbers("offsets"):
                raise self.damaged(f"offsets/{planned - 1}", f"is missing, although batch {planned} is planned")
            for batch in {planned, max(planned - 1, 0)}:
                self._planned_at_ms(f"offsets/{batch}")
        if closed is not None:
            self._lines(f"commits/{closed}", 2)
        for name in self._numbers("sources/0"):
            self._lines(f"sources/0/{name}", 2)

    def damaged(self, file: str, what: str) -> CorruptFile:
        """The error for a file of the checkpoint; ``what`` follows its name."""
        return CorruptFile(f"checkpoint {self.location} is damaged: its file {file} {what}; {WAY_OUT}")

    def kafka_positions(self) -> dict[tuple[str, int], int] | None:
        """Per (topic, partition) the next offset after the last closed batch; None before one was closed."""
        closed = self.closed_batch
        return None if closed is None else self._ends_of(f"offsets/{closed}")

    def next_begins(self) -> dict[tuple[str, int], int]:
        """Per (topic, partition) where the first batch begins that is not closed; empty before one was planned."""
        file = self._begin_file()
        return {} if file is None else self._ends_of(file)

    def planned_ends(self, batch_id: int) -> dict[tuple[str, int], int]:
        """Per (topic, partition) where a planned batch ends, with partitions that are new in it."""
        return self._ends_of(f"offsets/{batch_id}")

    def planned_offsets(self, batch_id: int) -> dict[tuple[str, int], tuple[int, int]]:
        """Per (topic, partition) the offsets (begin, end) of a batch; without partitions that were new in it."""
        begins, ends = self.planned_bounds(batch_id)
        return {place: (begins[place], end) for place, end in ends.items() if place in begins}

    def planned_bounds(self, batch_id: int) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
        """Per (topic, partition) where a batch begins, without partitions that were new in it, and where it ends."""
        begins = self._ends_of(f"offsets/{batch_id - 1}") if batch_id else self._first_offsets()
        return begins, self.planned_ends(batch_id)

    def move(self, places: Mapping[tuple[str, int], int | None]) -> None:
        """Change where Spark continues in Kafka: at another offset, or with None as if the partition were new.

        Also a batch that is planned and not closed ends there. It comes first: after a crash in between, Spark
        continues from the closed batch and still finds the next one without records of these partitions.
        """
        planned = self.planned_batch
        files = [None if planned is None else f"offsets/{planned}", self._begin_file()]
        for file in dict.fromkeys(file for file in files if file is not None) if places else ():
            self._move_in(file, places)

    def _move_in(self, file: str, places: Mapping[tuple[str, int], int | None]) -> None:
        lines = self._lines(file, 2)
        nested = _object(lines[-1])
        for (topic, partition), offset in places.items():
            at = nested.setdefault(topic, {})
            at.pop(str(partition), None)
            if offset is not None:
                at[str(partition)] = offset
        lines[-1] = json.dumps({topic: at for topic, at in nested.items() if at}, separators=(",", ":"))
        begin = b"\0" if self.io.read(f"{self.path}/{file}").startswith(b"\0") else b""
        directory, _, name = file.rpartition("/")
        self.io.delete(f"{self.path}/{directory}/.{name}.crc")
        self.io.write(f"{self.path}/{file}", begin + "\n".join(lines).encode())

    def _begin_file(self) -> str | None:
        """The file that says where the first batch begins that is not closed; None before one was planned."""
        closed, planned = self.closed_batch, self.planned_batch
        if closed is not None or planned is None:
            return None if closed is None else f"offsets/{closed}"
        if planned > 0:
            return f"offsets/{planned - 1}"
        first = self._numbers("sources/0")
        return f"sources/0/{first[0]}" if first else None

    def _first_offsets(self) -> dict[tuple[str, int], int]:
        """Where Spark began to read Kafka."""
        return self._ends_of("sources/0/0")

    def _ends_of(self, file: str) -> dict[tuple[str, int], int]:
        """The offsets in a file of Spark's, which are its last line."""
        return offsets_of(_object(self._lines(file, 2)[-1]))

    def offset_before(self, batch_id: int) -> str | None:
        """The begin of a planned batch, in the text form of the source; None: the earliest record."""
        if batch_id > 0:
            return self.offset_after(batch_id - 1)
        first = self._numbers("sources/0")
        return self._lines(f"sources/0/{first[0]}", 2)[1] if first else None

    def offset_after(self, batch_id: int) -> str:
        """The end of a planned batch, in the text form of the source; Spark keeps those of the last hundred batches."""
        try:
            return self._lines(f"offsets/{batch_id}", 3)[2]
        except FileNotFoundError as error:
            raise self.damaged(f"offsets/{batch_id}", "is missing") from error

    def forget_unused_start(self) -> None:
        """Remove the start offsets that Spark recorded for a checkpoint without a planned batch.

        Nothing refers to them: the offset log is empty. If they stayed, they would override the positions of the
        tables.
        """
        for name in self.io.list_names(f"{self.path}/sources/0"):
            self.io.delete(f"{self.path}/sources/0/{name}")

    def note_start(self, start: Mapping[tuple[str, int], int]) -> None:
        """Note where reading begins, as Spark's own reader of Kafka does: either reader continues from there."""
        self.io.write(f"{self.path}/sources/0/0", b"\0v1\n" + text_of(start).encode())

    def noted_start(self) -> dict[tuple[str, int], int]:
        """The offsets at which reading began; empty (the earliest records) if they were not recorded."""
        return self._first_offsets() if self._numbers("sources/0") else {}

    def _planned_at_ms(self, file: str) -> int:
        """The time in a file of the offset log, which has a line on the batch and one for each source."""
        _, batch, source = self._lines(file, 3)[:3]
        planned_at_ms = _object(batch).get("batchTimestampMs")
        if not isinstance(planned_at_ms, int) or not (source == _NO_OFFSET or source.startswith("{")):
            raise self.damaged(file, "has no offsets of a batch")
        return planned_at_ms

    def _lines(self, file: str, count: int) -> list[str]:
        """The lines of a file of Spark's logs: a version (with a zero byte before it for Kafka), then what it logs."""
        content = self.io.read(f"{self.path}/{file}").decode(errors="replace")
        lines = content.removeprefix("\0").split("\n")
        if not content:
            raise self.damaged(file, "is empty")
        if re.fullmatch(r"v\d+", lines[0]) is None:
            raise self.damaged(file, "does not begin with its format version")
        if len(lines) < count or not (_is_json(lines[-1]) or lines[-1] == _NO_OFFSET):
            raise self.damaged(file, "is cut off")
        return lines

    def _numbers(self, directory: str) -> list[int]:
        return numbers_of(self.io.list_names(f"{self.path}/{directory}"), "")


def commit_user(pipeline: str, query_id: str) -> str:
    """Who commits, as snapshots say: the identity of the checkpoint."""
    return f"tidemark-{pipeline}-{query_id}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except NOT_AS_WRITTEN:
        return False
    return True


def _object(text: str) -> dict[str, Any]:
    """The JSON object of a text; empty when it is none."""
    try:
        parsed = json.loads(text)
    except NOT_AS_WRITTEN:
        return {}
    return parsed if isinstance(parsed, dict) else {}
