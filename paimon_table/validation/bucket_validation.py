"""Rules of the bucket modes: the options, keys and columns that fit each mode, and the modes that Tidemark writes."""

from __future__ import annotations

from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.options.bucket_mode import BucketMode, bucket_mode
from paimon_table.options.names import (
    BUCKET,
    BUCKET_FUNCTION,
    FULL_COMPACTION_DELTA_COMMITS,
    IGNORE_DELETE,
    MAX_BUCKETS,
    SNAPSHOT_ORDERING,
)
from paimon_table.options.table_options import TableOptions
from paimon_table.schema.schema_options import BUCKET_KEY
from paimon_table.schema.table_schema import TableSchema
from paimon_table.types import Root


def check_buckets(schema: TableSchema, options: TableOptions) -> None:
    """Refuse numbers of buckets and bucket keys that Paimon refuses (ConfigError) or that Tidemark cannot write."""
    _check_bucket(schema, options)
    if bucket_mode(schema, options) is not BucketMode.BUCKET_UNAWARE:
        _check_bucket_key(schema, options)


def check_bucket_mode(schema: TableSchema, options: TableOptions) -> None:
    """Refuse the modes that Tidemark cannot write (UnsupportedFeature)."""
    outside = [name for name in schema.partition_keys if name not in schema.primary_keys]
    match bucket_mode(schema, options):
        case BucketMode.KEY_DYNAMIC:
            _check_moves(options)
        case BucketMode.HASH_FIXED | BucketMode.POSTPONE_MODE if schema.primary_keys and outside:
            raise UnsupportedFeature(
                f"partition column {outside[0]!r} is not part of the primary key ({', '.join(schema.primary_keys)}). "
                f"With bucket = {options.bucket} a row that changes its partition would stay in the old one too. "
                "Set bucket = -1, which moves rows, or add the column to the primary key",
                column=outside[0],
            )


def _check_moves(options: TableOptions) -> None:
    """Refuse options under which the delete of a moved row would have no effect."""
    if options.merge_engine == "deduplicate" and options.ignore_delete:
        raise UnsupportedFeature(
            f"option {IGNORE_DELETE!r} = true would ignore the delete of a row that moves to another partition, so the "
            "old row would stay. Remove the option, or add the partition columns to the primary key",
            option=IGNORE_DELETE,
        )


def _check_bucket(schema: TableSchema, options: TableOptions) -> None:
    if options.dynamic_bucket_max_buckets == 0:
        raise ConfigError(
            f"option {MAX_BUCKETS!r} = 0 leaves no bucket; set a number of at least 1, or -1 for no limit",
            option=MAX_BUCKETS,
        )
    if options.bucket == -1:
        if BUCKET_KEY.name in schema.options:
            raise ConfigError(
                "option 'bucket-key' cannot be set with bucket = -1; remove it or set a number of buckets",
                option=BUCKET_KEY.name,
            )
        mode = bucket_mode(schema, options)
        if mode is BucketMode.BUCKET_UNAWARE:
            _check_without_buckets(options)
        return
    if bucket_mode(schema, options) is BucketMode.POSTPONE_MODE:
        _check_postponed(options)
        return
    if options.bucket <= 0:
        others = "-1 for dynamic buckets, or -2 for postponed ones" if schema.primary_keys else "-1 for none"
        raise ConfigError(
            f"option 'bucket' = {options.bucket}: the number of buckets needs to be greater than 0, or {others};"
            " set it",
            option=BUCKET,
        )


def _check_postponed(options: TableOptions) -> None:
    if options.full_compaction_delta_commits is not None:
        raise ConfigError(
            "option 'full-compaction.delta-commits' has no effect with 'bucket' = -2 (postponed buckets), which only "
            "`tidemark table compact` compacts; remove it",
            option=FULL_COMPACTION_DELTA_COMMITS,
        )
    if options.snapshot_ordering:
        raise UnsupportedFeature(
            "option 'sequence.snapshot-ordering' is not supported with 'bucket' = -2 (postponed buckets), whose rows"
            " arrive in one snapshot and get their buckets in another. Remove it, or set a number of buckets",
            option=SNAPSHOT_ORDERING,
        )


def _check_without_buckets(options: TableOptions) -> None:
    if options.full_compaction_delta_commits is not None:
        raise ConfigError(
            "option 'full-compaction.delta-commits' is not supported by a table without primary key and with bucket = "
            "-1, whose small files are compacted continuously; remove it",
            option=FULL_COMPACTION_DELTA_COMMITS,
        )


def _check_bucket_key(schema: TableSchema, options: TableOptions) -> None:
    keys = schema.bucket_keys
    if not keys:
        raise ConfigError(
            "option 'bucket-key' is missing: a bucketed table without primary key needs one; set it, or bucket = -1 "
            "for a table without buckets",
            option=BUCKET_KEY.name,
        )
    for name in keys:
        if not schema.has_column(name):
            raise ConfigError(
                f"option 'bucket-key': field names {list(schema.column_names)} should contain all bucket keys "
                f"{list(keys)}; {name!r} is missing (blanks around commas count)",
                option=BUCKET_KEY.name,
            )
        if name in schema.partition_keys:
            raise ConfigError(
                f"option 'bucket-key': {name!r} should not be one of the partition keys; remove it",
                option=BUCKET_KEY.name,
            )
        if schema.primary_keys and name not in schema.primary_keys:
            raise ConfigError(
                f"option 'bucket-key': primary keys {list(schema.primary_keys)} should contain all bucket keys "
                f"{list(keys)}; remove {name!r}",
                option=BUCKET_KEY.name,
            )
        if schema.field(name).type.is_nested:
            raise ConfigError(
                f"option 'bucket-key': nested type can not be in the bucket key; remove {name!r}",
                option=BUCKET_KEY.name,
            )
    if options.bucket_function == "mod":
        roots = [schema.field(name).type.root for name in keys]
        if len(roots) != 1 or roots[0] not in {Root.INT, Root.BIGINT}:
            raise ConfigError(
                f"option 'bucket-function.type'=mod: the bucket key must be one INT or BIGINT column, not "
                f"{list(keys)}; use the default function",
                option=BUCKET_FUNCTION,
            )
    if options.bucket_function == "hive" and any(
        schema.field(name).type.root in {Root.TIMESTAMP, Root.TIMESTAMP_LTZ} for name in keys
    ):
        raise ConfigError(
            "option 'bucket-function.type'=hive has no hash of a TIMESTAMP; use the default function",
            option=BUCKET_FUNCTION,
        )
