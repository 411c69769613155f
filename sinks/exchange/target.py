"""The facts about one target table for the tasks of one batch, as a value that travels with the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from paimon_table import LaneSplit, LiveFiles, TableContext, TableOptions, TableSchema
from sinks.exchange.version_columns import VersionColumns

UNAVAILABLE = "_UNAVAILABLE"
"""Column of change rows: positions of the columns whose value the source did not send."""

OTHER_KEY = "_OTHER_KEY"
"""Optional column of change rows: the other key of a change of the primary key, as JSON text of a list in primary key
order. A delete has the new key, a row with values that were not sent has the old one."""

WEAK = "_WEAK"
"""Column of change rows of a table that keeps versions: a row that leaves no trace where it changes nothing."""

ORDERED = "_ORDERED"
"""Optional column of change rows: whether a delete has sequence columns of its own."""

OFFSET = "_OFFSET"
"""Column of change rows: Kafka offset of the record a row came from."""


@dataclass(frozen=True, slots=True)
class Routing:
    """The facts about a target for a decode task: no storage, so that no secrets travel with the job's properties."""

    schema: TableSchema
    options: TableOptions
    lanes: LaneSplit
    floors: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """Per (topic, partition) the offset up to which the table has all rows: those below are dropped."""
    cuts: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """Per (topic, partition) the offset behind the newest TRUNCATE of the batch: rows below are left out."""


@dataclass(frozen=True, slots=True)
class Target:
    """One table of a batch plan.

    ``live`` are the files of the buckets at the plan's snapshot. ``is_appended`` says that the rows of the batch are in
    the table, where the number of the batch shows it: its changes are dropped.
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
    """The column with the time of the delete, where a delete keeps its row."""
    versions: VersionColumns | None = None
    """Where the table keeps every version of a row."""
    is_filtered: bool = False
    """Whether some rows of a source are left out: a row that left the table may have changed since, and come back."""
    former_columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Column -> the columns that have held the values of its source column, before that got another type."""
    is_paused: bool = False
    """Whether the batch continues without the table, which is neither read nor written."""
