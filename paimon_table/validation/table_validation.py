"""Rules between a table's options, keys and columns, checked when a schema is created or changed.

Implements the rules of Paimon's schema validation that concern what Tidemark supports; what it does not support is
refused when the options are parsed.
"""

from __future__ import annotations

from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.options.names import BUCKET, BUCKET_FUNCTION, DELETION_VECTORS
from paimon_table.options.option_parsing import options_of
from paimon_table.options.table_options import TableOptions
from paimon_table.schema.schema_options import BUCKET_KEY
from paimon_table.schema.table_schema import TableSchema, check_keys
from paimon_table.types import BINARIES, Root
from paimon_table.validation.aggregation_validation import check_aggregation
from paimon_table.validation.engine_validation import (
    check_order,
    check_producer,
    check_row_kinds,
    check_snapshot_ordering,
)
from paimon_table.validation.file_validation import check_files
from paimon_table.validation.nested_type_validation import check_nested_types
from paimon_table.validation.partial_update_validation import validate_partial_update

_ONE_SCAN_START = ("scan.timestamp-millis", "scan.timestamp", "scan.snapshot-id", "scan.tag-name")


def validate_table(schema: TableSchema) -> None:
    """Refuse a schema that Paimon would refuse (ConfigError) or that Tidemark cannot write (UnsupportedFeature).

    The options and columns concerned are named in the text.
    """
    check_keys(schema)
    check_nested_types(schema)
    options = options_of(schema)
    check_producer(schema, options)
    _check_deletion_vectors(options)
    _check_scan_start(schema)
    check_snapshot_ordering(schema, options)
    check_order(schema, options)
    validate_partial_update(schema, options)
    check_aggregation(schema, options)
    _check_bucket(schema, options)
    _check_bucket_key(schema, options)
    check_row_kinds(schema, options)
    check_files(schema, options)
    _check_defaults(schema)
    _check_partition_types(schema, options)
    if not schema.primary_keys:
        raise UnsupportedFeature("a table without primary key is not supported yet; name a primary key")
    _check_partition_in_key(schema)


def _check_defaults(schema: TableSchema) -> None:
    if any(f.default_value is not None for f in schema.fields):
        from paimon_table.schema.column_defaults import column_defaults  # Arrow holds the values

        column_defaults(schema)


def _check_partition_in_key(schema: TableSchema) -> None:
    """A row whose partition column changes would stay in its old partition as well: nothing tells where it was."""
    outside = [name for name in schema.partition_keys if name not in schema.primary_keys]
    if outside:
        raise UnsupportedFeature(
            f"partition column {outside[0]!r} is not part of the primary key ({', '.join(schema.primary_keys)}), and"
            " rows that move between partitions are not supported yet; add it to the primary key, or partition by a"
            " column of the key",
            column=outside[0],
        )


def _check_deletion_vectors(options: TableOptions) -> None:
    if not options.deletion_vectors:
        return
    if options.changelog_producer == "full-compaction":
        raise ConfigError(
            "option 'deletion-vectors.enabled': deletion vectors work with changelog-producer none, input and lookup, "
            "not with full-compaction; choose one of them",
            option=DELETION_VECTORS,
        )
    if options.merge_engine == "first-row":
        raise ConfigError(
            "option 'deletion-vectors.enabled': merge-engine=first-row does not need deletion vectors, because it "
            "never replaces a row; remove the option",
            option=DELETION_VECTORS,
        )


def _check_scan_start(schema: TableSchema) -> None:
    given = [name for name in _ONE_SCAN_START if name in schema.options]
    if len(given) > 1:
        raise ConfigError(f"options {' and '.join(given)} exclude each other; set only one of them", option=given[0])


def _check_bucket(schema: TableSchema, options: TableOptions) -> None:
    if options.bucket == -1:
        if BUCKET_KEY.name in schema.options:
            raise ConfigError(
                "option 'bucket-key' cannot be set with bucket = -1; remove it or set a number of buckets",
                option=BUCKET_KEY.name,
            )
        raise UnsupportedFeature(
            "option 'bucket' = -1 (dynamic buckets) is not supported yet; set a number of buckets", option=BUCKET
        )
    if options.bucket == -2 and schema.primary_keys:
        raise UnsupportedFeature(
            "option 'bucket' = -2 (postponed buckets) is not supported; set a number of buckets", option=BUCKET
        )
    if options.bucket <= 0:
        raise ConfigError(
            f"option 'bucket' = {options.bucket}: the number of buckets needs to be greater than 0; set it",
            option=BUCKET,
        )


def _check_bucket_key(schema: TableSchema, options: TableOptions) -> None:
    keys = schema.bucket_keys
    if not keys:
        raise ConfigError(
            "option 'bucket-key' is missing: a bucketed table without primary key needs one; set it",
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
            "option 'bucket-function.type'=hive knows no hash of a TIMESTAMP; use the default function",
            option=BUCKET_FUNCTION,
        )


def check_partition_names(schema: TableSchema) -> None:
    """Refuse partition columns whose directories have other names in other versions of Java (UnsupportedFeature)."""
    for field in schema.partition_fields:
        if field.type.root in {Root.FLOAT, Root.DOUBLE}:
            raise UnsupportedFeature(
                f"partition column {field.name!r}: type {field.type} is not supported for writing, because versions of "
                "Java give its directories different names; use DECIMAL or a text",
                column=field.name,
            )


def _check_partition_types(schema: TableSchema, options: TableOptions) -> None:
    check_partition_names(schema)
    for field in schema.partition_fields:
        if field.type.root in BINARIES:
            raise UnsupportedFeature(
                f"partition column {field.name!r}: type {field.type} is not supported; use a text", column=field.name
            )
        if field.type.root is Root.TIMESTAMP_LTZ and not options.legacy_partition_name:
            raise UnsupportedFeature(
                f"partition column {field.name!r}: type {field.type} needs partition.legacy-name=true; its other name "
                "depends on the time zone of the process",
                column=field.name,
            )
