"""Rules between a table's options, keys and columns, checked when a schema is created or changed.

Implements the rules of Paimon's schema validation for features that Tidemark supports; the parser of options refuses
others.
"""

from __future__ import annotations

from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.known_values import once_for_each
from paimon_table.options.names import DELETION_VECTORS
from paimon_table.options.option_parsing import options_of
from paimon_table.options.table_options import TableOptions
from paimon_table.schema.table_schema import TableSchema, check_keys
from paimon_table.types import BINARIES, DataType, Root
from paimon_table.validation.aggregation_validation import check_aggregation
from paimon_table.validation.bucket_validation import check_bucket_mode, check_buckets
from paimon_table.validation.engine_validation import (
    check_order,
    check_producer,
    check_row_kinds,
    check_snapshot_ordering,
)
from paimon_table.validation.file_validation import check_files
from paimon_table.validation.partial_update_validation import validate_partial_update
from paimon_table.validation.retention_validation import check_expiry, check_kept_deletes, check_retention
from paimon_table.validation.unkeyed_validation import check_effect_without_key, check_unkeyed

_ONE_SCAN_START = ("scan.timestamp-millis", "scan.timestamp", "scan.snapshot-id", "scan.tag-name")


@once_for_each
def validate_table(schema: TableSchema) -> None:
    """Refuse a schema that Paimon would refuse (ConfigError) or that Tidemark cannot write (UnsupportedFeature).

    The error names the options and columns.
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
    check_buckets(schema, options)
    check_unkeyed(schema, options)
    check_row_kinds(schema, options)
    check_files(schema, options)
    check_expiry(schema, options)
    check_kept_deletes(options)
    check_retention(schema, options.retention)
    _check_defaults(schema)
    _check_partition_types(schema, options)
    check_bucket_mode(schema, options)


def check_takes_rows(schema: TableSchema, root: str) -> None:
    """Check an existing table by ``validate_table`` before a write; the error names the table."""
    try:
        validate_table(schema)
    except ConfigError as error:
        raise error.told(f"{root} cannot be written: {error}") from error


def validate_new_table(schema: TableSchema) -> None:
    """As ``validate_table``; also refuses options that Paimon accepts although they have no effect on the table."""
    validate_table(schema)
    check_effect_without_key(schema, options_of(schema))


def validate_changed_table(changed: TableSchema, present: TableSchema) -> None:
    """As ``validate_table``; also refuses what a new table must not have, unless the present table already has it."""
    validate_table(changed)
    try:
        check_effect_without_key(present, options_of(present))
    except ConfigError:
        return
    check_effect_without_key(changed, options_of(changed))


def _check_defaults(schema: TableSchema) -> None:
    if any(f.default_value is not None for f in schema.fields):
        from paimon_table.schema.column_defaults import column_defaults  # this import loads Arrow

        column_defaults(schema)


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


def check_partition_names(schema: TableSchema) -> None:
    """Refuse partition columns whose directory names depend on the version of Java (UnsupportedFeature)."""
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


def check_nested_types(schema: TableSchema) -> None:
    """Paimon's rules of RowType, at any depth of a column's type: names of fields are distinct and not blank.

    It also refuses rows without fields, which only Avro can store.
    """
    for field in schema.fields:
        _check(field.type, field.name, field.name)


def _check(t: DataType, column: str, path: str) -> None:
    if t.root is Root.ROW:
        _check_fields(t, f"column {column!r}: {t}" if path == column else f"column {column!r}: {path}: {t}")
    for name, part in t.parts:
        _check(part, column, f"{path}.{name}")


def _check_fields(row: DataType, what: str) -> None:
    if not row.fields:
        raise ConfigError(f"{what} has no fields; give it one or use another type")
    names = [f.name for f in row.fields]
    if not all(name.strip() for name in names):
        raise ConfigError(f"{what} has a field without a name; give it one")
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{what} has two fields called {name!r}; rename one of them")
