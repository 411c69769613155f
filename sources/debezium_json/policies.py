"""How to read Debezium's own events and forms."""

from __future__ import annotations

from dataclasses import dataclass

from sources.format_options import option


@dataclass(frozen=True, slots=True)
class DebeziumPolicies:
    """The options of the format that are not about the forms of values."""

    on_message: str = option(
        "skip",
        "For a logical decoding message (op `m`), `skip` counts and skips it, and `fail` stops the pipeline.",
        "fail",
    )
    """``skip`` counts the event, ``fail`` gives a Refusal."""
    unavailable_value: str = option(
        "__debezium_unavailable_value",
        "The connector's `unavailable.value.placeholder`. If a column holds it, the column keeps its earlier value.",
    )
