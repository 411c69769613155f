"""Partial-update for all keys at once, if the result does not depend on single steps.

A column without aggregate function takes its value from one row: the last one that is not NULL, or the newest of its
sequence group. An aggregated column is reduced over the rows that have a sequence. Keys that need more are folded.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_table.merge.aggregate.function import AggregateFunction
from paimon_table.merge.key_rows import Mask, any_marked, last_marked, only_positions, valid_mask
from paimon_table.merge.merged_columns import MergedColumns, take_or_null
from paimon_table.merge.partial_update_fold import fold_columns
from paimon_table.merge.partial_update_versions import GroupVersions, Versions
from paimon_table.merge.sequence_groups import GroupSequence
from paimon_table.row_kind import RowKind


def vector_columns(versions: Versions) -> MergedColumns:
    """The value columns of every key; equals ``fold_columns``."""
    folded = _must_fold(versions)
    aggregates = None if folded.all() else _aggregates(versions, folded)
    if aggregates is None or folded.all():
        return fold_columns(versions)
    merged = MergedColumns(_is_deleted(versions), versions.newest, computed=aggregates)
    _take_free_columns(versions, merged)
    for group in versions.groups:
        _take_group(versions, group, merged)
    if folded.any():
        merged.overlay(folded, fold_columns(versions.of_keys(folded)))
    return merged


def _is_deleted(versions: Versions) -> Mask:
    is_deleted: Mask = ~any_marked(~versions.is_retract, versions.starts)
    if versions.removes_on_delete:
        is_deleted |= versions.kinds[versions.keys.ends] == RowKind.DELETE
    return is_deleted


# ---------------------------------------------------------------- columns that are taken from rows


def _take_free_columns(versions: Versions, merged: MergedColumns) -> None:
    """The last value that is not NULL, of the rows that count."""
    counts = _counting_rows(versions)
    for name in versions.free:
        column = versions.rows.column(name)
        if counts is None and column.null_count == 0:
            merged.sources[name] = merged.newest
            continue
        marks = valid_mask(column)[versions.keys.indices]
        if counts is None:
            # Without any value, the newest row has the NULL.
            last = last_marked(marks, versions.starts)
            merged.sources[name] = versions.keys.indices[np.where(last < 0, versions.keys.ends, last)]
        else:
            merged.sources[name] = versions.row_at(last_marked(marks & counts, versions.starts))


def _counting_rows(versions: Versions) -> Mask | None:
    """Rows that set columns without group: adds, the last -D that removes the row, and a first row that is a retract.

    None if all rows do.
    """
    is_retract = versions.is_retract
    if not is_retract.any():
        return None
    counts = ~is_retract
    counts[versions.starts] = True
    if versions.removes_on_delete:
        is_delete = versions.kinds == RowKind.DELETE
        last_delete = last_marked(is_delete, versions.starts)[versions.keys.key_number()]
        position = np.arange(len(is_delete))
        counts &= position > last_delete
        counts |= position == last_delete
    return counts


def _take_group(versions: Versions, group: GroupVersions, merged: MergedColumns) -> None:
    """The columns of the newest row of the group; a retract leaves NULL in the protected ones."""
    newest = group.order.newest(versions.starts)
    protected = newest
    is_retract = versions.is_retract
    if is_retract.any():
        # If no row has a sequence, the values of a first row that is a retract remain.
        seeded = np.where(is_retract[versions.starts], versions.starts, -1)
        protected = np.where(newest < 0, seeded, np.where(is_retract[newest], -1, newest))
    for name in group.sequence:
        merged.sources[name] = versions.row_at(newest)
    for name in group.plain:
        merged.sources[name] = versions.row_at(protected)


# ---------------------------------------------------------------- aggregates


def _must_fold(versions: Versions) -> Mask:
    """Keys whose result depends on single steps."""
    folded = np.zeros(len(versions.starts), np.bool_)
    is_retract = versions.is_retract
    if is_retract.any():
        if versions.has_aggregates:
            # The aggregates start from the first retract.
            folded |= is_retract[versions.starts]
        if any(group.removes_row for group in versions.groups):
            folded |= any_marked(versions.kinds == RowKind.DELETE, versions.starts)
    for group in versions.groups:
        if not all(function.is_commutative for function in group.aggregated.values()):
            folded |= any_marked(group.order.late(versions.keys.key_number()), versions.starts)
    return folded


def _aggregates(versions: Versions, folded: Mask) -> dict[str, pa.Array] | None:
    """The aggregated columns, NULL for folded keys. Marks more keys to fold if a function requires it; None: all
    keys."""
    is_retract = versions.is_retract
    columns: dict[str, pa.Array] = {}
    for group in versions.groups:
        for name, function in group.aggregated.items():
            values = _reduced(versions, group.order, name, function, ~folded)
            if values is None and is_retract.any():
                folded |= any_marked(is_retract, versions.starts)
                values = _reduced(versions, group.order, name, function, ~folded)
            if values is None:
                return None
            columns[name] = values
    return columns


def _reduced(
    versions: Versions, order: GroupSequence, name: str, function: AggregateFunction, keys: Mask
) -> pa.Array | None:
    """One aggregated column, one value per key, NULL for other keys; None if the function requires the fold."""
    keep = order.has_value & keys[versions.keys.key_number()]
    counting, has_rows = only_positions(versions.keys, keep)
    if not has_rows.any():
        return pa.nulls(len(keys), versions.rows.schema.field(name).type)
    is_retract = versions.is_retract[keep]
    values = versions.values(name, counting.indices)
    reduced = function.reduce(values, counting.starts, is_retract if is_retract.any() else None)
    if reduced is None or has_rows.all():
        return reduced
    return take_or_null(reduced, np.where(has_rows, np.cumsum(has_rows) - 1, -1))
