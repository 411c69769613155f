"""How values look where the records carry no schema that says it, or look the same under every schema."""

from __future__ import annotations

from dataclasses import dataclass

from sources.format_options import option


@dataclass(frozen=True, slots=True)
class ValueForms:
    """What the converters of values go by; docs/TYPES.md explains each."""

    decimal_format: str = option(
        "auto",
        "How decimals are written where the records carry no schema; the connector's `decimal.handling.mode`. "
        "`auto` tells it from the values and the column's type.",
        "base64",
        "text",
    )
    time_precision: str = option(
        "adaptive",
        "How times are written where the records carry no schema; the connector's `time.precision.mode`.",
        "connect",
    )
    binary_format: str = option(
        "base64", "How bytes are written; the connector's `binary.handling.mode`.", "base64-url-safe", "hex"
    )
    infinity: str = option(
        "extreme",
        "What `infinity` and `-infinity` become in timestamps: the largest and smallest value, NULL, or the record "
        "goes to quarantine.",
        "null",
        "quarantine",
    )
