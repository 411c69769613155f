"""The live files of many buckets for tasks that need few of them: packed bucket by bucket, once each.

A table with a hundred thousand data files has fifty megabytes of metadata. A small batch needs and changes very little
of it. So each bucket is pickled and compressed separately, only if its files have changed, and a task unpacks only the
buckets that it needs.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.table_state import LiveFiles

_CODEC = "zstd"
_FEW_FILES = 1000
"""Tables with fewer files are not packed."""


@dataclass(frozen=True, slots=True, eq=False)
class PackedFiles(Mapping[BucketId, tuple[DataFileMeta, ...]]):
    """The live files by bucket; each access unpacks them."""

    packed: Mapping[BucketId, tuple[int, bytes]]
    """The size of the pickled files, and their compressed bytes."""

    def __getitem__(self, bucket: BucketId) -> tuple[DataFileMeta, ...]:
        size_bytes, data = self.packed[bucket]
        files: tuple[DataFileMeta, ...] = pickle.loads(pa.decompress(data, size_bytes, _CODEC, asbytes=True))
        return files

    def __iter__(self) -> Iterator[BucketId]:
        return iter(self.packed)

    def __len__(self) -> int:
        return len(self.packed)

    def __contains__(self, bucket: object) -> bool:
        return bucket in self.packed


@dataclass(slots=True)
class FilePacker:
    """Packs the live files of one table repeatedly; caches the packed files of each bucket."""

    _known: dict[BucketId, tuple[tuple[DataFileMeta, ...], tuple[int, bytes]]] = field(default_factory=dict)

    def pack(self, live: LiveFiles) -> LiveFiles:
        """The same files, with a small pickle."""
        if sum(map(len, live.files.values())) < _FEW_FILES:
            self._known.clear()
            return live
        known, self._known = self._known, {}
        for bucket, files in live.files.items():
            before = known.get(bucket)
            self._known[bucket] = before if before is not None and before[0] is files else (files, _packed(files))
        return replace(live, files=PackedFiles({bucket: packed for bucket, (_, packed) in self._known.items()}))


def _packed(files: tuple[DataFileMeta, ...]) -> tuple[int, bytes]:
    data = pickle.dumps(files)
    return len(data), pa.compress(data, _CODEC, asbytes=True)
