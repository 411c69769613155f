"""Checks of the options that say how files are written, before a table is created. Pure."""

from __future__ import annotations

import re

from paimon_table.data_files.altered_values import check_key_types
from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.file_index.hashing import can_be_hashed
from paimon_table.file_index.index_options import BloomFilterColumn
from paimon_table.formats.registry import FORMATS, format_for
from paimon_table.options.file_settings import used_settings
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
        ("data-file.prefix", options.data_file_prefix),
        ("changelog-file.prefix", options.changelog_file_prefix),
    ):
        if not prefix or ".." in prefix:
            raise ConfigError(
                f"option {option!r}: {prefix!r} is no begin of a file name; write one such as 'data-', or remove it"
            )


def _check_stats_modes(options: TableOptions) -> None:
    modes = [("metadata.stats-mode", options.stats_mode)]
    modes += [("metadata.stats-mode.per.level", mode) for _, mode in options.stats_mode_per_level]
    modes += [("changelog-file.stats-mode", mode) for mode in (options.changelog_file_stats_mode,) if mode is not None]
    modes += [(f"fields.{column}.stats-mode", mode) for column, mode in options.field_options.stats_modes]
    for name, mode in modes:
        if not _STATS_MODE.fullmatch(mode.strip().lower()):
            raise ConfigError(f"option {name!r}: {mode!r} is unknown; use none, counts, truncate(N) or full")


def _check_formats(schema: TableSchema, options: TableOptions) -> None:
    named = [("file.format", options.file_format), ("changelog-file.format", options.changelog_file_format)]
    named += [("file.format.per.level", name) for _, name in options.file_format_per_level]
    for option, name in named:
        if name is not None and name not in FORMATS:
            raise UnsupportedFeature(f"option {option!r}: {name!r} is not supported; supported: {', '.join(FORMATS)}")
    for settings in dict.fromkeys(used_settings(options)):
        known = format_for(settings)
        for field in schema.fields:
            gap = known.gap(field.type)
            if gap is not None:
                raise ConfigError(
                    f"option {settings.format_option!r}: column {field.name!r} of type {field.type} cannot be stored, "
                    f"because {gap}; use another format or type"
                )


def _check_index(indexed: BloomFilterColumn, schema: TableSchema) -> None:
    option = "file-index.bloom-filter.columns"
    if not schema.has_column(indexed.column):
        raise ConfigError(
            f"option {option!r}: {indexed.column!r} can not be found in the table schema; columns are: "
            f"{', '.join(schema.column_names)}"
        )
    column_type: DataType | None = schema.field(indexed.column).type
    if indexed.map_key is not None:
        key = column_type.key if column_type is not None and column_type.root is Root.MAP else None
        if column_type is None or key is None or key.root not in CHARACTERS:
            raise ConfigError(
                f"option {option!r}: {indexed.name!r} names a key of a map, but {indexed.column!r} has type "
                f"{column_type}; only maps with texts as keys have values that can be indexed by key"
            )
        column_type = column_type.value
    if column_type is None or not can_be_hashed(column_type):
        raise ConfigError(
            f"option {option!r}: {indexed.name!r} has type {column_type}, for which there is no bloom filter; remove "
            "it from the option"
        )
