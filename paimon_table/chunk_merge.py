"""Merging one key-range chunk: the row of each key after it, and what changed.

Implements the per-key rules of Paimon's lookup compaction for all keys of a chunk at once: level-0 rows are new, rows
of higher levels are old, and where a new key has no old row in the chunk its old row is looked up in the levels above
the compaction's output. With ``sequence.field`` a looked-up row may be newer than a late level-0 row and wins then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.changelog import changelog_rules, derive_changelog
from paimon_table.levels import SortedRun
from paimon_table.lookup import StoredRows
from paimon_table.lookup_file import Hits
from paimon_table.merge.function import MergeFunction
from paimon_table.merge.gather import concat, gather
from paimon_table.merge.sort import KeyGroups, KeyOrder
from paimon_table.merge.words import Indices
from paimon_table.options import TableOptions
from paimon_table.run_chunks import Piece

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class MergedChunk:
    """One row per key, retracts included, and the changelog, both sorted by key."""

    rows: pa.Table
    changelog: pa.Table


class ChunkMerger:
    """Merges chunks of one bucket; ``stored`` finds old rows by key."""

    def __init__(self, order: KeyOrder, function: MergeFunction, options: TableOptions, stored: StoredRows) -> None:
        self._order = order
        self._function = function
        self._stored = stored
        self._rules = changelog_rules(options)
        self._needs_all_versions = bool(options.sequence_fields) or options.ignore_delete
        """Whether the first version found may not decide: an older level can hold a newer one, or it is ignored."""

    def merge(self, pieces: Sequence[Piece]) -> pa.Table:
        """One row per key, sorted by key, retracts included."""
        if len(pieces) == 1:
            return pieces[0].rows
        rows = concat([piece.rows for piece in pieces])
        return self._function.merge(rows, self._order.sort(rows))

    def merge_with_changelog(self, pieces: Sequence[Piece], above: Sequence[SortedRun]) -> MergedChunk:
        """``above`` are the runs on levels above the output, lowest level first."""
        rows = concat([piece.rows for piece in pieces])
        is_old = np.repeat([piece.level > 0 for piece in pieces], [piece.rows.num_rows for piece in pieces])
        groups = self._order.sort(rows)
        changed, in_chunk = _any_in_group(~is_old, groups), _any_in_group(is_old, groups)
        wanted = np.flatnonzero(changed if self._needs_all_versions else changed & ~in_chunk)
        hits = self._look_up(gather(rows, groups.indices[groups.starts[wanted]]), above)
        if len(hits.positions):
            key_number = np.empty(rows.num_rows, np.int64)
            key_number[groups.indices] = groups.key_number()
            rows = concat([hits.rows, rows])
            is_old = np.concatenate([np.ones(len(hits.positions), np.bool_), is_old])
            groups = self._order.sort_versions(rows, np.concatenate([wanted[hits.positions], key_number]))
        after = self._function.merge(rows, groups, single_passes=False)
        before, before_row = self._before(rows, groups, is_old, changed)
        keys = np.flatnonzero(changed)
        changelog = derive_changelog(before, before_row[keys], gather(after, keys), self._rules)
        return MergedChunk(after, changelog)

    def _look_up(self, keys: pa.Table, above: Sequence[SortedRun]) -> Hits:
        if self._needs_all_versions:
            return self._stored.all_versions(above, keys)
        return self._stored.newest(above, keys)

    def _before(self, rows: pa.Table, groups: KeyGroups, is_old: Mask, changed: Mask) -> tuple[pa.Table, Indices]:
        """The old state of the changed keys: merged rows, and for each key of ``groups`` its row there or -1."""
        key_number = groups.key_number()
        chosen = np.flatnonzero(is_old[groups.indices] & changed[key_number])
        keys = key_number[chosen]
        is_first = np.ones(len(keys), np.bool_)
        is_first[1:] = keys[1:] != keys[:-1]
        starts = np.flatnonzero(is_first)
        before_row = np.full(len(groups.starts), -1, np.int64)
        before_row[keys[starts]] = np.arange(len(starts))
        return self._function.merge(rows, KeyGroups(groups.indices[chosen], starts)), before_row


def _any_in_group(marks: Mask, groups: KeyGroups) -> Mask:
    any_in_group: Mask = np.logical_or.reduceat(marks[groups.indices], groups.starts)
    return any_in_group
