"""The engines that keep one version of a key unchanged, with its kind and NULLs.

Deduplicate keeps the newest version. ``ignore-delete`` skips retracts in files of older writers; a retract without
another version stays. First-row keeps the oldest version, as in Paimon's merge function. It refuses retracts, or skips
them with ``ignore-delete``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_table.errors import MalformedRecord
from paimon_table.merge.sort import KeyGroups
from paimon_table.row_kind import VALUE_KIND, RowKind, are_adds
from paimon_table.rows.gather import gather
from paimon_table.rows.python_values import readable
from paimon_table.rows.words import Indices


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """See ``MergeFunction``; the engine never changes a single version."""

    ignore_delete: bool = False

    def merge(self, rows: pa.Table, groups: KeyGroups, single_passes: bool = True) -> pa.Table:
        return gather(rows, self.newest(rows, groups))

    def needed_columns(self, columns: Sequence[str]) -> tuple[str, ...]:
        return tuple(columns)

    def newest(self, rows: pa.Table, groups: KeyGroups) -> Indices:
        """Row number of the newest version of each key."""
        if not self.ignore_delete or len(groups.starts) == 0:
            return groups.indices[groups.ends]
        is_add = are_adds(rows.column(VALUE_KIND).to_numpy()[groups.indices])
        last_add = np.maximum.reduceat(np.where(is_add, np.arange(len(is_add)), -1), groups.starts)
        return groups.indices[np.where(last_add >= 0, last_add, groups.ends)]


@dataclass(frozen=True, slots=True)
class FirstRow:
    """See ``MergeFunction``. ``key_names`` are the columns in errors about a row."""

    key_names: tuple[str, ...]
    ignore_delete: bool = False

    def merge(self, rows: pa.Table, groups: KeyGroups, single_passes: bool = True) -> pa.Table:
        """Raises MalformedRecord for retracts that are not ignored."""
        return gather(rows, self.oldest(rows, groups, single_passes))

    def needed_columns(self, columns: Sequence[str]) -> tuple[str, ...]:
        return tuple(columns)

    def oldest(self, rows: pa.Table, groups: KeyGroups, single_passes: bool) -> Indices:
        """Row number of the oldest version of each key; of the newest one if all are ignored."""
        is_add = are_adds(rows.column(VALUE_KIND).to_numpy()[groups.indices])
        if is_add.all():
            return groups.indices[groups.starts]
        if self.ignore_delete:
            end = len(is_add)
            first_add = np.minimum.reduceat(np.where(is_add, np.arange(end), end), groups.starts)
            return groups.indices[np.where(first_add < end, first_add, groups.ends)]
        is_seen = ~is_add
        if single_passes:
            is_seen &= (groups.ends > groups.starts)[groups.key_number()]
        if is_seen.any():
            self._refuse(rows.slice(int(groups.indices[np.argmax(is_seen)]), 1))
        return groups.indices[groups.starts]

    def _refuse(self, row: pa.Table) -> None:
        key = ", ".join(f"{name} = {readable(row.column(name)[0])!r}" for name in self.key_names)
        kind = RowKind(row.column(VALUE_KIND)[0].as_py()).short
        raise MalformedRecord(
            f"a {kind} row for {key}: the first row merge engine (merge-engine=first-row) can not accept "
            "DELETE/UPDATE_BEFORE records. Set 'ignore-delete' = true to ignore them, or use another merge engine"
        )
