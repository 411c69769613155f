"""A dump file read forward by byte positions of its uncompressed text, and the counting of its lines."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from paimon_table.errors import CorruptFile
from sources.dumps.dump_records import open_dump

_BLOCK_BYTES = 4 << 20
_PIECE_BYTES = 1 << 16
"""Bytes read at once from a compressed file; if it is torn, this much of its end is not seen yet."""
_COMPRESSED = (".gz", ".zst")
HEAD_BYTES = 4096
"""This many bytes distinguish one file from another: they hold the place of a record."""


def is_compressed(path: str) -> bool:
    return path.endswith(_COMPRESSED)


class Rest(Enum):
    """The unread rest of a file after its last whole line."""

    NONE = ""
    LINE = "line"
    """A last line without newline that is not a whole JSON object."""
    CUT = "cut"
    """A compressed stream that does not end: the file was cut short, or is still being written."""


@dataclass(frozen=True, slots=True)
class FilePosition:
    """How far a file was read: bytes of uncompressed text, and lines.

    ``size_at_end`` is the size on disk when the whole file had been read, 0 if there was more; ``rest`` is the
    remainder then. ``head`` is the checksum of the first bytes read (``head_of``), 0 if no bytes were read.
    """

    bytes: int = 0
    records: int = 0
    size_at_end: int = 0
    rest: Rest = Rest.NONE
    head: int = field(default=0, compare=False)

    @property
    def head_bytes(self) -> int:
        """How many bytes ``head`` is of."""
        return min(self.bytes, HEAD_BYTES)


class DumpFile:
    """Reads from any position; going forward is cheap, going back in a compressed file starts over."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._position = 0
        self._pushed_back = b""
        self.is_cut = False
        """Whether reading has met the end of the file within its compressed stream."""
        self._open()

    def close(self) -> None:
        self._stream.close()

    def read(self, position: int, size_bytes: int) -> bytes:
        """Up to ``size_bytes`` from ``position``; fewer at the end of the file."""
        self._go_to(position)
        parts = []
        wanted = size_bytes
        while wanted > 0 and (part := self._read_some(wanted)):
            parts.append(part)
            wanted -= len(part)
        return b"".join(parts)

    def push_back(self, data: bytes) -> None:
        """Return the last bytes read."""
        self._pushed_back = data + self._pushed_back
        self._position -= len(data)

    def _open(self) -> None:
        self._size_when_opened = os.path.getsize(self.path)
        self._stream = open_dump(self.path)
        self.is_cut = is_compressed(self.path) and self._size_when_opened == 0
        self._position = 0
        self._pushed_back = b""

    def _go_to(self, position: int) -> None:
        if not is_compressed(self.path):
            if position != self._position:
                self._stream.seek(position)
                self._position, self._pushed_back = position, b""
            return
        if position < self._position or os.path.getsize(self.path) != self._size_when_opened:
            self._stream.close()
            self._open()
        while self._position < position:
            if not self._read_some(min(_BLOCK_BYTES, position - self._position)):
                raise CorruptFile(
                    f"{self.path} ends after {self._position} bytes, but {position} were already read: "
                    "dump files may only grow; put the new content into a new file"
                )

    def _read_some(self, size_bytes: int) -> bytes:
        data: bytes
        if self._pushed_back:
            data, self._pushed_back = self._pushed_back[:size_bytes], self._pushed_back[size_bytes:]
        elif self.is_cut:
            return b""
        else:
            try:
                data = self._stream.read(size_bytes if not is_compressed(self.path) else min(size_bytes, _PIECE_BYTES))
            except OSError as error:
                if "Truncated" not in str(error):
                    raise CorruptFile(f"{self.path} cannot be read: {error}; restore or remove it") from error
                self.is_cut = True
                data = b""  # it may still be growing: this is its content so far
        self._position += len(data)
        return data


def advanced(file: DumpFile, start: FilePosition, limit: int) -> FilePosition:
    """The position after at most ``limit`` more complete lines.

    A line is complete with its newline. A last line without a newline is complete if it is a whole JSON object: a part
    of an object never is one.
    """
    at = start
    while limit > 0:
        size_bytes = os.path.getsize(file.path)
        block = _lines_from(file, at.bytes)
        if not block.endswith(b"\n"):
            if _is_object(block):
                at = FilePosition(at.bytes + len(block), at.records + 1)
            else:
                file.push_back(block)
            return at if at == start else replace(at, size_at_end=size_bytes, rest=rest_at(file, at))
        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
        taken = min(len(ends), limit)
        end = int(ends[taken - 1]) + 1
        file.push_back(block[end:])
        at = FilePosition(at.bytes + end, at.records + taken)
        limit -= taken
    return at


def head_text(path: str, size: int = HEAD_BYTES) -> bytes:
    """The first bytes of the text of a file, at most ``size``."""
    file = DumpFile(path)
    try:
        return file.read(0, size)
    finally:
        file.close()


def head_of(text: bytes) -> int:
    """The checksum of a head, never 0."""
    return zlib.crc32(text) or 1


def heads_of(text: bytes, sizes: Iterable[int]) -> Iterator[tuple[int, int]]:
    """(size, checksum) of the beginnings of a head that have these sizes, as far as it is so long; rising."""
    checksum, at = 0, 0
    for size in sorted(size for size in sizes if 0 < size <= len(text)):
        checksum, at = zlib.crc32(text[at:size], checksum), size
        yield size, checksum or 1


def rest_at(file: DumpFile, end: FilePosition) -> Rest:
    """The rest of the file after ``end``, up to which all whole lines were read."""
    block = _lines_from(file, end.bytes)
    file.push_back(block)
    if file.is_cut:
        return Rest.CUT
    return Rest.LINE if block.strip() and not block.endswith(b"\n") else Rest.NONE


def _lines_from(file: DumpFile, position: int) -> bytes:
    """Some whole lines; the unfinished last line alone, or nothing, if there are none."""
    block = file.read(position, _BLOCK_BYTES)
    while block and b"\n" not in block:
        more = file.read(position + len(block), _BLOCK_BYTES)
        if not more:
            return block
        block += more
    end = block.rfind(b"\n") + 1
    file.push_back(block[end:])
    return block[:end]


def _is_object(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def line_boundary(file: DumpFile, position: int, end: int) -> int:
    """The first beginning of a line after ``position``, at most ``end``."""
    while position < end:
        block = file.read(position, min(1 << 16, end - position))
        newline = block.find(b"\n")
        if newline >= 0:
            return position + newline + 1
        if not block:
            break
        position += len(block)
    return end
