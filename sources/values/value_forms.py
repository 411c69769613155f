"""The forms of values that no schema in the records states, or that look the same under every schema."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sources.format_options import option


@dataclass(frozen=True, slots=True)
class ValueForms:
    """The settings of the converters of values; docs/TYPES.md explains each."""

    decimal_format: str = option(
        "auto",
        "How decimals are written in records without a schema; the connector's `decimal.handling.mode`. `auto` "
        "decides for each value. If a value fits both forms, its record goes to quarantine, unless many values of "
        "the column show the form.",
        "base64",
        "text",
    )
    time_precision: str = option(
        "adaptive",
        "How times are written in records without a schema; the connector's `time.precision.mode`.",
        "connect",
    )
    binary_format: str = option(
        "base64", "How bytes are written; the connector's `binary.handling.mode`.", "base64-url-safe", "hex"
    )
    infinity: str = option(
        "extreme",
        "If a timestamp or date is `infinity` or `-infinity`, `extreme` stores the largest or smallest value, and "
        "`null` stores NULL. `quarantine` puts the record into the quarantine.",
        "null",
        "quarantine",
    )

    @property
    def of_texts(self) -> ValueForms:
        """The forms of a column whose embedded schema says that its strings are texts."""
        return self if self.decimal_format == "text" else replace(self, decimal_format="text")

    def form_of_decimal(self, found: str) -> str:
        """The form of a decimal whose text is ``found`` (``json_values.decimal_form``), under ``auto``.

        If many values of the column are texts, a word that is also base64 is hardly a number.
        """
        if found == "ambiguous":
            return AMBIGUOUS_DECIMALS.get(self.decimal_format, found)
        return "ambiguous" if found == "base64" and self.decimal_format == "auto-text" else found


NO_TEXTS = "none"
"""``binary_format`` of formats whose bytes are bytes: a text in a column of bytes is a text."""
AMBIGUOUS_DECIMALS = {"auto-base64": "base64", "auto-text": "text"}
"""``decimal_format: auto`` for a column in which many values have decided about ambiguous ones."""
