"""Executor side: the changes that one write task received, by lane, in order of arrival and without gaps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table import (
    BucketAssigner,
    BucketId,
    Lane,
    Writer,
    WriterEnvironment,
    former_rows,
    lane_split,
    open_writer,
    write_traits,
)
from sinks.exchange.blob import Blob, decode_rows
from sinks.exchange.target import OTHER_KEY, UNAVAILABLE, Target
from sinks.write.gap_filling import Filled, GapFiller, Histories, Key


class ArrivedRows:
    """All lanes of one table that a write task owns in one batch."""

    def __init__(
        self,
        target: Target,
        blobs: Mapping[Lane, Sequence[Blob]],
        assigner: BucketAssigner,
        environment: WriterEnvironment,
    ) -> None:
        self._target = target
        self._context = target.context
        self._blobs = blobs
        self._assigner = assigner
        self._environment = environment
        self._histories: dict[Lane, Histories] = {}
        self._writers: dict[BucketId, Writer] = {}

    def filled(self, lane: Lane) -> Filled:
        """The rows of a lane; values that the source left out are looked up."""
        rows = self._rows(lane)
        if UNAVAILABLE not in rows.column_names:
            return Filled(rows.drop_columns([OTHER_KEY]) if OTHER_KEY in rows.column_names else rows)
        options = self._context.options
        if not options.has_key:
            return _unfilled(rows)
        accumulating = write_traits(self._context).accumulating
        filler = GapFiller(self._histories_of_key, accumulating, options.sequence_fields, options.sequence_descending)
        return filler.fill(self._histories_of(lane, rows), rows)

    def _rows(self, lane: Lane) -> pa.Table:
        blobs = sorted(self._blobs.get(lane, ()), key=lambda blob: blob.arrival)
        if not blobs:
            return self._context.schema.arrow_schema.empty_table()
        return pa.concat_tables([decode_rows(blob.data) for blob in blobs], promote_options="default")

    def _histories_of(self, lane: Lane, rows: pa.Table) -> Histories:
        known = self._histories.get(lane)
        if known is None:
            known = Histories(
                rows,
                self._context.schema.primary_keys,
                lambda keys: self._found(self._assigner.find(lane, keys), self._current_rows),
                lambda keys: self._found(self._assigner.find_former(lane, keys), self._former_rows),
            )
            self._histories[lane] = known
        return known

    def _found(
        self, places: Iterable[tuple[BucketId, pa.Table]], look_up: Callable[[BucketId, pa.Table], pa.Table]
    ) -> pa.Table:
        """The rows of keys in the buckets that may hold them."""
        trimmed = list(self._context.schema.trimmed_primary_keys)
        found = [look_up(bucket, part.select(trimmed)) for bucket, part in places]
        return pa.concat_tables(found) if found else self._context.schema.arrow_schema.empty_table()

    def _current_rows(self, bucket: BucketId, keys: pa.Table) -> pa.Table:
        """The rows before the batch: its own rows are written by other writers."""
        if bucket not in self._writers:
            state = self._target.live.of(bucket)
            self._writers[bucket] = open_writer(self._context, bucket, state, self._environment)
        return self._writers[bucket].lookup(keys)

    def _former_rows(self, bucket: BucketId, keys: pa.Table) -> pa.Table:
        return former_rows(self._context, bucket, keys, self._environment, self._target.live.of(bucket).files)

    def _histories_of_key(self, key: Key) -> Histories:
        """The lane of a primary key, given in primary key order; its changes count if this task owns the lane."""
        schema = self._context.schema
        types = [schema.arrow_schema.field(name).type for name in schema.primary_keys]
        columns = [pa.array([value], t) for value, t in zip(key, types, strict=True)]
        row = pa.table(columns, list(schema.primary_keys))
        ((lane, _),) = lane_split(schema, self._context.options, self._target.live).split(row)
        return self._histories_of(lane, self._rows(lane))


def _unfilled(rows: pa.Table) -> Filled:
    """Rows of a table without key: no stored row could tell a value that was not sent, it stays NULL."""
    gaps = pc.list_value_length(rows.column(UNAVAILABLE))
    unknown: int = pc.sum(gaps).as_py() or 0
    return Filled(rows.drop_columns([UNAVAILABLE]), unknown)
