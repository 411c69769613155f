"""Reading what changed, snapshot by snapshot.

Implements the follow-up rule of Paimon's streaming readers: without a changelog producer the changes are the rows of
the files that APPEND snapshots add, with their own kinds; with one, they are the rows of the changelog files. OVERWRITE
snapshots are passed over. Rows come as stored: nothing is merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import pyarrow as pa

from paimon_table.data_files.key_value_file import iter_key_value_batches
from paimon_table.errors import ConfigError
from paimon_table.metadata.bucket_id import POSTPONED
from paimon_table.metadata.manifest import ADD, ManifestEntry
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.metadata.snapshot import CommitKind, Snapshot
from paimon_table.metadata.table_context import TableContext
from paimon_table.row_kind import VALUE_KIND
from paimon_table.scan.scan import checked_columns, refuse_unreadable
from paimon_table.table import Table
from paimon_table.types import arrow_type


def read_changes(
    table: Table,
    from_snapshot: int | None = None,
    to_snapshot: int | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[tuple[Snapshot, pa.Table]]:
    """The changes of each snapshot in [from, to] that has some; default: all snapshots that have not expired.

    The tables hold ``_VALUE_KIND`` and then the columns, in the table's current schema, in stored order: files of one
    bucket in listed order, buckets in the order of their first file. Raises ConfigError for snapshots that have
    expired or do not exist yet.
    """
    for snapshot in snapshots_between(table, from_snapshot, to_snapshot):
        batches = list(iter_changes(table, snapshot, columns))
        if batches:
            yield snapshot, pa.concat_tables(batches)


def iter_changes(table: Table, snapshot: Snapshot, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """The changes of one snapshot in pieces of bounded size, as ``read_changes`` describes them."""
    index = ManifestReader(table.io, table.paths).index_entries(snapshot)
    refuse_unreadable(table.schema, table.options, index)
    ctx = table.context
    names = checked_columns(table.schema, columns)
    for entry in _in_bucket_order(_entries(table, snapshot)):
        if entry.bucket.bucket != POSTPONED:
            yield from _rows(ctx, entry, names)


def snapshots_between(table: Table, first: int | None, last: int | None) -> Iterator[Snapshot]:
    """The snapshots of [first, last]; None stands for the earliest and the latest one."""
    earliest, latest = table.snapshots.earliest_id(), table.snapshots.latest_id()
    if earliest is None or latest is None:
        if first is None and last is None:
            return
        raise ConfigError(f"{table.paths.root} has no snapshot yet; write to it first")
    first = earliest if first is None else first
    last = latest if last is None else last
    if first < earliest or last > latest:
        raise ConfigError(
            f"snapshots {first} to {last} of {table.paths.root} cannot be read: it has the snapshots {earliest} to "
            f"{latest}; choose a range inside"
        )
    for snapshot_id in range(first, last + 1):
        yield table.snapshots.read(snapshot_id)


def _entries(table: Table, snapshot: Snapshot) -> list[ManifestEntry]:
    reader = ManifestReader(table.io, table.paths)
    if snapshot.commit_kind is CommitKind.OVERWRITE:
        return []
    if table.options.changelog_producer != "none":
        return reader.changelog_entries(snapshot)
    if snapshot.commit_kind is not CommitKind.APPEND:
        return []
    return [entry for entry in reader.delta_entries(snapshot) if entry.kind == ADD]


def _in_bucket_order(entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """Entries of one bucket next to each other, otherwise in listed order."""
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
