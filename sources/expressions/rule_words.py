"""What rules say of rows, as words: reading a pipeline file needs these, and no Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from paimon_table.types import DataType, Root, parse_type, string
from sources.event_columns import PLACE_NAMES

_TIME = parse_type("TIMESTAMP_LTZ(3)")

METADATA: Mapping[str, DataType] = {
    "op": string(),
    "source_time": _TIME,
    "topic": string(),
    "partition": DataType(Root.INT),
    "offset": DataType(Root.BIGINT),
    "timestamp": _TIME,
    "key": string(),
    "headers": parse_type("MAP<STRING, STRING>"),
    "database": string(),
    "schema": string(),
    "table": string(),
    "ingested_at": _TIME,
    "position": string(),
    "transaction": string(),
    "total_order": DataType(Root.BIGINT),
    "data_collection_order": DataType(Root.BIGINT),
}
"""The names, without the dollar."""

REDACTED = "***"
"""What the mask `redact` stores of a text."""

OF_SOURCE = frozenset({"topic", "partition", "database", "schema", "table"})
"""Those that are the same for all records of a source table in one topic partition."""

OF_PLACES = {name: f"_EVENT_{name.upper()}" for name in PLACE_NAMES}
OF_EVENTS = {"op": "_EVENT_OP", "source_time": "_EVENT_TIME", **OF_PLACES}
"""Those that the decoder gives, and the columns (``TOLD_COLUMNS``) in which it does; the places where it is asked."""


class Leaving(StrEnum):
    """What a row that the filter does not take means where its old row is not in the event."""

    OMITTED = "omitted"
    """Nothing: the table gets rows alone."""
    DELETED = "deleted"
    """A delete of its key, which changes nothing where the table does not have it."""
    REFUSED = "refused"
    """Nobody knows: a delete of what is not there would make a wrong sum or a wrong changelog."""
