"""Rules of tables without primary key, in which options about rows of one key have no effect.

Paimon accepts and ignores such options, so Tidemark writes existing tables with them, but refuses new ones.
"""

from __future__ import annotations

from paimon_table.errors import ConfigError
from paimon_table.option_declaration import declared_in
from paimon_table.options.names import CLUSTERING_COLUMNS, MERGE_ENGINE, RECORD_EXPIRE_TIME, SEQUENCE_FIELD
from paimon_table.options.table_options import TableOptions
from paimon_table.schema.schema_options import PRIMARY_KEY_NULLABLE
from paimon_table.schema.table_schema import TableSchema


def check_unkeyed(schema: TableSchema, options: TableOptions) -> None:
    """Refuse missing columns to sort by in a table without primary key."""
    if not schema.primary_keys:
        _check_clustering(schema, options)


def check_effect_without_key(schema: TableSchema, options: TableOptions) -> None:
    """For tables without key: refuse options about merging the rows of one key, or about dropping some of them."""
    if schema.primary_keys:
        return
    for name, stated in (
        (MERGE_ENGINE, options.merge_engine != "deduplicate"),
        (SEQUENCE_FIELD, bool(options.sequence_fields)),
    ):
        if stated:
            raise ConfigError(
                f"option {name!r} decides which row of a key stays, but a table without primary key keeps every row. "
                "Remove the option or define a primary key",
                option=name,
            )
    if PRIMARY_KEY_NULLABLE.value_in(schema.options):
        raise ConfigError(
            f"option {PRIMARY_KEY_NULLABLE.name!r} needs a primary key; remove the option or define a primary key",
            option=PRIMARY_KEY_NULLABLE.name,
        )
    if options.record_expire_time_ms is not None:
        raise ConfigError(
            f"option {RECORD_EXPIRE_TIME!r} needs a primary key: other compactions drop no rows; remove it",
            option=RECORD_EXPIRE_TIME,
        )


def _check_clustering(schema: TableSchema, options: TableOptions) -> None:
    option = declared_in(TableOptions)["clustering_columns"].stated_as(schema.options) or CLUSTERING_COLUMNS
    for name in options.clustering_columns:
        if not schema.has_column(name):
            raise ConfigError(
                f"option {option!r}: there is no column {name!r}; columns are: {', '.join(schema.column_names)}",
                option=option,
            )
        if schema.field(name).type.is_nested:
            raise ConfigError(
                f"option {option!r}: rows cannot be sorted by {name!r}, which is nested; remove it",
                option=option,
            )
