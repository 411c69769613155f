"""The rows of overlapping sorted runs in key-range chunks of bounded size.

Every chunk has all versions of its keys in the runs, so chunks can be merged one after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_table.merge.sort import KeyOrder, NormalKey
from paimon_table.mergetree.sections import Run, Section
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.rows.gather import concat
from paimon_table.rows.words import Indices

CHUNK_BYTES = 128 << 20
"""The size in memory of the rows of one chunk; merging needs about four times as much."""

_MAX_BATCH_ROWS = 1 << 16
_DISK_TO_MEMORY = 4
"""The assumed ratio of the size of rows in memory to that in the file; readers with exact sizes return smaller
batches."""

ReadBatches = Callable[[DataFileMeta, int], Iterator[pa.Table]]
"""Reads a file in key order, in batches of at most this many rows."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one run, sorted by key, from files of one level."""

    level: int
    rows: pa.Table


def joined(pieces: Sequence[Piece]) -> tuple[pa.Table, Indices]:
    """The rows of all pieces, and the level of each row."""
    levels = np.repeat([piece.level for piece in pieces], [piece.rows.num_rows for piece in pieces])
    return concat([piece.rows for piece in pieces]), levels.astype(np.int64)


def run_chunks(
    section: Section, read: ReadBatches, order: KeyOrder, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[list[Piece]]:
    """The rows of a section in key order, chunk by chunk; no piece is empty.

    The generator keeps no reference to a chunk, so its memory is freed when the caller drops it.
    """
    share_bytes = chunk_bytes // len(section)
    cursors = [_RunCursor(run, read, order, share_bytes) for run in section]
    while True:
        for cursor in cursors:
            cursor.load()
        boundaries = [cursor.last_key() for cursor in cursors if not cursor.exhausted]
        if not boundaries:
            break
        boundary = min(boundaries)
        # Every chunk has rows, at least those of the run that ends at the boundary.
        yield [piece for cursor in cursors for piece in cursor.take_until(boundary)]
    if any(cursor.has_rows for cursor in cursors):
        yield [piece for cursor in cursors for piece in cursor.take_all()]


class _RunCursor:
    """The loaded rows of one run that are not taken yet."""

    def __init__(self, run: Run, read: ReadBatches, order: KeyOrder, share_bytes: int) -> None:
        self._order = order
        self._share_bytes = share_bytes
        self._row_bytes = 1
        self._source = (Piece(file.level, rows) for file in run for rows in read(file, self._batch_rows(file)))
        self._loaded: deque[Piece] = deque()
        self._loaded_bytes = 0
        self.exhausted = False

    def load(self) -> None:
        """Load up to the share of this run, at least one batch if any is left."""
        while not self.exhausted and (not self._loaded or self._loaded_bytes < self._share_bytes):
            piece = next(self._source, None)
            if piece is None:
                self.exhausted = True
            elif piece.rows.num_rows:
                self._loaded.append(piece)
                self._loaded_bytes += piece.rows.nbytes
                self._row_bytes = max(1, piece.rows.nbytes // piece.rows.num_rows)

    @property
    def has_rows(self) -> bool:
        """Whether rows are loaded."""
        return bool(self._loaded)

    def last_key(self) -> NormalKey:
        return self._order.key_at(self._loaded[-1].rows, -1)

    def take_all(self) -> list[Piece]:
        taken = list(self._loaded)
        self._loaded.clear()
        self._loaded_bytes = 0
        return taken

    def take_until(self, boundary: NormalKey) -> list[Piece]:
        """Take the rows with keys up to and including the boundary."""
        taken: list[Piece] = []
        while self._loaded:
            piece = self._loaded[0]
            count = self._order.count_below(piece.rows, boundary, inclusive=True)
            if count == 0:
                break
            self._loaded.popleft()
            self._loaded_bytes -= piece.rows.nbytes
            taken.append(Piece(piece.level, piece.rows.slice(0, count)))
            if count < piece.rows.num_rows:
                rest = Piece(piece.level, piece.rows.slice(count))
                self._loaded.appendleft(rest)
                self._loaded_bytes += rest.rows.nbytes
                break
        return taken

    def _batch_rows(self, file: DataFileMeta) -> int:
        """The number of rows of a batch: an estimate by the size of the file, reduced if earlier rows were larger."""
        guess = _DISK_TO_MEMORY * file.file_size_bytes // max(file.row_count, 1)
        return max(1, min(_MAX_BATCH_ROWS, self._share_bytes // max(guess, self._row_bytes)))
