"""The columns that an event log adds to its source table's columns: what happened, when, and where it was read.

Tables of `mode: append` with `on_change: log` have these columns in front of all others.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from paimon_table.types import DataType, Root, parse_type, string

OnChange: TypeAlias = Literal["fail", "skip", "log"]
"""The effect of updates and deletes in a table without primary key.

They stop the pipeline; are skipped and counted; or become separate rows, with ``EVENT_COLUMNS`` in every row.
"""

EVENT_COLUMNS: tuple[tuple[str, DataType], ...] = (
    ("event_kind", string()),
    ("event_op", string()),
    ("event_time", parse_type("TIMESTAMP_LTZ(3)")),
    ("event_topic", string()),
    ("event_partition", DataType(Root.INT)),
    ("event_offset", DataType(Root.BIGINT)),
)
"""Kind of the row (+I, -U, +U, -D), operation as the source writes it, time of the change in the source (NULL if the
event has none), and the place of the record."""

TIME_TYPE = parse_type("TIMESTAMP_LTZ(3)")
"""The type of the columns for times of changes, in tables that keep deleted rows or all versions."""

EVENT_NAMES = tuple(name for name, _ in EVENT_COLUMNS)

TOLD_COLUMNS = tuple((f"_{name.upper()}", t) for name, t in EVENT_COLUMNS)
"""The same as input of a transform, with names that no column of the source has."""

PLACE_NAMES = ("position", "transaction", "total_order", "data_collection_order")
"""The place of an event in the log of its source."""

PLACE_COLUMNS = tuple(
    (f"_EVENT_{name.upper()}", DataType(Root.BIGINT) if name.endswith("order") else string()) for name in PLACE_NAMES
)

TOLD_NAMES = tuple(name for name, _ in TOLD_COLUMNS)
