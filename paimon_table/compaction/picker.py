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
    """Whether every file is rewritten by itself, although it stays on its level."""

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        return tuple(f for run in self.runs for f in run.files)


def pick(runs: Sequence[SortedRun], options: TableOptions, max_level: int) -> CompactUnit | None:
    """The unit that the universal strategy compacts now; ``runs`` newest first.

    ``max_level`` is the bucket's highest level, which may be above the level in the options.
    """
    # So few runs cost readers less than a rewrite of their rows.
    if len(runs) < options.compaction_trigger:
        return None
    # Size amplification: the newer runs relative to the oldest one; at worst they hold only newer versions of its rows.
    newer_bytes = sum(run.size_bytes for run in runs[:-1])
    if runs and newer_bytes * 100 > options.max_size_amplification_percent * runs[-1].size_bytes:
        return _useful(CompactUnit(max_level, tuple(runs)))
    # Size ratio: merging runs of like sizes rewrites each row about log(n) times.
    count = _extended(runs, 1, options.size_ratio)
    # Number of runs: too many slow every read down, so enough of the newest merge whatever their sizes.
    if count == 1 and len(runs) > options.compaction_trigger:
        count = _extended(runs, len(runs) - options.compaction_trigger + 1, options.size_ratio)
    return _useful(_unit(runs, count, max_level)) if count > 1 else None


def force_up_level0(
    runs: Sequence[SortedRun], options: TableOptions, max_level: int, patience: int
) -> CompactUnit | None:
    """As ``pick``, but a unit with all of level 0 whenever level 0 holds at least ``patience`` files."""
    unit = pick(runs, options, max_level)
    if unit is not None:
        return unit
    # Such tables show new rows, or their changelog, only once level 0 has been merged.
    level0 = sum(run.level == 0 for run in runs)
    if level0 < patience:
        return None
    return _useful(_unit(runs, _extended(runs, level0, options.size_ratio), max_level))


def pick_full(
    runs: Sequence[SortedRun], max_level: int, has_gone_rows: Callable[[DataFileMeta], bool]
) -> CompactUnit | None:
    """All runs into the highest level; when they are there already, the files with rows to be dropped, None without."""
    if any(run.level != max_level for run in runs):
        return CompactUnit(max_level, tuple(runs))
    # Files of the highest level do not overlap: there is nothing to merge, each is rewritten without its gone rows.
    marked = tuple(file for run in runs for file in run.files if has_gone_rows(file))
    return CompactUnit(max_level, (SortedRun(max_level, marked),), rewrites_each=True) if marked else None


def _extended(runs: Sequence[SortedRun], count: int, size_ratio: int) -> int:
    """Number of runs after adding older ones as long as they are not much larger than those before them together.

    Once there are two, runs of level 0 and 1 are added even if larger.
    """
    # A unit that stops before such a run could only write to level 0, so `_unit` would take the run in anyway. Added
    # here, its size counts when the runs behind it are compared.
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
    """The first ``count`` runs, and further runs if the output would otherwise be level 0."""
    # A level above 0 holds one run, so the output goes to the free level just below the level of the next run. If this
    # is level 0, whose files are flushes ordered by sequence number, the unit takes in the next run too.
    output_level = max(0, runs[count].level - 1) if count < len(runs) else max_level
    while output_level == 0 and count < len(runs):
        output_level = runs[count].level
        count += 1
    if count == len(runs):
        output_level = max_level
    return CompactUnit(output_level, tuple(runs[:count]))


def _useful(unit: CompactUnit) -> CompactUnit | None:
    """None for a single file that is on its output level already: rewriting it would change nothing."""
    files = unit.files
    return None if len(files) == 1 and files[0].level == unit.output_level else unit
