"""Merges observations of the same columns from different places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeAlias

from paimon_table.schema.type_widening import common_type
from paimon_table.types import DataType, Root, string
from sources.changes import ObservedColumn, ShownSchema
from sources.column_forms import told_together

_Columns: TypeAlias = tuple[tuple[str, DataType], ...]

MOST_RUNS = 3
"""Of the runs of records that have a schema, the first ones and the last one count: schemas may alternate."""

_NUMBERS = {Root.BIGINT, Root.DOUBLE}


def merged(columns: Sequence[Sequence[ObservedColumn]]) -> tuple[ObservedColumn, ...]:
    """Columns of one table that were seen apart, each with one type."""
    found: dict[str, ObservedColumn] = {}
    for column in (c for part in columns for c in part):
        found[column.name] = joined(found[column.name], column) if column.name in found else column
    return tuple(found.values())


def joined(left: ObservedColumn, right: ObservedColumn) -> ObservedColumn:
    """One column seen twice: with the common type if there is one.

    Else it is text if the types were guessed from values, and if schemas say them, the type of the most records. Values
    that do not fit the column then go to quarantine when they are decoded.
    """
    is_alike = left.looks_like == right.looks_like or right.type is None
    looks_like = right.looks_like if left.type is None else left.looks_like if is_alike else None
    common = None if left.type is None or right.type is None else common_type(left.type, right.type)
    return replace(
        _joined_type(left, right, common),
        form=told_together(left.form, right.form),
        looks_like=looks_like,
        fits_double=left.fits_double and right.fits_double,
        has_default=left.has_default or right.has_default,
        takes_null=left.takes_null or right.takes_null,
        types=_types(left, right, common),
    )


def _types(left: ObservedColumn, right: ObservedColumn, common: DataType | None) -> tuple[DataType, ...]:
    of_each = [side.types or (side.type,) for side in (left, right) if side.type is not None]
    is_one = len(of_each) < 2 or common is not None
    return () if is_one and not (left.types or right.types) else tuple(dict.fromkeys(chain.from_iterable(of_each)))


def _joined_type(left: ObservedColumn, right: ObservedColumn, common: DataType | None) -> ObservedColumn:
    if left.type is None or right.type is None:
        return left if right.type is None else right
    votes = (left.votes or 0, right.votes or 0)
    both = common
    if left.votes is None and right.votes is None:
        if both is None and {left.type.root, right.type.root} == _NUMBERS and left.fits_double and right.fits_double:
            both = DataType(Root.DOUBLE)  # as for values in one batch
        return ObservedColumn(left.name, both or string())
    if both is not None:
        return ObservedColumn(left.name, both, sum(votes))
    winner = left if votes[0] > votes[1] else right
    return replace(winner, votes=abs(votes[0] - votes[1]))


def merged_keys(left: tuple[str, ...] | None, right: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The columns of message keys seen in two places: names win, and any key wins over none."""
    return left or right or (left if right is None else right)


def merged_schemas(seen: Iterable[ShownSchema]) -> tuple[ShownSchema, ...]:
    """Schemas that were seen apart, by age: each as often as a partition returns to it after another one."""
    found: dict[tuple[_Columns, int], ShownSchema] = {}
    runs: Counter[tuple[int, _Columns]] = Counter()
    last: dict[int, _Columns] = {}
    for shown in sorted(seen, key=lambda one: one.offset):
        if last.get(shown.partition) == shown.columns:
            continue
        last[shown.partition] = shown.columns
        runs[shown.partition, shown.columns] += 1
        count = runs[shown.partition, shown.columns]
        nth = shown.columns, min(count, MOST_RUNS)
        known, chosen = found.get(nth, shown), min if count <= MOST_RUNS else max
        found[nth] = replace(chosen(known, shown, key=lambda one: one.order), firsts={**known.firsts, **shown.firsts})
    return tuple(sorted(found.values(), key=lambda one: one.order))
