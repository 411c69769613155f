"""A pipeline's reading of Kafka: checks before Spark starts, Spark's stream, a watch beside it, words for its end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from pyspark.sql import DataFrame, SparkSession

from paimon_table.errors import ConfigError, SinkUnavailable, TidemarkError
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.topic_record import TopicRecord
from pipelines.config.config import PipelineConfig
from pipelines.config.source_config import KafkaSource
from pipelines.kafka.admin import READER_DEFAULTS, Bounds, KafkaAdmin, Place, kafka_admin
from pipelines.kafka.failures import causes_in, is_of_kafka, kafka_failure
from pipelines.kafka.lost_records import lost_records
from pipelines.kafka.watch import PATIENCE, KafkaWatch
from pipelines.spark.session import write_slots
from pipelines.tables.start_offsets import Positions, check_checkpoint, source_bounds, starting_options, way_on

log = logging.getLogger(__name__)


class KafkaReading:
    """What one running pipeline has to do with Kafka, on the driver."""

    def __init__(
        self, spark: SparkSession, config: PipelineConfig, source: KafkaSource, checkpoint: Checkpoint
    ) -> None:
        self._spark = spark
        self._config = config
        self._source = source
        self._checkpoint = checkpoint
        self._record = TopicRecord(checkpoint)
        self._watch: KafkaWatch | None = None
        self.failure: TidemarkError | None = None
        """Why reading must not go on, found beside the running query."""

    def stream(
        self,
        recorded: Callable[[], Positions],
        on_start: Callable[[Collection[Place], bool], None],
    ) -> DataFrame:
        """Records as Spark reads them; ``recorded`` finds the positions of the tables, if they are needed.

        ``on_start`` gets the partitions, and whether reading goes on from the positions. Raises ConfigError or
        SinkUnavailable if Kafka cannot be read from where the pipeline stands.
        """
        with kafka_admin(self._spark._jvm, self._source) as admin:
            ids = self._selected(admin.topic_ids())
            anew = self._read_and_made_anew(ids)
            if anew:
                raise self._of_topics_made_anew(anew)
            bounds = source_bounds(admin, self._source)
        options = reader_options(self._source, write_slots(self._spark))
        resumed: Positions = {}
        if self._checkpoint.is_new:
            resumed = self._resume_positions(recorded(), bounds)
            options |= starting_options(self._source, resumed, bounds)
            self._checkpoint.forget_unused_start()
        else:
            check_checkpoint(self._config, self._source, self._closed_positions(), bounds)
        self._record.add(ids)
        on_start(bounds, bool(resumed))
        self._start_watching()
        return self._spark.readStream.format("kafka").options(**options).load()

    def stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.stop()

    def explained(self, text: str) -> TidemarkError | None:
        """What is behind the text of a failure of Spark's, if it comes from Kafka: asks Kafka once more."""
        if not is_of_kafka(text):
            return None
        found: TidemarkError
        try:
            with kafka_admin(self._spark._jvm, self._source, PATIENCE) as admin:
                bounds = source_bounds(admin, self._source)
            check_checkpoint(self._config, self._source, self._closed_positions(), bounds)
        except TidemarkError as error:
            found = error
        else:
            found = kafka_failure(self._source.bootstrap_servers, causes_in(text))
        goes_on = "; start again then, it goes on where it stopped" if isinstance(found, SinkUnavailable) else ""
        return type(found)(f"pipeline {self._config.name}: {found}{goes_on}")

    def _selected(self, ids: Mapping[str, str]) -> dict[str, str]:
        return {name: id_ for name, id_ in ids.items() if self._source.topics.selects(name)}

    def _closed_positions(self) -> Positions:
        return self._checkpoint.kafka_positions() or {}

    def _resume_positions(self, found: Positions, bounds: Mapping[Place, Bounds]) -> Positions:
        """The positions of the tables as far as ``on_lost_checkpoint`` lets them count."""
        match self._config.on_lost_checkpoint:
            case "restart":
                self._tell_rows_without_records(found, bounds)
                return {}
            case "fail" if found:
                raise ConfigError(
                    f"checkpoint {self._config.checkpoint} is new, but pipeline {self._config.name} has written tables"
                    " under another one; restore that checkpoint, or set on_lost_checkpoint to resume or restart"
                )
        return found

    def _tell_rows_without_records(self, found: Positions, bounds: Mapping[Place, Bounds]) -> None:
        losses = lost_records(
            {place: at for place, at in found.items() if self._source.topics.selects(place[0])}, bounds
        )
        if losses:
            log.warning(
                "%s: reading starts again, but Kafka has lost records since the tables were written: %s. Rows that no"
                " record read from now on changes stay as they are; delete the tables first if they must go",
                self._config.name,
                losses,
            )

    def _start_watching(self) -> None:
        admin = KafkaAdmin(self._spark._jvm, self._source, PATIENCE)

        def topic_ids() -> Mapping[str, str]:
            return self._selected(admin.topic_ids())

        self._watch = KafkaWatch(self._config.name, self._source, topic_ids, self.note_topics)
        self._watch.start()

    def note_topics(self, ids: Mapping[str, str]) -> None:
        """Take notice of the topics that are there now; sets ``failure`` when one was made anew since it was read."""
        try:
            anew = self._read_and_made_anew(ids)
            if anew:
                self.failure = self.failure or self._of_topics_made_anew(anew)
            else:
                self._record.add(ids)
        except (OSError, TidemarkError) as error:
            log.warning("%s: the checkpoint cannot note topics: %s", self._config.name, error)

    def _read_and_made_anew(self, ids: Mapping[str, str]) -> list[str]:
        """Topics made anew of which records had been read before; the others are as good as new."""
        anew = self._record.made_anew(ids)
        read = {topic for (topic, _), at in self._closed_positions().items() if at > 0} if anew else set()
        return [topic for topic in anew if topic in read]

    def _of_topics_made_anew(self, topics: Collection[str]) -> ConfigError:
        closed = self._closed_positions()
        read = [f"{topic}-{p} to offset {at}" for (topic, p), at in sorted(closed.items()) if topic in topics]
        return ConfigError(
            f"pipeline {self._config.name}: topics were deleted and made anew since they were read: {', '.join(topics)}"
            f" (read: {', '.join(read) or 'nothing'}), so the offsets say nothing about the new ones;"
            f" {way_on(self._config, closed, topics)}"
        )


def reader_options(source: KafkaSource, slots: int) -> dict[str, str]:
    """Options of Spark's reader, without where to start; ``slots`` tasks can work side by side."""
    options = {f"kafka.{name}": value for name, value in {**READER_DEFAULTS, **source.options}.items()}
    options |= {
        "kafka.bootstrap.servers": source.bootstrap_servers,
        "maxOffsetsPerTrigger": str(source.max_records_per_batch),
        "minPartitions": str(slots),
        "includeHeaders": "true",
        "failOnDataLoss": "true",
    }
    if source.topics.names:
        options["subscribe"] = ",".join(source.topics.names)
    else:
        options["subscribePattern"] = source.topics.subscribe_pattern()
    return options
