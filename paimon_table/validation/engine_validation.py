"""Rules about the merge engine, the order of rows and the changelog producer of a table.

Implements the part of Paimon's schema validation about merging. The rules of single engines and their functions are in
their own modules.
"""

from __future__ import annotations

from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.options.field_options import field_option
from paimon_table.options.names import (
    AGGREGATE_FUNCTION,
    CHANGELOG_PRODUCER,
    FULL_COMPACTION_DELTA_COMMITS,
    ROW_DEDUPLICATE_IGNORE_FIELDS,
    ROWKIND_FIELD,
    SEQUENCE_AUTO_PADDING,
    SEQUENCE_FIELD,
    SNAPSHOT_ORDERING,
    STREAMING_READ_OVERWRITE,
)
from paimon_table.options.table_options import TableOptions
from paimon_table.schema.table_schema import TableSchema
from paimon_table.types import CHARACTERS

_FIRST_ROW_PRODUCERS = ("none", "lookup")


def check_producer(schema: TableSchema, options: TableOptions) -> None:
    """Check that the changelog producer fits the key, the engine and other options about changes."""
    producer = options.changelog_producer
    if producer != "none" and not schema.primary_keys:
        raise ConfigError(
            f"option 'changelog-producer'={producer} needs a primary key; define one or use none",
            option=CHANGELOG_PRODUCER,
        )
    if options.merge_engine == "first-row" and producer not in _FIRST_ROW_PRODUCERS:
        raise ConfigError(
            f"option 'changelog-producer': only 'none' and 'lookup' are possible on the FIRST_ROW merge engine, not "
            f"{producer!r}; use one of them",
            option=CHANGELOG_PRODUCER,
        )
    if producer == "lookup" and options.full_compaction_delta_commits is not None:
        raise ConfigError(
            "option 'full-compaction.delta-commits' is incompatible with 'changelog-producer'='lookup', which compacts "
            "level 0 in every batch; remove it or use 'changelog-producer'='full-compaction'",
            option=FULL_COMPACTION_DELTA_COMMITS,
        )
    _check_streaming_read(schema, options)


def _check_streaming_read(schema: TableSchema, options: TableOptions) -> None:
    if schema.options.get(STREAMING_READ_OVERWRITE, "false").strip().lower() != "true":
        return
    if not schema.primary_keys:
        raise ConfigError(
            "option 'streaming-read-overwrite': streaming read of overwrites needs primary keys; remove it",
            option=STREAMING_READ_OVERWRITE,
        )
    if options.changelog_producer in {"lookup", "full-compaction"}:
        raise ConfigError(
            f"option 'streaming-read-overwrite' cannot be true with changelog-producer={options.changelog_producer}: "
            "changes would be read twice; remove one of them",
            option=STREAMING_READ_OVERWRITE,
        )


def check_order(schema: TableSchema, options: TableOptions) -> None:
    """``sequence.field``: its columns, the engine, the key."""
    names = options.sequence_fields
    if options.sequence_auto_padding and not names:
        raise ConfigError(
            "option 'sequence.auto-padding' needs a 'sequence.field' whose values it pads; name one",
            option=SEQUENCE_AUTO_PADDING,
        )
    if names and options.merge_engine == "first-row":
        raise ConfigError(
            "option 'sequence.field': a sequence field is not possible on the FIRST_ROW merge engine, which keeps the "
            "row that arrives first; remove it",
            option=SEQUENCE_FIELD,
        )
    for name in names:
        if not schema.has_column(name):
            raise ConfigError(
                f"option 'sequence.field': {name!r} can not be found in the table schema; name a column",
                option=SEQUENCE_FIELD,
            )
        if names.count(name) > 1:
            raise ConfigError(
                f"option 'sequence.field': {name!r} is defined repeatedly; name it once", option=SEQUENCE_FIELD
            )
        if schema.field(name).type.is_nested:
            raise UnsupportedFeature(
                f"option 'sequence.field': {name!r} has a nested type; use a column that has an order",
                option=SEQUENCE_FIELD,
            )
        if options.field_options.of(name).aggregate_function is not None:
            own = field_option(name, AGGREGATE_FUNCTION)
            raise ConfigError(
                f"option {own!r}: there should be no aggregation on a sequence field, whose "
                f"value is that of the newest row. Remove it, or remove {name!r} from {SEQUENCE_FIELD!r}",
                option=own,
            )
    missing = [name for name in schema.partition_keys if name not in schema.primary_keys]
    if names and missing and schema.primary_keys:
        raise ConfigError(
            f"option 'sequence.field' cannot be used in the cross partition update case: primary key "
            f"{list(schema.primary_keys)} does not include all partition fields; add {missing} to it",
            option=SEQUENCE_FIELD,
        )


def check_snapshot_ordering(schema: TableSchema, options: TableOptions) -> None:
    """``sequence.snapshot-ordering``: refuse options that contradict an order by snapshot ids."""
    if not options.snapshot_ordering:
        return
    if not schema.primary_keys:
        raise ConfigError(
            "option 'sequence.snapshot-ordering' requires a primary-key table: an append-only table has no rows of one "
            "key to order; remove the option or define a primary key",
            option=SNAPSHOT_ORDERING,
        )
    if options.sequence_fields:
        raise ConfigError(
            "option 'sequence.snapshot-ordering' is mutually exclusive with 'sequence.field': the snapshot id is the "
            "only order; remove one of them",
            option=SNAPSHOT_ORDERING,
        )
    if not options.write_only:
        raise ConfigError(
            "option 'sequence.snapshot-ordering' requires 'write-only' = true: rows that are compacted before their "
            "snapshot exists have no place in its order. Set it and compact in a dedicated job",
            option=SNAPSHOT_ORDERING,
        )


def check_row_kinds(schema: TableSchema, options: TableOptions) -> None:
    """``rowkind.field`` and the columns that a changelog ignores."""
    if options.rowkind_field is not None:
        if not schema.has_column(options.rowkind_field):
            raise ConfigError(
                f"option 'rowkind.field': {options.rowkind_field!r} can not be found in the table schema; name a "
                "column",
                option=ROWKIND_FIELD,
            )
        rowkind_type = schema.field(options.rowkind_field).type
        if rowkind_type.root not in CHARACTERS:
            raise ConfigError(
                f"option 'rowkind.field': only string columns are supported, not {rowkind_type}", option=ROWKIND_FIELD
            )
    for name in options.row_deduplicate_ignore_fields:
        if not schema.has_column(name):
            raise ConfigError(
                f"option 'changelog-producer.row-deduplicate-ignore-fields': {name!r} can not be found in the table "
                "schema; name columns",
                option=ROW_DEDUPLICATE_IGNORE_FIELDS,
            )
