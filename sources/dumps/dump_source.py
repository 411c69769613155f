"""Spark streaming source over dumps of Kafka topics (``kcat -J`` files): the same columns as Spark's Kafka source.

The offset says how far each file was read. Every ``latestOffset`` goes at most ``max_records_per_batch`` lines beyond
the end of the last planned batch, whatever the size of the files. Spark tells that end by planning the batch; after a
restart it does so with an empty batch at the newest offset of the checkpoint, before it asks for more. Files are read
in the order of their names; files that appear later are picked up wherever their names sort.
"""

from __future__ import annotations

import glob
import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from paimon_table.errors import ConfigError, CorruptFile
from sources.dumps.dump_file import DumpFile, FilePosition, advanced, is_compressed, line_boundary
from sources.dumps.dump_lines import MALFORMED_PREFIX
from sources.dumps.dump_records import records_of_text

SCHEMA = (
    "topic string, partition int, offset long, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)
_LEAST_RANGE_BYTES = 8 << 20
_READ_BYTES = 8 << 20


class TopicPatterns(Protocol):
    """Which topics are wanted: exact names, or patterns to include less patterns to exclude (all match whole names)."""

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def include(self) -> Sequence[str]: ...
    @property
    def exclude(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """Options of the source, as parsed from Spark's string map."""

    path: str
    max_records_per_batch: int
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    tasks: int

    @staticmethod
    def parsed(options: Mapping[str, str]) -> DumpOptions:
        include, exclude = (tuple(json.loads(options.get(name, "[]"))) for name in ("include", "exclude"))
        limit, tasks = int(options["max_records_per_batch"]), int(options["tasks"])
        return DumpOptions(options["path"], limit, include, exclude, tasks)

    def selects(self, topic: str) -> bool:
        """Whether records of a topic are wanted; lines that are no records always are."""
        if topic.startswith(MALFORMED_PREFIX):
            return True
        included = not self.include or any(re.fullmatch(p, topic) for p in self.include)
        return included and not any(re.fullmatch(p, topic) for p in self.exclude)


@dataclass(frozen=True)
class DumpRange(InputPartition):
    """Whole lines of one file, by byte positions of the uncompressed text."""

    path: str
    start: int
    end: int


Positions = dict[str, FilePosition]


class DumpSource(DataSource):
    """Format ``tidemark-dump``; make its options with ``reader_options``."""

    @classmethod
    def name(cls) -> str:
        return "tidemark-dump"

    @staticmethod
    def reader_options(
        path: str, max_records_per_batch: int, topics: TopicPatterns, tasks: int | None = None
    ) -> dict[str, str]:
        """Spark options for a file, directory or glob of dump files; ``tasks`` bounds the tasks per file and batch."""
        names = [re.escape(name) for name in topics.names]
        return {
            "path": path,
            "max_records_per_batch": str(max_records_per_batch),
            "include": json.dumps(names or list(topics.include)),
            "exclude": json.dumps(list(topics.exclude)),
            "tasks": str(tasks or os.cpu_count() or 1),
        }

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return DumpStreamReader(DumpOptions.parsed(self.options))


class DumpStreamReader(DataSourceStreamReader):
    """Plans in one process per query (which lives as long as the query), reads in executors."""

    def __init__(self, options: DumpOptions) -> None:
        self.options = options
        self._planned: Positions = {}
        self._unfinished: DumpFile | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "_planned": {}, "_unfinished": None}

    def initialOffset(self) -> dict[str, Any]:
        return _offset({})

    def latestOffset(self) -> dict[str, Any]:
        """At most one batch beyond the last planned one; asking twice without planning does not go further."""
        positions = dict(self._planned)
        left = self.options.max_records_per_batch
        for name, path in dump_files(self.options.path):
            start = positions.get(name, FilePosition())
            if left <= 0:
                break
            if _has_more(path, start):
                end = self._advanced(path, start, left)
                left -= end.records - start.records
                positions |= {name: end} if end != start else {}
        return _offset(positions)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begins, ends = _positions(start), _positions(end)
        self._planned = ends
        paths = dict(dump_files(self.options.path))
        ranges: list[InputPartition] = []
        for name, position in ends.items():
            begin = begins.get(name, FilePosition())
            if position.bytes > begin.bytes:
                if name not in paths:
                    raise CorruptFile(f"dump file {name} of {self.options.path} is gone, but planned: put it back")
                ranges += _ranges(paths[name], begin.bytes, position.bytes, self.options.tasks)
        return ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, DumpRange)
        file = _worker_file(partition.path)
        position, rest = partition.start, b""
        while position + len(rest) < partition.end:
            at = position + len(rest)
            more = file.read(at, min(_READ_BYTES, partition.end - at))
            if not more:
                raise CorruptFile(
                    f"{partition.path} ends at {at}, it was longer when the batch was planned: restore it"
                )
            block = rest + more
            is_last = position + len(block) == partition.end
            whole, newline, rest = (block, b"", b"") if is_last else block.rpartition(b"\n")
            if whole:
                yield self._selected(records_of_text(whole.removesuffix(b"\n"), partition.path, position))
            position += len(whole) + len(newline)

    def stop(self) -> None:
        if self._unfinished is not None:
            self._unfinished.close()

    def _advanced(self, path: str, start: FilePosition, limit: int) -> FilePosition:
        """The next position in a file, which stays open for the next batch if it has more."""
        if self._unfinished is None or self._unfinished.path != path:
            self.stop()
            self._unfinished = DumpFile(path)
        return advanced(self._unfinished, start, limit)

    def _selected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        topics = batch.column("topic").dictionary_encode()
        wanted = [self.options.selects(topic) for topic in topics.dictionary.to_pylist()]
        if all(wanted):
            return batch
        return batch.filter(pc.take(pa.array(wanted, pa.bool_()), topics.indices))


