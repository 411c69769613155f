"""The place of rows in a table: the identity of a bucket."""

from __future__ import annotations

from dataclasses import dataclass

POSTPONED = -2
"""The bucket of rows that wait for a compaction to get a bucket; readers do not show them before."""

DYNAMIC = -1
"""The bucket count in the metadata of a partition without a fixed number of buckets."""

EMPTY_ROW = bytes(12)
"""The serialized row without fields, for the partition of an unpartitioned table, and for empty statistics."""


@dataclass(frozen=True, slots=True)
class BucketId:
    """One (partition, bucket) of a table; ``partition`` is the serialized row of the partition columns."""

    partition: bytes
    bucket: int
