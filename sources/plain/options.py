"""The options that all plain formats share."""

from __future__ import annotations

from dataclasses import dataclass

from sources.format_options import option, option_of_form
from sources.values.value_forms import ValueForms


@dataclass(frozen=True, slots=True)
class PlainOptions:
    """The meaning of null values and message keys."""

    on_null: str = option(
        "delete",
        "If a value is null in a table with a primary key, `delete` deletes the row of its message key, and `skip` "
        "does nothing. In a table without one the option has no effect.",
        "skip",
    )
    key_format: str = option(
        "auto",
        "How message keys are written. `auto` reads JSON objects as the columns that they name, and other keys as "
        "plain texts and numbers. `int` and `long` have 4 and 8 bytes, as Kafka's serializers write them. With `none`"
        " Tidemark ignores the keys.",
        "json",
        "string",
        "int",
        "long",
        "bytes",
        "none",
    )
    key_column: str | None = option_of_form(
        "text",
        None,
        "The column whose value is in the message key. Set it if rows lack a column of the primary key and the "
        "message key has no names. If the primary key is one column, deletes do not need this option.",
    )


def plain_problem(plain: PlainOptions) -> tuple[str, str] | None:
    """The option at fault and its fault; None if there is none."""
    if plain.key_column is not None and plain.key_format == "none":
        return "key_column", "`key_column` has no effect with `key_format: none`; remove one of them"
    return None


@dataclass(frozen=True, slots=True)
class PlainForms(ValueForms):
    """How applications write JSON values: decimals as numbers or texts."""

    decimal_format: str = option("text", "How the source writes decimals that are not JSON numbers.", "base64", "auto")
