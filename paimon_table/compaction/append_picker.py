"""Chooses the files of a bucket to rewrite together, in a table without primary key. Pure.

Implements the choice of Paimon's coordinator for tables without buckets (small files of a partition, in any order). For
buckets it implements Paimon's rule: adjacent files only, so that rows stay in order of arrival. Paimon takes a fixed
number of small files of any size. Here a file waits until others together are as large as it is, and for more of them
the more there is to write. So each row is written about twice, not once for every few new files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from paimon_table.mergetree.arrival import in_order
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.index_file import IndexFileMeta
from paimon_table.options.table_options import TableOptions

OPEN_COST_BYTES = 4 << 20
"""The cost of reading a file, in bytes."""

CHEAP_BYTES = 8 << 20
"""The bytes that are rewritten to save the number of files in the option; twice as many bytes for twice as many
files."""

MOST_WAITING = 10
"""This multiple of the option's number of files is always packed."""

Pack = tuple[DataFileMeta, ...]
"""Files to rewrite together, in this order."""


@dataclass(frozen=True, slots=True)
class PackLimits:
    """The thresholds, from the options of a table."""

    min_file_count: int
    small_bytes: int
    """Smaller files are packed."""
    enough_bytes: int
    """This many bytes are packed for any number of files."""
    delete_ratio: float
    cheap_bytes: int = CHEAP_BYTES

    def pays_off(self, count: int, largest: int, total: int) -> bool:
        """Whether these files are worth rewriting, so that the largest is not rewritten for a small gain."""
        wanted = int(self.min_file_count * min(1 + total / self.cheap_bytes, MOST_WAITING))
        is_final = count >= self.min_file_count and total >= self.small_bytes
        return (count >= wanted or is_final) and (count == 1 or largest <= total - largest)

    @staticmethod
    def of(options: TableOptions) -> PackLimits:
        return PackLimits(
            options.compaction_min_file_count,
            int(options.target_file_size_bytes * options.small_file_ratio),
            2 * options.target_file_size_bytes,
            options.compaction_delete_ratio,
        )


def deleted_counts(files: Iterable[IndexFileMeta]) -> dict[str, int]:
    """The number of rows of each data file that deletion vectors mark; 0 if an older writer did not record it."""
    return {r.data_file: r.cardinality or 0 for file in files for r in file.vector_ranges or ()}


def pick_packs(
    files: Sequence[DataFileMeta],
    deleted: Mapping[str, int],
    limits: PackLimits,
    *,
    keeps_order: bool,
    full: bool = False,
) -> tuple[Pack, ...]:
    """The packs to compact now: one, or with ``full`` all small files and all files with deleted rows.

    ``keeps_order``: only adjacent files are packed.
    """

    def is_worn(file: DataFileMeta) -> bool:
        count = deleted.get(file.file_name, 0)
        return count > 0 if full else count > limits.delete_ratio * max(file.row_count, 1)

    def is_due(file: DataFileMeta) -> bool:
        return file.file_size_bytes < limits.small_bytes or is_worn(file)

    runs = _adjacent(files, is_due) if keeps_order else [sorted(filter(is_due, files), key=_by_size)]
    if full:
        return tuple(tuple(run) for run in runs if len(run) > 1 or any(map(is_worn, run)))
    for run in runs:
        pack = _first_worn(run, is_worn) or (_window(run, limits) if keeps_order else _bin(run, limits))
        if pack:
            return (pack,)
    return ()


def _by_size(file: DataFileMeta) -> tuple[int, int, str]:
    return (file.file_size_bytes, file.creation_time_ms or 0, file.file_name)


def _adjacent(files: Sequence[DataFileMeta], is_due: Callable[[DataFileMeta], bool]) -> list[list[DataFileMeta]]:
    """Runs of adjacent due files, in order of arrival."""
    return [list(run) for due, run in groupby(in_order(files), is_due) if due]


def _first_worn(run: Sequence[DataFileMeta], is_worn: Callable[[DataFileMeta], bool]) -> Pack:
    return next(((file,) for file in run if is_worn(file)), ())


def _bin(files: Sequence[DataFileMeta], limits: PackLimits) -> Pack:
    """The smallest files: enough to reach the target, else those that pay off. ``files`` are sorted by size."""
    size_bytes = 0
    for count, file in enumerate(files, 1):
        size_bytes += file.file_size_bytes + OPEN_COST_BYTES
        if count > 1 and size_bytes >= limits.enough_bytes:
            return tuple(files[:count])
    total = sum(file.file_size_bytes for file in files)
    for count in range(len(files), limits.min_file_count - 1, -1):
        largest = files[count - 1].file_size_bytes
        if limits.pays_off(count, largest, total):
            return tuple(files[:count])
        total -= largest
    return ()


def _window(run: Sequence[DataFileMeta], limits: PackLimits) -> Pack:
    """The first adjacent files that reach the target or pay off, with the next files that still fit."""
    for start in range(len(run)):
        size_bytes = total = largest = 0
        for end in range(start, len(run)):
            size_bytes += run[end].file_size_bytes + OPEN_COST_BYTES
            total += run[end].file_size_bytes
            largest = max(largest, run[end].file_size_bytes)
            if end > start and size_bytes >= limits.enough_bytes:
                return tuple(run[start : end + 1])
        if limits.pays_off(len(run) - start, largest, total):
            return tuple(run[start:])
    return ()
