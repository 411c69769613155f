"""The reader of a pipeline's source, and what it is told about how far the pipeline is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from pipelines.checkpoint.behind_marks import BehindMarks
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.topic_record import TopicRecord
from pipelines.config.config import PipelineConfig
from pipelines.config.source_config import KafkaSource
from pipelines.tables.own_tables import OwnTables
from sources.dumps.reader import DumpFilesReader
from sources.kafka.reader import KafkaReader
from sources.positions import Place, Positions
from sources.reader import SourceReader


def source_reader(config: PipelineConfig, checkpoint: Checkpoint, own: OwnTables) -> SourceReader:
    """The reader of the source that the pipeline file names."""
    source, standing = config.source.reader, CheckpointStanding(config, checkpoint, own)
    if isinstance(source, KafkaSource):
        goes_on = config.source.on_data_loss == "continue"
        return KafkaReader(replace(source.settings, goes_on_after_loss=goes_on), standing)
    return DumpFilesReader(source.settings, standing)


class CheckpointStanding:
    """How far a pipeline has read: the ``Standing`` that its checkpoint and its tables tell."""

    def __init__(self, config: PipelineConfig, checkpoint: Checkpoint, own: OwnTables) -> None:
        self._config = config
        self._own = own
        self._checkpoint = checkpoint
        self._topics: TopicRecord | None = None

    @property
    def pipeline(self) -> str:
        return self._config.name

    @property
    def checkpoint(self) -> str:
        return self._config.checkpoint

    @property
    def on_lost_checkpoint(self) -> str:
        return self._config.on_lost_checkpoint

    @property
    def is_new(self) -> bool:
        return self._checkpoint.is_new

    def closed(self) -> Positions:
        return self._checkpoint.kafka_positions() or {}

    def recorded(self) -> Positions:
        lowest: Positions = {}
        for table in self._own.written():
            for place, offset in table.position.offsets.items():
                lowest[place] = min(offset, lowest.get(place, offset))
        return lowest

    def forget_unused_start(self) -> None:
        self._checkpoint.forget_unused_start()

    def taken_over(self) -> Collection[str]:
        return {topic for table in self._own.written() for topic, _ in table.position.floors}

    def move(self, places: Mapping[Place, int | None]) -> None:
        BehindMarks(self._checkpoint).forget(places)
        self._checkpoint.move(places)

    def made_anew(self, topic_ids: Mapping[str, str]) -> Sequence[str]:
        return self._topic_record().made_anew(topic_ids)

    def note_topics(self, topic_ids: Mapping[str, str]) -> None:
        self._topic_record().add(topic_ids)

    def _topic_record(self) -> TopicRecord:
        """Read when it is first needed: only some sources have topics with ids."""
        if self._topics is None:
            self._topics = TopicRecord(self._checkpoint)
        return self._topics
