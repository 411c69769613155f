"""How rows are spread over buckets: Paimon's bucket modes, and which one a table has.

Implements the choice of Paimon's ``bucket`` option, which readers and writers of every table agree on.
"""

from __future__ import annotations

from enum import Enum

from paimon_table.options.table_options import TableOptions
from paimon_table.schema.table_schema import TableSchema


class BucketMode(Enum):
    """Paimon's names; the value says what it means to a reader of a message."""

    HASH_FIXED = "a fixed number of buckets"
    HASH_DYNAMIC = "dynamic buckets"
    KEY_DYNAMIC = "dynamic buckets, with rows that move between partitions"
    BUCKET_UNAWARE = "no buckets"
    POSTPONE_MODE = "postponed buckets"


def bucket_mode(schema: TableSchema, options: TableOptions) -> BucketMode:
    """The mode of a table. The options of its newest schema count: a rescaled table may have been in another one."""
    if options.bucket == -2 and schema.primary_keys:
        return BucketMode.POSTPONE_MODE
    if options.bucket != -1:
        return BucketMode.HASH_FIXED
    if not schema.primary_keys:
        return BucketMode.BUCKET_UNAWARE
    if set(schema.partition_keys) <= set(schema.primary_keys):
        return BucketMode.HASH_DYNAMIC
    return BucketMode.KEY_DYNAMIC
