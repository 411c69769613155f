"""Manifest entries and the metadata of manifests as values, and functions on lists of them.

Implements Paimon's entry identity and its rule without order: the live files of a snapshot are all ADDs minus all
DELETE identities. The avro form is in ``manifest_codec``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.data_file import DataFileMeta, SimpleStats
from paimon_table.rows.binary_row import comparable_key, deserialize_row, serialize_row
from paimon_table.types import DataType

ADD = 0
DELETE = 1

Identity = tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]
"""(partition, bucket, level, file name, extra files, embedded index, external path)."""

Facts = tuple[int, bytes, int, int, int]
"""(kind, partition, bucket, level, schema id): the facts that the manifest list summarises."""


class Entry(Protocol):
    """A manifest entry, decoded or as stored."""

    @property
    def kind(self) -> int: ...

    @property
    def identity(self) -> Identity: ...

    @property
    def facts(self) -> Facts: ...


E = TypeVar("E", bound=Entry)


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One file added to or deleted from a bucket."""

    kind: int
    bucket: BucketId
    total_buckets: int
    file: DataFileMeta

    @property
    def identity(self) -> Identity:
        """The fields that a DELETE must repeat to retract an ADD. An identity that was deleted is never added again."""
        file = self.file
        return (
            self.bucket.partition,
            self.bucket.bucket,
            file.level,
            file.file_name,
            file.extra_files,
            file.embedded_index,
            file.external_path,
        )

    @property
    def facts(self) -> Facts:
        return self.kind, self.bucket.partition, self.bucket.bucket, self.file.level, self.file.schema_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFileMeta:
    """The metadata of one manifest in a manifest list. Readers skip a manifest whose counts are zero."""

    file_name: str
    file_size_bytes: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None

    def may_contain(self, buckets: Collection[int]) -> bool:
        """Whether the manifest may have an entry of these buckets; True if the range is unknown."""
        if self.min_bucket is None or self.max_bucket is None:
            return True
        return any(self.min_bucket <= bucket <= self.max_bucket for bucket in buckets)


def summarize(
    name: str, size_bytes: int, entries: Iterable[Entry], partition_types: Sequence[DataType]
) -> ManifestFileMeta:
    """The list entry of a manifest with exactly these entries (at least one)."""
    kinds, partitions, buckets, levels, schema_ids = zip(*(entry.facts for entry in entries), strict=True)
    added = kinds.count(ADD)
    return ManifestFileMeta(
        file_name=name,
        file_size_bytes=size_bytes,
        num_added_files=added,
        num_deleted_files=len(kinds) - added,
        partition_stats=partition_stats(set(partitions), partition_types),
        schema_id=max(schema_ids),
        min_bucket=min(buckets),
        max_bucket=max(buckets),
        min_level=min(levels),
        max_level=max(levels),
    )


def partition_stats(partitions: Collection[bytes], types: Sequence[DataType]) -> SimpleStats:
    """Minimum, maximum and null count of each partition column over distinct serialized partitions.

    Null counts are per partition, not per file, because readers only check whether they are zero.
    """
    if not types:
        return SimpleStats()
    nullable = [t.with_nullable(True) for t in types]
    rows = [(deserialize_row(p, nullable), comparable_key(p, nullable)) for p in partitions]
    lows: list[Any] = []
    highs: list[Any] = []
    nulls: list[int | None] = []
    for column in range(len(types)):
        present = [(order[column], values[column]) for values, order in rows if values[column] is not None]
        lows.append(min(present, key=lambda pair: pair[0])[1] if present else None)
        highs.append(max(present, key=lambda pair: pair[0])[1] if present else None)
        nulls.append(len(rows) - len(present))
    return SimpleStats(serialize_row(lows, nullable), serialize_row(highs, nullable), tuple(nulls))


def may_contain_partition(stats: SimpleStats, partition: bytes, types: Sequence[DataType]) -> bool:
    """Whether a manifest with these partition statistics can have an entry of the partition."""
    if not types or stats.min_values == EMPTY_ROW:
        return True
    nullable = [t.with_nullable(True) for t in types]
    wanted, low, high = (comparable_key(row, nullable) for row in (partition, stats.min_values, stats.max_values))
    values = deserialize_row(partition, nullable)
    for column, value in enumerate(values):
        if value is None:
            if column < len(stats.null_counts) and stats.null_counts[column] == 0:
                return False
        elif not low[column] <= wanted[column] <= high[column]:
            return False
    return True


def live_entries(entries: Iterable[E]) -> tuple[E, ...]:
    """The ADDs whose identity no DELETE names, in order, each once; the order of ADD and DELETE does not matter."""
    added: dict[Identity, E] = {}
    deleted: set[Identity] = set()
    for entry in entries:
        if entry.kind == ADD:
            added.setdefault(entry.identity, entry)
        else:
            deleted.add(entry.identity)
    return tuple(entry for identity, entry in added.items() if identity not in deleted)
