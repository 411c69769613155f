"""The words that rules use for rows: reading a pipeline file needs these words, but not Arrow."""

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
"""The value that the mask `redact` stores in place of a text."""

OF_SOURCE = frozenset({"topic", "partition", "database", "schema", "table"})
"""The names whose values are the same for all records of a source table in one topic partition."""

OF_PLACES = {name: f"_EVENT_{name.upper()}" for name in PLACE_NAMES}
OF_EVENTS = {"op": "_EVENT_OP", "source_time": "_EVENT_TIME", **OF_PLACES}
"""The names whose values the decoder provides, with the columns (``TOLD_COLUMNS``) that have them."""


class Leaving(StrEnum):
    """The meaning of a row that the filter rejects if the event lacks its old row."""

    OMITTED = "omitted"
    """Nothing: the table gets only rows."""
    DELETED = "deleted"
    """A delete of the row's key, which changes nothing if the table does not have the key."""
    REFUSED = "refused"
    """Unknown: the delete of a missing row would make a sum or a changelog wrong."""
