"""The deletion vectors of one bucket and their index file."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from paimon_table.deletion_vectors.deletion_vector import NOTHING_DELETED, DeletionVector
from paimon_table.deletion_vectors.deletion_vector_index import BucketDeletions, read_vectors, write_vectors
from paimon_table.errors import BrokenInvariant, CorruptFile
from paimon_table.metadata.index_file import NO_INDEX_CHANGE, IndexFileMeta, VectorRange
from paimon_table.metadata.paths import TablePaths
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO
from tests.support.vectors import JAVA_V1, vector

PATHS = TablePaths("/w/t")


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


def positions(vectors: dict[str, DeletionVector]) -> dict[str, list[int]]:
    return {name: found.positions.tolist() for name, found in vectors.items()}


def at(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def test_an_index_file_is_the_one_of_java(disk: MemoryDisk) -> None:
    meta = write_vectors(MemoryFileIO(disk), PATHS, "index-u-0", {"data-1.parquet": vector(1, 2)}, bitmap64=False)
    assert disk.files["/w/t/index/index-u-0"] == b"\x01" + JAVA_V1
    assert meta.vector_ranges == (VectorRange("data-1.parquet", 1, 24, 2),)
    assert (meta.file_size_bytes, meta.row_count, meta.index_type) == (33, 1, "DELETION_VECTORS")


@pytest.mark.parametrize("bitmap64", [False, True])
def test_vectors_are_read_back_all_or_some(disk: MemoryDisk, bitmap64: bool) -> None:
    io = MemoryFileIO(disk)
    written = {"a": vector(0, 7), "b": vector(*range(5000)), "c": vector(3)}
    meta = write_vectors(io, PATHS, "index-u-0", written, bitmap64)
    assert positions(read_vectors(io, PATHS, [meta])) == positions(written)
    assert positions(read_vectors(io, PATHS, [meta], ["c", "x"])) == {"c": [3]}
    assert read_vectors(io, PATHS, [meta], ["x"]) == {}


def test_a_file_outside_of_the_table_is_read_at_its_path(disk: MemoryDisk) -> None:
    io = MemoryFileIO(disk)
    disk.files["/elsewhere/i"] = b"\x01" + JAVA_V1
    meta = IndexFileMeta(
        index_type="DELETION_VECTORS", file_name="i", file_size_bytes=33, row_count=1, external_path="/elsewhere/i",
        vector_ranges=(VectorRange("a", 1, 24, 2),),
    )  # fmt: skip
    assert positions(read_vectors(io, PATHS, [meta])) == {"a": [1, 2]}


def test_missing_and_foreign_files_are_refused(disk: MemoryDisk) -> None:
    io = MemoryFileIO(disk)
    meta = write_vectors(io, PATHS, "index-u-0", {"a": vector(1)}, bitmap64=False)
    disk.files["/w/t/index/index-u-0"] = b"\x02" + disk.files["/w/t/index/index-u-0"][1:]
    with pytest.raises(CorruptFile, match="not an index file of version 1"):
        read_vectors(io, PATHS, [meta])
    del disk.files["/w/t/index/index-u-0"]
    with pytest.raises(CorruptFile, match="is missing"):
        read_vectors(io, PATHS, [meta])


def bucket(disk: MemoryDisk, files: tuple[IndexFileMeta, ...] = ()) -> BucketDeletions:
    numbers = itertools.count(len(disk.files))
    return BucketDeletions(MemoryFileIO(disk), PATHS, files, lambda: f"index-u-{next(numbers)}")


def test_the_next_file_holds_all_vectors_and_replaces_the_one_before(disk: MemoryDisk) -> None:
    deletions = bucket(disk)
    assert deletions.write() is NO_INDEX_CHANGE
    deletions.delete("a", at(5, 1))
    first = deletions.write()
    assert (first.before, len(first.after)) == ((), 1)
    again = bucket(disk, first.after)
    again.delete("a", at(2))
    again.delete("b", at(0))
    second = again.write()
    assert second.before == first.after
    assert positions(read_vectors(MemoryFileIO(disk), PATHS, second.after)) == {"a": [1, 2, 5], "b": [0]}
    assert again.write() is NO_INDEX_CHANGE


def test_without_vectors_no_file_is_left(disk: MemoryDisk) -> None:
    deletions = bucket(disk)
    deletions.delete("a", at(1))
    first = deletions.write()
    deletions.forget("a")
    change = deletions.write()
    assert (change.before, change.after) == (first.after, ())
    assert deletions.of("a") is None


def test_nothing_is_written_for_rows_that_came_and_went_or_never_were(disk: MemoryDisk) -> None:
    deletions = bucket(disk)
    deletions.delete("a", at())
    deletions.forget("b")
    deletions.delete("c", at(1))
    deletions.forget("c")
    assert deletions.write() == NO_INDEX_CHANGE
    assert disk.files == {}


def test_a_row_is_deleted_once(disk: MemoryDisk) -> None:
    deletions = bucket(disk)
    deletions.delete("a", at(1, 2))
    with pytest.raises(BrokenInvariant, match="although they are deleted"):
        deletions.delete("a", at(2, 3))


def test_a_file_without_a_vector_has_none(disk: MemoryDisk) -> None:
    assert bucket(disk).of("a") is None
    assert NOTHING_DELETED.cardinality == 0
