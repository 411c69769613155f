"""Reads the keys in the buckets of a table from its files, and checks that they are in buckets of their lane.

This works for every engine: a key counts if its merged row is not a retract, including rows on level 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.errors import LanesDoNotFit
from paimon_table.merge.function import without_retracts
from paimon_table.merge.sort import KeyOrder
from paimon_table.metadata.bucket_id import POSTPONED, BucketId
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import LiveFiles
from paimon_table.scan.selection import Selection
from paimon_table.scan.split_reader import open_reader
from paimon_table.scan.splits import Split, split_bucket
from paimon_table.schema.key_numbers import whole_key_hashes
from paimon_table.schema.table_schema import TableSchema

Magnitudes = npt.NDArray[np.int64]


def key_magnitudes(schema: TableSchema, rows: pa.Table) -> Magnitudes:
    """The absolute hash of the whole primary key of each row; its remainder is the lane of the row."""
    return np.abs(whole_key_hashes(schema, rows).astype(np.int64))


@dataclass(frozen=True, slots=True)
class LaneNumber:
    """Lane ``number`` of ``lanes``: in every partition it owns the buckets with |bucket % lanes| equal to its
    number."""

    lanes: int
    number: int

    def owns(self, bucket: BucketId) -> bool:
        return bucket.bucket % self.lanes == self.number


def check_lane(lane: LaneNumber, bucket: BucketId, magnitudes: Magnitudes) -> None:
    """Raises LanesDoNotFit unless these keys of a bucket belong to the lane that owns it.

    A number of lanes fits if every key has the same remainder as its bucket, so every divisor of the differences fits.
    """
    rest = (magnitudes - bucket.bucket) % lane.lanes
    if rest.any():
        fitting = int(np.gcd(lane.lanes, np.gcd.reduce(rest)))
        raise LanesDoNotFit(
            f"bucket {bucket.bucket} has keys of other lanes than its own; use {fitting} lanes",
            lanes=fitting,
        )


def stored_keys(
    ctx: TableContext, live: LiveFiles, lane: LaneNumber, threads: int, since_ms: int | None = None
) -> Iterator[tuple[BucketId, pa.Table]]:
    """The keys in the buckets of a lane, part by part, newest files first; each key once in its bucket.

    It also checks the keys of all other buckets: raises LanesDoNotFit if a key belongs to another lane than its bucket.
    ``since_ms``: keys whose files are all older do not count.
    """
    splits = sorted(_splits(ctx, live, since_ms), key=_youngest_ms, reverse=True)
    with ThreadPoolExecutor(threads, thread_name_prefix="tidemark-keys") as pool:
        waiting = [pool.submit(_keys_of, ctx, split, lane) for split in splits[:threads]]
        for split in splits[threads:] + [None] * len(waiting):
            done = waiting.pop(0).result()
            if split is not None:
                waiting.append(pool.submit(_keys_of, ctx, split, lane))
            if done is not None:
                yield done


def _splits(ctx: TableContext, live: LiveFiles, since_ms: int | None) -> Iterator[Split]:
    key_of = KeyOrder(ctx.schema, ctx.options).file_key
    for bucket, files in live.files.items():
        if bucket.bucket == POSTPONED:
            continue
        for split in split_bucket(bucket, files, key_of, deletion_files=live.deletion_files.get(bucket, ())):
            sections = split.sections
            if since_ms is not None:
                sections = tuple(s for s in sections if any(_created_ms(f) >= since_ms for run in s for f in run))
            if sections:
                yield replace(split, sections=sections)


def _youngest_ms(split: Split) -> int:
    return max(map(_created_ms, split.files))


def _created_ms(file: DataFileMeta) -> int:
    return file.creation_time_ms or 0


def _keys_of(ctx: TableContext, split: Split, lane: LaneNumber) -> tuple[BucketId, pa.Table] | None:
    """The keys of a split of the lane; None for other lanes, whose keys are only checked."""
    parts = []
    for keys in split_keys(ctx, split):
        check_lane(lane, split.bucket, key_magnitudes(ctx.schema, keys))
        if lane.owns(split.bucket):
            parts.append(keys)
    return (split.bucket, pa.concat_tables(parts)) if parts else None


def split_keys(ctx: TableContext, split: Split) -> Iterator[pa.Table]:
    """The whole primary keys of the rows of a split, in pieces of bounded size."""
    reader = open_reader(ctx, split, Selection.of(ctx.schema, ctx.schema.primary_keys, None))
    for section in split.sections:
        for rows in reader.read(section):
            yield without_retracts(rows).select(list(ctx.schema.primary_keys))


def file_keys(ctx: TableContext, bucket: BucketId, files: Sequence[DataFileMeta]) -> Iterator[pa.Table]:
    """All keys in some files of a bucket, including keys of deletes, with repetitions."""
    for file in files:
        split = Split(bucket, (((file,),),))
        reader = open_reader(ctx, split, Selection.of(ctx.schema, ctx.schema.primary_keys, None))
        for rows in reader.read(((file,),)):
            yield rows.select(list(ctx.schema.primary_keys))


def concat_keys(schema: TableSchema, parts: Iterable[pa.Table]) -> pa.Table:
    """Keys of several parts as one table, each column in one chunk."""
    fields = [schema.arrow_schema.field(name) for name in schema.primary_keys]
    empty = pa.schema(fields).empty_table()
    tables = [part.select(list(schema.primary_keys)).cast(empty.schema) for part in parts]
    return pa.concat_tables([empty, *tables]).combine_chunks()
