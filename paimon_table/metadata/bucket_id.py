"""Where rows of a table are: the place of a bucket."""

from __future__ import annotations

from dataclasses import dataclass

POSTPONED = -2
"""Bucket of rows that wait for a compaction of Java Paimon's to get a bucket; no reader shows them before."""

DYNAMIC = -1
"""The stated bucket count of a partition without a fixed number of buckets."""

EMPTY_ROW = bytes(12)
"""The serialized row without fields: partition of an unpartitioned table, empty statistics."""


@dataclass(frozen=True, slots=True)
class BucketId:
    """One (partition, bucket) of a table; ``partition`` is the serialized row of the partition columns."""

    partition: bytes
    bucket: int
