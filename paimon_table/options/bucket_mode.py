"""Paimon's bucket modes, which distribute rows over buckets, and the mode of a table.

Implements the meaning of Paimon's ``bucket`` option, on which all readers and writers must agree.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from paimon_table.options.table_options import TableOptions
from paimon_table.schema.table_schema import TableSchema


class BucketMode(Enum):
    """Paimon's names; the value describes the mode in messages."""

    HASH_FIXED = "a fixed number of buckets"
    HASH_DYNAMIC = "dynamic buckets"
    KEY_DYNAMIC = "dynamic buckets, with rows that move between partitions"
    BUCKET_UNAWARE = "no buckets"
    POSTPONE_MODE = "postponed buckets"


def bucket_mode(schema: TableSchema, options: TableOptions) -> BucketMode:
    """The mode of a table, by the options of its newest schema: a rescaled table may have had another mode."""
    return mode_of(options.bucket, schema.primary_keys, schema.partition_keys)


def mode_of(bucket: int, primary_keys: Collection[str], partition_keys: Collection[str]) -> BucketMode:
    """The mode of a table by the option ``bucket`` and its keys."""
    if bucket == -2 and primary_keys:
        return BucketMode.POSTPONE_MODE
    if bucket != -1:
        return BucketMode.HASH_FIXED
    if not primary_keys:
        return BucketMode.BUCKET_UNAWARE
    return BucketMode.HASH_DYNAMIC if set(partition_keys) <= set(primary_keys) else BucketMode.KEY_DYNAMIC
