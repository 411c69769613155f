"""Rules of a rescale: the tables and bucket numbers that allow it, and the partitions that need it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.metadata.bucket_id import DYNAMIC, POSTPONED
from paimon_table.metadata.index_file import HASH
from paimon_table.metadata.table_state import TableState
from paimon_table.options.bucket_mode import BucketMode, bucket_mode
from paimon_table.options.names import BUCKET
from paimon_table.table import Table
from paimon_table.validation.table_validation import validate_table

_RESCALED = (BucketMode.HASH_FIXED, BucketMode.POSTPONE_MODE, BucketMode.HASH_DYNAMIC)


def stale_partitions(state: TableState, bucket_count: int, chosen: Callable[[bytes], bool]) -> dict[bytes, int]:
    """The chosen partitions with another number of buckets, and their number; -1 means dynamic buckets.

    A partition without rows may still have the index files of dynamic buckets.
    """
    found = dict(state.total_buckets)
    if bucket_count != DYNAMIC:
        found |= {e.bucket.partition: DYNAMIC for e in state.index if e.file.index_type == HASH}
    return {p: number for p, number in found.items() if number != bucket_count and chosen(p)}


def check_rescale(table: Table, bucket_count: int, *, is_partial: bool = False) -> None:
    """Raises ConfigError for tables that cannot be rescaled to this number; ``is_partial``: only some partitions."""
    if bucket_count < 1 and bucket_count not in (POSTPONED, DYNAMIC):
        raise ConfigError(
            f"{bucket_count} is not a number of buckets; use a number of at least 1, -1 for dynamic buckets, or -2 for "
            "postponed buckets"
        )
    present = table.options.bucket
    if bucket_count == POSTPONED and is_partial:
        raise ConfigError(
            "buckets are postponed in all partitions or in none, and existing buckets stay: remove --partition"
        )
    mode = bucket_mode(table.schema, table.options)
    if mode not in _RESCALED or not table.schema.primary_keys:
        what = "no primary key" if not table.schema.primary_keys else mode.value
        raise UnsupportedFeature(
            f"{table.paths.root} has {what}; only tables whose primary key includes the partition columns can be "
            "rescaled: write its rows into a new table"
        )
    outside = [name for name in table.schema.partition_keys if name not in table.schema.primary_keys]
    if outside:
        raise UnsupportedFeature(
            f"{table.paths.root} has the partition column {outside[0]!r}, which is not in its primary key. A key may "
            "have rows in several partitions, and nothing shows which is the newest; write its rows into a new table"
        )
    if {present, bucket_count} == {POSTPONED, DYNAMIC}:
        raise UnsupportedFeature(
            f"{table.paths.root}: buckets cannot change directly between dynamic and postponed; rescale it to a "
            "number of buckets first"
        )
    if is_partial and present != bucket_count and DYNAMIC in (present, bucket_count):
        raise UnsupportedFeature(
            f"{table.paths.root}: buckets are dynamic in all partitions or in none. Engines look for a key by "
            "the option 'bucket', and would miss rows of other partitions. Remove --partition"
        )
    _check_other_options(table, bucket_count)


def _check_other_options(table: Table, bucket_count: int) -> None:
    options = {**table.schema.options, BUCKET: str(bucket_count)}
    try:
        validate_table(replace(table.schema, options=options))
    except (ConfigError, UnsupportedFeature) as error:
        raise type(error)(f"{table.paths.root} cannot have 'bucket' = {bucket_count}: {error}") from error
