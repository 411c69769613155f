"""Rules between a table's options, keys and columns, checked when a schema is created or changed.

Implements the rules of Paimon's schema validation that concern what Tidemark supports; what it does not support is
refused when the options are parsed.
"""

from __future__ import annotations

import re

from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.options import TableOptions, options_of
from paimon_table.schema import TableSchema, check_keys
from paimon_table.types import BINARIES, CHARACTERS, Root

_STATS_MODE = re.compile(r"none|counts|full|truncate\([1-9][0-9]*\)")
_CODECS = ("zstd", "snappy", "gzip", "none")
_ONE_SCAN_START = ("scan.timestamp-millis", "scan.timestamp", "scan.snapshot-id", "scan.tag-name")


def validate_table(schema: TableSchema) -> None:
    """Refuse a schema that Paimon would refuse (ConfigError) or that Tidemark cannot write (UnsupportedFeature).

    The options and columns concerned are named in the text.
    """
    check_keys(schema)
    options = options_of(schema)
    _check_streaming_read(schema, options)
    _check_scan_start(schema)
    _check_producer(schema, options)
    _check_sequence(schema, options)
    _check_bucket(schema, options)
    _check_bucket_key(schema, options)
    _check_named_columns(schema, options)
    _check_file_settings(options)
    _check_partition_types(schema, options)
    if not schema.primary_keys:
        raise UnsupportedFeature("a table without primary key is not supported yet; name a primary key")


def _check_streaming_read(schema: TableSchema, options: TableOptions) -> None:
    if schema.options.get("streaming-read-overwrite", "false").lower() != "true":
        return
    if not schema.primary_keys:
        raise ConfigError(
            "option 'streaming-read-overwrite': streaming read of overwrites needs primary keys; remove it"
        )
    if options.changelog_producer == "lookup":
        raise ConfigError(
            "option 'streaming-read-overwrite' cannot be true with changelog-producer=lookup: changes would be read "
            "twice; remove one of them"
        )


def _check_scan_start(schema: TableSchema) -> None:
    given = [name for name in _ONE_SCAN_START if name in schema.options]
    if len(given) > 1:
        raise ConfigError(f"options {' and '.join(given)} exclude each other; set only one of them")


def _check_producer(schema: TableSchema, options: TableOptions) -> None:
    if options.changelog_producer != "none" and not schema.primary_keys:
        raise ConfigError(
            f"option 'changelog-producer'={options.changelog_producer} needs a primary key; define one or use none"
        )


def _check_bucket(schema: TableSchema, options: TableOptions) -> None:
    if options.bucket == -1:
        if "bucket-key" in schema.options:
            raise ConfigError(
                "option 'bucket-key' cannot be set with bucket = -1; remove it or set a number of buckets"
            )
        raise UnsupportedFeature("option 'bucket' = -1 (dynamic buckets) is not supported yet; set a number of buckets")
    if options.bucket == -2 and schema.primary_keys:
        raise UnsupportedFeature("option 'bucket' = -2 (postponed buckets) is not supported; set a number of buckets")
    if options.bucket <= 0:
        raise ConfigError(
            f"option 'bucket' = {options.bucket}: the number of buckets needs to be greater than 0; set it"
        )


def _check_bucket_key(schema: TableSchema, options: TableOptions) -> None:
    keys = schema.bucket_keys
    if not keys:
        raise ConfigError("option 'bucket-key' is missing: a bucketed table without primary key needs one; set it")
    for name in keys:
        if not schema.has_column(name):
            raise ConfigError(
                f"option 'bucket-key': field names {list(schema.column_names)} should contain all bucket keys "
                f"{list(keys)}; {name!r} is missing (blanks around commas count)"
            )
        if name in schema.partition_keys:
            raise ConfigError(f"option 'bucket-key': {name!r} should not be one of the partition keys; remove it")
        if schema.primary_keys and name not in schema.primary_keys:
            raise ConfigError(
                f"option 'bucket-key': primary keys {list(schema.primary_keys)} should contain all bucket keys "
                f"{list(keys)}; remove {name!r}"
            )
        if schema.field(name).type.is_nested:
            raise ConfigError(f"option 'bucket-key': nested type can not be in the bucket key; remove {name!r}")
    if options.bucket_function == "mod":
        roots = [schema.field(name).type.root for name in keys]
        if len(roots) != 1 or roots[0] not in {Root.INT, Root.BIGINT}:
            raise ConfigError(
                f"option 'bucket-function.type'=mod: the bucket key must be one INT or BIGINT column, not "
                f"{list(keys)}; use the default function"
            )
    if options.bucket_function == "hive" and any(
        schema.field(name).type.root in {Root.TIMESTAMP, Root.TIMESTAMP_LTZ} for name in keys
    ):
        raise ConfigError("option 'bucket-function.type'=hive knows no hash of a TIMESTAMP; use the default function")


def _check_sequence(schema: TableSchema, options: TableOptions) -> None:
    names = options.sequence_fields
    for name in names:
        if not schema.has_column(name):
            raise ConfigError(f"option 'sequence.field': {name!r} can not be found in the table schema; name a column")
        if names.count(name) > 1:
            raise ConfigError(f"option 'sequence.field': {name!r} is defined repeatedly; name it once")
        if schema.field(name).type.is_nested:
            raise UnsupportedFeature(
                f"option 'sequence.field': {name!r} has a nested type; use a column that has an order"
            )
    missing = [name for name in schema.partition_keys if name not in schema.primary_keys]
    if names and missing and schema.primary_keys:
        raise ConfigError(
            f"option 'sequence.field' cannot be used in the cross partition update case: primary key "
            f"{list(schema.primary_keys)} does not include all partition fields; add {missing} to it"
        )


def _check_named_columns(schema: TableSchema, options: TableOptions) -> None:
    if options.rowkind_field is not None:
        if not schema.has_column(options.rowkind_field):
            raise ConfigError(
                f"option 'rowkind.field': {options.rowkind_field!r} can not be found in the table schema; name a column"
            )
        rowkind_type = schema.field(options.rowkind_field).type
        if rowkind_type.root not in CHARACTERS:
            raise ConfigError(f"option 'rowkind.field': only string columns are supported, not {rowkind_type}")
    for name in options.row_deduplicate_ignore_fields:
        if not schema.has_column(name):
            raise ConfigError(
                f"option 'changelog-producer.row-deduplicate-ignore-fields': {name!r} can not be found in the table "
                "schema; name columns"
            )


def _check_file_settings(options: TableOptions) -> None:
    modes = [("metadata.stats-mode", options.stats_mode)]
    modes += [(f"fields.{column}.stats-mode", mode) for column, mode in options.field_stats_modes]
    for name, mode in modes:
        if not _STATS_MODE.fullmatch(mode.strip().lower()):
            raise ConfigError(f"option {name!r}: {mode!r} is unknown; use none, counts, truncate(N) or full")
    if options.file_compression.lower() not in _CODECS:
        raise UnsupportedFeature(
            f"option 'file.compression': {options.file_compression!r} is not supported; supported: {', '.join(_CODECS)}"
        )


def _check_partition_types(schema: TableSchema, options: TableOptions) -> None:
    for field in schema.partition_fields:
        if field.type.root in BINARIES:
            raise UnsupportedFeature(f"partition column {field.name!r}: type {field.type} is not supported; use a text")
        if field.type.root is Root.TIMESTAMP_LTZ and not options.legacy_partition_name:
            raise UnsupportedFeature(
                f"partition column {field.name!r}: type {field.type} needs partition.legacy-name=true; its other name "
                "depends on the time zone of the process"
            )
