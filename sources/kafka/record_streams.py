"""The two ways from topics to decode tasks: through Spark's reader, or without the JVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from paimon_table.storage.secret import for_tasks
from sources.kafka.client_properties import SECRET, librdkafka_properties
from sources.kafka.direct_admin import KafkaOffsets
from sources.kafka.planner import KafkaPlanner
from sources.kafka.settings import KafkaSettings
from sources.kafka.share_fetching import KafkaShareReader
from sources.kafka.start_offsets import starting_options, starting_positions
from sources.kafka.watch import ATTEMPTS
from sources.loss import Loss
from sources.pace import Pace
from sources.planned_stream import planned_stream
from sources.positions import Bounds, Place, Positions
from sources.reader import Standing


class RecordStream(Protocol):
    """One way; created for each query of a pipeline."""

    @property
    def share_reader(self) -> KafkaShareReader | None:
        """See ``SourceReader``."""
        ...

    def begin(
        self, resumed: Positions, bounds: Mapping[Place, Bounds], begins_at: Callable[[int], Mapping[Place, int]]
    ) -> None:
        """Let a new checkpoint begin at the positions ``resumed``, or else at ``start``.

        ``begins_at`` gives the offsets of a time in ms.
        """
        ...

    def frame(self, spark: SparkSession, slots: int, partition_count: int, pace: Pace, interval_s: float) -> DataFrame:
        """The records, or shares of records, for ``slots`` parallel tasks; for the rest see ``SourceReader``."""
        ...


class SparkStream:
    """Through Spark's Kafka connector, which records the begin of a new checkpoint."""

    share_reader: KafkaShareReader | None = None

    def __init__(self, settings: KafkaSettings, standing: Standing) -> None:
        self._settings = settings
        self._standing = standing
        self._start: Mapping[str, str] = {}

    def begin(
        self, resumed: Positions, bounds: Mapping[Place, Bounds], begins_at: Callable[[int], Mapping[Place, int]]
    ) -> None:
        self._start = starting_options(self._settings, resumed, bounds)
        self._standing.forget_unused_start()

    def frame(self, spark: SparkSession, slots: int, partition_count: int, pace: Pace, interval_s: float) -> DataFrame:
        options = {**self._settings.reader_options(slots, partition_count), **self._start}
        return spark.readStream.format("kafka").options(**options).load()


class DirectStream:
    """Through the decode tasks: the stream has offset ranges."""

    def __init__(
        self, settings: KafkaSettings, standing: Standing, pass_over: Callable[[Sequence[Loss]], None]
    ) -> None:
        """``pass_over`` reports losses if ``on_data_loss`` is ``continue``."""
        self._settings = settings
        self._standing = standing
        self._pass_over = pass_over

    @property
    def share_reader(self) -> KafkaShareReader | None:
        settings = self._settings
        said = librdkafka_properties(settings.servers, settings.properties)
        properties = {name: for_tasks(value) if name in SECRET else value for name, value in said.items()}
        return KafkaShareReader(settings.servers, properties, settings.goes_on_after_loss, settings.patience_s)

    def begin(
        self, resumed: Positions, bounds: Mapping[Place, Bounds], begins_at: Callable[[int], Mapping[Place, int]]
    ) -> None:
        start = starting_positions(self._settings, resumed, bounds, begins_at)
        self._standing.forget_unused_start()
        self._standing.note_start(start)

    def frame(self, spark: SparkSession, slots: int, partition_count: int, pace: Pace, interval_s: float) -> DataFrame:
        settings = self._settings
        planner = KafkaPlanner(
            KafkaOffsets(settings),
            self._standing.noted_start,
            lambda: pace.records,
            slots,
            ATTEMPTS * settings.patience_s,
            self._pass_over if settings.goes_on_after_loss else None,
        )
        return planned_stream(spark, "Kafka", planner, interval_s)
