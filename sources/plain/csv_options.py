"""The options of CSV."""

from __future__ import annotations

from dataclasses import dataclass

from sources.format_options import option, option_of_form
from sources.plain.options import PlainOptions, plain_problem

NO_QUOTE = "none"


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """How lines are written, and what their fields are called."""

    columns: tuple[str, ...] = option_of_form(
        "texts",
        ...,
        "The names of the fields, in order. A record whose fields equal these names is a header: Tidemark counts "
        "and skips it.",
    )
    delimiter: str = option_of_form("characters", ",", 'The character between two fields; a tab is `"\\t"`.')
    quote: str = option(
        '"',
        "The character around a field that contains delimiters or newlines. Doubled inside the field, it stands "
        "for itself. With `none`, quotes are part of the text.",
    )
    null_text: str = option(
        "",
        "The text of an unquoted field that means NULL; by default the empty text. A field in quotes is never NULL.",
    )

    @property
    def has_quotes(self) -> bool:
        return self.quote != NO_QUOTE


def csv_problem(plain: PlainOptions, csv: CsvOptions) -> tuple[str, str] | None:
    """The option at fault and its fault; None if there is none."""
    if not csv.columns:
        return "columns", "give at least one name of a column"
    if len({*csv.columns}) < len(csv.columns):
        twice = next(name for name in csv.columns if csv.columns.count(name) > 1)
        return "columns", f"column {twice!r} is given twice"
    for name, text in (("delimiter", csv.delimiter), ("quote", csv.quote)):
        if (len(text) != 1 or text in "\r\n") and not (name == "quote" and not csv.has_quotes):
            return name, f"{text!r} is not one character"
    if csv.delimiter == csv.quote:
        return "quote", "`quote` and `delimiter` are the same character"
    if csv.delimiter in csv.null_text:
        return "null_text", "`null_text` cannot have the delimiter in it"
    return plain_problem(plain)
