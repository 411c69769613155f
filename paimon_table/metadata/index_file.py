"""The metadata of one index file in the index manifest, as immutable values.

Implements the record of Paimon's index manifest without its place (partition and bucket).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paimon_table.metadata.snapshot import SnapshotIdentity

DELETION_VECTORS = "DELETION_VECTORS"
"""Index type: one deletion vector per data file."""

HASH = "HASH"
"""Index type: the key hashes of a dynamic bucket."""


@dataclass(frozen=True, slots=True)
class VectorRange:
    """The place of a data file's deletion vector in its index file, and the number of rows that it marks."""

    data_file: str
    offset: int
    length: int
    """The stored length, whose meaning depends on the version of the vector."""
    cardinality: int | None = None
    """None: an older writer did not record it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFileMeta:
    """Metadata of one index file. Index files are written once and replaced as a whole."""

    index_type: str
    file_name: str
    file_size_bytes: int
    row_count: int
    """The number of deletion vectors, or of hashes."""
    vector_ranges: tuple[VectorRange, ...] | None = None
    external_path: str | None = None
    global_index: Mapping[str, Any] | None = None
    """The stored metadata of an index over all buckets, which Tidemark copies without reading."""


@dataclass(frozen=True, slots=True)
class IndexChange:
    """The index files of a bucket that a commit removes, and the files that replace them."""

    before: tuple[IndexFileMeta, ...] = ()
    after: tuple[IndexFileMeta, ...] = ()
    seen: frozenset[tuple[int, str]] | None = None
    """Bucket and name of all HASH files of the partition by which rows were assigned to buckets.

    None: the assignment did not use them.
    """
    keys_seen: SnapshotIdentity | None = None
    """The snapshot whose keys, over all partitions, decided the places of the rows. None: no snapshot did.

    Rows that other writers added later may have the same keys in other places.
    """

    @property
    def is_empty(self) -> bool:
        return not (self.before or self.after)


NO_INDEX_CHANGE = IndexChange()
