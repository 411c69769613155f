"""Reads changes, snapshot by snapshot.

Implements the follow-up rule of Paimon's streaming readers. Without a changelog producer, changes are the rows of the
files that APPEND snapshots add, with their own kinds. With one, they are the rows of the changelog files. The scan
skips OVERWRITE snapshots. If the producer option changed, the producer at the time of a snapshot decides how it is
read. So the scan returns the same rows that a streaming reader got. Rows are returned as stored, without a merge.
Without a producer, rows in postponed buckets are changes too, because a stream does not read the compaction that shows
them to scans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.data_files.key_value_file import iter_key_value_batches
from paimon_table.errors import ConfigError, CorruptFile
from paimon_table.metadata.changelog_origin import producer_of
from paimon_table.metadata.manifest import ADD, ManifestEntry
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.metadata.snapshot import CommitKind, Snapshot
from paimon_table.metadata.table_context import TableContext
from paimon_table.options.bucket_mode import BucketMode, bucket_mode
from paimon_table.row_kind import VALUE_KIND, RowKind
from paimon_table.scan.scan import refuse_unreadable
from paimon_table.scan.selection import checked_columns
from paimon_table.types import arrow_type


def read_changes(
    ctx: TableContext,
    from_snapshot: int | None = None,
    to_snapshot: int | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[tuple[Snapshot, pa.Table]]:
    """The changes of each snapshot with changes in [from, to]; default: all snapshots whose changes still exist.

    The tables have ``_VALUE_KIND`` and then the columns, in the table's current schema and in stored order. Files of
    one bucket are in listed order, buckets in the order of their first file. If rows move between partitions and a
    compaction found the changes, all -D of a snapshot come first. So a key is deleted before it is inserted again.
    Expired snapshots with a long-lived changelog are included. Raises ConfigError for snapshots whose changes have
    expired too, and for those that do not exist yet.
    """
    for snapshot in ctx.snapshots.changelogs_between(from_snapshot, to_snapshot):
        batches = list(changes_of(ctx, snapshot, columns))
        if batches:
            yield snapshot, pa.concat_tables(batches)


def changes_of(ctx: TableContext, snapshot: Snapshot, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """The changes of one snapshot in pieces of bounded size, as ``read_changes`` describes them."""
    reader = ManifestReader(ctx.io, ctx.paths)
    refuse_unreadable(ctx.schema, ctx.options, reader.index_entries(snapshot))
    names = checked_columns(ctx.schema, columns)
    producer = producer_of(ctx, snapshot)
    entries = _in_bucket_order(_entries(ctx, reader, snapshot, producer))
    if not _moves_rows(ctx, producer):
        for entry in entries:
            yield from _rows(ctx, entry, names)
        return
    # Files state their number of retracts, so those without are read only once.
    for entry in entries:
        if entry.file.delete_row_count != 0:
            for rows in _rows(ctx, entry, names):
                yield from _some(rows.filter(pc.equal(rows.column(VALUE_KIND), RowKind.DELETE)))
    for entry in entries:
        for rows in _rows(ctx, entry, names):
            yield from _some(rows.filter(pc.not_equal(rows.column(VALUE_KIND), RowKind.DELETE)))


def appended_rows(ctx: TableContext, snapshot: Snapshot, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """The rows that an APPEND snapshot has written, as stored, for any changelog producer; nothing for other kinds."""
    names = checked_columns(ctx.schema, columns)
    reader = ManifestReader(ctx.io, ctx.paths)
    for entry in reader.delta_entries(snapshot) if snapshot.commit_kind is CommitKind.APPEND else ():
        if entry.kind == ADD:
            yield from _rows(ctx, entry, names)


def _moves_rows(ctx: TableContext, producer: str) -> bool:
    """Whether a snapshot's changelog may have a key in two buckets."""
    is_found = producer in {"lookup", "full-compaction"}
    return is_found and bucket_mode(ctx.schema, ctx.options) is BucketMode.KEY_DYNAMIC


def _some(rows: pa.Table) -> Iterator[pa.Table]:
    if rows.num_rows:
        yield rows


def _entries(ctx: TableContext, reader: ManifestReader, snapshot: Snapshot, producer: str) -> list[ManifestEntry]:
    if snapshot.commit_kind is CommitKind.OVERWRITE:
        return []
    if producer != "none":
        return reader.changelog_entries(snapshot)
    if snapshot.commit_kind is not CommitKind.APPEND:
        return []
    try:
        return [entry for entry in reader.delta_entries(snapshot) if entry.kind == ADD]
    except CorruptFile as error:
        if not isinstance(error.__cause__, FileNotFoundError) or ctx.io.exists(ctx.paths.snapshot_file(snapshot.id)):
            raise
        raise ConfigError(
            f"the changes of snapshot {snapshot.id} of {ctx.paths.root} no longer exist. It was written without a "
            "changelog producer, and another program expired it when the table had one; choose a later range"
        ) from error


def _in_bucket_order(entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """The entries grouped by bucket, otherwise in listed order."""
    first = {bucket: number for number, (bucket, _) in reversed(list(enumerate(groupby(entries, lambda e: e.bucket))))}
    return sorted(entries, key=lambda entry: first[entry.bucket])


def _rows(ctx: TableContext, entry: ManifestEntry, names: Sequence[str]) -> Iterator[pa.Table]:
    partition = ctx.partition_values(entry.bucket.partition)
    schema = pa.schema([
        pa.field(VALUE_KIND, pa.int8(), False),
        *(pa.field(f.name, arrow_type(f.type), f.type.nullable) for f in map(ctx.schema.field, names)),
    ])  # fmt: skip
    for batch in iter_key_value_batches(ctx, ctx.bucket_dir(entry.bucket), entry.file, names, partition):
        yield pa.Table.from_arrays(batch.select(schema.names).columns, schema=schema)
