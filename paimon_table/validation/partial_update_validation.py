"""Rules between the options of partial-update and the columns, checked when a schema is created or changed.

Implements the checks of Paimon's engine. Paimon does most of them only when a writer or reader opens the table.
"""

from __future__ import annotations

from collections.abc import Sequence

from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.options.field_options import SequenceGroup, field_option, naming_option
from paimon_table.options.names import (
    IGNORE_DELETE,
    PARTIAL_UPDATE_REMOVE_ON_DELETE,
    PARTIAL_UPDATE_REMOVE_ON_GROUP,
    SEQUENCE_GROUP,
)
from paimon_table.options.table_options import TableOptions
from paimon_table.schema.table_schema import TableSchema
from paimon_table.validation.aggregation_validation import check_function_names

_NEEDS_NO_GROUP = "last_non_null_value"
"""The only function allowed without a group, because partial-update does the same by default."""


def validate_partial_update(schema: TableSchema, options: TableOptions) -> None:
    """Refuse options of a partial-update table that exclude each other or do not fit the columns; the error names them.

    Raises ConfigError for options that Paimon refuses too, UnsupportedFeature for options that it accepts without a
    defined meaning. Does not check tables of other engines.
    """
    if options.merge_engine != "partial-update":
        return
    check_function_names(schema, options)
    groups = options.field_options.sequence_groups
    _check_deletes(options, groups)
    _check_groups(schema, groups)
    _check_removing_groups(schema, groups)
    _check_functions(schema, options, groups)
    from paimon_table.merge.partial_update import partial_update  # this import loads Arrow, so only for this engine

    partial_update(schema, options)


def _check_deletes(options: TableOptions, groups: Sequence[SequenceGroup]) -> None:
    removes_on_delete = options.partial_update_remove_record_on_delete
    conflicts = (
        (IGNORE_DELETE, PARTIAL_UPDATE_REMOVE_ON_DELETE, options.ignore_delete and removes_on_delete),
        (
            IGNORE_DELETE,
            PARTIAL_UPDATE_REMOVE_ON_GROUP,
            options.ignore_delete and bool(options.partial_update_remove_record_on_sequence_group),
        ),
        (SEQUENCE_GROUP, PARTIAL_UPDATE_REMOVE_ON_DELETE, bool(groups) and removes_on_delete),
    )
    for one, other, is_conflict in conflicts:
        if is_conflict:
            raise ConfigError(
                f"options {one!r} and {other!r} have conflicting behavior, so they should not be enabled at the same "
                "time; remove one of them",
                option=other,
            )


def _check_groups(schema: TableSchema, groups: Sequence[SequenceGroup]) -> None:
    protected_by: dict[str, str] = {}
    sequence_of: dict[str, str] = {}
    for group in groups:
        option = _option_of(group)
        for name in (*group.sequence, *group.protected):
            if name in schema.primary_keys:
                raise ConfigError(
                    f"option {option!r}: the sequence-group contains the primary key field {name!r}, which is not "
                    "allowed; remove it from the group",
                    option=option,
                )
        for name in group.protected:
            if name in protected_by:
                raise ConfigError(
                    f"option {option!r}: field {name} is defined repeatedly by multiple groups, also by "
                    f"{protected_by[name]!r}; keep it in one",
                    option=option,
                )
            protected_by[name] = option
        for name in group.sequence:
            if schema.field(name).type.is_nested:
                raise UnsupportedFeature(
                    f"option {option!r}: {name!r} has a nested type; use a column that has an order", option=option
                )
            other = sequence_of.setdefault(name, option)
            if other != option:
                raise UnsupportedFeature(
                    f"options {other!r} and {option!r} share the sequence field {name!r}, and which of them moves it "
                    "is not defined. Make one group of them or give each a separate field",
                    option=other,
                )
    for name, option in protected_by.items():
        if sequence_of.get(name, option) != option:
            raise UnsupportedFeature(
                f"field {name!r} is the sequence of {sequence_of[name]!r} and protected by {option!r}, and which of "
                "them moves it is not defined. Remove it from one of them",
                option=option,
                column=name,
            )


def _check_removing_groups(schema: TableSchema, groups: Sequence[SequenceGroup]) -> None:
    text = schema.options.get(PARTIAL_UPDATE_REMOVE_ON_GROUP)
    if text is None:
        return
    sequence = {name for group in groups for name in group.sequence}
    for name in text.split(","):
        if name not in sequence:
            raise ConfigError(
                f"option {PARTIAL_UPDATE_REMOVE_ON_GROUP!r}: field {name!r} must be part of sequence groups, as one "
                f"that orders them (blanks around commas count); sequence fields are: "
                f"{', '.join(sorted(sequence)) or 'none'}",
                option=PARTIAL_UPDATE_REMOVE_ON_GROUP,
            )


def _check_functions(schema: TableSchema, options: TableOptions, groups: Sequence[SequenceGroup]) -> None:
    """A function needs the order of a group, except on key columns, which are never aggregated."""
    from paimon_table.merge.partial_update import function_name

    grouped = {name for group in groups for name in (*group.sequence, *group.protected)}
    for name in schema.column_names:
        function = function_name(options, name)
        if function in {None, _NEEDS_NO_GROUP} or name in grouped or name in schema.primary_keys:
            continue
        option = naming_option(name, options.field_options.of(name))
        raise ConfigError(
            f"option {option!r} = {function}: must use sequence group for aggregation functions, but found none for "
            f"field {name}; put it into fields.<column>.sequence-group or remove the function",
            option=option,
        )


def _option_of(group: SequenceGroup) -> str:
    return field_option(",".join(group.sequence), SEQUENCE_GROUP)
