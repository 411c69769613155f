"""Publishing a new version of a table: a schema or a snapshot appears completely and once, or not at all.

All other files of a commit or a schema change are invisible until then. The owner of that step (the file system, a
server) implements this protocol. A catalog passes it to the tables that it opens.

A rollback may remove the base of a snapshot between the last look at the table and the publishing. The rollback removes
the newest snapshots and then looks for commits above its target. A commit publishes first and then looks for its base.
So at least one of both detects the other. Otherwise both would report success, but the table would still have the
rolled back rows and a gap in its snapshot ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from paimon_table.errors import CommitOutcomeUnknown, CorruptFile
from paimon_table.metadata.manifest import ManifestEntry
from paimon_table.metadata.paths import TablePaths
from paimon_table.metadata.snapshot import Snapshot, SnapshotStore
from paimon_table.metadata.snapshot import to_json as snapshot_json
from paimon_table.schema.table_schema import TableSchema
from paimon_table.schema.table_schema import to_json as schema_json
from paimon_table.storage.file_io import FileIO


class Publisher(Protocol):
    """Publishes versions of one table, on the driver. Never replaces an existing version."""

    def publish_schema(self, schema: TableSchema) -> bool:
        """Make ``schema`` the version with its id, 0 for a new table; False if the id is taken.

        After True, readers find it under ``TablePaths.schema_file``.
        """
        ...

    def publish_snapshot(
        self, snapshot: Snapshot, base: Snapshot | None = None, entries: Sequence[ManifestEntry] = ()
    ) -> bool:
        """Make ``snapshot``, whose files are durable, the table's newest one.

        ``base`` is the snapshot on which it was planned, ``entries`` are the files that it adds and removes.

        Returns True if the snapshot is in the table, also if an earlier try published it. After that, readers find it
        in the ``SnapshotStore``. Returns False if another snapshot has its id, or its base was removed. Raises
        CommitOutcomeUnknown if the outcome is unclear: the caller checks before it publishes again. Raises Outage if it
        may still be published later: its files stay, whatever the check shows.
        """
        ...


@dataclass(frozen=True, slots=True)
class FilePublisher:
    """The publisher of a table without a server: a version is visible when its file exists, which is created
    atomically."""

    io: FileIO
    paths: TablePaths

    def publish_schema(self, schema: TableSchema) -> bool:
        return self.io.publish(self.paths.schema_file(schema.id), schema_json(schema).encode())

    def publish_snapshot(
        self, snapshot: Snapshot, base: Snapshot | None = None, entries: Sequence[ManifestEntry] = ()
    ) -> bool:
        """Create the snapshot's file unless the id is taken; then point the hints at it.

        If a rollback removed the base before that, the snapshot is withdrawn, and the commit starts again on the
        current state.
        """
        if not self._create(snapshot):
            return False
        store = SnapshotStore(self.io, self.paths)
        if not is_rolled_back(store, base):
            return True
        if not take_back(store, snapshot):
            raise CorruptFile(
                f"{self.paths.root} was rolled back to before snapshot {snapshot.id - 1} while snapshot {snapshot.id} "
                "was published on it, and others have committed on top. Stop all writers of the table, then roll back "
                "again"
            )
        return False

    def _create(self, snapshot: Snapshot) -> bool:
        store = SnapshotStore(self.io, self.paths)
        unclear: CommitOutcomeUnknown | None = None
        try:
            if self.io.publish(self.paths.snapshot_file(snapshot.id), snapshot_json(snapshot).encode()):
                self._write_hints(store, snapshot.id)
                return True
        except CommitOutcomeUnknown as error:
            unclear = error
        try:
            present = store.find(snapshot.id)
        except OSError as error:
            present, unclear = None, unclear or CommitOutcomeUnknown(str(error))
        if present is None:
            raise CommitOutcomeUnknown(
                f"it is unknown whether snapshot {snapshot.id} of {self.paths.root} was published; repeat the commit, "
                "which checks before it publishes"
            ) from unclear
        if present.uuid is None or present.uuid != snapshot.uuid:
            return False
        self._write_hints(store, snapshot.id)
        return True

    @staticmethod
    def _write_hints(store: SnapshotStore, snapshot_id: int) -> None:
        if snapshot_id == 1:
            store.write_first_hint()
        store.write_latest_hint(snapshot_id)


def is_rolled_back(snapshots: SnapshotStore, base: Snapshot | None) -> bool:
    """Whether the base was rolled back: it is missing without having expired, or another snapshot has its id."""
    if base is None:
        return False
    found = snapshots.find(base.id)
    if found is not None:
        return not base.is_same(found)
    return any(other < base.id for other in snapshots.listed_ids())  # expiry removes the oldest first


def take_back(snapshots: SnapshotStore, published: Snapshot) -> bool:
    """Remove a snapshot that was just published. If others have committed on top of it, returns False and keeps it.

    The rollback may have removed it already, and another snapshot may have its id.
    """
    io, path = snapshots.io, snapshots.paths.snapshot_file(published.id)
    above = snapshots.paths.snapshot_file(published.id + 1)
    if not published.is_same(snapshots.find(published.id)):
        return True
    if io.exists(above):
        return False
    try:
        text = io.read(path)
    except FileNotFoundError:
        return True
    io.delete(path)
    if io.exists(above):
        io.publish(path, text)
        return False
    snapshots.write_latest_hint(max(snapshots.listed_ids(), default=0))
    return True
