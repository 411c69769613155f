"""A branch in which a table is rebuilt, invisible to the table's readers.

It is a Paimon branch: its files are in the table's directories, and expiry and orphan removal keep them. Its schemas
are copies of the table's, version by version, so that a file means the same in both. A new version is published in the
table first. Options that do not fit the table's current content may differ. They apply only to the branch until the
table has the new content (``take_over``).

Only the rebuild writes the branch. It removes unneeded files one by one, and their snapshot last. So a later removal
finds the files that an interrupted one left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from paimon_table.errors import ConfigError, CorruptFile
from paimon_table.history.branches import BranchStore
from paimon_table.history.expiry import FilesToRemove, MetadataToRemove
from paimon_table.history.names import check_branch_name
from paimon_table.history.removal import absolute
from paimon_table.history.snapshot_names import metadata_names
from paimon_table.metadata.manifest import ManifestEntry, live_entries
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.metadata.paths import BranchPaths, TablePaths
from paimon_table.metadata.publisher import FilePublisher, Publisher
from paimon_table.metadata.schema_files import read_schema, schema_ids
from paimon_table.metadata.snapshot import Snapshot
from paimon_table.schema.table_schema import TableSchema
from paimon_table.storage.file_io import FileIO
from paimon_table.table import Table
from paimon_table.validation.table_validation import validate_table

Changed = Mapping[str, str | None]
"""Options with other values than the table's; None: unset."""


@dataclass(frozen=True, slots=True)
class AsideBranch:
    """The branch ``name`` of a table, which may not exist."""

    io: FileIO
    table_paths: TablePaths
    table_publisher: Publisher
    name: str
    options: Changed

    @staticmethod
    def of(table: Table, name: str, options: Changed) -> AsideBranch:
        return AsideBranch(table.io, table.paths, table.publisher, name, options)

    @property
    def paths(self) -> BranchPaths:
        return BranchPaths(self.table_paths.root, self.name)

    @property
    def is_there(self) -> bool:
        return bool(schema_ids(self.io, self.paths))

    def begin(self) -> None:
        """Create the branch, without snapshots. Idempotent; raises ConfigError for invalid options."""
        check_branch_name(self.name)
        newest = max(schema_ids(self.io, self.table_paths))
        validate_table(self._of_branch(read_schema(self.io, self.table_paths, newest)))
        self._follow()

    def open(self) -> Table:
        """The branch as a table to write, with all current schemas of the table. Raises ConfigError if the branch is
        missing."""
        if self.is_there:
            self._follow()
        table = Table.open_line(self.io, self.paths)
        if table is None:
            raise ConfigError(
                f"branch {self.name!r} of {self.table_paths.root} was removed, and with it the rebuilt rows: start the "
                "rebuild again"
            )
        return replace(table, publisher=_BranchPublisher(self))

    def tidy(self, user: str) -> None:
        """Remove the snapshots before the newest one of ``user``, who needs it to find its last commit."""
        table = self.open()
        own = table.snapshots.newest_of_user(user)
        over = [] if own is None else [snapshot for snapshot in _snapshots(table) if snapshot.id < own.id]
        if own is None or not over:
            return
        kept = metadata_names(ManifestReader(self.io, self.paths), own)
        files, metadata = FilesToRemove(table.context), MetadataToRemove(table.context, kept)
        for snapshot in (*over[1:], own):
            # Proof: nothing else names files of the branch, and files that a snapshot deleted never return in the
            # branch.
            files.add_deleted(snapshot, (), keeps_appended=False)
        for snapshot in over:
            files.add_changelog(snapshot, ())
            _add_metadata(metadata, snapshot)
        self._remove(files, metadata)
        for snapshot in over:
            self.io.delete(self.paths.snapshot_file(snapshot.id))
        table.snapshots.write_earliest_hint(own.id)

    def remove(self, *, is_taken: bool) -> None:
        """Remove the branch with all files that only it needs.

        ``is_taken``: the table has the content of its newest snapshot. Idempotent; leaves files that an interrupted
        removal lost track of to ``remove-orphans``.
        """
        with suppress(CorruptFile):
            self._remove_files(is_taken)
        branches = BranchStore(self.io, self.table_paths)
        if self.name in branches.names():
            branches.delete(self.name)

    def _remove_files(self, is_taken: bool) -> None:
        table = Table.open_line(self.io, self.paths)
        snapshots = [] if table is None else _snapshots(table)
        if table is None or not snapshots:
            return
        newest, reader = snapshots[-1], ManifestReader(self.io, self.paths)
        taken = {entry.file.file_name for entry in reader.index_entries(newest)} if is_taken else set()
        files, metadata = FilesToRemove(table.context), MetadataToRemove(table.context, taken)
        if not is_taken:
            for entry in live_entries(reader.entries_in(reader.all_manifests(newest))):
                files.add(entry)
        for snapshot in snapshots:
            # Proof: as in tidy; the table takes over no changelog, no manifest and no file that was deleted before.
            files.add_changelog(snapshot, ())
            _add_metadata(metadata, snapshot)
        for snapshot in snapshots[1:]:
            files.add_deleted(snapshot, (), keeps_appended=False)
        self._remove(files, metadata)

    def _remove(self, files: FilesToRemove, metadata: MetadataToRemove) -> None:
        self.io.delete_all([absolute(self.paths, path) for path in (*files.paths, *metadata.paths)])

    def _follow(self) -> None:
        """Copy the schema versions that the branch lacks from the table."""
        own = FilePublisher(self.io, self.paths)
        there = set(schema_ids(self.io, self.paths))
        for schema_id in schema_ids(self.io, self.table_paths):
            if schema_id not in there:
                own.publish_schema(self._of_branch(read_schema(self.io, self.table_paths, schema_id)))

    def publish_schema(self, schema: TableSchema) -> bool:
        """Publish a version in the table, then in the branch. False if the table has another one, which is then
        copied."""
        newest = read_schema(self.io, self.table_paths, max(schema_ids(self.io, self.table_paths)))
        is_new = self.table_publisher.publish_schema(self._of_table(schema, newest))
        self._follow()
        return is_new

    def _of_branch(self, schema: TableSchema) -> TableSchema:
        options = {**schema.options, **self.options}
        return replace(schema, options={name: value for name, value in options.items() if value is not None})

    def _of_table(self, schema: TableSchema, before: TableSchema) -> TableSchema:
        own = {name: value for name, value in schema.options.items() if name not in self.options}
        kept = {name: value for name, value in before.options.items() if name in self.options}
        return replace(schema, options={**own, **kept})


@dataclass(frozen=True, slots=True)
class _BranchPublisher:
    """Publishes versions of the branch."""

    branch: AsideBranch

    def publish_schema(self, schema: TableSchema) -> bool:
        return self.branch.publish_schema(schema)

    def publish_snapshot(
        self, snapshot: Snapshot, base: Snapshot | None = None, entries: Sequence[ManifestEntry] = ()
    ) -> bool:
        return FilePublisher(self.branch.io, self.branch.paths).publish_snapshot(snapshot, base, entries)


def _snapshots(table: Table) -> list[Snapshot]:
    """The existing snapshots, oldest first."""
    return list(table.snapshots.newest_first())[::-1]


def _add_metadata(metadata: MetadataToRemove, snapshot: Snapshot) -> None:
    metadata.add_lists(snapshot)
    metadata.add_changelog_list(snapshot)
    metadata.add_index_and_statistics(snapshot)
