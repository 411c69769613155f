"""A manifest entry as one flat row, for manifests with a hundred thousand entries.

Creating a row takes a fifth of the time of the objects in ``manifest`` and ``data_file``. Scans choose files by these
rows, and create objects only for the chosen files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.data_file import DataFileMeta, SimpleStats
from paimon_table.metadata.manifest import ADD, Facts, Identity, ManifestEntry, live_entries


class EntryRow(NamedTuple):
    """The values of one entry, named as in ``DataFileMeta``; each kind of statistics has three parts."""

    kind: int
    partition: bytes
    bucket: int
    total_buckets: int
    file_name: str
    file_size_bytes: int
    row_count: int
    min_key: bytes
    max_key: bytes
    key_low: bytes
    key_high: bytes
    key_null_counts: tuple[int | None, ...] | None
    value_low: bytes
    value_high: bytes
    value_null_counts: tuple[int | None, ...] | None
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...]
    creation_time_ms: int | None
    delete_row_count: int | None
    embedded_index: bytes | None
    file_source: int | None
    value_stats_cols: tuple[str, ...] | None
    external_path: str | None
    first_row_id: int | None
    write_cols: tuple[str, ...] | None

    @property
    def identity(self) -> Identity:
        """As of ``ManifestEntry``."""
        return (
            self.partition,
            self.bucket,
            self.level,
            self.file_name,
            self.extra_files,
            self.embedded_index,
            self.external_path,
        )

    @property
    def facts(self) -> Facts:
        """As of ``ManifestEntry``."""
        return self.kind, self.partition, self.bucket, self.level, self.schema_id

    @property
    def file(self) -> DataFileMeta:
        """The metadata of the file as a value."""
        return DataFileMeta(
            file_name=self.file_name,
            file_size_bytes=self.file_size_bytes,
            row_count=self.row_count,
            min_key=self.min_key,
            max_key=self.max_key,
            key_stats=SimpleStats(self.key_low, self.key_high, self.key_null_counts or ()),
            value_stats=SimpleStats(self.value_low, self.value_high, self.value_null_counts or ()),
            min_sequence_number=self.min_sequence_number,
            max_sequence_number=self.max_sequence_number,
            schema_id=self.schema_id,
            level=self.level,
            extra_files=self.extra_files,
            creation_time_ms=self.creation_time_ms,
            delete_row_count=self.delete_row_count,
            embedded_index=self.embedded_index,
            file_source=self.file_source,
            value_stats_cols=self.value_stats_cols,
            external_path=self.external_path,
            first_row_id=self.first_row_id,
            write_cols=self.write_cols,
        )


_FILE = "_FILE"

ENTRY_PATHS: Mapping[str, tuple[str, ...]] = {
    "kind": ("_KIND",),
    "partition": ("_PARTITION",),
    "bucket": ("_BUCKET",),
    "total_buckets": ("_TOTAL_BUCKETS",),
    "file_name": (_FILE, "_FILE_NAME"),
    "file_size_bytes": (_FILE, "_FILE_SIZE"),
    "row_count": (_FILE, "_ROW_COUNT"),
    "min_key": (_FILE, "_MIN_KEY"),
    "max_key": (_FILE, "_MAX_KEY"),
    "key_low": (_FILE, "_KEY_STATS", "_MIN_VALUES"),
    "key_high": (_FILE, "_KEY_STATS", "_MAX_VALUES"),
    "key_null_counts": (_FILE, "_KEY_STATS", "_NULL_COUNTS"),
    "value_low": (_FILE, "_VALUE_STATS", "_MIN_VALUES"),
    "value_high": (_FILE, "_VALUE_STATS", "_MAX_VALUES"),
    "value_null_counts": (_FILE, "_VALUE_STATS", "_NULL_COUNTS"),
    "min_sequence_number": (_FILE, "_MIN_SEQUENCE_NUMBER"),
    "max_sequence_number": (_FILE, "_MAX_SEQUENCE_NUMBER"),
    "schema_id": (_FILE, "_SCHEMA_ID"),
    "level": (_FILE, "_LEVEL"),
    "extra_files": (_FILE, "_EXTRA_FILES"),
    "creation_time_ms": (_FILE, "_CREATION_TIME"),
    "delete_row_count": (_FILE, "_DELETE_ROW_COUNT"),
    "embedded_index": (_FILE, "_EMBEDDED_FILE_INDEX"),
    "file_source": (_FILE, "_FILE_SOURCE"),
    "value_stats_cols": (_FILE, "_VALUE_STATS_COLS"),
    "external_path": (_FILE, "_EXTERNAL_PATH"),
    "first_row_id": (_FILE, "_FIRST_ROW_ID"),
    "write_cols": (_FILE, "_WRITE_COLS"),
}
"""The place of each value of a row in a record of a manifest."""


def entries_of_rows(rows: Iterable[EntryRow]) -> tuple[ManifestEntry, ...]:
    """The rows as manifest entries, in order."""
    buckets = KnownBuckets()
    return tuple(
        ManifestEntry(row.kind, buckets[row.partition, row.bucket], row.total_buckets, row.file) for row in rows
    )


class KnownBuckets(dict[tuple[bytes, int], BucketId]):
    """Bucket ids by partition and number, so that entries of a bucket share one value."""

    def __missing__(self, place: tuple[bytes, int]) -> BucketId:
        bucket = self[place] = BucketId(*place)
        return bucket


def live_rows(rows: Sequence[EntryRow]) -> Sequence[EntryRow]:
    """As ``live_entries``."""
    names: set[Any] = {row.file_name for row in rows}
    if len(names) == len(rows) and all(row.kind == ADD for row in rows):
        return rows  # no deletes, so names are unique
    return live_entries(rows)
