"""The typed options of a table, parsed once from the schema's string map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.file_index.index_options import is_bloom_filter_option, parse_bloom_filters
from paimon_table.known_values import once_for_each
from paimon_table.nearest_name import nearest
from paimon_table.option_declaration import declared_in
from paimon_table.option_values import INT_MAX
from paimon_table.options import option_names as known
from paimon_table.options.field_options import is_field_option, parse_field_options
from paimon_table.options.names import (
    CHANGELOG_PRODUCER,
    MERGE_ENGINE,
    PARTITION_EXPIRATION_STRATEGY,
    SEQUENCE_AUTO_PADDING,
    TAG_CREATION,
    TARGET_FILE_ROW_COUNT,
)
from paimon_table.options.option_facts import declaration, is_typed, known_names
from paimon_table.options.retention_options import PARTITION_STRATEGIES, TAG_CREATIONS, RetentionOptions
from paimon_table.options.table_options import CHANGELOG_PRODUCERS, MERGE_ENGINES, TableOptions
from paimon_table.schema.schema_options import STORED_OPTIONS
from paimon_table.schema.table_schema import TableSchema

_FIELDS = {
    declared.name: (owner, field)
    for owner in (TableOptions, RetentionOptions)
    for field, declared in declared_in(owner).items()
}
"""The dataclass and the field of an option."""

_UNKEYED_FILE_BYTES = 256 << 20
"""Paimon's default of ``target-file-size`` for tables without primary key."""


def parse_options(options: Mapping[str, str], schema: TableSchema) -> TableOptions:
    """The typed options of a table; options may refer to the columns of ``schema``.

    Raises ConfigError for unknown names and unreadable values, UnsupportedFeature for options of Paimon that Tidemark
    does not support. ``table_validation.validate_table`` checks the rules between options and columns.
    """
    parts: dict[type[Any], dict[str, Any]] = {TableOptions: {}, RetentionOptions: {}}
    for name, text in options.items():
        declared = declaration(name)
        place = None if declared is None else _FIELDS.get(declared.name)
        if declared is not None and place is not None and (name == declared.name or place[1] not in parts[place[0]]):
            parts[place[0]][place[1]] = declared.parse(name, text)
    values = parts[TableOptions] | {"retention": RetentionOptions(**parts[RetentionOptions])}
    if not schema.primary_keys:
        values["has_key"] = False
        values.setdefault("target_file_size_bytes", _UNKEYED_FILE_BYTES)
    parsed = TableOptions(**_with_dependent_defaults(values))
    # First, so that the error names an unsupported engine rather than one of its options.
    _check_supported(parsed)
    for name, text in options.items():
        if not is_typed(name) and not is_field_option(name) and not is_bloom_filter_option(name):
            _check_undeclared(name, text)
    by_column = parse_field_options(options, schema.column_names)
    return replace(parsed, field_options=by_column, bloom_filters=parse_bloom_filters(options))


@once_for_each
def options_of(schema: TableSchema) -> TableOptions:
    """The typed options of a schema."""
    return parse_options(schema.options, schema)


def _with_dependent_defaults(values: dict[str, Any]) -> dict[str, Any]:
    if "compaction_trigger" in values:
        values.setdefault("num_levels", min(values["compaction_trigger"] + 1, INT_MAX))
    return values


def _check_undeclared(name: str, text: str) -> None:
    declared = declaration(name)
    if declared in STORED_OPTIONS:
        declared.parse(name, text)
        return
    instead = known.refusal_of(name, text)
    if instead is not None:
        raise UnsupportedFeature(f"option {name!r} is not supported yet: {instead}", option=name)
    if name in known.REFUSED or known.is_kept_for_others(name):
        return
    if known.is_unsupported(name):
        raise UnsupportedFeature(
            f"option {name!r} is an option of Paimon that Tidemark does not support; remove it", option=name
        )
    near = nearest(name, known_names(), at_least=0.0)
    raise ConfigError(f"option {name!r} is unknown; the nearest known option is {near!r}", option=name)


def _check_supported(options: TableOptions) -> None:
    for name, value, supported in (
        (MERGE_ENGINE, options.merge_engine, MERGE_ENGINES),
        (CHANGELOG_PRODUCER, options.changelog_producer, CHANGELOG_PRODUCERS),
        (PARTITION_EXPIRATION_STRATEGY, options.retention.partition_strategy, PARTITION_STRATEGIES),
        (TAG_CREATION, options.retention.tag_creation, TAG_CREATIONS),
    ):
        if value not in supported:
            raise UnsupportedFeature(
                f"option {name!r}: {value!r} is not supported; supported: {', '.join(supported)}", option=name
            )
    if options.update_before_first and len(options.sequence_auto_padding) > 1:
        # In the old versions with the option, arrival order decides between such values, never the flag.
        raise UnsupportedFeature(
            "option 'sequence.auto-padding': row-kind-flag has no effect with a padding of micros, which leaves no "
            "equal values; use row-kind-flag alone",
            option=SEQUENCE_AUTO_PADDING,
        )
    if options.target_file_row_count is not None:
        raise UnsupportedFeature(
            "option 'target-file-row-num' is not supported: 'target-file-size' limits files; remove the option",
            option=TARGET_FILE_ROW_COUNT,
        )
