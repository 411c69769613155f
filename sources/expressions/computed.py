"""Checks expressions and masks of a rule against the columns of its source, and makes the computed columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Literal

from paimon_table.errors import ConfigError
from paimon_table.types import CHARACTERS, DataType, Root, sql, string
from sources.expressions.evaluation import Column
from sources.expressions.expression import (
    BadExpression,
    Bound,
    bound,
    check_parts,
    column_name,
    converted,
    missing_columns,
    parsed,
    resolved,
    result_type,
)
from sources.expressions.result_types import quoted
from sources.expressions.rule_words import REDACTED


def problem_of(text: str, *, columns: Mapping[str, DataType], is_condition: bool = False) -> str | None:
    """The fault of an expression, if the columns with known types show one."""
    try:
        expression = parsed(text)
        if is_condition and not expression.columns and not expression.metadata:
            return "it names no column, so it is the same for every row; write names of columns without single quotes"
        if missing_columns(expression, columns):
            check_parts(expression)
        else:
            t = result_type(bound(expression, columns), columns)
            return _no_condition(t) if is_condition else None
    except BadExpression as error:
        return str(error)
    return None


def lacking(text: str, columns: Collection[str]) -> tuple[str, ...]:
    """The names in an expression that are not columns."""
    try:
        return missing_columns(parsed(text), columns)
    except BadExpression as error:
        raise ConfigError(f"{text}: {error}") from error


def inputs(text: str, columns: Collection[str]) -> tuple[str, ...]:
    """The columns that an expression names."""
    try:
        names = (resolved(name, columns) for name in parsed(text).columns)
        return tuple(name for name in names if name is not None)
    except BadExpression as error:
        raise ConfigError(f"{text}: {error}") from error


def named(text: str) -> tuple[str, ...]:
    """The names of columns in an expression, as it writes them."""
    return parsed(text).columns


def metadata_of(text: str) -> tuple[str, ...]:
    return parsed(text).metadata


def typed(place: str, text: str, columns: Mapping[str, DataType]) -> DataType:
    """The type of an expression. Raises ConfigError, which begins with ``place``, if it has none."""
    return _bound(place, text, columns)[1]


def check_meaning(place: str, text: str, before: Mapping[str, DataType], after: Mapping[str, DataType]) -> None:
    """Raise ConfigError for an expression with another meaning now that the types of columns have changed."""
    if lacking(text, before) or lacking(text, after):
        return
    if _bound(place, text, before)[0].cuts != _bound(place, text, after)[0].cuts:
        raise ConfigError(
            f"{place}: truncate cuts a number to a multiple and a text to its beginning, and the type of its column "
            f"changes. Cast it to the type that you mean, such as truncate(CAST(c AS BIGINT), 10)"
        )


def condition(place: str, text: str, columns: Mapping[str, DataType]) -> Bound:
    """An expression that is true or false."""
    expression, t = _bound(place, text, columns)
    wrong = _no_condition(t)
    if wrong is not None:
        raise ConfigError(f"{place}: {wrong}")
    return expression


def _no_condition(t: DataType) -> str | None:
    if t.root is Root.BOOLEAN:
        return None
    return f"a condition is true or false, but this is {sql(t)}: compare it with a value"


def computed_column(place: str, text: str, columns: Mapping[str, DataType], wanted: DataType) -> Column:
    """The column of type ``wanted`` that an expression makes."""
    expression, given = _bound(place, text, columns)
    return Column.of(expression, given, wanted)


def masked_column(
    column: str, mask: Literal["redact"] | int, key: str | None, columns: Mapping[str, DataType], wanted: DataType
) -> Column:
    """A column that hides values: by a keyed hash, by stars before the last characters, or completely."""
    t = columns[column]
    if key is not None:
        return Column.hashed(column, t, wanted, key)
    value = quoted(column_name(column))
    if mask == "redact":
        is_text = t.root in CHARACTERS and wanted.root in CHARACTERS
        if not is_text:
            return Column("redact", (column,), (), wanted, "NULL")
        shown = f"CASE WHEN {value} IS NULL THEN NULL ELSE '{REDACTED}' END"
        return Column("redact", (column,), (), wanted, *converted(shown, string(), wanted))
    text = f"CAST({value} AS VARCHAR)"
    stars = f"repeat('*', length({text}) - {mask})"
    sql_ = (
        f"CASE WHEN length({text}) > {mask} THEN {stars} || right({text}, {mask}) ELSE repeat('*', length({text})) END"
    )
    return Column(f"show_last {mask}", (column,), (), wanted, *converted(f"({sql_})", string(), wanted))


def mask_type(column: str, mask: str, t: DataType) -> DataType:
    """The type of a masked column: text; or with `redact` the column's own, if it is not text and becomes NULL."""
    return t if mask == "redact" and t.root not in CHARACTERS else string()


def _bound(place: str, text: str, columns: Mapping[str, DataType]) -> tuple[Bound, DataType]:
    try:
        return _typed(text, tuple(columns.items()))
    except BadExpression as error:
        raise ConfigError(f"{place}: {error}") from error


@lru_cache(maxsize=10_000)
def _typed(text: str, columns: tuple[tuple[str, DataType], ...]) -> tuple[Bound, DataType]:
    """Called again for each batch."""
    types = dict(columns)
    expression = bound(parsed(text), types)
    return expression, result_type(expression, types)
