"""The merge order of rows: by key, then user sequence, then sequence number, retracts before adds.

Implements Paimon's total order of records with equal keys. NULL keys and NULL user sequences come first, even if the
user sequence is descending. The last row of a key is its newest. With ``sequence.auto-padding`` = row-kind-flag, an
option of Paimon before 0.9, a -U precedes other rows of the same user sequence, whatever the sequence numbers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.options.table_options import TableOptions
from paimon_table.row_kind import SEQUENCE_NUMBER, VALUE_KIND, RowKind, are_adds
from paimon_table.rows.binary_row import deserialize_row
from paimon_table.rows.words import Indices, Word, column_words, exact_words, integers, normal_form, sort_words
from paimon_table.schema.table_schema import TableSchema
from paimon_table.types import arrow_type

NormalKey = tuple[tuple[bool, Any], ...]
"""One key, comparable with other keys of the same table: a pair (is not NULL, value) per key column."""


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """Rows in merge order: ``indices`` sorts them, ``starts`` are the positions in ``indices`` where keys begin."""

    indices: Indices
    starts: Indices

    @property
    def ends(self) -> Indices:
        """The position of the last row of each key."""
        return np.append(self.starts[1:], len(self.indices))[: len(self.starts)] - 1

    def key_number(self) -> Indices:
        """For each position in ``indices``, the number of its key, dense from 0."""
        marks = np.zeros(len(self.indices), np.int64)
        marks[self.starts[1:]] = 1
        return np.cumsum(marks)


def distinct_keys(keys: pa.Table) -> tuple[Indices, Indices]:
    """As ``KeyOrder.distinct``, for a table of the key columns alone."""
    if keys.num_rows == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    indices, is_first = _sort_keys([normal_form(column) for column in keys.columns])
    key_number = np.empty(len(indices), np.int64)
    key_number[indices] = np.cumsum(is_first) - 1
    return indices[is_first], key_number


class KeyOrder:
    """Sorts and compares rows of one table; keys are the value columns of the trimmed primary key."""

    def __init__(self, schema: TableSchema, options: TableOptions, prefix: int | None = None) -> None:
        """With ``prefix`` only that many leading columns of the key count, so keys of different rows may be equal."""
        self.key_names: tuple[str, ...] = schema.trimmed_primary_keys[:prefix]
        self.key_types = tuple(f.type for f in schema.key_fields)[:prefix]
        self.is_prefix = prefix is not None
        self._stored_types = tuple(f.type for f in schema.key_fields)
        self.sequence_names: tuple[str, ...] = options.sequence_fields
        self.descending = options.sequence_descending
        self.update_before_first = options.update_before_first
        self._key_cache: dict[bytes, NormalKey] = {}

    # ------------------------------------------------------------ sorting

    def sort_indices(self, rows: pa.Table) -> Indices:
        """Row numbers in merge order."""
        return self.sort(rows).indices

    def sort(self, rows: pa.Table) -> KeyGroups:
        """Merge order of the rows and where each key begins."""
        if rows.num_rows == 0:
            return KeyGroups(np.zeros(0, np.int64), np.zeros(0, np.int64))
        keys = [normal_form(rows.column(name)) for name in self.key_names]
        indices, is_first = _sort_keys(keys)
        if not is_first.all():
            indices = self._order_versions(rows, indices, is_first)
        return KeyGroups(indices, np.flatnonzero(is_first))

    def sort_versions(self, rows: pa.Table, key_number: Indices) -> KeyGroups:
        """As ``sort``, with known keys: row i belongs to key ``key_number[i]``, dense from 0."""
        indices = sort_words(column_words(pa.array(key_number)).words)
        is_first = np.ones(len(indices), np.bool_)
        is_first[1:] = _changes(key_number[indices])
        if not is_first.all():
            indices = self._order_versions(rows, indices, is_first)
        return KeyGroups(indices, np.flatnonzero(is_first))

    def distinct(self, keys: pa.Table) -> tuple[Indices, Indices]:
        """One row number per key, sorted by key, and for every row the number of its key in that list."""
        return distinct_keys(keys.select(list(self.key_names)))

    def _order_versions(self, rows: pa.Table, indices: Indices, is_first: npt.NDArray[np.bool_]) -> Indices:
        """Put the rows of each key, which may be in any order, into version order."""
        shared = ~is_first
        shared[:-1] |= ~is_first[1:]
        positions = np.flatnonzero(shared)
        group = np.cumsum(is_first, dtype=np.int64)[positions]
        at = indices[positions]
        sequence = integers(normal_form(rows.column(SEQUENCE_NUMBER)))[at]
        if not self.sequence_names and np.all((sequence[1:] > sequence[:-1]) | (group[1:] != group[:-1])):
            return indices
        user = [w for name in self.sequence_names for w in self._sequence_words(rows.column(name), at)]
        kind = integers(normal_form(rows.column(VALUE_KIND)))[at]
        is_add = Word(are_adds(kind).astype(np.uint64), 1)
        by_number = column_words(pa.array(sequence)).words
        is_update_before = kind == RowKind.UPDATE_BEFORE
        flag = [Word((~is_update_before).astype(np.uint64), 1)] if self.update_before_first and user else []
        order = sort_words([*column_words(pa.array(group)).words, *user, *flag, *by_number, is_add])
        indices = indices.copy()
        indices[positions] = at[order]
        return indices

    def _sequence_words(self, column: pa.ChunkedArray, at: Indices) -> Sequence[Word]:
        values = normal_form(column).take(pa.array(at))
        return exact_words(values, self.descending).words

    # ------------------------------------------------------------ single keys

    def key_at(self, rows: pa.Table, position: int) -> NormalKey:
        """The key of one row; negative positions count from the end."""
        position %= rows.num_rows
        return _key_of([normal_form(rows.column(name).slice(position, 1)) for name in self.key_names], 0)

    def file_key(self, serialized: bytes) -> NormalKey:
        """The key of a serialized row with its arity prefix, such as ``min_key`` and ``max_key`` of a data file."""
        key = self._key_cache.get(serialized)
        if key is None:
            values = deserialize_row(serialized, self._stored_types)[: len(self.key_types)]
            columns = [pa.array([v], arrow_type(t)) for v, t in zip(values, self.key_types, strict=True)]
            key = self.key_at(pa.table(columns, names=list(self.key_names)), 0)
            self._key_cache[serialized] = key
        return key

    def count_below(self, rows: pa.Table, key: NormalKey, inclusive: bool) -> int:
        """How many of the ``rows``, sorted by key, have a key below ``key`` (or equal to it if ``inclusive``)."""
        if rows.num_rows == 0:
            return 0
        columns = [normal_form(rows.column(name)) for name in self.key_names]
        if len(columns) == 1 and pa.types.is_integer(columns[0].type) and columns[0].null_count == 0 and key[0][0]:
            values = integers(columns[0])
            return int(np.searchsorted(values, values.dtype.type(key[0][1]), "right" if inclusive else "left"))
        search = bisect_right if inclusive else bisect_left
        return search(range(rows.num_rows), key, key=lambda position: _key_of(columns, position))


def _key_of(normal: Sequence[pa.Array], position: int) -> NormalKey:
    parts = [column[position].as_py() for column in normal]
    return tuple((True, part) if part is not None else (False, 0) for part in parts)


def _sort_keys(keys: Sequence[pa.Array]) -> tuple[Indices, npt.NDArray[np.bool_]]:
    """Stable order by the key columns, and which sorted positions begin a new key."""
    words: list[Word] = []
    exact = True
    for column in keys:
        column_part = column_words(column)
        words.extend(column_part.words)
        if not column_part.exact:
            exact = False
            break
    indices = sort_words(words)
    is_first = np.ones(len(indices), np.bool_)
    is_first[1:] = np.logical_or.reduce([_changes(w.values[indices]) for w in words])
    if exact or is_first.all():
        return indices, is_first
    return _break_ties(keys, indices, is_first)


def _break_ties(
    keys: Sequence[pa.Array], indices: Indices, is_first: npt.NDArray[np.bool_]
) -> tuple[Indices, npt.NDArray[np.bool_]]:
    """Order rows with equal words by their whole key. Usually they are versions of one key, and keep their order."""
    shared = ~is_first
    shared[:-1] |= ~is_first[1:]
    positions = np.flatnonzero(shared)
    at = pa.array(indices[positions])
    tied = [column.take(at) for column in keys]
    group = np.cumsum(is_first, dtype=np.int64)[positions]
    first_of_key = _any_change(tied, group)
    if not np.array_equal(first_of_key, is_first[positions]):
        words = [w for column in tied for w in exact_words(column).words]
        order = sort_words([*column_words(pa.array(group)).words, *words])
        indices = indices.copy()
        indices[positions] = indices[positions][order]
        first_of_key = _any_change([column.take(pa.array(order)) for column in tied], group)
        is_first = is_first.copy()
        is_first[positions] = first_of_key
    return indices, is_first


def _any_change(columns: Sequence[pa.Array], group: Indices) -> npt.NDArray[np.bool_]:
    first = np.ones(len(group), np.bool_)
    first[1:] = _changes(group)
    return reduce(np.logical_or, [_differs_from_previous(column) for column in columns], first)


def _changes(values: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    changes: npt.NDArray[np.bool_] = values[1:] != values[:-1]
    return changes


def _differs_from_previous(normal: pa.Array) -> npt.NDArray[np.bool_]:
    """True where a value differs from that of the previous row. NULL equals NULL; the first row always differs."""
    differs = np.ones(len(normal), np.bool_)
    if pa.types.is_integer(normal.type) and normal.null_count == 0:
        differs[1:] = _changes(integers(normal))
        return differs
    unequal = pc.not_equal(normal[1:], normal[:-1])
    if normal.null_count:
        valid = normal.is_valid()
        unequal = pc.fill_null(unequal, pc.not_equal(valid[1:], valid[:-1]))
    differs[1:] = unequal.to_numpy(zero_copy_only=False)
    return differs
