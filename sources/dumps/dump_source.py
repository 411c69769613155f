"""Dumps of Kafka topics (``kcat -J`` files) as a source of batches: planning a batch, and reading a share of it.

The offset records how far each file was read. Every ``latest_offset`` advances the given offset by at most
``max_records_per_batch`` lines, whatever the size of the files. Files are read in the order of their names; new files
are found wherever their names sort. The driver plans; a share is read where its task runs.
"""

from __future__ import annotations

import glob
import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import ConfigError, CorruptFile
from sources.dumps.dump_file import (
    HEAD_BYTES,
    DumpFile,
    FilePosition,
    Rest,
    advanced,
    head_of,
    head_text,
    heads_of,
    is_compressed,
    line_boundary,
    rest_at,
)
from sources.dumps.dump_lines import MALFORMED_PREFIX
from sources.dumps.dump_records import records_of_text
from sources.dumps.settings import DumpSettings
from sources.dumps.unfinished import UnfinishedFiles
from sources.topics import TopicSelection

DUMP_ENDINGS = (".jsonl", ".json", ".jsonl.gz", ".json.gz", ".jsonl.zst", ".json.zst")
"""The endings of dump file names in a directory."""

_LEAST_RANGE_BYTES = 8 << 20
_READ_BYTES = 8 << 20
_BATCH_ROWS = 10_000
"""Records handed on at once: what is decoded together bounds the memory of a task, and keeps its caches warm."""


@dataclass(frozen=True, slots=True)
class DumpRange:
    """Whole lines of one file, by byte positions of the uncompressed text."""

    path: str
    start: int
    end: int

    def to_bytes(self) -> bytes:
        return json.dumps([self.path, self.start, self.end]).encode()

    @staticmethod
    def from_bytes(data: bytes) -> DumpRange:
        return DumpRange(*json.loads(data))


Positions = dict[str, FilePosition]

_RECORD = b'"offset"'
"""The fields of a line that is a record."""


class DumpPlanner:
    """Plans the batches of a dump. Offsets are JSON; lives in the driver as long as the query."""

    def __init__(self, settings: DumpSettings, most_records: Callable[[], int] | None = None) -> None:
        """``most_records`` is the limit of the next batch; by default that of the settings."""
        self._settings = settings
        self._most_records = most_records or (lambda: settings.max_records_per_batch)
        self.is_cut = False
        self._tasks = os.cpu_count() or 1
        """The most tasks for each file and batch."""
        self._open_file: DumpFile | None = None
        self._read: Positions | None = None
        """The begin of the last requested batch: all records before it are done."""
        self.unfinished = UnfinishedFiles()
        self._heads = _Heads()

    @property
    def unread_bytes(self) -> int | None:
        """Bytes of the files after the finished batches; None before the first request.

        A compressed file counts as a whole until its end is read: its size shows no position inside it.
        """
        read = self._read
        if read is None:
            return None
        return sum(_unread(path, read.get(name, FilePosition())) for name, path in dump_files(self._settings.path))

    def initial_offset(self) -> str:
        return offset_text({})

    def latest_offset(self, start: str) -> str:
        """The end of a batch that begins at ``start``; ``start`` itself if there is nothing more."""
        positions = positions_of(start)
        self._heads.keep(positions)
        self._read = dict(positions)
        left = self._most_records()
        for name, path in dump_files(self._settings.path):
            begin = positions.get(name, FilePosition())
            if left <= 0:
                break
            if not _has_more(path, begin):
                self.unfinished.look(path, begin, _rest_now(path, begin))
                continue
            self._check_known(path, begin)
            end, rest = self._advanced(path, begin, left)
            self.unfinished.look(path, end, rest)
            left -= end.records - begin.records
            positions |= {name: end} if end != begin else {}
            self._heads.put(name, end)
        self.is_cut = left <= 0
        return offset_text(positions)

    def shares(self, start: str, end: str) -> Sequence[bytes]:
        """The batch between two offsets in shares for as many tasks, which ``DumpReader`` reads."""
        begins, ends = positions_of(start), positions_of(end)
        paths = dict(dump_files(self._settings.path))
        ranges: list[DumpRange] = []
        for name, position in ends.items():
            begin = begins.get(name, FilePosition())
            if position.bytes > begin.bytes:
                if name not in paths:
                    raise CorruptFile(
                        f"dump file {name} of {self._settings.path} is missing, but a batch has planned "
                        f"to read it: restore it"
                    )
                ranges += _ranges(paths[name], begin.bytes, position.bytes, self._tasks)
        return [share.to_bytes() for share in ranges]

    def stop(self) -> None:
        if self._open_file is not None:
            self._open_file.close()

    def _check_known(self, path: str, begin: FilePosition) -> None:
        """Refuse a file whose content has changed, and a new one that begins like a file that was read."""
        if begin.bytes:
            text = head_text(path)
            if begin.head and head_of(text[: begin.head_bytes]) != begin.head:
                raise CorruptFile(
                    f"{path} no longer has the beginning that it had when {begin.records:,} of its lines were "
                    "read: dump files may"
                    " only grow. Put the new content into a new file"
                )
            return
        text = head_text(path, 2 * HEAD_BYTES).lstrip()  # a copy with blank lines in front is still the same file
        for size, head in heads_of(text, self._heads.sizes):
            other = self._heads.names.get((size, head))
            if other is not None and _RECORD in text[:size]:
                raise CorruptFile(
                    f"{path} begins with the same records as {other}, and Tidemark would read them a second time. If "
                    f"the file was renamed, restore its name. If it has the topic from the start again, remove the "
                    f"lines that were read, or move it out of the directory"
                )

    def _advanced(self, path: str, start: FilePosition, limit: int) -> tuple[FilePosition, Rest]:
        """The next position in a file, which stays open for the next batch if it has more; and the unreadable rest."""
        if self._open_file is None or self._open_file.path != path:
            self.stop()
            self._open_file = DumpFile(path)
        end = advanced(self._open_file, start, limit)
        if end.bytes > start.bytes:
            is_known = start.head and start.head_bytes == end.head_bytes
            end = replace(end, head=start.head if is_known else head_of(head_text(path)[: end.head_bytes]))
        return end, rest_at(self._open_file, end) if end == start else end.rest


