"""From change rows of JSON images to the Arrow table of a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.row_kind import VALUE_KIND, RowKind
from paimon_table.types import DataType, arrow_type
from sources.change_columns import OFFSET_COLUMN, UNAVAILABLE_COLUMN
from sources.decode_target import DecodeTarget
from sources.json_changes.change_rows import ChangeRows, image_column, is_null
from sources.json_changes.column_plan import Plan, PlannedColumn
from sources.json_changes.gaps import Gaps, Mask
from sources.position_lists import position_lists
from sources.values.conversion import Converted, convert_column, convert_values


@dataclass(frozen=True, slots=True)
class ConvertedRows:
    """Columns of the target with kinds and positions; ``problems`` maps row numbers to reasons."""

    positions: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int8]
    columns: list[pa.Array]
    unavailable: dict[int, Mask]
    """Column position -> rows whose value was not sent."""
    problems: dict[int, str]
    omitted: Mask
    """Retracts of rows that were never stored: their record is still good."""


def convert_rows(rows: ChangeRows, plan: Plan, target: DecodeTarget, gaps: Gaps) -> ConvertedRows:
    """Convert all columns of the target."""
    columns: list[pa.Array] = []
    unavailable: dict[int, Mask] = {}
    problems: dict[int, str] = {}
    kept = rows.kinds != RowKind.DELETE
    is_retract = (rows.kinds == RowKind.UPDATE_BEFORE) | (rows.kinds == RowKind.DELETE)
    omitted = np.zeros(len(rows.kinds), np.bool_)
    for position, column in enumerate(plan):
        values = image_column(rows.images, column.name)
        mask = gaps.mask(values)
        if mask is not None:
            values = _without(values, mask)
            unavailable[position] = mask
        converted = _convert(values, column)
        columns.append(converted.values)
        found = dict(converted.problems)
        if column.name in target.unstorable:
            for row, reason in target.unstorable[column.name](converted.values).items():
                if is_retract[row]:
                    omitted[row] = True
                else:
                    found.setdefault(row, reason)
        for row, reason in found.items():
            problems.setdefault(row, f"column {column.name} {column.type}: {reason}")
        is_key = column.name in target.certain_key
        if is_key or not column.type.nullable:
            missing = np.asarray(converted.values.is_null())
            if not is_key:
                missing = missing & kept & (True if mask is None else ~mask)
            for null in np.flatnonzero(missing):
                problems.setdefault(int(null), f"column {column.name} {column.type}: NULL in a column that is NOT NULL")
    for row in _refused_deletes(rows.kinds, columns, target):
        problems.setdefault(row, target.refused_deletes or "")
    return ConvertedRows(rows.positions, rows.kinds, columns, unavailable, problems, omitted)


def _refused_deletes(kinds: npt.NDArray[np.int8], columns: Sequence[pa.Array], target: DecodeTarget) -> list[int]:
    """Rows that would make their key unreadable in the table."""
    if target.refused_deletes is None:
        return []
    refused = kinds == RowKind.DELETE
    if target.refused_deletes_with and refused.any():
        given = [columns[i] for i, (name, _) in enumerate(target.columns) if name in target.refused_deletes_with]
        refused = refused & np.logical_or.reduce([np.asarray(column.is_valid()) for column in given])
    rows: list[int] = np.flatnonzero(refused).tolist()
    return rows


def _convert(values: pa.Array | list[Any], column: PlannedColumn) -> Converted:
    if column.problem is not None:
        given = np.flatnonzero(~is_null(values)).tolist()
        return Converted(pa.nulls(len(values), arrow_type(column.type)), dict.fromkeys(given, column.problem))
    if isinstance(values, list):
        return convert_values(values, column.encoding, column.type, column.forms)
    return convert_column(values, column.encoding, column.type, column.forms)


def _without(values: pa.Array | list[Any], mask: Mask) -> pa.Array | list[Any]:
    if isinstance(values, list):
        return [None if hide else value for value, hide in zip(values, mask.tolist(), strict=True)]
    if pa.types.is_nested(values.type):
        return pa.array([None if hide else v for v, hide in zip(values.to_pylist(), mask, strict=True)], values.type)
    return pc.if_else(pa.array(mask), pa.scalar(None, values.type), values)


def rows_table(parts: Sequence[ConvertedRows], columns: Sequence[tuple[str, DataType]], offsets: pa.Array) -> pa.Table:
    """All rows without problems, in arrival order; ``offsets`` cover the whole batch, by position."""
    tables = [_part_table(part, columns, offsets, any(p.unavailable for p in parts)) for part in parts]
    table = pa.concat_tables(tables)
    positions = np.concatenate([_kept_positions(part) for part in parts])
    if len(positions) and (np.diff(positions) < 0).any():
        table = table.take(pa.array(np.argsort(positions, kind="stable")))
    return table.combine_chunks()


def record_counts(parts: Sequence[ConvertedRows]) -> tuple[int, int]:
    """The number of records with rows in ``rows_table``, and the number of good records without a row there."""
    stored, left_out = 0, 0
    for part in parts:
        kept = _distinct(_kept_positions(part))
        stored += kept
        if part.omitted.any():
            bad = len(np.unique(part.positions[list(part.problems)]))
            left_out += _distinct(part.positions) - bad - kept
    return stored, left_out


def _distinct(positions: npt.NDArray[np.int64]) -> int:
    """The number of records of positions in order of arrival."""
    return int(np.count_nonzero(np.diff(positions))) + 1 if len(positions) else 0


def _kept(part: ConvertedRows) -> Mask | None:
    """Rows of records without problems that are not omitted; None if that is all."""
    if not part.problems and not part.omitted.any():
        return None
    return ~(np.isin(part.positions, part.positions[list(part.problems)]) | part.omitted)


def _kept_positions(part: ConvertedRows) -> npt.NDArray[np.int64]:
    kept = _kept(part)
    return part.positions if kept is None else part.positions[kept]


def _part_table(
    part: ConvertedRows, columns: Sequence[tuple[str, DataType]], offsets: pa.Array, with_unavailable: bool
) -> pa.Table:
    names = [name for name, _ in columns] + [VALUE_KIND, OFFSET_COLUMN]
    arrays = [*part.columns, pa.array(part.kinds), offsets.take(pa.array(part.positions))]
    if with_unavailable:
        names.append(UNAVAILABLE_COLUMN)
        arrays.append(position_lists(part.unavailable, len(part.positions)))
    table = pa.table(arrays, names=names)
    kept = _kept(part)
    return table if kept is None else table.filter(pa.array(kept))
