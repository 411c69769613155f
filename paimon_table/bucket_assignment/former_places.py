"""The former places of keys that the index of their lane does not have.

An index that is built from the table lacks the keys of removed rows. The snapshot that removed a row shows its key and
bucket: a delete in the files of its APPEND, an OVERWRITE in the files that it replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property, reduce

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import CorruptFile
from paimon_table.key_index.stored_keys import LaneNumber, file_keys
from paimon_table.merge.sort import KeyOrder
from paimon_table.metadata.bucket_id import POSTPONED, BucketId
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.manifest import ADD
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.metadata.snapshot import CommitKind, Snapshot
from paimon_table.metadata.table_context import TableContext
from paimon_table.metadata.table_state import LiveFiles, load_state
from paimon_table.write.bucket_writer import BucketWriter, WriterEnvironment
from paimon_table.write.former_rows import FORMER_SNAPSHOTS

_Files = list[tuple[BucketId, DataFileMeta]]


class FormerPlaces:
    """The buckets of a lane in which snapshots up to a given one changed a key; reads manifests once."""

    def __init__(self, ctx: TableContext, live: LiveFiles, lane: LaneNumber, environment: WriterEnvironment) -> None:
        self._ctx = ctx
        self._live = live
        self._lane = lane
        self._environment = environment
        self._order = KeyOrder(ctx.schema, ctx.options)

    def find(self, keys: pa.Table) -> Iterator[tuple[BucketId, pa.Table]]:
        """For each of these whole keys, its bucket before the newest snapshot that changed it."""
        for number in range(keys.num_rows):
            key = keys.slice(number, 1)
            for before, files in self._changed:
                named = dict.fromkeys(bucket for bucket, file in files if self._names(bucket, file, key))
                if named:
                    # Usually one; more if a batch moved the row and then deleted it.
                    is_clear = len(named) == 1
                    yield from ((bucket, key) for bucket in named if is_clear or self._is_in(bucket, key, before))
                    break

    @cached_property
    def _changed(self) -> list[tuple[Snapshot | None, _Files]]:
        """For each snapshot, newest first: the one before it, and the lane's files that added or removed rows."""
        reader = ManifestReader(self._ctx.io, self._ctx.paths)
        changed: list[tuple[Snapshot | None, _Files]] = []
        newest = self._live.at.id
        snapshot = self._ctx.snapshots.find(newest) if newest else None
        for snapshot_id in range(newest - 1, newest - FORMER_SNAPSHOTS - 2, -1):
            if snapshot is None:
                break
            before = self._ctx.snapshots.find(snapshot_id) if snapshot_id > 0 else None
            if snapshot.commit_kind in (CommitKind.APPEND, CommitKind.OVERWRITE):
                try:
                    entries = [e for e in reader.delta_entries(snapshot) if e.kind == ADD or before is not None]
                except CorruptFile:
                    if self._ctx.snapshots.find(snapshot.id) is not None:
                        raise
                    break  # it has expired, as have all before it
                changed.append((before, [(e.bucket, e.file) for e in entries if self._owns(e.bucket)]))
            snapshot = before
        return changed

    def _is_in(self, bucket: BucketId, key: pa.Table, snapshot: Snapshot | None) -> bool:
        if snapshot is None:
            return False
        try:
            state = load_state(self._ctx.io, self._ctx.paths, snapshot).live_files().of(bucket)
            writer = BucketWriter(self._ctx, bucket, state, self._environment)
            found = writer.lookup(key.select(list(self._ctx.schema.trimmed_primary_keys)))
        except (FileNotFoundError, CorruptFile):
            if self._ctx.snapshots.find(snapshot.id) is not None:
                raise
            return False  # it has expired since
        writer.forget_all_but(self._live.of(bucket).files)
        return len(found) > 0

    def _owns(self, bucket: BucketId) -> bool:
        return bucket.bucket != POSTPONED and self._lane.owns(bucket)

    def _names(self, bucket: BucketId, file: DataFileMeta, key: pa.Table) -> bool:
        before = self._order.count_below(key, self._order.file_key(file.min_key), inclusive=False)
        until = self._order.count_below(key, self._order.file_key(file.max_key), inclusive=True)
        if before == until:
            return False
        with suppress(FileNotFoundError):  # the snapshot that had it has expired since
            return any(_holds(keys, key) for keys in file_keys(self._ctx, bucket, [file]))
        return False


def _holds(keys: pa.Table, key: pa.Table) -> bool:
    same = [pc.equal(keys.column(name), key.column(name)[0]) for name in key.column_names]
    return bool(pc.any(reduce(pc.and_, same)).as_py())
