"""Index files of dynamic buckets: the hashes of all keys that were ever added to a bucket.

Implements Paimon's HASH index file: a sequence of big-endian 32-bit hashes in any order; Tidemark sorts them.

The name of Tidemark's files ends with a checksum of the bytes, for which the format has no place, and with a number of
assigners. Every hash h in the file belongs to the assigner |h % assigners|, which owns the bucket. So the index
manifest shows the possible numbers of assigners of a partition, without reading the files. The number is part of the
file, so it stays correct, whichever process commits.
"""

from __future__ import annotations

import re
import zlib

import numpy as np
import numpy.typing as npt

from paimon_table.errors import CorruptFile
from paimon_table.metadata.index_file import HASH, IndexFileMeta
from paimon_table.metadata.paths import TablePaths, external_file
from paimon_table.storage.file_io import FileIO

KeyHashes = npt.NDArray[np.int32]
"""Sorted, each once."""

_STORED = np.dtype(">i4")
_NAME = re.compile(r"index-.*-([0-9a-f]{8})-of-([1-9]\d*)")


def assigners_of(file: IndexFileMeta) -> int | None:
    """The number of assigners in the name of the file; None if its writer did not record it."""
    found = _NAME.fullmatch(file.file_name)
    return int(found[2]) if found else None


def write_hashes(io: FileIO, paths: TablePaths, uuid: str, assigners: int, hashes: KeyHashes) -> IndexFileMeta:
    """Write one new index file, which is durable after ``FileIO.sync``.

    All hashes must belong to the assigner that owns the bucket.
    """
    data = hashes.astype(_STORED).view(np.uint8).data
    name = f"index-{uuid}-{zlib.crc32(data):08x}-of-{assigners}"
    with io.open_output(paths.index_file(name)) as stream:
        stream.write(data)
    return IndexFileMeta(index_type=HASH, file_name=name, file_size_bytes=len(data), row_count=len(hashes))


def hash_index_path(paths: TablePaths, file: IndexFileMeta) -> str:
    """The path of the file."""
    return paths.index_file(file.file_name) if file.external_path is None else external_file(file.external_path)


def read_hashes(io: FileIO, paths: TablePaths, file: IndexFileMeta) -> KeyHashes:
    """The hashes of one file; raises CorruptFile if it is missing or contradicts the index manifest."""
    path = hash_index_path(paths, file)
    try:
        data = io.read(path)
    except FileNotFoundError as error:
        raise CorruptFile(f"index file {path} is missing; restore it, or let a writer rebuild it") from error
    if len(data) != file.file_size_bytes or len(data) != file.row_count * _STORED.itemsize:
        raise CorruptFile(
            f"index file {path} has {len(data)} bytes instead of {file.file_size_bytes}; restore it, or let a writer "
            "rebuild it"
        )
    found = _NAME.fullmatch(file.file_name)
    if found is not None and int(found[1], 16) != zlib.crc32(data):
        raise CorruptFile(
            f"index file {path} is damaged: its content is not what was written; restore it, or let a writer rebuild it"
        )
    hashes = np.frombuffer(data, _STORED).astype(np.int32)
    return hashes if bool(np.all(hashes[1:] > hashes[:-1])) else distinct(hashes)


def distinct(hashes: npt.NDArray[np.int32]) -> KeyHashes:
    """The hashes sorted, each once. ``np.unique`` first builds a hash table, which takes far longer for millions of
    hashes."""
    ordered = np.sort(hashes)
    return ordered[np.r_[True, ordered[1:] != ordered[:-1]]] if len(ordered) else ordered
