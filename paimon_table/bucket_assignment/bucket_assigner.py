"""Selects how a table assigns buckets: its split and its assigner, see ``lanes``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from paimon_table.bucket_assignment.cross_partition import KeyAssigner, KeyLanes, key_lanes
from paimon_table.bucket_assignment.dynamic_buckets import DynamicAssigner, dynamic_lanes
from paimon_table.bucket_assignment.fixed_buckets import (
    UNAWARE_BUCKET,
    FixedAssigner,
    FixedLanes,
    PartitionLanes,
    PostponedAssigner,
)
from paimon_table.bucket_assignment.lanes import BucketAssigner, Lane, LaneSplit
from paimon_table.errors import LanesDoNotFit
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import LiveFiles
from paimon_table.options.bucket_mode import BucketMode, bucket_mode
from paimon_table.options.table_options import TableOptions
from paimon_table.rows.gather import concat
from paimon_table.schema.table_schema import TableSchema
from paimon_table.storage.file_io import FileIO
from paimon_table.validation.table_validation import check_takes_rows
from paimon_table.write.bucket_writer import WriterEnvironment
from paimon_table.write.postponed_writer import POSTPONED_LANES


def lane_split(schema: TableSchema, options: TableOptions, live: LiveFiles) -> LaneSplit:
    """The split of a table with the files ``live``."""
    match bucket_mode(schema, options):
        case BucketMode.BUCKET_UNAWARE:
            return PartitionLanes(schema)
        case BucketMode.HASH_DYNAMIC:
            return dynamic_lanes(schema, options, live)
        case BucketMode.KEY_DYNAMIC:
            return KeyLanes(schema, key_lanes(options, live))
        case BucketMode.POSTPONE_MODE:
            return FixedLanes(schema, POSTPONED_LANES, options.bucket_function)
        case BucketMode.HASH_FIXED:
            return FixedLanes(schema, options.bucket, options.bucket_function)


def open_assigner(ctx: TableContext, live: LiveFiles, environment: WriterEnvironment) -> BucketAssigner:
    """The assigner of a table, for one batch of one task; ``live`` are the files by which its lanes were split.

    Raises ConfigError for a table of another engine that Tidemark cannot write, see ``check_takes_rows``.
    """
    check_takes_rows(ctx.schema, ctx.paths.root)
    match bucket_mode(ctx.schema, ctx.options):
        case BucketMode.BUCKET_UNAWARE:
            return FixedAssigner(UNAWARE_BUCKET)
        case BucketMode.HASH_DYNAMIC:
            return DynamicAssigner(ctx, live, environment)
        case BucketMode.KEY_DYNAMIC:
            return KeyAssigner(ctx, live, environment)
        case BucketMode.POSTPONE_MODE:
            return PostponedAssigner(root=ctx.paths.root)
        case BucketMode.HASH_FIXED:
            return FixedAssigner()


@dataclass(frozen=True, slots=True)
class AssignedRows:
    """All rows of a batch by bucket, if one process writes all of its lanes."""

    buckets: Mapping[BucketId, pa.Table]
    """The rows of each bucket in the order in which they were given."""
    assigner: BucketAssigner
    _lanes: tuple[Lane, ...]
    _total_buckets: int
    _io: FileIO

    def noted(self, message: CommitMessage) -> CommitMessage:
        """The message of one bucket with the index changes that the commit must record."""
        change = self.assigner.prepare_append(message.bucket)
        self._io.sync()
        return replace(message, append_index=change)

    def appended(self, messages: Sequence[CommitMessage]) -> None:
        """Call this with all messages before the commit."""
        self.assigner.appended(messages)

    def others(self) -> list[CommitMessage]:
        """The notes of the commit about other buckets, once all rows are prepared."""
        changes = [change for lane in self._lanes for change in self.assigner.prepare_others(lane)]
        self._io.sync()
        total = self._total_buckets
        return [CommitMessage(bucket=bucket, total_buckets=total, append_index=change) for bucket, change in changes]


def assign_all(ctx: TableContext, rows: pa.Table, live: LiveFiles, environment: WriterEnvironment) -> AssignedRows:
    """Give all rows of a batch their buckets."""
    while True:
        try:
            return _assigned(ctx, rows, live, environment)
        except LanesDoNotFit as error:  # of the first bucket read: another one may need even fewer
            live = replace(live, key_lanes=error.lanes)


def _assigned(ctx: TableContext, rows: pa.Table, live: LiveFiles, environment: WriterEnvironment) -> AssignedRows:
    assigner = open_assigner(ctx, live, environment)
    lanes = list(lane_split(ctx.schema, ctx.options, live).split(rows))
    parts: dict[BucketId, list[pa.Table]] = {}
    for lane, of_lane in lanes:
        for bucket, part in assigner.assign(lane, of_lane):
            parts.setdefault(bucket, []).append(part)
    buckets = {bucket: concat(of_bucket) for bucket, of_bucket in parts.items()}
    return AssignedRows(buckets, assigner, tuple(lane for lane, _ in lanes), ctx.options.bucket, ctx.io)
