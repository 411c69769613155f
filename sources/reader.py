"""How a kind of source is read, as the runner of a pipeline sees it: one contract for Kafka, dumps and others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from paimon_table.errors import TidemarkError
from sources.lag import Lag
from sources.loss import Losses
from sources.pace import Pace
from sources.positions import Place, Positions, Reading, Recorded
from sources.slices import SliceReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

OnStart: TypeAlias = Callable[[str, bool], None]
"""Gets a description of the source, and whether reading continues from the positions of the tables."""


ShareReader: TypeAlias = "Callable[[Iterable[bytes]], Iterator[pa.RecordBatch]]"
"""The records of shares of a batch; runs in tasks."""


class Standing(Protocol):
    """How far one pipeline has read, as its checkpoint and its tables show at any time."""

    @property
    def pipeline(self) -> str:
        """The pipeline's name, for messages."""
        ...

    @property
    def checkpoint(self) -> str:
        """Where the checkpoint lies, for messages."""
        ...

    @property
    def on_lost_checkpoint(self) -> str:
        """``resume``, ``fail`` or ``restart``: the policy for a new checkpoint if tables have positions."""
        ...

    @property
    def is_new(self) -> bool:
        """Whether the checkpoint has no planned batch."""
        ...

    def closed(self) -> Positions:
        """Where the last closed batch ended, or the first batch begins that is planned; empty before that."""
        ...

    def planned(self) -> Positions:
        """Where the batch ends that is planned and not closed, whose rows tables may have; empty without one."""
        ...

    def ends(self) -> Sequence[str]:
        """Where the last closed batches ended, in the text of the source: the oldest first, a hundred at most."""
        ...

    def recorded(self, topic_ids: Mapping[str, str]) -> Recorded:
        """The positions of the tables that the pipeline has written, under whatever checkpoint.

        ``topic_ids`` are the topics that are there now.
        """
        ...

    def forget_unused_start(self) -> None:
        """Remove the start that Spark noted for a checkpoint without a planned batch: it would win over ours."""
        ...

    def note_start(self, start: Positions) -> None:
        """Note durably where the first batch of a new checkpoint begins, as Spark's reader does."""
        ...

    def noted_start(self) -> Positions:
        """Where the first batch begins, as the checkpoint says."""
        ...

    def taken_over(self, topic_ids: Mapping[str, str]) -> Collection[str]:
        """Topics of which tables hold records from before this checkpoint, which are passed over by their offsets.

        ``topic_ids`` are the topics that are there now: others of their names do not count.
        """
        ...

    def move(self, places: Mapping[Place, int | None]) -> None:
        """Let reading continue durably at other offsets; with None a partition counts as new."""
        ...

    def cut(self, ends: Mapping[Place, int]) -> None:
        """Note durably that partitions have lost all from these offsets on, which other records get now."""
        ...

    def begin_anew(self, topics: Collection[str]) -> None:
        """Forget durably where tables stand that are not in the stream, and replays, in topics that were recreated."""
        ...

    def made_anew(self, topic_ids: Mapping[str, str]) -> Sequence[str]:
        """Topics noted under another id than they have now."""
        ...

    def note_topics(self, topic_ids: Mapping[str, str]) -> None:
        """Note topics with their ids durably; costs nothing once they are."""
        ...


class SourceReader(Protocol):
    """Reads one source for one query of a pipeline; lives on the driver."""

    losses: Losses
    """Records that were gone before they were read; handed on from query to query."""

    @property
    def is_drained_by_spark(self) -> bool:
        """Whether Spark's trigger ``availableNow`` reads the records that exist when the query starts, then ends it."""
        ...

    @property
    def share_reader(self) -> ShareReader | None:
        """Reads the shares that the rows of ``stream`` hold; None: the rows are the records."""
        ...

    @property
    def begin_words(self) -> str:
        """Where a new checkpoint begins, as ``begins at the earliest record``."""
        ...

    @property
    def failure(self) -> TidemarkError | None:
        """Why reading must not continue, found beside the running query."""
        ...

    @property
    def lag(self) -> Lag:
        """How far each partition is read, and where it ends; empty for a source without an end to compare with."""
        ...

    @property
    def silent_s(self) -> float | None:
        """How long the source has not answered; None while it does."""
        ...

    @property
    def group_failure_count(self) -> int:
        """How often the source did not take note of how far it is read (``group_id``); each is tried again."""
        ...

    @property
    def unread_bytes(self) -> int | None:
        """Bytes that no finished batch has read; None for a source whose ``lag`` says more."""
        ...

    @property
    def unfinished(self) -> Sequence[str]:
        """A description of incomplete input that could not be read; it may be complete later."""
        ...

    @property
    def why_nothing(self) -> str | None:
        """Why this query finds nothing to read, unless new records come; None if the tables have everything."""
        ...

    def note_read(self, topics: Collection[str]) -> None:
        """Know the topics of a batch, with their ids, before it is committed. Raises where one was recreated."""
        ...

    def read_to(self, offsets: Positions, newest_s: Mapping[Place, float]) -> None:
        """The tables have all records before these offsets; ``newest_s`` are the times of the last ones."""
        ...

    def check(self) -> None:
        """Raise ConfigError for faults that show without Spark. Called once, before the first ``stream``.

        Raises Outage for a source that does not answer.
        """
        ...

    def stream(self, spark: SparkSession, slots: int, on_start: OnStart, pace: Pace, interval_s: float) -> DataFrame:
        """Records (columns of ``RECORD_SCHEMA``) from the pipeline's position, for ``slots`` parallel tasks.

        With a ``share_reader`` the rows hold shares of the records in one binary column instead. Then ``pace`` and
        ``interval_s`` say when batches begin (``Cadence``); otherwise Spark's trigger does.

        Calls ``on_start`` once it knows what there is. Raises ConfigError or SinkUnavailable if the source cannot be
        read from there. May be called again when the query could not be started.
        """
        ...

    @property
    def wants_readings(self) -> bool:
        """Whether ``check_read`` is to be called for every batch."""
        ...

    def check_read(self, planned: Mapping[Place, tuple[int, int]], readings: Sequence[Reading]) -> None:
        """Check the reading of a batch's tasks before the batch commits anything.

        ``planned`` are the offsets (begin, end) of each partition in the batch. Raises an error if the batch must not
        continue; reports records that no longer exist.
        """
        ...

    def attach(self, spark: SparkSession) -> None:
        """Ask the source through this session, without a stream."""
        ...

    def slices(self) -> SliceReader:
        """Reads records again that the stream has passed; available after ``stream`` or ``attach``."""
        ...

    def explained(self, text: str) -> TidemarkError | None:
        """The cause of a Spark failure with this text, if the cause is the source; may ask the source."""
        ...

    def stop(self) -> None:
        """End the work beside the query."""
        ...
