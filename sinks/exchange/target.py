"""The facts about one target table for the tasks of one batch, as a value that travels with the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from paimon_table import LaneSplit, LiveFiles, TableContext, TableOptions, TableSchema
from sinks.exchange.version_columns import VersionColumns

UNAVAILABLE = "_UNAVAILABLE"
"""Column of change rows: positions of the columns whose value the source did not send."""

OTHER_KEY = "_OTHER_KEY"
"""Optional column of change rows: the other key of a key change, as JSON text of a list in primary key order. A delete
has the new key, the moved row has the old one."""

WEAK = "_WEAK"
"""Column of change rows of a table that keeps versions: whether the row adds nothing if it changes nothing."""

ORDERED = "_ORDERED"
"""Optional column of change rows: whether a delete has sequence columns of its own."""

OFFSET = "_OFFSET"
"""Column of change rows: the Kafka offset of the row's record."""


@dataclass(frozen=True, slots=True)
class Routing:
    """The facts about a target for a decode task. It has no storage, so that no secrets travel with the job's
    properties."""

    schema: TableSchema
    options: TableOptions
    lanes: LaneSplit
    floors: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """Per (topic, partition) the offset up to which the table has all rows: those below are dropped."""
    cuts: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """Per (topic, partition) the offset after the newest TRUNCATE of the batch: rows below are left out."""


@dataclass(frozen=True, slots=True)
class Target:
    """One table of a batch plan.

    ``live`` are the files of the buckets at the plan's snapshot. If ``is_appended``, the batch number shows that the
    table has the rows of the batch, so its changes are dropped.
    """

    identifier: str
    context: TableContext
    live: LiveFiles
    is_appended: bool = False
    compacts_fully: bool = False
    """Whether this batch ends with a full compaction of every bucket."""
    departed: tuple[str, ...] = ()
    """Rows that moved to another key at the end of the last batches, as texts of ``sinks.write.departed``."""
    deleted_at: str | None = None
    """The column with the time of the delete, if a delete keeps its row."""
    versions: VersionColumns | None = None
    """The version columns, if the table keeps every version of a row."""
    is_filtered: bool = False
    """Whether a filter leaves some rows of a source out: a row may leave the table, change outside of it, and
    return."""
    former_columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By column, the columns that had its values before the source column changed its type."""
    is_paused: bool = False
    """Whether the batch continues without the table, which is neither read nor written."""
