"""Which sorted runs to compact next, and into which level: pure choices.

Implements Paimon's universal compaction (size amplification, size ratio, number of runs, in this order), the forced
compaction of level 0 of lookup tables, and full compaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paimon_table.mergetree.levels import SortedRun
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.options.table_options import TableOptions


@dataclass(frozen=True, slots=True)
class CompactUnit:
    """The newest runs of a bucket, to be merged into ``output_level``."""

    output_level: int
    runs: tuple[SortedRun, ...]
    rewrites_each: bool = False
    """Whether each file is rewritten separately and stays on its level."""

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        return tuple(f for run in self.runs for f in run.files)


def pick(runs: Sequence[SortedRun], options: TableOptions, max_level: int) -> CompactUnit | None:
    """The unit that the universal strategy compacts now; ``runs`` newest first.

    ``max_level`` is the bucket's highest level, which may be above the level in the options.
    """
    # Reading few runs costs less than rewriting their rows.
    if len(runs) < options.compaction_trigger:
        return None
    # Size amplification: the newer runs relative to the oldest one; at worst they have only newer versions of its rows.
    newer_bytes = sum(run.size_bytes for run in runs[:-1])
    if runs and newer_bytes * 100 > options.max_size_amplification_percent * runs[-1].size_bytes:
        return _useful(CompactUnit(max_level, tuple(runs)))
    # Size ratio: merging runs of like sizes rewrites each row about log(n) times.
    count = _extended(runs, 1, options.size_ratio)
    # Number of runs: too many slow down every read, so enough of the newest are merged, whatever their sizes.
    if count == 1 and len(runs) > options.compaction_trigger:
        count = _extended(runs, len(runs) - options.compaction_trigger + 1, options.size_ratio)
    return _useful(_unit(runs, count, max_level)) if count > 1 else None


def force_up_level0(
    runs: Sequence[SortedRun], options: TableOptions, max_level: int, patience: int
) -> CompactUnit | None:
    """As ``pick``, but a unit with all of level 0 if level 0 has at least ``patience`` files."""
    unit = pick(runs, options, max_level)
    if unit is not None:
        return unit
    # Such tables show new rows, or their changelog, only after level 0 is merged.
    level0 = sum(run.level == 0 for run in runs)
    if level0 < patience:
        return None
    return _useful(_unit(runs, _extended(runs, level0, options.size_ratio), max_level))


def pick_full(
    runs: Sequence[SortedRun], max_level: int, has_gone_rows: Callable[[DataFileMeta], bool]
) -> CompactUnit | None:
    """All runs into the highest level. If they are there already, the files with rows to drop; None without such
    files."""
    if any(run.level != max_level for run in runs):
        return CompactUnit(max_level, tuple(runs))
    # Files of the highest level do not overlap, so each is rewritten alone, without the rows to drop.
    marked = tuple(file for run in runs for file in run.files if has_gone_rows(file))
    return CompactUnit(max_level, (SortedRun(max_level, marked),), rewrites_each=True) if marked else None


def _extended(runs: Sequence[SortedRun], count: int, size_ratio: int) -> int:
    """The number of runs after adding older ones that are not much larger than all newer ones together.

    From two runs on, runs of level 0 and 1 are added even if they are larger.
    """
    # A unit that stops before such a run could only write to level 0, so `_unit` would include the run anyway. Adding
    # it here includes its size in the comparison with older runs.
    size_bytes = sum(run.size_bytes for run in runs[:count])
    while count < len(runs):
        following = runs[count]
        is_larger = size_bytes * (100 + size_ratio) < following.size_bytes * 100
        if is_larger and (count == 1 or following.level > 1):
            break
        size_bytes += following.size_bytes
        count += 1
    return count


def _unit(runs: Sequence[SortedRun], count: int, max_level: int) -> CompactUnit:
    """A unit of the first ``count`` runs, and of further runs if the output would otherwise be level 0."""
    # A level above 0 has one run, so the output goes to the free level just below the level of the next run. If this is
    # level 0, whose files are flushes ordered by sequence number, the unit includes the next run too.
    output_level = max(0, runs[count].level - 1) if count < len(runs) else max_level
    while output_level == 0 and count < len(runs):
        output_level = runs[count].level
        count += 1
    if count == len(runs):
        output_level = max_level
    return CompactUnit(output_level, tuple(runs[:count]))


def _useful(unit: CompactUnit) -> CompactUnit | None:
    """The unit; None for a single file on its output level, because rewriting it would change nothing."""
    files = unit.files
    return None if len(files) == 1 and files[0].level == unit.output_level else unit
