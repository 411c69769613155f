"""The contract between a kind of source and the runner of a pipeline: the same for Kafka, dumps and others."""

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


ReadHere: TypeAlias = "Callable[[Mapping[Place, tuple[int, int]]], list[pa.RecordBatch] | None]"
"""Reads the offsets (begin, end) of a small batch in the driver; None: let tasks read them."""


class Standing(Protocol):
    """The progress of one pipeline, from its checkpoint and its tables, as it is at each call."""

    @property
    def pipeline(self) -> str:
        """The pipeline's name, for messages."""
        ...

    @property
    def checkpoint(self) -> str:
        """The path of the checkpoint, for messages."""
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
        """The end of the last closed batch, or the begin of the first planned batch; empty before that."""
        ...

    def planned(self) -> Positions:
        """The end of the planned batch that is not closed, whose rows tables may have; empty without one."""
        ...

    def let_go(self, places: Collection[Place]) -> Positions:
        """The ends of partitions in the last closed batch that names them, unless no table has them."""
        ...

    def ends(self) -> Sequence[str]:
        """The ends of the last closed batches, in the text form of the source: oldest first, at most a hundred."""
        ...

    def recorded(self, topic_ids: Mapping[str, str]) -> Recorded:
        """The positions of the tables that the pipeline has written, under any checkpoint.

        ``topic_ids`` are the present topics.
        """
        ...

    def forget_unused_start(self) -> None:
        """Remove the start that Spark recorded for a checkpoint without a planned batch: it would override ours."""
        ...

    def note_start(self, start: Positions) -> None:
        """Record durably where the first batch of a new checkpoint begins, as Spark's reader does."""
        ...

    def noted_start(self) -> Positions:
        """The begin of the first batch, from the checkpoint."""
        ...

    def taken_over(self, topic_ids: Mapping[str, str]) -> Collection[str]:
        """Topics whose records from before this checkpoint tables already hold, and which are skipped by their offsets.

        ``topic_ids`` are the present topics: earlier topics of the same names do not count.
        """
        ...

    def move(self, places: Mapping[Place, int | None]) -> None:
        """Make reading continue durably at other offsets; with None a partition counts as new."""
        ...

    def cut(self, ends: Mapping[Place, int]) -> None:
        """Record durably that partitions lost all records from these offsets on; other records get the offsets."""
        ...

    def begin_anew(self, topics: Collection[str]) -> None:
        """Drop durably the positions of tables outside the stream, and of replays, in topics that were recreated."""
        ...

    def made_anew(self, topic_ids: Mapping[str, str]) -> Sequence[str]:
        """Topics whose recorded id differs from the present one."""
        ...

    def note_topics(self, topic_ids: Mapping[str, str]) -> None:
        """Record topics with their ids durably; writes nothing if they are recorded."""
        ...


class SourceView(Protocol):
    """Facts that the reader of a source has anyway."""

    losses: Losses
    """Records that disappeared before they were read; passed on from query to query."""

    @property
    def lag(self) -> Lag:
        """The progress and the end of each partition; empty for a source without an end to compare with."""
        ...

    @property
    def silent_s(self) -> float | None:
        """How many seconds the source has not answered; None while it does."""
        ...

    @property
    def group_failure_count(self) -> int:
        """How many commits of offsets to the source failed (``group_id``); each is retried."""
        ...

    @property
    def unread_bytes(self) -> int | None:
        """Bytes that no finished batch has read; None for a source with a more precise ``lag``."""
        ...


class SourceReader(SourceView, Protocol):
    """Reads one source for one query of a pipeline; lives on the driver."""

    @property
    def is_drained_by_spark(self) -> bool:
        """Whether Spark's trigger ``availableNow`` reads the records that exist when the query starts, then ends it."""
        ...

    @property
    def share_reader(self) -> ShareReader | None:
        """Reads the shares in the rows of ``stream``; None: the rows are the records."""
        ...

    @property
    def read_here(self) -> ReadHere | None:
        """Reads batches of few records without tasks; None: the source cannot."""
        ...

    @property
    def begin_words(self) -> str:
        """The begin of a new checkpoint, such as ``begins at the earliest record``."""
        ...

    @property
    def failure(self) -> TidemarkError | None:
        """Why reading must not continue, found during the query."""
        ...

    @property
    def unfinished(self) -> Sequence[str]:
        """A description of incomplete input that could not be read; it may be completed later."""
        ...

    @property
    def why_nothing(self) -> str | None:
        """Why this query finds nothing to read, unless new records arrive; None if the tables have everything."""
        ...

    def note_read(self, topics: Collection[str]) -> None:
        """Record the topics of a batch, with their ids, before its commit. Raises an error if one was recreated."""
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

        With a ``share_reader`` the rows have shares of the records in one binary column. Then ``pace`` and
        ``interval_s`` determine when batches begin (``Cadence``); otherwise Spark's trigger does. Calls ``on_start``
        once the available input is known. Raises ConfigError or SinkUnavailable if the source cannot be read from the
        position. May be called again if the query could not be started.
        """
        ...

    @property
    def wants_readings(self) -> bool:
        """Whether to call ``check_read`` for every batch."""
        ...

    def check_read(self, planned: Mapping[Place, tuple[int, int]], readings: Sequence[Reading]) -> None:
        """Check the reading of a batch's tasks before the batch commits anything.

        ``planned`` are the offsets (begin, end) of each partition in the batch. Raises an error if the batch must not
        continue; reports records that no longer exist.
        """
        ...

    def attach(self, spark: SparkSession) -> None:
        """Connect to the source through this session, without a stream."""
        ...

    def slices(self) -> SliceReader:
        """Rereads records that the stream has passed; available after ``stream`` or ``attach``."""
        ...

    def explained(self, text: str) -> TidemarkError | None:
        """The cause of a Spark failure with this text, if the cause is the source; may ask the source."""
        ...

    def stop(self) -> None:
        """End the work alongside the query."""
        ...
