"""Holders: the snapshots, long-lived changelogs and tags of a table and its branches, which need files of the table.

Implements the places of their files. A branch has its snapshots, changelogs and tags in ``branch/branch-NAME``; the
files that they name are in the directories of the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from paimon_table.metadata.paths import TablePaths
from paimon_table.metadata.snapshot import Snapshot, from_json
from paimon_table.storage.file_io import FileIO, numbers_of

_BRANCH = "branch-"


class Holding(StrEnum):
    """The kind of a holder; all kinds have the layout of a snapshot."""

    SNAPSHOT = "snapshot"
    CHANGELOG = "changelog"
    """An expired snapshot with its changelog: its data files if the table has no changelog producer."""
    TAG = "tag"


@dataclass(frozen=True, slots=True)
class Holder:
    """One holder."""

    kind: Holding
    name: str
    """The number of the snapshot or the name of the tag."""
    path: str
    branch: str | None = None
    """The branch; None: the table itself."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f" of branch {self.branch}" if self.branch else "")

    @property
    def may_lack_changelog(self) -> bool:
        """Whether the changelog that it names may be missing: it expires with the snapshot, and tags do not keep it.

        The first snapshot of a branch is that of a tag.
        """
        return self.kind is Holding.TAG or self.branch is not None

    def read(self, io: FileIO) -> Snapshot:
        """Its content; raises FileNotFoundError if it no longer exists, CorruptFile if it cannot be read."""
        return from_json(io.read(self.path), self.path)


def branches(io: FileIO, paths: TablePaths) -> dict[str, TablePaths]:
    """The branches by their names, each with the paths of its own schemas, snapshots, changelogs and tags."""
    directory = f"{paths.root}/branch"
    found = [name for name in names_in(io, directory) if name.startswith(_BRANCH)]
    return {name.removeprefix(_BRANCH): TablePaths(f"{directory}/{name}") for name in found}


def holders(io: FileIO, paths: TablePaths) -> Iterator[Holder]:
    """The current holders.

    Each kind is listed only when it is reached, and after the kinds that may become it. If a snapshot expires during
    the listing, its changelog or tag is still found later.
    """
    yield from _holders_of(io, paths, None)
    for name, branch in branches(io, paths).items():
        yield from _holders_of(io, branch, name)


def _holders_of(io: FileIO, paths: TablePaths, branch: str | None) -> Iterator[Holder]:
    for kind in (Holding.SNAPSHOT, Holding.CHANGELOG):
        directory = f"{paths.root}/{kind}"
        for number in sorted(numbers_of(names_in(io, directory), f"{kind}-")):
            yield Holder(kind, str(number), f"{directory}/{kind}-{number}", branch)
    for name in names_in(io, f"{paths.root}/tag"):
        if name.startswith("tag-"):
            yield Holder(Holding.TAG, name.removeprefix("tag-"), f"{paths.root}/tag/{name}", branch)


def names_in(io: FileIO, directory: str) -> list[str]:
    """The names in a directory; none if it does not exist or is a file."""
    try:
        return io.list_names(directory)
    except NotADirectoryError:
        return []
