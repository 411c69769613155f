"""Partial-update as an ordered fold over the versions of each key: the definition, record by record.

Implements Paimon's state machine of the engine. For a column without aggregate function, the state has only the
position of its row. The fold computes the keys that the vector path leaves, and serves tests as the reference for the
vector path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from paimon_table.merge.aggregate.function import Accumulator, AggregateFunction
from paimon_table.merge.key_rows import valid_mask
from paimon_table.merge.merged_columns import MergedColumns
from paimon_table.merge.partial_update_versions import Versions
from paimon_table.row_kind import RowKind

_DELETE = int(RowKind.DELETE)


@dataclass(frozen=True, slots=True)
class _Group:
    """One sequence group: the order of its rows, and its columns by number."""

    ranks: list[int]
    """The rank of each position; -1 for a row without a sequence of the group."""
    sequence: tuple[int, ...]
    plain: tuple[int, ...]
    aggregated: tuple[int, ...]
    removes_row: bool


@dataclass(frozen=True, slots=True)
class _Input:
    """Rows by position. Picked columns and aggregated columns have separate numbers."""

    kinds: list[int]
    plain_columns: int
    free: list[tuple[int, list[bool]]]
    """Number and validity of each column in no group."""
    groups: list[_Group]
    functions: list[AggregateFunction]
    values: list[list[Any]]
    """The values of each aggregated column, in the form for its accumulators."""
    removes_on_delete: bool


def fold_columns(versions: Versions) -> MergedColumns:
    """The value columns of every key, computed record by record."""
    plain = [*versions.free, *(name for group in versions.groups for name in (*group.sequence, *group.plain))]
    aggregated = [name for group in versions.groups for name in group.aggregated]
    given = _input(versions, plain, aggregated)
    starts = versions.starts.tolist()
    states = [_folded(given, *bounds) for bounds in zip(starts, [*starts[1:], len(given.kinds)], strict=True)]
    sources = np.array([state.sources for state in states], np.int64).reshape(len(states), len(plain))
    return MergedColumns(
        is_deleted=np.array([state.is_deleted for state in states], np.bool_),
        newest=versions.newest,
        sources={name: versions.row_at(sources[:, i]) for i, name in enumerate(plain)},
        computed={
            name: given.functions[i].to_arrow([state.accumulators[i].value for state in states])
            for i, name in enumerate(aggregated)
        },
    )


def _input(versions: Versions, plain: list[str], aggregated: list[str]) -> _Input:
    indices = versions.keys.indices
    number = {name: i for names in (plain, aggregated) for i, name in enumerate(names)}
    functions = [function for group in versions.groups for function in group.aggregated.values()]
    groups = [
        _Group(
            ranks=group.order.ranks(),
            sequence=tuple(number[name] for name in group.sequence),
            plain=tuple(number[name] for name in group.plain),
            aggregated=tuple(number[name] for name in group.aggregated),
            removes_row=group.removes_row,
        )
        for group in versions.groups
    ]
    return _Input(
        kinds=versions.kinds.tolist(),
        plain_columns=len(plain),
        free=[(number[name], valid_mask(versions.rows.column(name))[indices].tolist()) for name in versions.free],
        groups=groups,
        functions=functions,
        values=[f.to_python(versions.values(name, indices)) for f, name in zip(functions, aggregated, strict=True)],
        removes_on_delete=versions.removes_on_delete,
    )


def _folded(given: _Input, start: int, end: int) -> _KeyState:
    state = _KeyState(given)
    for position in range(start, end):
        kind = given.kinds[position]
        if kind & 1:
            state.retract(position, kind)
        else:
            state.add(position)
    return state


class _KeyState:
    """The state of one key so far."""

    __slots__ = ("_given", "_met_add", "_ranks", "_removed", "_started", "accumulators", "sources")

    def __init__(self, given: _Input) -> None:
        self._given = given
        self._ranks = [-1] * len(given.groups)
        self._started = False
        self._met_add = False
        self._removed = False
        self.sources = [-1] * given.plain_columns
        self.accumulators: list[Accumulator] = [function.accumulator() for function in given.functions]

    @property
    def is_deleted(self) -> bool:
        return self._removed or not self._met_add

    def add(self, position: int) -> None:
        self._started = self._met_add = True
        self._removed = False
        for number, valid in self._given.free:
            if valid[position]:
                self.sources[number] = position
        for i, group in enumerate(self._given.groups):
            rank = group.ranks[position]
            if rank < 0:
                continue
            is_newest = rank >= self._ranks[i]
            if is_newest:
                self._move(i, group, position)
                for number in group.plain:
                    self.sources[number] = position
            for number in group.aggregated:
                accumulator, value = self.accumulators[number], self._given.values[number][position]
                if is_newest:
                    accumulator.add(value)
                else:
                    accumulator.add_older(value)

    def retract(self, position: int, kind: int) -> None:
        self._removed = False
        if not self._started:
            # The first retract initialises the row, so its values remain unless others overwrite them.
            self._become(position)
            self._started = True
        if kind == _DELETE and self._removes(position):
            self._become(position)
            self._removed = True
            return
        for i, group in enumerate(self._given.groups):
            rank = group.ranks[position]
            if rank < 0:
                continue
            if rank >= self._ranks[i]:
                self._move(i, group, position)
                for number in group.plain:
                    self.sources[number] = -1
            for number in group.aggregated:
                self.accumulators[number].retract(self._given.values[number][position])

    def _removes(self, position: int) -> bool:
        return self._given.removes_on_delete or any(
            group.removes_row and group.ranks[position] >= max(self._ranks[i], 0)
            for i, group in enumerate(self._given.groups)
        )

    def _move(self, i: int, group: _Group, position: int) -> None:
        self._ranks[i] = group.ranks[position]
        for number in group.sequence:
            self.sources[number] = position

    def _become(self, position: int) -> None:
        """Take the whole row at ``position``, NULLs included."""
        self.sources = [position] * len(self.sources)
        self._ranks = [group.ranks[position] for group in self._given.groups]
        for accumulator, values in zip(self.accumulators, self._given.values, strict=True):
            accumulator.value = values[position]
