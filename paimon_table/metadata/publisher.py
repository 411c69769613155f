"""What makes a new version of a table visible: a schema or a snapshot that appears whole, once, or not at all.

Everything else that a commit or a change of the schema writes is invisible until then. The owner of that step (the
files themselves, a server) implements this protocol, which a catalog gives to the tables that it opens.

A rollback may remove the base of a snapshot between the last look at the table and the publishing. The rollback removes
the newest snapshots and then looks for commits above its target. A commit publishes first and then looks for the
snapshot that it builds on. So one of both sees the other. Without that both would report success, but the table would
still have the rolled back rows, and an id between its snapshots would be missing.
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
    """Publishes versions of one table; belongs to the driver. Never replaces a version that is there."""

    def publish_schema(self, schema: TableSchema) -> bool:
        """Make ``schema`` the version with its id, 0 for a new table; False when the id is taken.

        Readers find it under ``TablePaths.schema_file`` once this is True.
        """
        ...

    def publish_snapshot(
        self, snapshot: Snapshot, base: Snapshot | None = None, entries: Sequence[ManifestEntry] = ()
    ) -> bool:
        """Make ``snapshot``, whose files are durable, the table's newest one.

        ``base`` is the snapshot that it was planned on, ``entries`` are the files that it adds and removes.

        Returns True if the snapshot is in the table, also if an earlier try published it. Returns False if another
        snapshot has its id, or its base is gone. Raises CommitOutcomeUnknown if the store does not tell: the caller
        checks before it publishes again. An Outage
        when it may still be published: then its files stay, whatever the check shows. Readers find it in the
        ``SnapshotStore`` once this is True.
        """
        ...


@dataclass(frozen=True, slots=True)
class FilePublisher:
    """A table whose files are all there is to it: a version is visible when its file is, which is created at once."""

    io: FileIO
    paths: TablePaths

    def publish_schema(self, schema: TableSchema) -> bool:
        return self.io.publish(self.paths.schema_file(schema.id), schema_json(schema).encode())

    def publish_snapshot(
        self, snapshot: Snapshot, base: Snapshot | None = None, entries: Sequence[ManifestEntry] = ()
    ) -> bool:
        """Create the snapshot's file unless the id is taken; then point the hints at it.

        If the base was rolled back before that, the snapshot is withdrawn, and the commit starts again on the present
        state.
        """
        if not self._create(snapshot):
            return False
        store = SnapshotStore(self.io, self.paths)
        if not is_rolled_back(store, base):
            return True
        if not take_back(store, snapshot):
            raise CorruptFile(
                f"{self.paths.root} was rolled back behind snapshot {snapshot.id - 1} while snapshot {snapshot.id} was"
                " published on it, and others have committed on top: stop all that write the table, and roll back again"
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
                f"it is unknown whether snapshot {snapshot.id} of {self.paths.root} was published; repeat the commit: "
                "it checks before it publishes"
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
    """Whether the snapshot that was built on is gone, and not because it has expired, or is another one."""
    if base is None:
        return False
    found = snapshots.find(base.id)
    if found is not None:
        return not base.is_same(found)
    return any(other < base.id for other in snapshots.listed_ids())  # expiry takes the oldest first


def take_back(snapshots: SnapshotStore, published: Snapshot) -> bool:
    """Remove a snapshot that was just published; False, and it stays, where others have built on it.

    The rollback may have removed it already, and others have given its id to another one.
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
