"""Executor side: the changes that one write task received, by bucket, in order of arrival and without gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from paimon_table.merge.aggregation import accumulating_columns
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.rows.binary_row import serialize_row
from paimon_table.rows.hashes import assign_buckets
from paimon_table.write.bucket_writer import WriterEnvironment
from paimon_table.write.former_rows import former_rows
from paimon_table.write.writer import open_writer
from sinks.exchange.blob import Blob, decode_rows
from sinks.exchange.target import OTHER_KEY, UNAVAILABLE, Target
from sinks.write.gap_filling import Filled, GapFiller, Histories, Key


class ArrivedRows:
    """All buckets of one table that a write task owns in one batch."""

    def __init__(
        self,
        target: Target,
        blobs: Mapping[BucketId, Sequence[Blob]],
        environment: WriterEnvironment,
    ) -> None:
        self._target = target
        self._blobs = blobs
        self._environment = environment
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
            context, state = self._target.context, self._target.live.of(bucket)
            writer = open_writer(context, bucket, state, self._environment)
            trimmed = list(schema.trimmed_primary_keys)
            known = Histories(
                rows,
                schema.primary_keys,
                lambda keys: writer.lookup(keys.select(trimmed)),
                lambda keys: former_rows(context, bucket, keys.select(trimmed), self._environment, state.files),
            )
            self._histories[bucket] = known
        return known

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
        buckets = assign_buckets(columns, [f.type for f in fields], options.bucket, options.bucket_function)
        bucket = BucketId(partition, int(buckets[0]))
        return self._histories_of(bucket, self._rows(bucket))
