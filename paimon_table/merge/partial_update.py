"""The partial-update engine: assembles the row of a key column by column from its versions.

Implements Paimon's partial-update. NULLs do not overwrite. Sequence groups give columns their own order, also with
aggregate functions. Deletes follow ``ignore-delete``, ``partial-update.remove-record-on-delete`` and
``partial-update.remove-record-on-sequence-group``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from paimon_table.errors import MalformedRecord
from paimon_table.merge.aggregate.function import AggregateFunction
from paimon_table.merge.aggregate.registry import aggregate_function
from paimon_table.merge.key_rows import only_positions
from paimon_table.merge.merged_columns import merged_table
from paimon_table.merge.partial_update_fold import fold_columns
from paimon_table.merge.partial_update_vector import vector_columns
from paimon_table.merge.partial_update_versions import GroupVersions, Versions, kinds_of
from paimon_table.merge.sequence_groups import group_sequence
from paimon_table.merge.sort import KeyGroups
from paimon_table.options.field_options import SequenceGroup
from paimon_table.options.table_options import TableOptions
from paimon_table.row_kind import SEQUENCE_NUMBER, VALUE_KIND, RowKind, are_adds
from paimon_table.rows.gather import gather
from paimon_table.rows.python_values import readable
from paimon_table.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class PartialUpdate:
    """See ``MergeFunction``. The rows may lack columns, but not the columns of ``needed_columns``."""

    key_names: tuple[str, ...]
    groups: tuple[SequenceGroup, ...] = ()
    """No column is in two groups, or twice in one group."""
    aggregates: Mapping[str, AggregateFunction] = field(default_factory=dict)
    """The functions of protected columns."""
    ignore_delete: bool = False
    remove_on_delete: bool = False
    remove_on_groups: frozenset[str] = frozenset()
    """Sequence columns: a -D that is not older for the group of such a column removes the row."""
    always_folds: bool = False
    """Whether to fold all keys, without the vector path; the rows are the same, but it is slower."""

    def merge(self, rows: pa.Table, groups: KeyGroups, single_passes: bool = True) -> pa.Table:
        passing = groups.indices[groups.ends]
        kinds = kinds_of(rows)[groups.indices]
        is_merged = np.diff(groups.starts, append=len(groups.indices)) > (1 if single_passes else 0)
        keep = is_merged[groups.key_number()]
        if self.ignore_delete:
            keep &= are_adds(kinds)
        keys, is_merged = only_positions(groups, keep)
        if not is_merged.any():
            return gather(rows, passing)
        versions = self._versions(rows, keys)
        self._check_retracts(versions)
        columns = fold_columns(versions) if self.always_folds else vector_columns(versions)
        return merged_table(rows, passing, is_merged, columns)

    def needed_columns(self, columns: Sequence[str]) -> tuple[str, ...]:
        needed = dict.fromkeys(columns)
        for group in self.groups:
            if self._removes_row(group) or any(name in needed for name in (*group.sequence, *group.protected)):
                needed.update(dict.fromkeys(group.sequence))
        return tuple(needed)

    def _versions(self, rows: pa.Table, keys: KeyGroups) -> Versions:
        names = [name for name in rows.column_names if name not in (SEQUENCE_NUMBER, VALUE_KIND)]
        grouped = {name for group in self.groups for name in (*group.sequence, *group.protected)}
        read = [self._group_versions(rows, keys, group) for group in self.groups if group.sequence[0] in names]
        return Versions(
            rows=rows,
            keys=keys,
            kinds=kinds_of(rows)[keys.indices],
            free=tuple(name for name in names if name not in grouped),
            groups=tuple(read),
            removes_on_delete=self.remove_on_delete,
        )

    def _group_versions(self, rows: pa.Table, keys: KeyGroups, group: SequenceGroup) -> GroupVersions:
        protected = [name for name in group.protected if name in rows.column_names]
        return GroupVersions(
            sequence=group.sequence,
            plain=tuple(name for name in protected if name not in self.aggregates),
            aggregated={name: self.aggregates[name] for name in protected if name in self.aggregates},
            removes_row=self._removes_row(group),
            order=group_sequence(rows, group, keys.indices),
        )

    def _removes_row(self, group: SequenceGroup) -> bool:
        return any(name in self.remove_on_groups for name in group.sequence)

    def _check_retracts(self, versions: Versions) -> None:
        if self.groups or self.remove_on_delete:
            return
        wrong = np.flatnonzero(versions.is_retract)
        if len(wrong):
            row = int(versions.keys.indices[wrong[0]])
            key = {name: readable(versions.rows.column(name)[row]) for name in self.key_names}
            raise MalformedRecord(
                f"by default, partial update cannot accept delete records, and the key {key} has a "
                f"{RowKind(int(versions.kinds[wrong[0]])).short} ({len(wrong)} in all); set one of: "
                "1. 'ignore-delete' to ignore delete records; "
                "2. 'partial-update.remove-record-on-delete' to remove the whole row when a delete record comes; "
                "3. 'fields.<column>.sequence-group' to retract the columns of groups, and with it "
                "'partial-update.remove-record-on-sequence-group' to remove the whole row when a delete record of "
                "such a group comes"
            )


def partial_update(schema: TableSchema, options: TableOptions) -> PartialUpdate:
    """The engine of a table whose options have been validated."""
    groups = tuple(_without_repetitions(group) for group in options.field_options.sequence_groups)
    names = {name: function_name(options, name) for group in groups for name in group.protected}
    return PartialUpdate(
        key_names=schema.trimmed_primary_keys,
        groups=groups,
        aggregates={
            name: aggregate_function(function, schema.field(name), options.field_options.of(name))
            for name, function in names.items()
            if function is not None
        },
        ignore_delete=options.ignore_delete,
        remove_on_delete=options.partial_update_remove_record_on_delete,
        remove_on_groups=frozenset(options.partial_update_remove_record_on_sequence_group),
    )


def function_name(options: TableOptions, column: str) -> str | None:
    """The aggregate function of a group's column in the options; for columns that are neither key nor sequence."""
    return options.field_options.of(column).aggregate_function or options.default_aggregate_function


def _without_repetitions(group: SequenceGroup) -> SequenceGroup:
    sequence = tuple(dict.fromkeys(group.sequence))
    return SequenceGroup(sequence, tuple(name for name in group.protected if name not in sequence))
