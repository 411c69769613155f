"""Assigns rows of a lane to buckets, if their keys may be in other partitions.

Most rows stay in the partition of their key and pass through; ``key_moves`` decides about the others. All steps are
columnar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.bucket_assignment.key_moves import NOWHERE, Moves, Versions, deduplicated, first_only, redirected
from paimon_table.bucket_assignment.lanes import partitions_of
from paimon_table.key_index.index_runs import Slots
from paimon_table.lookup.lookup_file import Hits
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.table_context import TableContext
from paimon_table.options.table_options import TableOptions
from paimon_table.row_kind import VALUE_KIND, RowKind, are_retracts
from paimon_table.rows.chunks import one_array
from paimon_table.rows.gather import concat, gather
from paimon_table.rows.groups import groups_of
from paimon_table.rows.words import Indices

Kinds = npt.NDArray[np.int8]
Mask = npt.NDArray[np.bool_]

FindStored = Callable[[BucketId, pa.Table], Hits]
"""The rows of some keys in a bucket as it was before the batch."""

FillBuckets = Callable[[bytes, int], Indices]
"""Returns buckets of a partition for this many keys that have none there."""


@dataclass(frozen=True, slots=True)
class LaneRows:
    """Rows of a lane in order of arrival, and the known facts about their keys."""

    rows: pa.Table
    kinds: Kinds
    """The kinds of the rows, without rows to ignore."""
    keys: pa.Table
    """The distinct primary keys of the rows, with all key columns, sorted."""
    number: Indices
    """For each row the index of its key in ``keys``."""
    slots: Slots
    """For each key its place, an index of ``buckets``; -1 for a new key."""
    buckets: tuple[BucketId, ...]


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """The rows to write, and the changed places of keys."""

    rows: pa.Table
    """In the order in which to write them."""
    slot_of_row: Indices
    """For each row an index of ``buckets``."""
    buckets: tuple[BucketId, ...]
    changed_keys: pa.Table
    """Keys with another place afterwards; sorted, each once."""
    changed_slots: Slots
    """Their places, indices of ``buckets``."""

    def by_bucket(self) -> Iterator[tuple[BucketId, pa.Table]]:
        """The rows of each bucket in their order."""
        for slot, positions in groups_of(self.slot_of_row):
            yield self.buckets[slot], gather(self.rows, positions)


@dataclass(frozen=True, slots=True)
class _Partitions:
    """Partitions as numbers."""

    rows: tuple[bytes, ...]
    """The serialized row of each."""
    of_row: Indices
    of_slot: Indices

    @staticmethod
    def of(ctx: TableContext, lane: LaneRows) -> _Partitions:
        numbers: dict[bytes, int] = {}
        of_row = np.zeros(lane.rows.num_rows, np.int64)
        for partition, members in partitions_of(lane.rows, ctx.schema):
            of_row[slice(None) if members is None else members] = numbers.setdefault(partition, len(numbers))
        of_slot = [numbers.setdefault(bucket.partition, len(numbers)) for bucket in lane.buckets]
        return _Partitions(tuple(numbers), of_row, np.asarray(of_slot, np.int64))

    def home(self, slots: Slots) -> Indices:
        """The partition of each slot, NOWHERE for -1."""
        return np.where(slots >= 0, self.of_slot[slots], NOWHERE) if len(self.of_slot) else slots.astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Placing:
    """Rows to write, in order: row ``source[i]`` of a table of rows, with its key, kind and partition."""

    source: Indices
    key: Indices
    kinds: Kinds
    partition: Indices
    is_made: Mask
    """Whether the row is a delete that the source did not send."""


def place_rows(ctx: TableContext, lane: LaneRows, find_stored: FindStored, fill: FillBuckets) -> PlacedRows:
    """Decide the places of the rows of a lane; returns the rows to write in order of arrival."""
    partitions = _Partitions.of(ctx, lane)
    home = partitions.home(lane.slots)
    moving = _moving_keys(ctx.options, lane, partitions, home)
    at = np.flatnonzero(~moving[lane.number])
    final = np.full(len(moving), NOWHERE, np.int64)
    final[lane.number[at]] = partitions.of_row[at]
    placing = _Placing(at, lane.number[at], lane.kinds[at], partitions.of_row[at], np.zeros(len(at), np.bool_))
    source, partition_of_source = lane.rows, partitions.of_row
    if moving.any():
        moved = _MovingRows.of(ctx, lane, partitions, moving, find_stored)
        moves = moved.decided(ctx)
        final[np.flatnonzero(moving)] = moves.partition
        placing = moved.merged_into(placing, moves)
        source, partition_of_source = moved.source, moved.partition_of_source
    rows = _written(ctx, source, partition_of_source, placing, partitions)
    return _in_buckets(rows, placing, lane, partitions, home, final, fill)


def _moving_keys(options: TableOptions, lane: LaneRows, partitions: _Partitions, home: Indices) -> Mask:
    """Which keys have rows in more than one partition, counting the partition of their stored row.

    New keys with a retract are included: if index entries never expire, there is no row to delete.
    """
    first = np.full(len(home), NOWHERE, np.int64)
    first[lane.number[::-1]] = partitions.of_row[::-1]
    expected = np.where(home >= 0, home, first)
    concerns = partitions.of_row != expected[lane.number]
    if options.merge_engine == "deduplicate" and options.index_ttl_ms is None:
        concerns |= are_retracts(lane.kinds) & (home[lane.number] == NOWHERE)
    moving = np.zeros(len(home), np.bool_)
    moving[lane.number[concerns]] = True
    return moving


@dataclass(frozen=True, slots=True)
class _MovingRows:
    """The rows of keys that have rows in more than one partition, with the stored rows of these keys."""

    versions: Versions
    """Keys are numbered among the moving ones."""
    source_of_version: Indices
    keys: Indices
    """The number of each moving key among all keys."""
    source: pa.Table
    """The rows of the lane, followed by stored rows."""
    partition_of_source: Indices

    @staticmethod
    def of(
        ctx: TableContext, lane: LaneRows, partitions: _Partitions, moving: Mask, find_stored: FindStored
    ) -> _MovingRows:
        keys = np.flatnonzero(moving)
        stored_key, stored = _stored_rows(ctx.options, lane, keys, find_stored)
        at = np.flatnonzero(moving[lane.number])
        dense = np.cumsum(moving) - 1
        key = np.concatenate([stored_key, dense[lane.number[at]]])
        order = np.argsort(key, kind="stable")
        home = partitions.home(lane.slots)[keys[stored_key]]
        source_of_version = np.concatenate([lane.rows.num_rows + np.arange(len(stored_key)), at])[order]
        versions = Versions(
            key[order],
            np.concatenate([np.full(len(stored_key), RowKind.INSERT, np.int8), lane.kinds[at]])[order],
            np.concatenate([home, partitions.of_row[at]])[order],
            np.concatenate([np.ones(len(stored_key), np.bool_), np.zeros(len(at), np.bool_)])[order],
        )
        source = lane.rows if stored is None else concat([lane.rows, stored])
        return _MovingRows(versions, source_of_version, keys, source, np.concatenate([partitions.of_row, home]))

    def decided(self, ctx: TableContext) -> Moves:
        """The moves by the rule of the table's merge engine."""
        match ctx.options.merge_engine:
            case "deduplicate":
                return deduplicated(self.versions, keeps_history=ctx.options.changelog_producer == "input")
            case "first-row":
                return first_only(self.versions)
            case _:
                return redirected(self.versions, deletes_free=_deletes_remove_rows(ctx.options))

    def merged_into(self, others: _Placing, moves: Moves) -> _Placing:
        """Merged with the rows that pass through, by arrival; the delete of a move is right before its row."""
        writes = moves.writes
        arrived = self.source_of_version[writes.trigger]
        is_made = writes.version != writes.trigger
        position = np.concatenate([2 * others.source + 1, 2 * arrived + ~is_made])
        order = np.argsort(position, kind="stable")
        return _Placing(
            np.concatenate([others.source, self.source_of_version[writes.version]])[order],
            np.concatenate([others.key, self.keys[self.versions.key[writes.trigger]]])[order],
            np.concatenate([others.kinds, writes.kinds])[order],
            np.concatenate([others.partition, writes.partition])[order],
            np.concatenate([others.is_made, is_made])[order],
        )


