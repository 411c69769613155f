"""The options of single columns, ``fields.<column>.<option>``, as typed values.

Implements the names of Paimon's per-field options: aggregate functions and their settings, sequence groups, statistics.
What they mean is the business of the merge functions; whether they fit the columns, that of ``table_validation``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.option_values import Parser, boolean, integer, names, one_of, plain

_PREFIX = "fields."
_DEFAULT_FUNCTION = "fields.default-aggregate-function"
_SEQUENCE_GROUP = "sequence-group"


def _option(name: str, parse: Parser, default: Any) -> Any:
    return field(default=default, metadata={"name": name, "parse": parse})


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldOptions:
    """What the options say about one column."""

    aggregate_function: str | None = _option("aggregate-function", plain, None)
    ignore_retract: bool = _option("ignore-retract", boolean, False)
    distinct: bool = _option("distinct", boolean, False)
    list_agg_delimiter: str = _option("list-agg-delimiter", plain, ",")
    nested_key: tuple[str, ...] = _option("nested-key", names, ())
    nested_key_null_strategy: str = _option("nested-key-null-strategy", one_of("merge", "ignore", "error"), "merge")
    nested_sequence_fields: tuple[str, ...] = _option("nested-sequence-field", names, ())
    count_limit: int | None = _option("count-limit", integer(), None)
    ts_field: str | None = _option("ts-field", plain, None)
    stats_mode: str | None = _option("stats-mode", plain, None)


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """``fields.<sequence columns>.sequence-group = <protected columns>``, names as written (blanks count)."""

    sequence: tuple[str, ...]
    protected: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllFieldOptions:
    """The per-field options of one table; ``by_column`` holds the columns that have any."""

    by_column: Mapping[str, FieldOptions] = field(default_factory=dict)
    default_aggregate_function: str | None = None
    sequence_groups: tuple[SequenceGroup, ...] = ()

    @property
    def stats_modes(self) -> tuple[tuple[str, str], ...]:
        """(column, mode) of every ``fields.<column>.stats-mode``."""
        return tuple((name, o.stats_mode) for name, o in self.by_column.items() if o.stats_mode is not None)

    def of(self, column: str) -> FieldOptions:
        """The options of one column."""
        return self.by_column.get(column, _NONE)


_NONE = FieldOptions()
_DECLARED = {f.metadata["name"]: f for f in fields(FieldOptions)}
FIELD_OPTIONS = (*sorted(_DECLARED), _SEQUENCE_GROUP)
"""What may stand behind ``fields.<column>.``."""


def is_field_option(name: str) -> bool:
    """Whether ``name`` belongs to the family of per-field options."""
    return name.startswith(_PREFIX)


def parse_field_options(options: Mapping[str, str], columns: Sequence[str]) -> AllFieldOptions:
    """All per-field options among ``options``; others are not looked at.

    Raises ConfigError for columns that do not exist and unreadable values, UnsupportedFeature for unknown names.
    """
    by_column: dict[str, FieldOptions] = {}
    groups = []
    for name, text in options.items():
        if not is_field_option(name) or name == _DEFAULT_FUNCTION:
            continue
        column_part, _, option = name.removeprefix(_PREFIX).partition(".")
        named = tuple(column_part.split(","))
        _check_columns(name, named, columns)
        if option == _SEQUENCE_GROUP:
            protected = tuple(text.split(","))
            _check_columns(name, protected, columns)
            groups.append(SequenceGroup(named, protected))
            continue
        declared = _DECLARED.get(option)
        if "." in option:
            raise ConfigError(
                f"option {name!r}: a nested-field path is not supported on field {column_part!r}; only whole columns "
                "have options"
            )
        if declared is None:
            raise UnsupportedFeature(
                f"option {name!r} is not supported; per-field options are: {', '.join(FIELD_OPTIONS)}"
            )
        if len(named) > 1:
            raise ConfigError(
                f"option {name!r}: only {_SEQUENCE_GROUP} takes a list of columns; write one option per column: "
                f"{', '.join(f'{_PREFIX}{column}.{option}' for column in named)}"
            )
        value = declared.metadata["parse"](name, text)
        by_column[column_part] = replace(by_column.get(column_part, _NONE), **{declared.name: value})
    return AllFieldOptions(
        by_column=by_column,
        default_aggregate_function=options.get(_DEFAULT_FUNCTION),
        sequence_groups=tuple(groups),
    )


def _check_columns(name: str, named: Sequence[str], columns: Sequence[str]) -> None:
    for column in named:
        if column not in columns:
            hint = f" ({column!r}: blanks around commas count)" if column != column.strip() else ""
            raise ConfigError(
                f"option {name!r}: field {column} can not be found in the table schema{hint}; columns are: "
                f"{', '.join(columns)}"
            )
