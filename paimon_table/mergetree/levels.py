"""The files of one bucket as an LSM tree.

Implements Paimon's level rules. Each level-0 file is a separate sorted run, newest first. Every higher level is one run
of files with disjoint key ranges. An earlier run holds newer versions than a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from paimon_table.errors import BrokenInvariant, CorruptFile
from paimon_table.ids import SequenceNumber
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.rows.binary_row import comparable_key
from paimon_table.types import DataType

KeyOf = Callable[[bytes], Any]
"""Turns a serialized ``min_key`` or ``max_key`` into a value that compares in key order."""


@dataclass(frozen=True, slots=True)
class SortedRun:
    """Files of one level without overlap, sorted by key."""

    level: int
    files: tuple[DataFileMeta, ...]

    @property
    def size_bytes(self) -> int:
        return sum(f.file_size_bytes for f in self.files)


@dataclass(frozen=True, slots=True)
class Levels:
    """Immutable state of a bucket; ``upper[0]`` is level 1."""

    level0: tuple[DataFileMeta, ...]
    upper: tuple[tuple[DataFileMeta, ...], ...]

    @property
    def max_level(self) -> int:
        return len(self.upper)

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        return self.level0 + tuple(f for level in self.upper for f in level)

    @property
    def highest_level(self) -> int:
        """The highest level with files; 0 if only level 0 has files, -1 for an empty bucket."""
        return max((f.level for f in self.files), default=-1)

    @property
    def published_level(self) -> int:
        """The level that the last compaction of all runs wrote; never level 0.

        With the full-compaction producer its rows are the state after the changelog so far. It is the highest level
        with files, even if options have added levels above it. A compaction of some runs writes below an older run; a
        compaction of all runs writes to the highest existing level.
        """
        return max(self.highest_level, 1)

    def runs(self) -> tuple[SortedRun, ...]:
        """Sorted runs, newest first."""
        newest = tuple(SortedRun(0, (f,)) for f in self.level0)
        return newest + tuple(SortedRun(i, files) for i, files in enumerate(self.upper, 1) if files)

    def with_added(self, files: Iterable[DataFileMeta], key_of: KeyOf) -> Levels:
        """The levels with new files, each on its own level."""
        return build_levels((*self.files, *files), self.max_level + 1, key_of)

    def with_compacted(self, before: Iterable[DataFileMeta], after: Iterable[DataFileMeta], key_of: KeyOf) -> Levels:
        """The levels with the files of ``before`` replaced by those of ``after``."""
        removed = {(f.level, f.file_name) for f in before}
        kept = [f for f in self.files if (f.level, f.file_name) not in removed]
        if len(kept) + len(removed) != len(self.files):
            raise BrokenInvariant(
                f"compaction replaces files that the bucket lacks: {sorted(removed)}: stop the writer"
            )
        return build_levels((*kept, *after), self.max_level + 1, key_of)


def build_levels(files: Iterable[DataFileMeta], num_levels: int, key_of: KeyOf) -> Levels:
    """Sort files into levels; there are at least ``num_levels`` and as many as the highest file needs.

    Raises CorruptFile if the key ranges of a level above 0 overlap.
    """
    files = tuple(files)
    count = max(num_levels, 2, 1 + max((f.level for f in files), default=0))
    upper = tuple(
        tuple(sorted((f for f in files if f.level == level), key=lambda f: key_of(f.min_key)))
        for level in range(1, count)
    )
    for run in upper:
        for left, right in pairwise(run):
            if not key_of(left.max_key) < key_of(right.min_key):
                raise CorruptFile(
                    f"files {left.file_name} and {right.file_name} overlap on level {left.level}, because another "
                    "writer compacted this bucket at the same time: restore an earlier snapshot"
                )
    return Levels(tuple(sorted((f for f in files if f.level == 0), key=_newest_first)), upper)


def _newest_first(file: DataFileMeta) -> tuple[int, int, int, str]:
    return (-file.max_sequence_number, file.min_sequence_number, file.creation_time_ms or 0, file.file_name)


def next_sequence_number(files: Iterable[DataFileMeta]) -> SequenceNumber:
    """The sequence number after those of all rows in these files of one bucket; 0 without files."""
    return SequenceNumber(max((file.max_sequence_number for file in files), default=-1) + 1)


def find_overlap(files: Sequence[DataFileMeta], key_types: Sequence[DataType]) -> str | None:
    """A text about two files of one sorted run whose key ranges overlap; None without such files."""
    ranges = sorted(
        ((comparable_key(f.min_key, key_types), comparable_key(f.max_key, key_types), f.file_name) for f in files),
    )
    for left, right in pairwise(ranges):
        if left[1] >= right[0]:
            return f"the key ranges of {left[2]} and {right[2]} overlap"
    return None
