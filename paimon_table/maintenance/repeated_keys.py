"""Finds keys with rows in several places, in tables whose rows move between partitions, and keeps one row of each.

Nothing in such a table shows which of two rows is current, so the user decides. Either the row of the newer file
counts, or the row with the greatest value of a column, such as the time of its last change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import BrokenInvariant, CommitConflict, ConfigError
from paimon_table.key_index.index_runs import whole_key_order
from paimon_table.key_index.stored_keys import LaneNumber, concat_keys, file_keys, key_magnitudes, stored_keys
from paimon_table.maintenance.job import Job
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.index_file import IndexChange
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import LiveFiles
from paimon_table.nearest_name import did_you_mean
from paimon_table.options.bucket_mode import BucketMode, bucket_mode
from paimon_table.row_kind import VALUE_KIND, RowKind
from paimon_table.rows.gather import gather
from paimon_table.rows.words import Indices
from paimon_table.table import Table
from paimon_table.write.bucket_writer import BucketWriter

SLICE_KEYS = 1 << 23
"""The approximate number of keys in memory at a time."""

_ROWS_AT_A_TIME = 1 << 16

Ranks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RepeatedKeys:
    """The rows to delete so that each key has one row: row i has key i of ``keys``."""

    keys: pa.Table
    """Whole primary keys; a key at three places occurs twice."""
    gone: tuple[BucketId, ...]
    kept: tuple[BucketId, ...]
    """The place where the row of the key stays."""
    live: LiveFiles
    """The state of the search."""


def check_removable(table: Table) -> None:
    """Raises ConfigError for tables that cannot have such keys, or where removing a row would lose values."""
    root = table.paths.root
    if bucket_mode(table.schema, table.options) is not BucketMode.KEY_DYNAMIC:
        raise ConfigError(
            f"{root}: a key has one row in all partitions together only in tables with 'bucket' = -1 whose primary key "
            "lacks a partition column. In other tables there are no duplicates to remove"
        )
    if table.options.merge_engine != "deduplicate":
        raise ConfigError(
            f"{root}: with 'merge-engine' = {table.options.merge_engine} each row has only a part of the records, so "
            "removing a row would lose values. Drop the partitions of these rows (tidemark table drop-partition) and "
            "replay their records, or fill a new table"
        )


def find_repeated(table: Table, job: Job, newest_by: str | None = None) -> RepeatedKeys:
    """The keys that the newest snapshot has in several places.

    Of each key the row with the greatest value in ``newest_by`` stays (NULL is the least). Among equal ones, and
    without ``newest_by``, the row in the newest file stays. A compaction creates new files from old rows.
    """
    check_removable(table)
    ctx = table.context
    if newest_by is not None:
        _check_column(ctx, newest_by)
    live = table.state().live_files()
    row_count = sum(file.row_count for files in live.files.values() for file in files)
    slices = 1 + row_count // SLICE_KEYS
    job.progress.begin("look for keys", slices * row_count)
    order = whole_key_order(ctx.schema, ctx.options)
    keys, gone, kept = [], list[BucketId](), list[BucketId]()
    for number in range(slices):
        found, places = _repeated_of_slice(ctx, live, job, slices, number)
        _, key_numbers = order.distinct(found)
        ages = _ages(ctx, live, found, places)
        values = _values(ctx, live, job, found, places, newest_by)
        newest_last = np.lexsort((ages, values, key_numbers))
        ends = np.flatnonzero(np.append(np.diff(key_numbers[newest_last]), 1)) if len(newest_last) else newest_last
        winner = dict(zip(key_numbers[newest_last[ends]].tolist(), newest_last[ends].tolist(), strict=True))
        losers = [at for at in range(found.num_rows) if winner[int(key_numbers[at])] != at]
        keys.append(gather(found, np.asarray(losers, np.int64)))
        gone += [places[at] for at in losers]
        kept += [places[winner[int(key_numbers[at])]] for at in losers]
    return RepeatedKeys(concat_keys(ctx.schema, keys), tuple(gone), tuple(kept), live)


def remove_repeated(table: Table, job: Job, found: RepeatedKeys) -> int | None:
    """Delete the found rows in one commit; returns its snapshot.

    If others have written since the search, raises CommitConflict and deletes nothing.
    """
    ctx = table.context
    messages: list[CommitMessage] = []
    job.progress.begin("delete rows", found.keys.num_rows)
    try:
        for bucket, positions in _by_bucket(found.gone):
            messages.append(_deleting(ctx, found.live, job, bucket, gather(found.keys, positions)))
        commit = job.commit_to(table)
        commit.refresh()
    except BaseException:
        # Unreferenced: nothing of this was given to a commit.
        ctx.remove_unpublished(messages)
        raise
    if not messages:
        return None
    try:
        started_ms = job.environment.clock_ms()
        result = commit.commit(next(job.identifiers), messages, {}, started_ms=started_ms)
    except CommitConflict as conflict:
        # Unreferenced: a conflict publishes nothing.
        ctx.remove_unpublished(messages)
        raise CommitConflict(
            f"{ctx.paths.root}: other writers have committed since the search for keys ({conflict}). Nothing was "
            "deleted: stop the pipelines that write the table, then run the command again"
        ) from conflict
    newest = result.compact or result.append
    return None if newest is None else newest.id


def _check_column(ctx: TableContext, name: str) -> None:
    root, columns = ctx.paths.root, ctx.schema.column_names
    if name not in columns:
        raise ConfigError(f"{root}: there is no column {name!r}; {did_you_mean(name, columns)}")
    if pa.types.is_nested(ctx.schema.arrow_schema.field(name).type):
        raise ConfigError(f"{root}: values of column {name!r} have no order; name another one")


def _repeated_of_slice(
    ctx: TableContext, live: LiveFiles, job: Job, slices: int, number: int
) -> tuple[pa.Table, list[BucketId]]:
    """The keys of one slice that are in several buckets, once for each bucket, and these buckets."""
    parts: list[pa.Table] = []
    buckets: list[BucketId] = []
    for bucket, keys in stored_keys(ctx, live, LaneNumber(1, 0), 1):
        job.progress.advance(keys.num_rows)
        of_slice = keys if slices == 1 else keys.filter(pa.array(key_magnitudes(ctx.schema, keys) % slices == number))
        parts.append(of_slice)
        buckets.append(bucket)
    keys = concat_keys(ctx.schema, parts)
    places = np.repeat(np.arange(len(parts)), [part.num_rows for part in parts])
    _, key_numbers = whole_key_order(ctx.schema, ctx.options).distinct(keys)
    repeated = np.flatnonzero(np.bincount(key_numbers)[key_numbers] > 1) if keys.num_rows else np.zeros(0, np.int64)
    return gather(keys, repeated), [buckets[place] for place in places[repeated]]


def _ages(ctx: TableContext, live: LiveFiles, keys: pa.Table, places: Sequence[BucketId]) -> Ranks:
    """The creation times of the newest file with each key in its place."""
    order = whole_key_order(ctx.schema, ctx.options)
    ages = np.zeros(keys.num_rows, np.int64)
    for bucket, positions in _by_bucket(places):
        here = gather(keys, positions)
        for file in live.files[bucket]:
            of_file = concat_keys(ctx.schema, file_keys(ctx, bucket, [file]))
            _, numbers = order.distinct(concat_keys(ctx.schema, [here, of_file]))
            is_there = np.isin(numbers[: len(positions)], numbers[len(positions) :])
            made_ms = file.creation_time_ms or 0
            ages[positions[is_there]] = np.maximum(ages[positions[is_there]], made_ms)
    return ages


def _values(
    ctx: TableContext, live: LiveFiles, job: Job, keys: pa.Table, places: Sequence[BucketId], column: str | None
) -> Ranks:
    """The ranks of the rows by a column, 0 for NULL; all equal without a column."""
    ranks = np.zeros(keys.num_rows, np.int64)
    if column is None or not keys.num_rows:
        return ranks
    order = whole_key_order(ctx.schema, ctx.options)
    values: list[pa.Array] = []
    owners: list[Indices] = []
    for bucket, positions in _by_bucket(places):
        here = gather(keys, positions)
        sorted_by_key, _ = order.distinct(here)
        rows = _rows(ctx, live, job, bucket, here)
        values += rows.column(column).chunks
        owners.append(positions[sorted_by_key])
    together = pa.chunked_array(values)
    ranked = np.asarray(pc.rank(together, tiebreaker="dense"), np.int64)
    ranks[np.concatenate(owners)] = np.where(np.asarray(together.is_valid()), ranked, 0)
    return ranks


def _rows(ctx: TableContext, live: LiveFiles, job: Job, bucket: BucketId, keys: pa.Table) -> pa.Table:
    """The rows of keys that a bucket has, sorted by key."""
    trimmed = keys.select(list(ctx.schema.trimmed_primary_keys))
    rows = BucketWriter(ctx, bucket, live.of(bucket), job.environment).lookup(trimmed)
    if rows.num_rows != keys.num_rows:
        raise BrokenInvariant(f"bucket {bucket.bucket} of {ctx.paths.root} lost keys; please report this")
    return rows.select(list(ctx.schema.column_names))


def _deleting(ctx: TableContext, live: LiveFiles, job: Job, bucket: BucketId, keys: pa.Table) -> CommitMessage:
    """Written files that delete the rows of keys from a bucket; nothing is left after an exception."""
    writer = BucketWriter(ctx, bucket, live.of(bucket), job.environment)
    for start in range(0, keys.num_rows, _ROWS_AT_A_TIME):
        rows = _rows(ctx, live, job, bucket, keys.slice(start, _ROWS_AT_A_TIME))
        kinds = np.full(rows.num_rows, int(RowKind.DELETE), np.int8)
        writer.write(rows.append_column(VALUE_KIND, pa.array(kinds)))
        job.progress.advance(rows.num_rows)
    message = writer.prepare_commit(False)
    return replace(message, append_index=IndexChange(keys_seen=live.at))


def _by_bucket(places: Sequence[BucketId]) -> Iterator[tuple[BucketId, Indices]]:
    """The positions of each bucket."""
    positions: defaultdict[BucketId, list[int]] = defaultdict(list)
    for at, bucket in enumerate(places):
        positions[bucket].append(at)
    for bucket, of_bucket in positions.items():
        yield bucket, np.asarray(of_bucket, np.int64)
