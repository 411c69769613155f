"""Merges one key-range chunk: the merged row of each key, and the changelog.

Implements the per-key rules of Paimon's compactions for all keys of a chunk at once. In a compaction with lookup,
level-0 rows are new and rows of higher levels are old. If a new key has no old row in the chunk, its old row is looked
up in the levels above the compaction's output. In a full compaction the row of the highest level with files is the old
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.compaction.changelog import derive_changelog
from paimon_table.compaction.row_ages import RowAges
from paimon_table.lookup.lookup_file import Hits
from paimon_table.lookup.stored_rows import OnFound, StoredRows
from paimon_table.merge.function import MergeFunction
from paimon_table.merge.late_rows import late_row_count
from paimon_table.merge.sort import KeyGroups, KeyOrder
from paimon_table.merge.superseded import without_superseded
from paimon_table.mergetree.levels import SortedRun
from paimon_table.mergetree.run_chunks import Piece, joined
from paimon_table.options.table_options import TableOptions
from paimon_table.row_kind import VALUE_KIND, are_adds
from paimon_table.rows.gather import concat, gather
from paimon_table.rows.words import Indices

Mask = npt.NDArray[np.bool_]

_LOOKED_UP = 1
"""The level of a looked-up row: some level above 0, the only one of its key."""


@dataclass(frozen=True, slots=True)
class MergedChunk:
    """One row per key, retracts included, and the changelog, both sorted by key."""

    rows: pa.Table
    changelog: pa.Table | None = None


def newest_row_wins(options: TableOptions) -> bool:
    """Whether the merge of a level-0 row with older ones is always the level-0 row itself."""
    return options.merge_engine == "deduplicate" and not options.sequence_fields and not options.ignore_delete


class ChunkMerger:
    """Merges chunks of one bucket; ``stored`` finds old rows by key."""

    def __init__(
        self,
        order: KeyOrder,
        function: MergeFunction,
        options: TableOptions,
        stored: StoredRows,
        on_found: OnFound | None = None,
    ) -> None:
        """``on_found`` is called for every looked-up old row that a merged row replaces."""
        self._order = order
        self._function = function
        self._options = options
        self._stored = stored
        self._on_found = on_found
        self._has_lookup_changelog = options.changelog_producer == "lookup"
        may_lose = options.merge_engine == "deduplicate" and not newest_row_wins(options)
        self.late_rows = 0
        """The number of late rows that the merges so far left out."""
        self._needs_all_versions = may_lose and not options.upper_keys_are_unique
        """Whether a lookup needs all versions: an older level may have a newer one, or the first one may be ignored."""

    def merge(self, pieces: Sequence[Piece]) -> MergedChunk:
        """Merge stored rows, without a changelog."""
        if len(pieces) == 1:
            return MergedChunk(pieces[0].rows)
        rows, levels = joined(pieces)
        groups = self._counting(rows, self._order.sort(rows), levels)
        return MergedChunk(self._function.merge(rows, groups))

    def merge_looking_up(self, pieces: Sequence[Piece], above: Sequence[SortedRun], ages: RowAges) -> MergedChunk:
        """Merge a chunk with level-0 rows; ``above`` are the runs on levels above the output, lowest level first.

        Lookups do not find expired rows, but the merge replaces them like others. The changelog is the lookup
        producer's; None with another producer.
        """
        if self._options.merge_engine == "first-row":
            return self._merge_first_rows(pieces, above)
        if not self._has_lookup_changelog and newest_row_wins(self._options):
            return self._merge_newest(pieces, above)
        rows, levels = joined(pieces)
        groups = self._order.sort(rows)
        changed, in_chunk = _any_in_group(levels == 0, groups), _any_in_group(levels > 0, groups)
        wanted = np.flatnonzero(changed if self._needs_all_versions else changed & ~in_chunk)
        hits = ages.live_hits(self._look_up(gather(rows, groups.indices[groups.starts[wanted]]), above))
        if len(hits.positions):
            key_number = np.empty(rows.num_rows, np.int64)
            key_number[groups.indices] = groups.key_number()
            rows = concat([hits.rows, rows])
            levels = np.concatenate([np.full(len(hits.positions), _LOOKED_UP), levels])
            groups = self._order.sort_versions(rows, np.concatenate([wanted[hits.positions], key_number]))
        groups = self._counting(rows, groups, levels)
        after = self._function.merge(rows, groups, single_passes=False)
        changelog = self._changelog(rows, groups, levels > 0, changed, after) if self._has_lookup_changelog else None
        return MergedChunk(after, changelog)

    def merge_to_top(self, pieces: Sequence[Piece], published_level: int) -> MergedChunk:
        """Merge a chunk for the highest level, with the changelog of the full-compaction producer.

        Rows of ``published_level`` are the state after the changelog so far.
        """
        rows, levels = joined(pieces)
        groups = self._order.sort(rows)
        is_old = levels == published_level
        changed = _any_in_group(~is_old, groups)
        after = self._function.merge(rows, self._counting(rows, groups, levels))
        changelog = self._changelog(rows, groups, is_old, changed, after)
        return MergedChunk(after, changelog)

    def _merge_newest(self, pieces: Sequence[Piece], above: Sequence[SortedRun]) -> MergedChunk:
        """The newest rows, independent of older ones; old rows are looked up only for ``on_found``."""
        if self._on_found is None:
            return self.merge(pieces)
        rows, levels = joined(pieces)
        groups = self._order.sort(rows)
        after = self._function.merge(rows, groups)
        is_new = ~_any_in_group(levels > 0, groups)
        self._stored.holds(above, gather(after, np.flatnonzero(is_new)), self._on_found)
        return MergedChunk(after)

    def _merge_first_rows(self, pieces: Sequence[Piece], above: Sequence[SortedRun]) -> MergedChunk:
        """Only rows of keys that no higher level has are new, so the lookup needs only the existence of keys."""
        rows, levels = joined(pieces)
        groups = self._order.sort(rows)
        first = self._function.merge(rows, groups, single_passes=False)
        is_stored = _any_in_group(levels > 0, groups)
        is_new = ~is_stored
        candidates = np.flatnonzero(is_new)
        is_new[candidates] = ~self._stored.holds(above, gather(first, candidates))
        is_add = are_adds(first.column(VALUE_KIND).to_numpy())
        changelog = gather(first, np.flatnonzero(is_new & is_add)) if self._has_lookup_changelog else None
        return MergedChunk(gather(first, np.flatnonzero((is_stored | is_new) & is_add)), changelog)

    def _counting(self, rows: pa.Table, groups: KeyGroups, levels: Indices) -> KeyGroups:
        """The versions for the merge function; counts the late ones."""
        seen = without_superseded(groups, levels) if self._options.upper_rows_are_whole else groups
        self.late_rows += late_row_count(self._order, rows, seen)
        return seen

    def _look_up(self, keys: pa.Table, above: Sequence[SortedRun]) -> Hits:
        if self._needs_all_versions:
            return self._stored.all_versions(above, keys)
        return self._stored.newest(above, keys, self._on_found)

    def _changelog(self, rows: pa.Table, groups: KeyGroups, is_old: Mask, changed: Mask, after: pa.Table) -> pa.Table:
        """The changelog of the ``changed`` keys: their rows before, merged from the rows marked ``is_old``, against
        ``after``."""
        key_number = groups.key_number()
        chosen = np.flatnonzero(is_old[groups.indices] & changed[key_number])
        keys = key_number[chosen]
        is_first = np.ones(len(keys), np.bool_)
        is_first[1:] = keys[1:] != keys[:-1]
        starts = np.flatnonzero(is_first)
        before_row = np.full(len(groups.starts), -1, np.int64)
        before_row[keys[starts]] = np.arange(len(starts))
        before = self._function.merge(rows, KeyGroups(groups.indices[chosen], starts))
        numbers = np.flatnonzero(changed)
        return derive_changelog(before, before_row[numbers], gather(after, numbers), self._options)


def _any_in_group(marks: Mask, groups: KeyGroups) -> Mask:
    any_in_group: Mask = np.logical_or.reduceat(marks[groups.indices], groups.starts)
    return any_in_group