class _Heads:
    """The beginnings of the read files: their names by size and checksum, updated from batch to batch."""

    def __init__(self) -> None:
        self.names: dict[tuple[int, int], str] = {}
        self.sizes: Counter[int] = Counter()
        self._of: dict[str, tuple[int, int]] = {}

    def keep(self, positions: Positions) -> None:
        """Forget all files but these: a batch may be planned again from an earlier offset."""
        for name in self._of.keys() - positions.keys():
            self._forget(name)
        for name, position in positions.items():
            self.put(name, position)

    def put(self, name: str, end: FilePosition) -> None:
        """Record how far a file is read now."""
        key = (end.head_bytes, end.head)
        if not end.head or self._of.get(name) == key:
            return
        self._forget(name)
        self._of[name] = key
        self.names[key] = name
        self.sizes[key[0]] += 1

    def _forget(self, name: str) -> None:
        key = self._of.pop(name, None)
        if key is not None:
            self.sizes -= Counter([key[0]])
            if self.names.get(key) == name:
                del self.names[key]


@dataclass(frozen=True, slots=True)
class DumpReader:
    """Reads shares of a batch in a task: records (``RECORD_SCHEMA``) of the selected topics, in the order of the file.

    Includes lines that are not records (see ``records_of_text``).
    """

    topics: TopicSelection

    def __call__(self, shares: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        for share in shares:
            for batch in _records(DumpRange.from_bytes(share)):
                wanted = self._selected(batch)
                for start in range(0, wanted.num_rows, _BATCH_ROWS):
                    yield wanted.slice(start, _BATCH_ROWS)

    def _selected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        topics = batch.column("topic").dictionary_encode()
        wanted = [
            topic.startswith(MALFORMED_PREFIX) or self.topics.selects(topic) for topic in topics.dictionary.to_pylist()
        ]
        if all(wanted):
            return batch
        return batch.filter(pc.take(pa.array(wanted, pa.bool_()), topics.indices))


def _records(share: DumpRange) -> Iterator[pa.RecordBatch]:
    """All records of a share, block by block."""
    file = _worker_file(share.path)
    position, rest = share.start, b""
    while position + len(rest) < share.end:
        at = position + len(rest)
        more = file.read(at, min(_READ_BYTES, share.end - at))
        if not more:
            raise CorruptFile(f"{share.path} ends at {at}, but it was longer when the batch was planned: restore it")
        block = rest + more
        is_last = position + len(block) == share.end
        whole, newline, rest = (block, b"", b"") if is_last else block.rpartition(b"\n")
        if whole:
            yield records_of_text(whole.removesuffix(b"\n"), share.path, position)
        position += len(whole) + len(newline)


def _has_more(path: str, read: FilePosition) -> bool:
    """Whether a file may hold lines beyond the part that was read."""
    size_bytes = os.path.getsize(path)
    if is_compressed(path):
        return size_bytes != read.size_at_end or size_bytes == 0
    if size_bytes < read.bytes:
        raise CorruptFile(
            f"{path} has {size_bytes} bytes, but {read.bytes} were already read: "
            "dump files may only grow; put the new content into a new file"
        )
    return size_bytes > read.bytes


def _rest_now(path: str, read: FilePosition) -> Rest:
    """The rest of a file without more lines; a torn last line may have been cut off since."""
    is_cut = read.rest is Rest.LINE and not is_compressed(path) and os.path.getsize(path) == read.bytes
    return Rest.NONE if is_cut else read.rest


def _unread(path: str, read: FilePosition) -> int:
    size_bytes = os.path.getsize(path)
    if is_compressed(path):
        return 0 if size_bytes == read.size_at_end else size_bytes
    return max(0, size_bytes - read.bytes)


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
    """Names (relative to the watched directory) and paths of the dump files, in name order."""
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


def unread_files(path: str) -> list[str]:
    """Names of entries in a directory that are not dump files: subdirectories with dumps (``2025/``), other files.

    Hidden names and names that begin with ``_`` do not count. Empty for a file or a glob, which names its files.
    """
    path = path.removeprefix("file://")
    if glob.has_magic(path) or not os.path.isdir(path):
        return []
    found = []
    for entry in sorted(Path(path).iterdir()):
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_dir():
            if any(_is_dump(name) for _, _, names in os.walk(entry) for name in names):
                found.append(f"{entry.name}/")
        elif not _is_dump(entry.name):
            found.append(entry.name)
    return found


def _until_magic(parts: Sequence[str]) -> Iterator[str]:
    for part in parts:
        if glob.has_magic(part):
            return
        yield part


def _is_dump(name: str) -> bool:
    return not name.startswith((".", "_")) and name.endswith(DUMP_ENDINGS)


def offset_text(positions: Positions) -> str:
    return json.dumps({"files": {name: _plain(position) for name, position in sorted(positions.items())}})


def _plain(position: FilePosition) -> dict[str, int | str]:
    """The same position always gives the same text: another text would look like a batch without records."""
    plain: dict[str, int | str] = {
        "bytes": position.bytes,
        "records": position.records,
        "size_at_end": position.size_at_end,
    }
    plain |= {"head": position.head} if position.head else {}
    return plain if position.rest is Rest.NONE else {**plain, "rest": position.rest.value}


def positions_of(offset: str) -> Positions:
    found: Mapping[str, Any] = json.loads(offset)
    if "files" not in found:
        raise ConfigError(
            "the checkpoint has positions of another kind of source than `source.files`: use the earlier source, or a "
            "new checkpoint"
        )
    return {
        name: FilePosition(p["bytes"], p["records"], p["size_at_end"], Rest(p.get("rest", "")), p.get("head", 0))
        for name, p in found["files"].items()
    }


_worker_files: dict[str, DumpFile] = {}
"""The compressed file that this Python worker read last, where it stopped: the next batch may continue there."""


def _worker_file(path: str) -> DumpFile:
    if not is_compressed(path):
        return DumpFile(path)
    if path not in _worker_files:
        _worker_files.clear()
        _worker_files[path] = DumpFile(path)
    return _worker_files[path]