def _has_more(path: str, read: FilePosition) -> bool:
    """Whether a file may hold lines beyond what was read of it."""
    size_bytes = os.path.getsize(path)
    if is_compressed(path):
        return size_bytes != read.size_at_end
    if size_bytes < read.bytes:
        raise CorruptFile(
            f"{path} has {size_bytes} bytes, but {read.bytes} were already read: "
            "dump files may only grow; put the new content into a new file"
        )
    return size_bytes > read.bytes


def _ranges(path: str, start: int, end: int, tasks: int) -> list[DumpRange]:
    """Ranges of whole lines for several tasks; compressed files cannot be entered in the middle."""
    if is_compressed(path):
        return [DumpRange(path, start, end)]
    size_bytes = max(_LEAST_RANGE_BYTES, -(-(end - start) // tasks))
    file = DumpFile(path)
    cuts = [start]
    while cuts[-1] < end:
        cuts.append(line_boundary(file, min(cuts[-1] + size_bytes, end), end))
    file.close()
    return [DumpRange(path, a, b) for a, b in itertools.pairwise(cuts)]


def dump_files(path: str) -> list[tuple[str, str]]:
    """Names (relative to the directory that is watched) and paths of the dump files, in name order."""
    path = path.removeprefix("file://")
    if "://" in path:
        raise ConfigError(f"files.path {path}: dump files are read from local or mounted directories only")
    if glob.has_magic(path):
        base = Path(*_until_magic(Path(path).parts))
        found = [p for p in glob.glob(path, recursive=True) if os.path.isfile(p)]
    elif os.path.isdir(path):
        base = Path(path)
        found = [str(p) for p in base.iterdir() if p.is_file() and _is_dump(p.name)]
    else:
        base = Path(path).parent
        found = [path] if os.path.isfile(path) else []
    return sorted((Path(p).relative_to(base).as_posix(), p) for p in found)


def _until_magic(parts: Sequence[str]) -> Iterator[str]:
    for part in parts:
        if glob.has_magic(part):
            return
        yield part


def _is_dump(name: str) -> bool:
    return not name.startswith((".", "_")) and name.endswith((".jsonl", ".json", ".jsonl.gz", ".json.gz", ".jsonl.zst"))


def _offset(positions: Positions) -> dict[str, Any]:
    files = {
        name: {"bytes": p.bytes, "records": p.records, "size_at_end": p.size_at_end}
        for name, p in sorted(positions.items())
    }
    return {"files": files}


def _positions(offset: Mapping[str, Any]) -> Positions:
    return {name: FilePosition(p["bytes"], p["records"], p["size_at_end"]) for name, p in offset["files"].items()}


_worker_files: dict[str, DumpFile] = {}
"""The compressed file that this Python worker read last, where it stopped: the next batch goes on from there."""


def _worker_file(path: str) -> DumpFile:
    if not is_compressed(path):
        return DumpFile(path)
    if path not in _worker_files:
        _worker_files.clear()
        _worker_files[path] = DumpFile(path)
    return _worker_files[path]
