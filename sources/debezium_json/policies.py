"""How to read Debezium's own events and forms."""

from __future__ import annotations

from dataclasses import dataclass

from sources.format_options import option


@dataclass(frozen=True, slots=True)
class DebeziumPolicies:
    """The options of the format that are not about the forms of values."""

    on_message: str = option(
        "skip", "What happens at a logical decoding message (op `m`): Tidemark skips it, or stops the pipeline.", "fail"
    )
    """``skip`` counts the event, ``fail`` gives a Refusal."""
    unavailable_value: str = option(
        "__debezium_unavailable_value",
        "The connector's `unavailable.value.placeholder`: a column that holds it keeps its earlier value.",
    )
