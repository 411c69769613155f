"""The options of single columns, ``fields.<column>.<option>``, as typed values.

Implements the names of Paimon's per-field options: aggregate functions and their settings, sequence groups, statistics.
The merge functions define their effect; ``table_validation`` checks that they fit the columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.option_declaration import Declaration, Need, declared_in, listed, option
from paimon_table.option_values import boolean, integer, names, one_of, plain
from paimon_table.options.names import (
    AGGREGATE_FUNCTION,
    COLUMN_STATS_MODE,
    COUNT_LIMIT,
    DEFAULT_AGGREGATE_FUNCTION,
    DISTINCT,
    IGNORE_RETRACT,
    LIST_AGG_DELIMITER,
    MERGE_ENGINE,
    NESTED_KEY,
    NESTED_KEY_NULL_STRATEGY,
    NESTED_SEQUENCE_FIELD,
    SEQUENCE_GROUP,
    TS_FIELD,
)

AGGREGATING = ("aggregation", "partial-update")
"""The merge engines that use aggregate functions."""

_PREFIX = "fields."
_AGGREGATION = Need(MERGE_ENGINE, AGGREGATING)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldOptions:
    """The options about one column; each function decides which settings it uses."""

    aggregate_function: str | None = option(AGGREGATE_FUNCTION, plain, None, needs=_AGGREGATION)
    ignore_retract: bool = option(IGNORE_RETRACT, boolean, False, needs=_AGGREGATION)
    distinct: bool = option(DISTINCT, boolean, False, needs=_AGGREGATION)
    list_agg_delimiter: str = option(LIST_AGG_DELIMITER, plain, ",", needs=_AGGREGATION)
    nested_key: tuple[str, ...] = option(NESTED_KEY, names, (), needs=_AGGREGATION)
    nested_key_null_strategy: str = option(
        NESTED_KEY_NULL_STRATEGY, one_of("merge", "ignore", "error"), "merge", needs=_AGGREGATION
    )
    nested_sequence_fields: tuple[str, ...] = option(NESTED_SEQUENCE_FIELD, names, (), needs=_AGGREGATION)
    count_limit: int | None = option(COUNT_LIMIT, integer(), None, needs=_AGGREGATION)
    ts_field: str | None = option(TS_FIELD, plain, None, needs=_AGGREGATION)
    stats_mode: str | None = option(COLUMN_STATS_MODE, plain, None)


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """``fields.<sequence columns>.sequence-group = <protected columns>``, with names as written (blanks count)."""

    sequence: tuple[str, ...]
    protected: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllFieldOptions:
    """The per-field options of one table; ``by_column`` has the columns with options."""

    by_column: Mapping[str, FieldOptions] = field(default_factory=dict)
    sequence_groups: tuple[SequenceGroup, ...] = ()

    @property
    def stats_modes(self) -> tuple[tuple[str, str], ...]:
        """(column, mode) of every ``fields.<column>.stats-mode``."""
        return tuple((name, o.stats_mode) for name, o in self.by_column.items() if o.stats_mode is not None)

    def of(self, column: str) -> FieldOptions:
        """The options of one column."""
        return self.by_column.get(column, _NONE)


_NONE = FieldOptions()
_FIELDS = {declared.name: name for name, declared in declared_in(FieldOptions).items()}
_GROUP = Declaration(name=SEQUENCE_GROUP, parse=names, needs=Need(MERGE_ENGINE, ("partial-update",)), columns=listed)
_DECLARED = {declared.name: declared for declared in (*declared_in(FieldOptions).values(), _GROUP)}
FIELD_OPTIONS = (*sorted(_FIELDS), _GROUP.name)
"""The names that may follow ``fields.<column>.``."""


def field_option(column: str, option: str) -> str:
    """The full name of the option of one column."""
    return f"{_PREFIX}{column}.{option}"


def readable_settings(column: str, options: Mapping[str, str]) -> FieldOptions:
    """The options of a column that may not exist; unreadable values are replaced by their defaults."""
    values: dict[str, Any] = {}
    for field_name, declared in declared_in(FieldOptions).items():
        name = field_option(column, declared.name)
        with suppress(ConfigError):
            if name in options:
                values[field_name] = declared.parse(name, options[name])
    return FieldOptions(**values)


def naming_option(column: str, options: FieldOptions) -> str:
    """The option that names the aggregate function of a column with the options ``options``."""
    return (
        DEFAULT_AGGREGATE_FUNCTION if options.aggregate_function is None else field_option(column, AGGREGATE_FUNCTION)
    )


def is_field_option(name: str) -> bool:
    """Whether ``name`` belongs to the family ``fields.<columns>.<option>``."""
    return name.startswith(_PREFIX) and name != DEFAULT_AGGREGATE_FUNCTION


def named_columns(name: str) -> str:
    """The columns in the name of a per-field option, as written; empty for other names."""
    columns, dot, _ = name.removeprefix(_PREFIX).partition(".")
    return columns if dot and is_field_option(name) else ""


def declared_setting(name: str) -> Declaration | None:
    """The declaration of a per-field option by its full name; None for other names."""
    return _DECLARED.get(name.removeprefix(_PREFIX).partition(".")[2]) if is_field_option(name) else None


def parse_field_options(options: Mapping[str, str], columns: Sequence[str]) -> AllFieldOptions:
    """All per-field options among ``options``; ignores other options.

    Raises ConfigError for columns that do not exist and unreadable values, UnsupportedFeature for unknown names.
    """
    by_column: dict[str, FieldOptions] = {}
    groups = []
    for name, text in options.items():
        if not is_field_option(name):
            continue
        column_part, _, setting = name.removeprefix(_PREFIX).partition(".")
        named = tuple(column_part.split(","))
        _check_columns(name, named, columns)
        if setting == _GROUP.name:
            protected = tuple(text.split(","))
            _check_columns(name, protected, columns)
            groups.append(SequenceGroup(named, protected))
            continue
        _check_setting(name, column_part, setting)
        value: Any = _DECLARED[setting].parse(name, text)
        by_column[column_part] = replace(by_column.get(column_part, _NONE), **{_FIELDS[setting]: value})
    return AllFieldOptions(by_column=by_column, sequence_groups=tuple(groups))


def _check_columns(name: str, named: Sequence[str], columns: Sequence[str]) -> None:
    for column in named:
        if column not in columns:
            hint = f" ({column!r}: blanks around commas count)" if column != column.strip() else ""
            raise ConfigError(
                f"option {name!r}: field {column} can not be found in the table schema{hint}; columns are: "
                f"{', '.join(columns)}",
                option=name,
            )


def _check_setting(name: str, columns: str, setting: str) -> None:
    if "." in setting:
        raise ConfigError(
            f"option {name!r}: a nested-field path is not supported on field {columns!r}; only whole columns "
            "have options",
            option=name,
        )
    if setting not in _FIELDS:
        raise UnsupportedFeature(
            f"option {name!r} is not supported; per-field options are: {', '.join(FIELD_OPTIONS)}", option=name
        )
    if "," in columns:
        raise ConfigError(
            f"option {name!r}: only {_GROUP.name} takes a list of columns; write one option per column: "
            f"{', '.join(field_option(column, setting) for column in columns.split(','))}",
            option=name,
        )
