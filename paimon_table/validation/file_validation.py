"""Checks the options for written files, before a table is created. Pure."""

from __future__ import annotations

import re

from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.file_index.index_limits import can_be_hashed
from paimon_table.file_index.index_options import BLOOM_FILTER_COLUMNS, BloomFilterColumn
from paimon_table.formats.known_formats import KNOWN_FORMATS, ORC, all_settings, storing_format
from paimon_table.options.field_options import field_option
from paimon_table.options.names import (
    CHANGELOG_FILE_FORMAT,
    CHANGELOG_FILE_PREFIX,
    CHANGELOG_FILE_STATS_MODE,
    COLUMN_STATS_MODE,
    DATA_FILE_PREFIX,
    FILE_FORMAT,
    FILE_FORMAT_PER_LEVEL,
    STATS_MODE,
    STATS_MODE_PER_LEVEL,
)
from paimon_table.options.table_options import TableOptions
from paimon_table.schema.table_schema import TableSchema
from paimon_table.types import CHARACTERS, DataType, Root

_STATS_MODE = re.compile(r"none|counts|full|truncate\([1-9][0-9]*\)")


def check_files(schema: TableSchema, options: TableOptions) -> None:
    """Refuse formats, compressions, statistics and indexes that cannot be written for this schema."""
    _check_prefixes(options)
    _check_stats_modes(options)
    _check_formats(schema, options)
    check_key_types(schema, options)
    for indexed in options.bloom_filters:
        _check_index(indexed, schema)


def _check_prefixes(options: TableOptions) -> None:
    for option, prefix in (
        (DATA_FILE_PREFIX, options.data_file_prefix),
        (CHANGELOG_FILE_PREFIX, options.changelog_file_prefix),
    ):
        if not prefix or ".." in prefix:
            raise ConfigError(
                f"option {option!r}: {prefix!r} cannot begin a file name; write one such as 'data-', or remove it",
                option=option,
            )


def _check_stats_modes(options: TableOptions) -> None:
    modes = [(STATS_MODE, options.stats_mode)]
    modes += [(STATS_MODE_PER_LEVEL, mode) for _, mode in options.stats_mode_per_level]
    modes += [(CHANGELOG_FILE_STATS_MODE, mode) for mode in (options.changelog_file_stats_mode,) if mode is not None]
    modes += [(field_option(column, COLUMN_STATS_MODE), mode) for column, mode in options.field_options.stats_modes]
    for name, mode in modes:
        if not _STATS_MODE.fullmatch(mode.strip().lower()):
            raise ConfigError(
                f"option {name!r}: {mode!r} is unknown; use none, counts, truncate(N) or full", option=name
            )


def _check_formats(schema: TableSchema, options: TableOptions) -> None:
    named = [(FILE_FORMAT, options.file_format), (CHANGELOG_FILE_FORMAT, options.changelog_file_format)]
    named += [(FILE_FORMAT_PER_LEVEL, name) for _, name in options.file_format_per_level]
    for option, name in named:
        if name is not None and name not in KNOWN_FORMATS:
            raise UnsupportedFeature(
                f"option {option!r}: {name!r} is not supported; supported: {', '.join(KNOWN_FORMATS)}", option=option
            )
    for settings in dict.fromkeys(all_settings(options, schema.fields)):
        storing_format(settings, schema.fields)


def check_key_types(schema: TableSchema, options: TableOptions) -> None:
    """Raises ConfigError for key columns whose values lose trailing blanks in ORC files."""
    for f in (f for f in schema.key_fields if f.type.root is Root.CHAR):
        for settings in all_settings(options, schema.fields):
            if settings.format == ORC.name:
                raise ConfigError(
                    f"option {settings.format_option!r}: key column {f.name!r} of type {f.type} loses its trailing "
                    "blanks in ORC files, so that one key becomes several rows. Declare it as VARCHAR or STRING, or "
                    "use another format",
                    option=settings.format_option,
                )


def _check_index(indexed: BloomFilterColumn, schema: TableSchema) -> None:
    option = BLOOM_FILTER_COLUMNS.name
    if not schema.has_column(indexed.column):
        raise ConfigError(
            f"option {option!r}: {indexed.column!r} can not be found in the table schema; columns are: "
            f"{', '.join(schema.column_names)}",
            option=option,
        )
    column_type: DataType | None = schema.field(indexed.column).type
    if indexed.map_key is not None:
        key = column_type.key if column_type is not None and column_type.root is Root.MAP else None
        if column_type is None or key is None or key.root not in CHARACTERS:
            raise ConfigError(
                f"option {option!r}: {indexed.name!r} names a key of a map, but {indexed.column!r} has type "
                f"{column_type}. Only maps with texts as keys have values that can be indexed by key",
                option=option,
            )
        column_type = column_type.value
    if column_type is None or not can_be_hashed(column_type):
        raise ConfigError(
            f"option {option!r}: {indexed.name!r} has type {column_type}, for which there is no bloom filter; remove "
            "it from the option",
            option=option,
        )
