"""Orphans: files of a table that nothing references, left by writers that were killed before they published.

Implements Paimon's clean-up of orphan files, with narrower rules. It removes a file only if three conditions hold. The
file has a name of Paimon's writers, and it is older than the longest commit. No snapshot, changelog or tag of the table
or of a branch refers to its name.

Files of other tables stay: the search does not follow links, and skips directories that contain a table.

Why no referenced file is removed: files are listed before references are read, and references are read again until
nothing new was published. A listed file that is published later was written more than ``older_than_ms`` ago, so its
commit took that long. References to an expired file never return.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from paimon_table.errors import ConfigError
from paimon_table.maintenance.file_kinds import (
    BRANCHED,
    SHARED,
    FileKind,
    FileNamesOf,
    is_own_directory,
    kind_in,
)
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.references import References
from paimon_table.metadata.holders import branches, names_in
from paimon_table.side_by_side import in_parallel, waits_at_once
from paimon_table.storage.file_io import FoundFile
from paimon_table.table import Table

LEAST_AGE_MS = 24 * 3_600_000
"""Paimon's limit for the time from the first file of a commit to its snapshot."""


@dataclass(frozen=True, slots=True)
class Orphan:
    """A file that nothing references."""

    path: str
    size_bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Orphans:
    """The findings of a search."""

    files: tuple[Orphan, ...] = ()
    """The files to remove, by path."""
    young: tuple[Orphan, ...] = ()
    """Unreferenced files that are so young that a writer may still publish them."""
    unknown: tuple[str, ...] = ()
    """Paths of files and directories that do not belong to a Paimon table; the directories were not searched."""
    file_count: int = 0
    """The number of files that were checked."""
    references: References | None = field(default=None, repr=False, compare=False)
    """The references of the table read so far."""


def check_age(older_than_ms: int, *, nobody_writes: bool) -> None:
    """Raises ConfigError for an age at which a file may still be published, unless ``nobody_writes``."""
    if older_than_ms < LEAST_AGE_MS and not nobody_writes:
        raise ConfigError(
            "files younger than a day may belong to a running commit, which would lose rows without them: set an age "
            "of at least 1d. If nothing writes to the table, use --nobody-writes"
        )


def find_orphans(table: Table, job: Job, older_than_ms: int) -> Orphans:
    """Find files that nothing references; changes nothing. Raises CorruptFile if a reference cannot be read."""
    limit_ms = job.environment.clock_ms() - older_than_ms
    walk = _Walk(table)
    job.progress.begin("list directories", 0, "files")
    candidates = list(walk.candidates())
    references = References(table.io, table.paths)
    while references.refresh(
        lambda count: job.progress.begin("read what is referred to", count, "snapshots"),
        lambda: job.progress.advance(1),
    ):
        pass
    unreferenced = [orphan for orphan in candidates if orphan.path.rpartition("/")[2] not in references.names]
    old = [orphan for orphan in unreferenced if orphan.modified_ms < limit_ms]
    young = [orphan for orphan in unreferenced if orphan.modified_ms >= limit_ms]
    return Orphans(_sorted(old), _sorted(young), tuple(sorted(walk.unknown)), walk.file_count, references)


def remove_orphans(table: Table, orphans: Orphans, job: Job) -> tuple[Orphan, ...]:
    """Remove the files of ``find_orphans``; returns the removed ones.

    It first reads newer snapshots, whose files stay.
    """
    references = orphans.references or References(table.io, table.paths)
    while references.refresh(lambda _: None, lambda: None):
        pass
    job.progress.begin("remove", len(orphans.files), "files")
    removed = []
    for orphan in orphans.files:
        if orphan.path.rpartition("/")[2] not in references.names:
            # Unreferenced: by nothing published before or after it was listed, and too old for a commit in progress.
            table.io.delete(orphan.path)
            removed.append(orphan)
        job.progress.advance(1)
    return tuple(removed)


def _sorted(orphans: Sequence[Orphan]) -> tuple[Orphan, ...]:
    return tuple(sorted(orphans, key=lambda orphan: orphan.path))


class _Walk:
    """The directories of a table, each listed once."""

    def __init__(self, table: Table) -> None:
        self.unknown: list[str] = []
        self.file_count = 0
        self._io = table.io
        self._root = table.paths.root
        self._at_once = waits_at_once(self._root)
        self._names = FileNamesOf.of(tuple(table.context.schemas.values()))
        self._branches = branches(table.io, table.paths)

    def candidates(self) -> Iterator[Orphan]:
        """Files that go when nothing refers to them; the others are counted, or noted as unknown."""
        plain = {f"{self._root}/{name}": name for name in (*BRANCHED, *SHARED)}
        plain |= {f"{paths.root}/{name}": name for paths in self._branches.values() for name in BRANCHED}
        for directory, files in in_parallel(self._files, plain, self._at_once):
            yield from self._sort(directory, files, partial(kind_in, plain[directory]))
        for directory, files in in_parallel(self._files, self._buckets(), self._at_once):
            yield from self._sort(directory, files, self._names.in_bucket)
        yield from self._sort(self._root, self._files(self._root), partial(kind_in, ""))

    def _sort(self, directory: str, files: Sequence[FoundFile], kind_of: Callable[[str], FileKind]) -> Iterator[Orphan]:
        for file in files:
            self.file_count += 1
            match kind_of(file.name):
                case FileKind.PAYLOAD:
                    yield Orphan(f"{directory}/{file.name}", file.size_bytes, file.modified_ms)
                case FileKind.UNKNOWN:
                    self.unknown.append(f"{directory}/{file.name}")

    def _buckets(self) -> list[str]:
        """The directories of buckets, level by level; other entries that are not files are noted as unknown.

        Links and directories that contain a table are unknown too, because their files may belong to other tables.
        """
        names, above, buckets = self._names, [self._root], []
        for level in range(len(names.partition_keys) + 1):
            below = []
            for directory, found in in_parallel(self._directories, above, self._at_once):
                if level > 0 and any(is_own_directory(name) for name in found):
                    self.unknown.append(directory)
                    continue
                for name in found:
                    path = f"{directory}/{name}"
                    is_of_rows = names.is_bucket(level, name) or names.is_partition(level, name)
                    if is_of_rows and self._io.is_link(path):
                        self.unknown.append(path)
                    elif names.is_bucket(level, name):
                        buckets.append(path)
                    elif names.is_partition(level, name):
                        below.append(path)
                    elif level > 0 or not is_own_directory(name):
                        self.unknown.append(path)
            above = below
        return buckets

    def _directories(self, directory: str) -> list[str]:
        files = {file.name for file in self._files(directory)}
        return [name for name in names_in(self._io, directory) if name not in files]

    def _files(self, directory: str) -> list[FoundFile]:
        try:
            return self._io.list_files(directory)
        except NotADirectoryError:
            return []
