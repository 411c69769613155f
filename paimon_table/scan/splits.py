"""Divides the files of a snapshot into splits that can be read independently.

Implements Paimon's batch plan. With a primary key, overlapping files of one bucket form a section and are merged
together. Sections are packed, in key order, into splits of about the target size. Without a primary key every file is a
section. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from paimon_table.mergetree.arrival import Arrived, in_order
from paimon_table.mergetree.levels import KeyOf
from paimon_table.mergetree.sections import Ranged, Section, SectionOf, partition
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.index_file import IndexFileMeta

TARGET_BYTES = 128 << 20
"""The target size of a split; a larger section becomes a separate split."""

OPEN_COST_BYTES = 4 << 20
"""The cost of opening a file, in bytes, so that one split does not get too many tiny files."""


class Listed(Arrived, Ranged, Protocol):
    """The metadata of a file in a split, as a value or as the row of its manifest."""

    @property
    def file_size_bytes(self) -> int: ...

    @property
    def level(self) -> int: ...

    @property
    def delete_row_count(self) -> int | None: ...


F = TypeVar("F", bound=Listed)


@dataclass(frozen=True, slots=True)
class Split:
    """Sections of one bucket, in key order or without keys in order of arrival. No two splits share a key."""

    bucket: BucketId
    sections: tuple[Section, ...]
    deletion_files: tuple[IndexFileMeta, ...] = ()
    """The index files with only the deletion vectors of the split's files."""

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        return tuple(f for section in self.sections for run in section for f in run)


def split_bucket(
    bucket: BucketId,
    files: Sequence[DataFileMeta],
    key_of: KeyOf,
    target_bytes: int = TARGET_BYTES,
    *,
    deletion_files: Sequence[IndexFileMeta] = (),
    keys_are_unique: bool = False,
) -> tuple[Split, ...]:
    """Divide the live files of one bucket into splits.

    ``deletion_files`` are the deletion files of the bucket; for the rest see ``keyed_sections``.
    """
    packed = pack(keyed_sections(files, key_of, keys_are_unique=keys_are_unique), target_bytes)
    splits = [Split(bucket, sections) for sections in packed]
    return tuple(
        replace(split, deletion_files=vectors_of({f.file_name for f in split.files}, deletion_files))
        for split in splits
    )


def keyed_sections(files: Sequence[F], key_of: KeyOf, *, keys_are_unique: bool) -> Sequence[SectionOf[F]]:
    """The files that must be merged together, in key order.

    ``keys_are_unique``: levels above 0 have at most one live row of each key, so they need no merge.
    """
    levels = {file.level for file in files}
    keys_are_unique &= not any(file.delete_row_count for file in files)
    if 0 not in levels and (len(levels) == 1 or keys_are_unique):
        return [((file,),) for file in files]
    return partition(files, key_of)


def unkeyed_sections(files: Sequence[F]) -> Sequence[SectionOf[F]]:
    """The sections of a table without primary key: each file is a section, in the order in which rows were written."""
    return [((file,),) for file in in_order(files)]


def pack(sections: Iterable[SectionOf[F]], target_bytes: int = TARGET_BYTES) -> list[tuple[SectionOf[F], ...]]:
    """Groups of sections, one for each split."""
    packed: list[tuple[SectionOf[F], ...]] = []
    current: list[SectionOf[F]] = []
    size_bytes = 0
    for section in sections:
        weight = sum([max(f.file_size_bytes, OPEN_COST_BYTES) for run in section for f in run])
        if current and size_bytes + weight > target_bytes:
            packed.append(tuple(current))
            current, size_bytes = [], 0
        current.append(section)
        size_bytes += weight
    if current:
        packed.append(tuple(current))
    return packed


def vectors_of(names: Collection[str], deletion_files: Sequence[IndexFileMeta]) -> tuple[IndexFileMeta, ...]:
    """The index files with only the vectors of these data files."""
    narrowed = [
        replace(index, vector_ranges=tuple(r for r in index.vector_ranges or () if r.data_file in names))
        for index in deletion_files
    ]
    return tuple(index for index in narrowed if index.vector_ranges)
