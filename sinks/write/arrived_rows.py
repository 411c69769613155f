"""Executor side: the changes that one write task received, by bucket, in order of arrival and without gaps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from paimon_table.merge.aggregation import accumulating_columns
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.snapshot import SnapshotStore
from paimon_table.metadata.table_state import load_state
from paimon_table.rows.binary_row import serialize_row
from paimon_table.rows.hashes import assign_buckets
from paimon_table.write.bucket_writer import BucketWriter
from sinks.exchange.blob import Blob, decode_rows
from sinks.exchange.target import OTHER_KEY, UNAVAILABLE, Target
from sinks.write.gap_filling import Filled, GapFiller, Histories, Key

FORMER_SNAPSHOTS = 20
"""How far back a value is searched whose row left its key in an earlier batch than it arrived under the new one."""


class ArrivedRows:
    """All buckets of one table that a write task owns in one batch."""

    def __init__(
        self,
        target: Target,
        blobs: Mapping[BucketId, Sequence[Blob]],
        open_writer: Callable[[Target, BucketId], BucketWriter],
    ) -> None:
        self._target = target
        self._blobs = blobs
        self._open_writer = open_writer
        self._histories: dict[BucketId, Histories] = {}

    def filled(self, bucket: BucketId) -> Filled:
        """The rows of a bucket; values that the source left out are looked up."""
        rows = self._rows(bucket)
        if UNAVAILABLE not in rows.column_names:
            return Filled(rows.drop_columns([OTHER_KEY]) if OTHER_KEY in rows.column_names else rows)
        context = self._target.context
        accumulating = accumulating_columns(context.schema, context.options)
        options = context.options
        filler = GapFiller(self._histories_of_key, accumulating, options.sequence_fields, options.sequence_descending)
        return filler.fill(self._histories_of(bucket, rows), rows)

    def _rows(self, bucket: BucketId) -> pa.Table:
        blobs = sorted(self._blobs.get(bucket, ()), key=lambda blob: blob.arrival)
        if not blobs:
            return self._target.context.schema.arrow_schema.empty_table()
        return pa.concat_tables([decode_rows(blob.data) for blob in blobs], promote_options="default")

    def _histories_of(self, bucket: BucketId, rows: pa.Table) -> Histories:
        known = self._histories.get(bucket)
        if known is None:
            schema = self._target.context.schema
            writer = self._open_writer(self._target, bucket)
            trimmed = list(schema.trimmed_primary_keys)
            known = Histories(
                rows,
                schema.primary_keys,
                lambda keys: writer.lookup_rows(keys.select(trimmed)),
                lambda keys: self._former_rows(bucket, keys.select(trimmed)),
            )
            self._histories[bucket] = known
        return known

    def _former_rows(self, bucket: BucketId, keys: pa.Table) -> pa.Table:
        """The rows in the youngest of the last snapshots that has any of these keys."""
        context = self._target.context
        snapshots = SnapshotStore(context.io, context.paths)
        found = context.schema.arrow_schema.empty_table()
        writers: list[BucketWriter] = []
        latest, earliest = snapshots.latest_id() or 0, snapshots.earliest_id() or 1
        for snapshot_id in range(latest, max(earliest, latest - FORMER_SNAPSHOTS) - 1, -1):
            state = load_state(context.io, context.paths, snapshots.read(snapshot_id))
            former = replace(self._target, files=state.files, deletion_files=state.deletion_files())
            writers.append(self._open_writer(former, bucket))
            found = writers[-1].lookup_rows(keys)
            if len(found):
                break
        for writer in writers:
            writer.forget_all_but(self._target.files.get(bucket, ()))
        return found

    def _histories_of_key(self, key: Key) -> Histories:
        """The bucket of a primary key, given in primary key order; its changes count if this task owns the bucket."""
        schema = self._target.context.schema
        values = dict(zip(schema.primary_keys, key, strict=True))
        partition = serialize_row(
            [values[f.name] for f in schema.partition_fields], [f.type for f in schema.partition_fields]
        )
        fields = [schema.field(name) for name in schema.bucket_keys]
        columns = [pa.array([values[f.name]], schema.arrow_schema.field(f.name).type) for f in fields]
        options = self._target.context.options
        buckets = assign_buckets(columns, [f.type for f in fields], self._target.total_buckets, options.bucket_function)
        bucket = BucketId(partition, int(buckets[0]))
        return self._histories_of(bucket, self._rows(bucket))
