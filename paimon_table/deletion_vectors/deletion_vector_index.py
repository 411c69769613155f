"""The deletion vectors of one bucket, and the index file that holds them all.

Implements Paimon's deletion vector index file: a version byte, then one vector after the other. The index manifest has
the place of each vector. The file of a bucket never changes: the next file has all of the bucket's vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from paimon_table.deletion_vectors.deletion_vector import NOTHING_DELETED, DeletionVector, decode_vector, encode_vector
from paimon_table.errors import BrokenInvariant, CorruptFile
from paimon_table.metadata.index_file import DELETION_VECTORS, NO_INDEX_CHANGE, IndexChange, IndexFileMeta, VectorRange
from paimon_table.metadata.paths import TablePaths, external_file
from paimon_table.rows.words import Indices
from paimon_table.storage.file_io import FileIO

_VERSION = b"\x01"


def write_vectors(
    io: FileIO, paths: TablePaths, name: str, vectors: Mapping[str, DeletionVector], bitmap64: bool
) -> IndexFileMeta:
    """Write the vectors, by data file name, into one new index file, durable on return."""
    parts = [_VERSION]
    ranges = []
    size_bytes = len(_VERSION)
    for data_file, vector in vectors.items():
        encoded = encode_vector(vector, bitmap64)
        ranges.append(VectorRange(data_file, size_bytes, encoded.range_length, vector.cardinality))
        parts.append(encoded.data)
        size_bytes += len(encoded.data)
    io.write_all([(paths.index_file(name), b"".join(parts))])
    return IndexFileMeta(
        index_type=DELETION_VECTORS,
        file_name=name,
        file_size_bytes=size_bytes,
        row_count=len(ranges),
        vector_ranges=tuple(ranges),
    )


def read_vectors(
    io: FileIO, paths: TablePaths, files: Iterable[IndexFileMeta], data_files: Iterable[str] | None = None
) -> dict[str, DeletionVector]:
    """The vectors by data file name, for these data files or for all; leaves out data files without a vector.

    Raises CorruptFile if an index file is missing or contradicts the index manifest.
    """
    wanted = None if data_files is None else frozenset(data_files)
    vectors: dict[str, DeletionVector] = {}
    for file in files:
        ranges = [r for r in file.vector_ranges or () if wanted is None or r.data_file in wanted]
        if ranges:
            path = paths.index_file(file.file_name) if file.external_path is None else external_file(file.external_path)
            data = _read(io, path)
            if len(data) != file.file_size_bytes:
                raise CorruptFile(f"{path} has {len(data)} bytes instead of {file.file_size_bytes}; restore it")
            for r in ranges:
                vector = vectors[r.data_file] = decode_vector(data, r.offset, r.length, path)
                if r.cardinality not in (None, vector.cardinality):
                    raise CorruptFile(
                        f"{path} marks {vector.cardinality} rows of {r.data_file}, but the index manifest states "
                        f"{r.cardinality}; restore it from a backup"
                    )
    return vectors


def _read(io: FileIO, path: str) -> bytes:
    try:
        data = io.read(path)
    except FileNotFoundError as error:
        raise CorruptFile(
            f"{path} is missing; if its snapshot has expired, read a newer one, otherwise restore the file"
        ) from error
    if data[: len(_VERSION)] != _VERSION:
        raise CorruptFile(f"{path} is not an index file of version 1; restore it from a backup")
    return data


@dataclass(frozen=True, slots=True)
class DeletionsState:
    """The state of a ``BucketDeletions`` at a moment."""

    files: tuple[IndexFileMeta, ...]
    vectors: Mapping[str, DeletionVector] | None
    is_changed: bool


class BucketDeletions:
    """The deletion vectors of one bucket for its writer: those of the snapshot, and the changes by compaction.

    Not thread safe.
    """

    def __init__(
        self,
        io: FileIO,
        paths: TablePaths,
        files: Sequence[IndexFileMeta],
        new_name: Callable[[], str],
        bitmap64: bool = False,
    ) -> None:
        """``files`` are the bucket's deletion vector files in the snapshot; ``new_name`` names the next one."""
        self._io = io
        self._paths = paths
        self._files = tuple(files)
        self._new_name = new_name
        self._bitmap64 = bitmap64
        self._vectors: dict[str, DeletionVector] | None = None
        self._is_changed = False

    def of(self, data_file: str) -> DeletionVector | None:
        """The vector of a data file; None if all of its rows are live."""
        return self._loaded().get(data_file)

    def delete(self, data_file: str, positions: Indices) -> None:
        """Mark live rows as deleted; each position once."""
        if len(positions) == 0:
            return
        vectors = self._loaded()
        before = vectors.get(data_file, NOTHING_DELETED)
        after = before.with_deleted(positions)
        if after.cardinality != before.cardinality + len(positions):
            raise BrokenInvariant(f"rows of {data_file} were found although they are deleted: stop the writer")
        vectors[data_file] = after
        self._is_changed = True

    def forget(self, data_file: str) -> None:
        """Drop the vector of a data file that was rewritten without its deleted rows."""
        if self._loaded().pop(data_file, None) is not None:
            self._is_changed = True

    def write(self) -> IndexChange:
        """Write the changes since the snapshot or the last call; without vectors the bucket has no file."""
        if not self._is_changed:
            return NO_INDEX_CHANGE
        vectors = self._loaded()
        before = self._files
        if vectors:
            self._files = (write_vectors(self._io, self._paths, self._new_name(), vectors, self._bitmap64),)
        else:
            self._files = ()
        self._is_changed = False
        return IndexChange(before, self._files)

    def state(self) -> DeletionsState:
        """The current state, for ``restore``."""
        vectors = None if self._vectors is None else dict(self._vectors)
        return DeletionsState(self._files, vectors, self._is_changed)

    def restore(self, state: DeletionsState) -> None:
        """Return to ``state``: later changes were not committed."""
        self._files, self._is_changed = state.files, state.is_changed
        self._vectors = None if state.vectors is None else dict(state.vectors)

    def _loaded(self) -> dict[str, DeletionVector]:
        if self._vectors is None:
            self._vectors = read_vectors(self._io, self._paths, self._files)
        return self._vectors
