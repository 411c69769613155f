"""Local copies of data files in which a single key is found without reading the rest.

A lookup file belongs to Tidemark and is not part of the table format. It has an Arrow IPC file with the rows of one
data file, an array of sorted key words, and a footer. The key word is the key itself if it is one NOT NULL integer
column, else a 64-bit hash. After hashes comes an array of the row numbers in word order. A word may also be the hash of
the first columns of the key, which several rows share. Everything is memory-mapped: opening reads the footer, finding
touches the pages of the rows found.

The footer has a checksum of each batch of rows and of each array. A file of another process, or from long ago, is
verified part by part on first use. If the disk altered it, it is rebuilt.
"""

from __future__ import annotations

import json
import os
import struct
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from paimon_table.errors import BrokenInvariant
from paimon_table.merge.sort import KeyOrder
from paimon_table.rows.batch_size import in_batches
from paimon_table.rows.gather import concat, gather
from paimon_table.rows.hashes import key_hash64
from paimon_table.rows.row_equality import equal_rows
from paimon_table.rows.sorted_values import SortedValues
from paimon_table.rows.words import U64, Indices, integers, normal_form
from paimon_table.storage.private_directory import make_file
from paimon_table.types import INTEGERS

KeyHash = Callable[[pa.Table], U64]
"""Returns the hash of each row of a table of the key columns; the same in every process that shares the directory."""

_MAGIC = b"TMLOOK03"
_TAIL = struct.Struct("<QQ8s")
"""Length and checksum of the footer, magic."""

_BATCH_ROWS = 1 << 18
_BATCH_BYTES = 64 << 20
"""Rows are written in batches of about this size: large ones are read faster, small ones need less memory to write."""


class KeyWords:
    """Converts the keys of one table into words."""

    def __init__(self, order: KeyOrder, hash_keys: KeyHash | None = None) -> None:
        self.order = order
        first = order.key_types[0]
        is_integer = len(order.key_types) == 1 and first.root in INTEGERS and not first.nullable
        self.is_exact = is_integer and not order.is_prefix
        self._hash = hash_keys or self._key_hash

    def of(self, rows: pa.Table) -> npt.NDArray[np.generic]:
        """The word of each row: int64 keys if exact, else uint64 hashes."""
        if self.is_exact:
            return integers(normal_form(rows.column(self.order.key_names[0]))).astype(np.int64, copy=False)
        return self._hash(rows.select(list(self.order.key_names)))

    def _key_hash(self, keys: pa.Table) -> U64:
        hashes: U64 = key_hash64(keys.columns, self.order.key_types)
        return hashes


class ProbeKeys:
    """Keys to look up: a table with (at least) the key columns, sorted by key, each key once."""

    def __init__(self, keys: pa.Table, words: KeyWords) -> None:
        self.keys = keys.select(list(words.order.key_names)).combine_chunks()
        self._words = words

    @cached_property
    def words(self) -> npt.NDArray[np.generic]:
        return self._words.of(self.keys)


@dataclass(frozen=True, slots=True)
class Hits:
    """Rows found: row i of ``rows`` has key number ``positions[i]``; positions rise, and repeat with versions."""

    positions: Indices
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Located:
    """The places of rows in one file: key number ``positions[i]`` (rising) is row ``row_numbers[i]``."""

    positions: Indices
    row_numbers: Indices


@dataclass(frozen=True, slots=True)
class _Footer:
    boot_id: str
    row_count: int
    ipc_bytes: int
    words_offset: int
    rows_offset: int | None
    batch_ends: list[int]
    """The ends of the batches; the first begins at ``first_batch``."""
    first_batch: int
    batch_checksums: list[int]
    frame_checksum: int
    """Checksum of the parts of the Arrow IPC file other than batches."""
    words_checksum: int
    rows_checksum: int


