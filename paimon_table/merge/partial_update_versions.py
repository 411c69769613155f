"""The versions of keys for the partial-update engine: in merge order, with their kinds and group sequences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from paimon_table.merge.aggregate.function import AggregateFunction
from paimon_table.merge.key_rows import Kinds, Mask, only_positions
from paimon_table.merge.sequence_groups import GroupSequence
from paimon_table.merge.sort import KeyGroups
from paimon_table.row_kind import VALUE_KIND, are_retracts
from paimon_table.rows.chunks import one_array
from paimon_table.rows.words import Indices


@dataclass(frozen=True, slots=True)
class GroupVersions:
    """One sequence group: its columns that are read, and the sequence of every row."""

    sequence: tuple[str, ...]
    plain: tuple[str, ...]
    """Protected columns without aggregate function."""
    aggregated: Mapping[str, AggregateFunction]
    removes_row: bool
    """Whether a -D that is not older for this group removes the row."""
    order: GroupSequence


@dataclass(frozen=True, slots=True)
class Versions:
    """The rows to merge, without retracts that the options refuse or ignore."""

    rows: pa.Table
    keys: KeyGroups
    kinds: Kinds
    """In merge order, as all that follows."""
    free: tuple[str, ...]
    """Columns in no group."""
    groups: tuple[GroupVersions, ...]
    removes_on_delete: bool
    """Whether every -D removes the row; then there are no groups."""

    @property
    def starts(self) -> Indices:
        return self.keys.starts

    @property
    def is_retract(self) -> Mask:
        return are_retracts(self.kinds)

    @property
    def has_aggregates(self) -> bool:
        return any(group.aggregated for group in self.groups)

    @property
    def newest(self) -> Indices:
        """Row number of the last version of each key."""
        return self.keys.indices[self.keys.ends]

    def values(self, name: str, indices: Indices) -> pa.Array:
        """The values of a column in the rows with these numbers, as one array."""
        return one_array(self.rows.column(name).take(pa.array(indices)))

    def row_at(self, positions: Indices) -> Indices:
        """Row numbers of positions; -1 stays -1."""
        rows = self.keys.indices[positions]
        rows[positions < 0] = -1
        return rows

    def of_keys(self, chosen: Mask) -> Versions:
        """The versions of some of the keys."""
        if chosen.all():
            return self
        keep = chosen[self.keys.key_number()]
        keys, _ = only_positions(self.keys, keep)
        groups = tuple(replace(group, order=group.order.at(keep)) for group in self.groups)
        return replace(self, keys=keys, kinds=self.kinds[keep], groups=groups)


def kinds_of(rows: pa.Table) -> Kinds:
    """The row kinds by row number."""
    kinds: Kinds = rows.column(VALUE_KIND).to_numpy()
    return kinds
