"""The deduplicate engine: the newest version of a key is its row, with its own kind and all its NULLs.

With ``ignore-delete`` retracts in files of older writers are skipped; without any other version the retract stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_table.merge.sort import KeyGroups
from paimon_table.row_kind import VALUE_KIND, are_adds
from paimon_table.rows.gather import gather
from paimon_table.rows.words import Indices


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """See ``MergeFunction``; a single version means the same whether the engine sees it or not."""

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
