"""The visible state of a running process at one moment, as plain values for metrics, `status` and the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from paimon_table.errors import WHERE_MORE
from pipelines.catchup.shown_standing import Standing
from pipelines.views.process_memory import ProcessUse
from pipelines.views.table_shape import TableShape
from sinks.write.unsent import Unsent
from sources.lag import PlaceLag
from sources.positions import Place
from sources.wording import BadReason


class Phase(StrEnum):
    """The phases of a pipeline between its start and its end."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"
    """For transient failures."""
    STOPPING = "stopping"
    ENDED = "ended"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Beside:
    """Unfinished work that writes a table alongside the stream of its pipeline."""

    work: str
    """`catch-up`, `backfill`, `replay` or `rebuild`."""
    records: int
    """Records read so far; for a replay, also those of earlier processes."""
    records_left: int | None
    """About how many records are left; None if unknown."""
    position: str
    """The position of the next records, in words."""
    rows: int = 0
    """Rows written since the start; the rows of a rebuild are not in the table before its switch."""
    slice_s: float | None = None
    """When the last slice was done, if one was since the start."""


class EventKind(StrEnum):
    """The subject of a pipeline's event."""

    STARTED = "started"
    WAITING = "waiting"
    """For transient failures."""
    GOING_ON = "going on"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    PAUSED = "paused"
    """A table."""
    RESUMED = "resumed"
    """A table; it reads the records that it missed."""
    CAUGHT_UP = "caught up"
    """A table; it is in the stream again."""
    SCHEMA = "schema change"
    BAD_RECORDS = "bad records"
    RETRY = "retry"
    RELOADED = "reloaded"
    """The pipeline file."""
    RELOAD_REFUSED = "reload refused"
    ACTION = "action"
    """Requested on the page."""


@dataclass(frozen=True, slots=True)
class EventView:
    """Something that happened to a pipeline; what happens again is one event that counts."""

    time_s: float
    """When it happened last."""
    kind: EventKind
    table: str
    """Empty if it is about the whole pipeline."""
    reason: str
    """Further details. May contain values of rows."""
    public_reason: str = ""
    """The same for those who may not see rows."""
    count: int = 1


@dataclass(frozen=True, slots=True)
class BadGroup:
    """Bad records of one table with one kind of reason."""

    table: str
    """Its identifier, or words for why there is none."""
    reason: str
    """The kind of reason, without values."""
    word: BadReason
    put_aside: int
    """Put into the quarantine since the start of the process."""
    open: int | None
    """In the quarantine when it was counted last; None before it was counted once."""


@dataclass(frozen=True, slots=True)
class TableView:
    """One table of a pipeline. Counts cover the stream and the work alongside it since the start of the process."""

    name: str
    standing: Standing
    reason: str
    """Why it is not running; empty for one that is. May hold values of rows."""
    since_s: float | None
    """Since when it is not in the stream; None for one that is."""
    events: int
    """Events that gave rows for the table."""
    rows: int
    changelog_rows: int
    snapshot_id: int
    """0 before the first."""
    snapshot_time_s: float | None
    shape: TableShape
    public_reason: str = WHERE_MORE
    """The reason for those who may not see rows."""
    beside: Beside | None = None
    unsent: Unsent = field(default_factory=dict)
    """Values that the source left out and that no row gives for certain, by column and replacement."""
    topics: tuple[str, ...] = ()
    """The topics that are known to feed the table."""
    missed_records: int | None = None
    """About how many records of its topics it has not read, of a table that is not in the stream; None: not known."""
    has_bad_records: bool = False
    """Whether it is paused because too many of its records are bad."""
    schema_changes: Mapping[str, int] = field(default_factory=dict)
    """How often it has followed a change of its source's schema, by kind."""
    late_rows: int = 0
    """Rows that lost against newer ones of their key which had come before them."""


@dataclass(frozen=True, slots=True)
class BatchView:
    """One batch that is done."""

    id: int
    ended_s: float
    seconds: float
    """Wall time without what it shares with the batch before."""
    records: int
    rows: int
    tables: int
    steps: Mapping[str, float]
    """Wall time of the driver per step."""


@dataclass(frozen=True, slots=True)
class Point:
    """The curves of the page."""

    time_s: float
    records: int
    """Since the start."""
    lag_records: int | None
    lag_s: float | None


@dataclass(frozen=True, slots=True)
class Durations:
    """How long batches took: the number of batches up to each bound in seconds, and of all."""

    at_most: Mapping[float, int] = field(default_factory=dict)
    count: int = 0
    sum_s: float = 0.0


@dataclass(frozen=True, slots=True)
class PipelineView:
    """One pipeline. Counts begin at the start of the process."""

    name: str
    phase: Phase
    reason: str
    """The cause of its end, or what it waits for. May hold values of rows."""
    checkpoint: str
    records: int
    skipped: Mapping[str, int]
    retries: Mapping[str, int]
    """By what for."""
    step_seconds: Mapping[str, float]
    task_seconds: Mapping[str, float]
    durations: Durations
    running_batch: int | None
    running_since_s: float | None
    last_batches: tuple[BatchView, ...]
    """Oldest first."""
    tables: tuple[TableView, ...]
    places: tuple[PlaceLag, ...]
    source_silent_s: float | None
    """How long the source has not answered; None while it does."""
    history: tuple[Point, ...]
    lost_offsets: Mapping[Place, int] = field(default_factory=dict)
    """Per partition how many offsets were lost before they were read."""
    group_failures: int = 0
    """How often the offsets of the consumer group (``group_id``) could not be committed."""
    unread_bytes: int | None = None
    """Of dump files, after the finished batches; None for other sources."""
    public_reason: str = WHERE_MORE
    """The reason for those who may not see rows."""
    bad_records: tuple[BadGroup, ...] = ()
    """Bad records in the quarantine, or put there since the start, by table, the most frequent first."""
    bad_counted_s: float | None = None
    """When the quarantine was counted last."""
    events: tuple[EventView, ...] = ()
    """The newest ones, oldest first."""

    @property
    def open_bad_records(self) -> int | None:
        """In the quarantine when it was counted last; None before it was counted once."""
        return None if self.bad_counted_s is None else sum(group.open or 0 for group in self.bad_records)

    @property
    def lag_records(self) -> int | None:
        """Over all partitions; None if none is known."""
        known = [place.records for place in self.places if place.records is not None]
        return sum(known) if known else None

    @property
    def lag_s(self) -> float | None:
        """Of the partition with the longest lag."""
        return max((place.seconds for place in self.places if place.seconds is not None), default=None)

    def tables_that_are(self, standing: Standing) -> int:
        """How many tables take part in this way."""
        return sum(table.standing is standing for table in self.tables)


@dataclass(frozen=True, slots=True)
class RunView:
    """The whole process."""

    version: str
    python: str
    spark: str
    """Empty before Spark has started."""
    host: str
    pid: int
    started_s: float
    time_s: float
    """When this was seen."""
    pipelines: tuple[PipelineView, ...]
    processes: Mapping[str, ProcessUse]