class LookupFile:
    """An open lookup file; cheap to open, safe to keep open after the file was evicted."""

    def __init__(self, path: Path, words: KeyWords, is_verified: bool = False) -> None:
        """Map the file. Raises BrokenLookupFile for anything but a complete file of this version and boot.

        A later use raises BrokenLookupFile if a checksum is wrong, unless ``is_verified``, as for a new file.
        """
        self._path = path
        with pa.memory_map(str(path)) as mapped:
            buffer = mapped.read_buffer()
        footer = _read_footer(buffer)
        if _frame_checksum(buffer, footer.first_batch, footer.batch_ends, footer.ipc_bytes) != footer.frame_checksum:
            raise BrokenLookupFile(f"{path}: the checksum of its schema is wrong")
        try:
            reader = pa.ipc.open_file(pa.BufferReader(buffer.slice(0, footer.ipc_bytes)))
            self._batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
        except (pa.ArrowException, OSError) as error:
            raise BrokenLookupFile(f"{path} is not an Arrow file: {error}") from error
        self.schema: pa.Schema = reader.schema
        self._first_row = np.cumsum([0, *(b.num_rows for b in self._batches)])
        self.row_count = int(self._first_row[-1])
        if self.row_count != footer.row_count:
            raise BrokenLookupFile(f"{path} holds {self.row_count} rows instead of {footer.row_count}")
        word_type = np.int64 if words.is_exact else np.uint64
        self._words = SortedValues(np.frombuffer(buffer, word_type, self.row_count, footer.words_offset))
        self._rows: npt.NDArray[np.uint32] | None = None
        if footer.rows_offset is not None:
            self._rows = np.frombuffer(buffer, np.uint32, self.row_count, footer.rows_offset)
        if len(footer.batch_checksums) != len(self._batches):
            raise BrokenLookupFile(f"{path} holds {len(self._batches)} batches, not {len(footer.batch_checksums)}")
        self._buffer = buffer
        self._footer = footer
        self._repeats_keys = words.order.is_prefix
        self._are_words_verified = is_verified
        self._verified_batches = set(range(len(self._batches))) if is_verified else set()

    def locate(
        self, probe: ProbeKeys, start: int, stop: int, excluding: npt.NDArray[np.bool_] | None = None
    ) -> Located:
        """Rows whose key is among keys ``start`` to ``stop`` of the probe, except those marked in ``excluding``."""
        self._verify_words()
        wanted = np.arange(start, stop)
        if excluding is not None:
            wanted = wanted[~excluding[start:stop]]
        if self._rows is None:
            return self._locate_exact(probe, wanted)
        if self._repeats_keys:
            return self._locate_all(probe, wanted, self._rows)
        return self._locate_hashed(probe, wanted, self._rows)

    def _locate_exact(self, probe: ProbeKeys, wanted: Indices) -> Located:
        words = probe.words[wanted]
        at = self._words.first_not_below(words)
        found = self._are_at(at, words)
        return Located(wanted[found], at[found])

    def _locate_hashed(self, probe: ProbeKeys, wanted: Indices, rows: npt.NDArray[np.uint32]) -> Located:
        words = probe.words[wanted]
        by_word = np.argsort(words)
        at = np.empty(len(words), np.int64)
        at[by_word] = self._words.first_not_below(words[by_word])
        found: list[Located] = []
        while len(wanted):
            same = self._are_at(at, words)
            wanted, words, at = wanted[same], words[same], at[same]
            row_numbers = rows[at].astype(np.int64)
            keys = gather(probe.keys, wanted)
            candidates = self.rows_at(row_numbers, keys.column_names)
            equal = equal_rows(candidates, keys, keys.column_names) if len(wanted) else np.zeros(0, np.bool_)
            found.append(Located(wanted[equal], row_numbers[equal]))
            wanted, words, at = wanted[~equal], words[~equal], at[~equal] + 1
        return _merge_located(found, wanted)

    def _are_at(self, at: Indices, words: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
        """Which words stand at these places of the file's words, which may be behind the last one."""
        same = at < self.row_count
        same[same] = self._words.values[at[same]] == words[same]
        return same

    def _locate_all(self, probe: ProbeKeys, wanted: Indices, rows: npt.NDArray[np.uint32]) -> Located:
        words = probe.words[wanted]
        begins, ends = (np.searchsorted(self._words.values, words, side) for side in ("left", "right"))
        counts = ends - begins
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        positions = np.repeat(wanted, counts)
        row_numbers = rows[np.repeat(begins, counts) + within].astype(np.int64)
        keys = gather(probe.keys, positions)
        equal = equal_rows(self.rows_at(row_numbers, keys.column_names), keys, keys.column_names)
        return Located(positions[equal], row_numbers[equal])

    def batches(self, batch_rows: int) -> Iterator[pa.Table]:
        """All rows in file order, not copied, at most ``batch_rows`` at a time and as few as the size demands."""
        for number in range(len(self._batches)):
            yield from in_batches(pa.Table.from_batches([self._batch(number)]), batch_rows)

    def verified(self) -> LookupFile:
        """The file itself, after verifying all of its rows."""
        for number in range(len(self._batches)):
            self._batch(number)
        return self

    def _batch(self, number: int) -> pa.RecordBatch:
        batch = self._batches[number]
        if number not in self._verified_batches:
            start = self._footer.batch_ends[number - 1] if number else self._footer.first_batch
            end = self._footer.batch_ends[number]
            if _checksum(self._buffer.slice(start, end - start)) != self._footer.batch_checksums[number]:
                raise BrokenLookupFile(f"{self._path}: the checksum of batch {number} is wrong")
            self._verified_batches.add(number)
        return batch

    def _verify_words(self) -> None:
        if self._are_words_verified:
            return
        rows_checksum = 0 if self._rows is None else _checksum(self._rows)
        if (_checksum(self._words.values), rows_checksum) != (self._footer.words_checksum, self._footer.rows_checksum):
            raise BrokenLookupFile(f"{self._path}: the checksum of its key words is wrong")
        self._are_words_verified = True

    def rows_at(self, row_numbers: Indices, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows by number, in the given order, with all or some columns."""
        names = self.schema.names if columns is None else list(columns)
        if len(self._batches) == 1:
            return pa.Table.from_batches([self._batch(0).select(names).take(pa.array(row_numbers))])
        if len(row_numbers) and np.any(row_numbers[1:] < row_numbers[:-1]):
            order = np.argsort(row_numbers, kind="stable")
            back = np.empty(len(order), np.int64)
            back[order] = np.arange(len(order))
            return gather(self.rows_at(row_numbers[order], columns), back)
        cuts = np.searchsorted(row_numbers, self._first_row)
        parts = [
            self._batch(i).select(names).take(pa.array(row_numbers[cuts[i] : cuts[i + 1]] - self._first_row[i]))
            for i in range(len(self._batches))
            if cuts[i] < cuts[i + 1]
        ]
        return pa.Table.from_batches(parts, pa.schema([self.schema.field(name) for name in names])).combine_chunks()


def _merge_located(parts: list[Located], none: Indices) -> Located:
    """The parts merged by position; ``none`` is an empty array of positions."""
    if len(parts) < 2:
        return parts[0] if parts else Located(none, none)
    positions = np.concatenate([part.positions for part in parts])
    row_numbers = np.concatenate([part.row_numbers for part in parts])
    order = np.argsort(positions, kind="stable")
    return Located(positions[order], row_numbers[order])


def merge_hits(parts: list[Hits]) -> Hits:
    """The hits merged by position; hits of one position keep the order of the parts."""
    parts = [part for part in parts if len(part.positions)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    positions = np.concatenate([part.positions for part in parts])
    rows = concat([part.rows for part in parts])
    order = np.argsort(positions, kind="stable")
    return Hits(positions[order], gather(rows, order))


class BrokenLookupFile(Exception):
    """The file is damaged or of another version or boot; the caller rebuilds it."""


@cache
def boot_id() -> str:
    """Identifies the machine's boot. Lookup files are not synced, so files of an earlier boot are not trusted."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _read_footer(buffer: pa.Buffer) -> _Footer:
    size = buffer.size
    if size < _TAIL.size:
        raise BrokenLookupFile("the file is shorter than its footer")
    length, checksum, magic = _TAIL.unpack(buffer.slice(size - _TAIL.size).to_pybytes())
    if magic != _MAGIC or length > size - _TAIL.size:
        raise BrokenLookupFile("the file does not end with a footer of this version")
    text = buffer.slice(size - _TAIL.size - length, length).to_pybytes()
    if xxhash.xxh3_64_intdigest(text) != checksum:
        raise BrokenLookupFile("the checksum of the footer is wrong")
    try:
        footer = _Footer(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise BrokenLookupFile(f"the footer is unreadable: {error}") from error
    if footer.boot_id != boot_id():
        raise BrokenLookupFile("the file was written before the machine started")
    words_end = footer.words_offset + 8 * footer.row_count
    rows_end = words_end if footer.rows_offset is None else footer.rows_offset + 4 * footer.row_count
    if footer.ipc_bytes > footer.words_offset or max(words_end, rows_end) > size - _TAIL.size - length:
        raise BrokenLookupFile("the footer points outside of the file")
    return footer


def _checksum(data: pa.Buffer | npt.NDArray[Any]) -> int:
    return xxhash.xxh3_64_intdigest(data if isinstance(data, pa.Buffer) else data.data)


def _frame_checksum(buffer: pa.Buffer, first_batch: int, batch_ends: Sequence[int], ipc_bytes: int) -> int:
    last = batch_ends[-1] if batch_ends else first_batch
    digest = xxhash.xxh3_64(buffer.slice(0, first_batch))
    digest.update(buffer.slice(last, ipc_bytes - last))
    return digest.intdigest()


class LookupFileWriter:
    """Writes one lookup file, rows in file order; it appears under its name when finished."""

    def __init__(self, path: Path, schema: pa.Schema, words: KeyWords) -> None:
        self._path = path
        self._temporary = path.with_name(f".{path.name}.{uuid.uuid4()}.tmp")
        self._words = words
        self._parts: list[npt.NDArray[np.generic]] = []
        self._buffer: list[pa.Table] = []
        self._buffer_rows = self._buffer_bytes = 0
        make_file(str(self._temporary))
        self._stream = pa.OSFile(str(self._temporary), "wb")
        self._ipc = pa.ipc.new_file(self._stream, schema)
        self._first_batch = int(self._stream.tell())
        self._batch_ends: list[int] = []

    def append(self, rows: pa.Table) -> None:
        self._parts.append(self._words.of(rows))
        self._buffer.append(rows)
        self._buffer_rows += rows.num_rows
        self._buffer_bytes += rows.nbytes
        if self._buffer_bytes >= _BATCH_BYTES or self._buffer_rows >= _BATCH_ROWS:
            self._write_batches()

    def _write_batches(self) -> None:
        if self._buffer:
            for batch in concat(self._buffer).to_batches(_BATCH_ROWS):
                self._ipc.write_batch(batch)
                self._batch_ends.append(int(self._stream.tell()))
        self._buffer = []
        self._buffer_rows = self._buffer_bytes = 0

    def finish(self) -> LookupFile:
        """Write the rest and give the file its name; returns the open file, whose name others may delete at any
        moment."""
        self._write_batches()
        self._ipc.close()
        words = np.concatenate(self._parts) if self._parts else np.zeros(0, np.int64)
        ipc_bytes = int(self._stream.tell())
        rows_offset = None
        rows_checksum = 0
        if not self._words.is_exact:
            order = np.argsort(words)
            words = words[order]
        elif np.any(words[1:] <= words[:-1]):
            raise BrokenInvariant(f"the rows for {self._path.name} are not sorted by key; stop the writer")
        words_offset = self._align()
        self._stream.write(words)
        if not self._words.is_exact:
            rows_offset = self._align()
            row_numbers = order.astype(np.uint32)
            rows_checksum = _checksum(row_numbers)
            self._stream.write(row_numbers)
        footer = json.dumps({
            "boot_id": boot_id(), "row_count": len(words), "ipc_bytes": ipc_bytes,
            "words_offset": words_offset, "rows_offset": rows_offset,
            "words_checksum": _checksum(words), "rows_checksum": rows_checksum, **self._ipc_checksums(ipc_bytes),
        }).encode()  # fmt: skip
        self._stream.write(footer + _TAIL.pack(len(footer), xxhash.xxh3_64_intdigest(footer), _MAGIC))
        self._stream.close()
        file = LookupFile(self._temporary, self._words, is_verified=True)
        os.replace(self._temporary, self._path)
        return file

    def _ipc_checksums(self, ipc_bytes: int) -> dict[str, Any]:
        """The checksums of the written Arrow file, which the system still has in memory."""
        self._stream.flush()
        with pa.memory_map(str(self._temporary)) as mapped:
            buffer = mapped.read_buffer(ipc_bytes)
        starts = [self._first_batch, *self._batch_ends]
        return {
            "first_batch": self._first_batch,
            "batch_ends": self._batch_ends,
            "batch_checksums": [_checksum(buffer.slice(start, end - start)) for start, end in pairwise(starts)],
            "frame_checksum": _frame_checksum(buffer, self._first_batch, self._batch_ends, ipc_bytes),
        }

    def abandon(self) -> None:
        """Remove the file; no other process knows the temporary name."""
        self._stream.close()
        self._temporary.unlink(missing_ok=True)

    def _align(self) -> int:
        self._stream.write(bytes(-int(self._stream.tell()) % 64))
        return int(self._stream.tell())