def _stored_rows(
    options: TableOptions, lane: LaneRows, keys: Indices, find_stored: FindStored
) -> tuple[Indices, pa.Table | None]:
    """Which of the moving ``keys`` have a row, and these rows if the engine deletes them to move a key."""
    slots = lane.slots[keys]
    if options.merge_engine != "deduplicate" and not _rows_may_vanish(options):
        return np.flatnonzero(slots >= 0), None
    numbers: list[Indices] = [np.zeros(0, np.int64)]
    rows: list[pa.Table] = []
    for slot, positions in groups_of(slots):
        if slot >= 0:
            hits = find_stored(lane.buckets[slot], gather(lane.keys, keys[positions]))
            numbers.append(positions[hits.positions])
            rows.append(hits.rows.select(lane.rows.column_names).cast(lane.rows.schema))
    moves_rows = rows and options.merge_engine == "deduplicate"
    return np.concatenate(numbers), concat(rows) if moves_rows else None


def _rows_may_vanish(options: TableOptions) -> bool:
    """Whether a retract or expiry may remove a row, in an engine that never moves keys."""
    return (
        _deletes_remove_rows(options)
        or bool(options.partial_update_remove_record_on_sequence_group)
        or options.record_expire_time_ms is not None
    )


def _deletes_remove_rows(options: TableOptions) -> bool:
    return options.aggregation_remove_record_on_delete or options.partial_update_remove_record_on_delete


