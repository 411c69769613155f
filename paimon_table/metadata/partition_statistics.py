"""The additions and removals of a commit in each partition, in the form for a server that keeps partition
statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from paimon_table.metadata.manifest import ADD, ManifestEntry
from paimon_table.metadata.paths import partition_texts
from paimon_table.metadata.table_context import TableContext


@dataclass(slots=True)
class PartitionStatistics:
    """Differences that one snapshot makes; counts of removals are negative."""

    spec: Mapping[str, str]
    """Texts of the partition's values by column; empty for a table without partitions."""
    total_buckets: int
    record_count: int = 0
    size_bytes: int = 0
    file_count: int = 0
    newest_file_ms: int = 0

    def as_json(self) -> dict[str, object]:
        return {
            "spec": dict(self.spec),
            "recordCount": self.record_count,
            "fileSizeInBytes": self.size_bytes,
            "fileCount": self.file_count,
            "lastFileCreationTime": self.newest_file_ms,
            "totalBuckets": self.total_buckets,
        }


def partition_statistics(ctx: TableContext, entries: Iterable[ManifestEntry]) -> list[PartitionStatistics]:
    """One for each partition of the entries, in the order of their first ones."""
    found: dict[bytes, PartitionStatistics] = {}
    for entry in entries:
        partition, file = entry.bucket.partition, entry.file
        if partition not in found:
            values, fields = ctx.partition_values(partition), ctx.schema.partition_fields
            found[partition] = PartitionStatistics(partition_texts(values, fields, ctx.options), entry.total_buckets)
        sum_, sign = found[partition], 1 if entry.kind == ADD else -1
        sum_.record_count += sign * file.row_count
        sum_.size_bytes += sign * file.file_size_bytes
        sum_.file_count += sign
        sum_.newest_file_ms = max(sum_.newest_file_ms, _instant_ms(file.creation_time_ms or 0))
        sum_.total_buckets = entry.total_buckets
    return list(found.values())


def _instant_ms(wall_clock_ms: int) -> int:
    """The moment of a time of this machine's wall clock, which files have without its zone."""
    wall_clock = datetime.fromtimestamp(wall_clock_ms / 1000, UTC).replace(tzinfo=None)
    return int(wall_clock.timestamp() * 1000)
