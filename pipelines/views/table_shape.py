"""The current shape of a table on storage: files and bytes per level, sorted runs, uncompacted data.

A pure function of the state that a writer of the table has in memory anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from paimon_table import POSTPONED, DataFileMeta, TableOptions, TableState


@dataclass(frozen=True, slots=True)
class LevelShape:
    """One level of all buckets."""

    files: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TableShape:
    """All buckets of a table at one snapshot."""

    buckets: int = 0
    files: int = 0
    size_bytes: int = 0
    stored_rows: int = 0
    """Rows in data files; a scan gives fewer where versions of a key are not merged yet."""
    levels: Mapping[int, LevelShape] = field(default_factory=dict)
    level0_runs: int = 0
    """Files of level 0 that wait to be merged; none in a table without primary key."""
    most_runs: int = 0
    """Sorted runs of the bucket with the most runs: what a reader merges."""
    backlog_buckets: int = 0
    """Buckets with at least as many sorted runs as ``num-sorted-run.compaction-trigger`` says."""
    backlog_bytes: int = 0
    """Bytes of level 0 in those buckets."""
    waiting_rows: int = 0
    """Rows in postponed buckets, which readers do not see."""


def table_shape(state: TableState, options: TableOptions) -> TableShape:
    """The shape at the snapshot of ``state``."""
    levels: dict[int, tuple[int, int]] = {}
    level0 = most = backlog = backlog_bytes = waiting = rows = 0
    for bucket, files in state.files.items():
        for file in files:
            count, size = levels.get(file.level, (0, 0))
            levels[file.level] = count + 1, size + file.file_size_bytes
        stored = sum(file.row_count for file in files)
        rows += stored
        if bucket.bucket == POSTPONED:
            waiting += stored
            continue
        if options.has_key:
            runs, new = sorted_runs(files), [file for file in files if file.level == 0]
            level0 += len(new)
            most = max(most, runs)
            if runs >= options.compaction_trigger:
                backlog += 1
                backlog_bytes += sum(file.file_size_bytes for file in new)
    shapes = {level: LevelShape(*levels[level]) for level in sorted(levels)}
    return TableShape(
        sum(bucket.bucket != POSTPONED for bucket in state.files),
        sum(shape.files for shape in shapes.values()),
        sum(shape.size_bytes for shape in shapes.values()),
        rows,
        shapes,
        level0,
        most,
        backlog,
        backlog_bytes,
        waiting,
    )


def sorted_runs(files: Sequence[DataFileMeta]) -> int:
    """Every file of level 0 is a run, and every higher level that has files."""
    return sum(file.level == 0 for file in files) + len({file.level for file in files if file.level > 0})