def _written(
    ctx: TableContext, source: pa.Table, partition_of_source: Indices, placing: _Placing, partitions: _Partitions
) -> pa.Table:
    """The rows with their kinds. A row for another partition than its values name gets the values of that partition."""
    rows = gather(source, placing.source)
    if placing.is_made.any():
        position = rows.schema.get_field_index(VALUE_KIND)
        rows = rows.set_column(position, rows.schema.field(position), pa.array(placing.kinds))
        name = ctx.options.rowkind_field
        if name is not None:
            rows = _with(rows, name, pa.array(placing.is_made), pa.scalar(RowKind.DELETE.short))
    elsewhere = placing.partition != partition_of_source[placing.source]
    if elsewhere.any():
        values = list(zip(*(ctx.partition_values(row) for row in partitions.rows), strict=True))
        for name, of_partition in zip(ctx.schema.partition_keys, values, strict=True):
            column = pa.array(of_partition, rows.schema.field(name).type).take(pa.array(placing.partition))
            rows = _with(rows, name, pa.array(elsewhere), column)
    return rows


def _with(rows: pa.Table, name: str, mask: pa.Array, values: pa.Array | pa.Scalar) -> pa.Table:
    position = rows.schema.get_field_index(name)
    column = pc.if_else(mask, values, one_array(rows.column(position)))
    return rows.set_column(position, rows.schema.field(position), column)


def _in_buckets(
    rows: pa.Table,
    placing: _Placing,
    lane: LaneRows,
    partitions: _Partitions,
    home: Indices,
    final: Indices,
    fill: FillBuckets,
) -> PlacedRows:
    """The rows with their buckets: those of their keys in a partition, else new ones in order of arrival."""
    slots = np.where(placing.partition == home[placing.key], lane.slots[placing.key], -1).astype(np.int64)
    new = np.flatnonzero(slots < 0)
    code = placing.key[new] * len(partitions.rows) + placing.partition[new]
    codes, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    buckets = {bucket: slot for slot, bucket in enumerate(lane.buckets)}
    slot_of_code = np.empty(len(codes), np.int64)
    by_arrival = np.argsort(first, kind="stable")
    for number, members in groups_of(codes[by_arrival] % len(partitions.rows)):
        partition = partitions.rows[number]
        filled, bucket_of_member = np.unique(fill(partition, len(members)), return_inverse=True)
        named = [buckets.setdefault(BucketId(partition, bucket), len(buckets)) for bucket in filled.tolist()]
        slot_of_code[by_arrival[members]] = np.asarray(named)[bucket_of_member]
    slots[new] = slot_of_code[inverse]
    slot_after = lane.slots.astype(np.int64)
    moved = np.flatnonzero((final != NOWHERE) & (final != home))
    if len(moved):
        slot_after[moved] = slot_of_code[np.searchsorted(codes, moved * len(partitions.rows) + final[moved])]
    return PlacedRows(rows, slots, tuple(buckets), gather(lane.keys, moved), slot_after[moved].astype(np.int32))
