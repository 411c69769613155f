"""The files that tags and branches need, which stay when snapshots of the table expire."""

from __future__ import annotations

from dataclasses import dataclass, field

from paimon_table.history.branches import BranchStore
from paimon_table.history.snapshot_names import all_names, changelog_names, live_file_names, metadata_names
from paimon_table.history.tags import Tag, TagStore
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.metadata.snapshot import Snapshot
from paimon_table.metadata.table_context import TableContext


@dataclass(slots=True)
class HeldNames:
    """The files that the last requested tag and all branches need, for repeated expiries of one table.

    Snapshots are identified by their manifest lists, which never change and whose names are never reused. So a tag that
    is recreated for another snapshot counts as another tag.
    """

    _tag: Snapshot | None = None
    _of_tag: set[str] = field(default_factory=set)
    _branches: tuple[Snapshot, ...] = ()
    _of_branches: set[str] = field(default_factory=set)

    def of_tag(self, reader: ManifestReader, snapshot: Snapshot) -> set[str]:
        """The data files of a tag's snapshot."""
        if self._tag is None or _lists(self._tag) != _lists(snapshot):
            self._of_tag = live_file_names(reader, snapshot)
            self._tag = snapshot
        return self._of_tag

    def of_branches(self, reader: ManifestReader, branches: tuple[Snapshot, ...]) -> set[str]:
        """Files of any kind of all these snapshots."""
        if [_lists(snapshot) for snapshot in self._branches] != [_lists(snapshot) for snapshot in branches]:
            names = all_names(reader, branches)
            for snapshot in branches:
                names |= changelog_names(reader, snapshot)
            self._branches, self._of_branches = branches, names
        return self._of_branches


def _lists(snapshot: Snapshot) -> tuple[str | None, ...]:
    """The names of a snapshot's files."""
    return (
        snapshot.base_manifest_list,
        snapshot.delta_manifest_list,
        snapshot.changelog_manifest_list,
        snapshot.index_manifest,
        snapshot.statistics,
    )


@dataclass(slots=True)
class Held:
    """Snapshots of tags and branches, which stay when others expire. It reads the names of their files on demand."""

    reader: ManifestReader
    tags: tuple[Tag, ...]
    branches: tuple[Snapshot, ...]
    names: HeldNames

    @staticmethod
    def of(ctx: TableContext, names: HeldNames | None = None) -> Held:
        """All files that a table's tags and branches need now; the caller keeps ``names`` for the next call."""
        tags = TagStore(ctx.io, ctx.paths).all()
        branches = BranchStore(ctx.io, ctx.paths).roots()
        return Held(ManifestReader(ctx.io, ctx.paths), tuple(tags), tuple(branches), names or HeldNames())

    def files_when_deleted_by(self, snapshot_id: int) -> set[str]:
        """Data files that the nearest tag before this snapshot needs.

        A file that the snapshot deletes was live from some snapshot up to the one before it. If any tag has the file,
        the nearest tag has it.
        """
        before = (tag.snapshot for tag in self.tags if tag.snapshot.id < snapshot_id)
        nearest = max(before, key=lambda snapshot: snapshot.id, default=None)
        return set() if nearest is None else self.names.of_tag(self.reader, nearest)

    def files_of_branches(self) -> set[str]:
        """Files of any kind that branches need."""
        return self.names.of_branches(self.reader, self.branches)

    def metadata_of_tags(self, first_id: int, end_id: int) -> set[str]:
        """The metadata that tags need and that snapshots of [first, end) may share.

        It is the metadata of the tags in that range and of the last tag before it.

        A metadata file is in all snapshots from its first to its last.
        """
        before = max((tag.snapshot.id for tag in self.tags if tag.snapshot.id <= first_id), default=first_id)
        chosen = {t.snapshot.id: t.snapshot for t in self.tags if before <= t.snapshot.id < end_id}
        return {name for snapshot in chosen.values() for name in metadata_names(self.reader, snapshot)}

    def everything(self) -> set[str]:
        """All names that tags and branches need."""
        snapshots = {tag.snapshot.id: tag.snapshot for tag in self.tags}
        return all_names(self.reader, snapshots.values()) | self.files_of_branches()
