"""Bytes and names of the index files of dynamic buckets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from paimon_table.errors import CorruptFile
from paimon_table.metadata.hash_index import assigners_of, read_hashes, write_hashes
from paimon_table.metadata.index_file import HASH, IndexFileMeta
from paimon_table.metadata.paths import TablePaths
from paimon_table.storage.memory_io import MemoryFileIO

PATHS = TablePaths("/w/t")


def test_hashes_are_stored_as_java_stores_them() -> None:
    io = MemoryFileIO()
    file = write_hashes(io, PATHS, "a", 4, np.array([-5, 1465514398], np.int32))
    assert io.read(PATHS.index_file(file.file_name)).hex() == "fffffffb" + "5759f99e"
    assert (file.index_type, file.file_size_bytes, file.row_count) == (HASH, 8, 2)
    assert read_hashes(io, PATHS, file).tolist() == [-5, 1465514398]


def test_files_of_others_are_in_any_order() -> None:
    io = MemoryFileIO()
    io.write(PATHS.index_file("index-x-0"), bytes.fromhex("00000007fffffffb00000001"))
    file = IndexFileMeta(index_type=HASH, file_name="index-x-0", file_size_bytes=12, row_count=3)
    assert read_hashes(io, PATHS, file).tolist() == [-5, 1, 7]


def test_damage_is_told() -> None:
    io = MemoryFileIO()
    file = write_hashes(io, PATHS, "a", 4, np.arange(4, dtype=np.int32))
    with pytest.raises(CorruptFile, match="has 16 bytes instead of 20"):
        read_hashes(io, PATHS, replace(file, file_size_bytes=20, row_count=5))
    other = write_hashes(io, PATHS, "b", 4, np.arange(4, 8, dtype=np.int32))
    io.delete(PATHS.index_file(file.file_name))
    io.write(PATHS.index_file(file.file_name), io.read(PATHS.index_file(other.file_name)))
    with pytest.raises(CorruptFile, match="is damaged: its content is not what was written"):
        read_hashes(io, PATHS, file)
    io.delete(PATHS.index_file(file.file_name))
    with pytest.raises(CorruptFile, match="is missing"):
        read_hashes(io, PATHS, file)


def test_own_names_say_the_number_of_assigners() -> None:
    uuid = "0c9c3c7a-0000-4000-8000-000000000000"
    file = write_hashes(MemoryFileIO(), PATHS, uuid, 12, np.empty(0, np.int32))
    assert file.file_name == f"index-{uuid}-00000000-of-12"
    assert assigners_of(file) == 12


@pytest.mark.parametrize(
    "name",
    [
        "index-0c9c3c7a-0000-4000-8000-000000000000-0",
        "index-0c9c3c7a-0000-4000-8000-000000000000-of-4",
        "index-a-00000000-of-0",
        "index-a-00000000-of-4-0",
    ],
)
def test_names_of_others_promise_nothing(name: str) -> None:
    file = IndexFileMeta(index_type=HASH, file_name=name, file_size_bytes=0, row_count=0)
    assert assigners_of(file) is None
