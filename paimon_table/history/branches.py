"""Branches: other lines of snapshots of a table, over the same data files.

Implements Paimon's ``branch/branch-NAME``. A branch has its own schemas, snapshots, tags and consumers; manifests,
index files and data files of all branches are below the table itself. A branch does not record its origin.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from paimon_table.errors import ConfigError
from paimon_table.history.names import check_branch_name
from paimon_table.history.tags import Tag, TagStore
from paimon_table.metadata.paths import TablePaths
from paimon_table.metadata.schema_files import schema_ids
from paimon_table.metadata.snapshot import Snapshot, SnapshotStore
from paimon_table.storage.file_io import FileIO


@dataclass(frozen=True, slots=True)
class BranchStore:
    """The branches of a table."""

    io: FileIO
    paths: TablePaths

    def names(self) -> list[str]:
        found = self.io.list_names(self.paths.branch_dir)
        return [name.removeprefix("branch-") for name in found if name.startswith("branch-")]

    def snapshots(self, name: str) -> SnapshotStore:
        return SnapshotStore(self.io, self.paths.branch(name))

    def tags(self, name: str) -> TagStore:
        return TagStore(self.io, self.paths.branch(name))

    def roots(self) -> list[Snapshot]:
        """Snapshots that together need all files that branches share with the table: the earliest one and the tags.

        Files that a later snapshot of a branch shares with the table were in all earlier ones of the branch.
        """
        found: list[Snapshot] = []
        for name in self.names():
            store = self.snapshots(name)
            earliest = store.earliest_id()
            first = None if earliest is None else store.find(earliest)
            found += [] if first is None else [first]
            found += [tag.snapshot for tag in self.tags(name).all()]
        return found

    def check_new(self, name: str) -> None:
        """Raises ConfigError for a name that a new branch cannot have."""
        check_branch_name(name)
        if name in self.names():
            raise ConfigError(
                f"{self.paths.root} already has a branch {name!r}; delete it first, or choose another name"
            )

    def check_there(self, name: str) -> None:
        """Raises ConfigError without such a branch."""
        if name not in self.names():
            names = ", ".join(sorted(self.names())) or "none"
            raise ConfigError(f"{self.paths.root} has no branch {name!r}; it has: {names}")

    def create(self, name: str, tag: Tag | None) -> None:
        """Create a branch at a tag, or without snapshots. It writes the snapshot file last, which makes the branch
        readable.

        The tag protects the files of the branch until the branch itself does. If another process deletes the tag at the
        same time, it may not see the branch. In that case this raises ConfigError and creates no branch.
        """
        self.check_new(name)
        branch = self.paths.branch(name)
        last = max(schema_ids(self.io, self.paths), default=-1) if tag is None else tag.snapshot.schema_id
        if tag is not None:
            self._hold(branch, tag)
        for schema_id in range(last + 1):
            if self.io.exists(self.paths.schema_file(schema_id)):
                self.io.publish(branch.schema_file(schema_id), self.io.read(self.paths.schema_file(schema_id)))
        if tag is not None:
            text = TagStore(self.io, branch).snapshot_text(tag)
            self.io.publish(branch.snapshot_file(tag.snapshot.id), text)

    def _hold(self, branch: TablePaths, tag: Tag) -> None:
        """Give the branch its tag. The removal of a tag looks for new branches afterwards (``removal``)."""
        path = self.paths.tag_file(tag.name)
        with suppress(FileNotFoundError):
            self.io.publish(branch.tag_file(tag.name), self.io.read(path))
        found = TagStore(self.io, self.paths).find(tag.name)
        if found is None or found.snapshot.delta_manifest_list != tag.snapshot.delta_manifest_list:
            self.io.delete_tree(branch.root)
            raise ConfigError(f"{path} was deleted while a branch was created from it; choose another tag")

    def delete(self, name: str) -> None:
        """Remove a branch; leaves files that only it needed to ``remove-orphans``. Raises ConfigError without such a
        branch."""
        self.check_there(name)
        branch = self.paths.branch(name)
        if self.io.is_link(branch.root):  # its target may belong to another table
            self.io.delete(branch.root)
            return
        # Snapshots first: the rest of an interrupted deletion has none, and protects no files.
        for directory in (branch.snapshot_dir, branch.tag_dir, branch.root):
            self.io.delete_tree(directory)
