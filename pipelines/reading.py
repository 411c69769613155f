"""The reader of a pipeline's source, and the facts about the progress of the pipeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from paimon_table.errors import CorruptFile
from pipelines.checkpoint.book import Book
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.replay_state import Replays
from pipelines.config.config import PipelineConfig
from pipelines.config.source_config import KafkaSource
from pipelines.spark.kafka_reading import reads_directly
from pipelines.tables.continued_tables import continued_by
from pipelines.tables.own_tables import OwnTables
from sources.dumps.reader import DumpFilesReader
from sources.kafka.reader import KafkaReader
from sources.positions import Place, Positions, Recorded
from sources.reader import SourceReader


def source_reader(
    config: PipelineConfig, checkpoint: Checkpoint, own: OwnTables, book: Book | None = None
) -> SourceReader:
    """The reader of the source that the pipeline file names; it keeps the topics in ``book``, and their places."""
    book = book or Book(checkpoint)
    source, standing = config.source.reader, CheckpointStanding(config, checkpoint, own, book)
    if isinstance(source, KafkaSource):
        goes_on = config.source.on_data_loss == "continue"
        settings = replace(source.settings, goes_on_after_loss=goes_on, is_direct=reads_directly(config))
        return KafkaReader(settings, standing)
    return DumpFilesReader(source.settings, standing)


class CheckpointStanding:
    """The progress of a pipeline: the ``Standing`` from its checkpoint and its tables."""

    def __init__(self, config: PipelineConfig, checkpoint: Checkpoint, own: OwnTables, book: Book) -> None:
        self._config = config
        self._own = own
        self._checkpoint = checkpoint
        self._book = book
        self._ends: dict[int, str] = {}

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
        return self._checkpoint.next_begins()

    def planned(self) -> Positions:
        batch, closed = self._checkpoint.planned_batch, self._checkpoint.closed_batch
        if batch is None or batch == closed:
            return {}
        return self._checkpoint.planned_ends(batch)

    def let_go(self, places: Collection[Place]) -> Positions:
        closed = self._checkpoint.closed_batch
        found: Positions = {}
        with suppress(FileNotFoundError):  # Spark has just removed the oldest
            for batch in reversed(self._checkpoint.planned_batches):
                if found.keys() >= {*places}:
                    break
                if closed is not None and batch <= closed:
                    ends = self._checkpoint.planned_ends(batch)
                    found = {**{place: ends[place] for place in places if place in ends}, **found}
        # The batch may have read an earlier topic of that name; positions of tables tell them apart.
        held = self.recorded(self._book.topic_ids).highest if found else {}
        return {place: min(at, held.get(place, 0)) for place, at in found.items()}

    def ends(self) -> Sequence[str]:
        closed = self._checkpoint.closed_batch
        known, self._ends = self._ends, {}
        batches = [] if closed is None else [n for n in self._checkpoint.planned_batches if n <= closed]
        for batch in batches:
            with suppress(CorruptFile):  # Spark has just removed it
                self._ends[batch] = known[batch] if batch in known else self._checkpoint.offset_after(batch)
        return list(self._ends.values())

    def recorded(self, topic_ids: Mapping[str, str]) -> Recorded:
        known = self._own.continuations
        written = [table for table in self._own.written() if not continued_by(known, str(table.name))]
        if self._checkpoint.is_new:
            self._book.find_cuts((table.position for table in written), topic_ids)
        lowest: Positions = {}
        highest: Positions = {}
        ended: Positions = {}
        gone_on: set[str] = set()
        readers: Counter[str] = Counter()
        read_by: Counter[Place] = Counter()
        for table in written:
            position = table.position.among(self._book.cuts)
            readers.update({topic for topic, _ in position.offsets})
            read_by.update(position.offsets.keys())
            for place, offset in position.offsets.items():
                if position.is_of_another(place[0], topic_ids):
                    ended[place] = max(offset, ended.get(place, 0))
                    offset = 0
                else:
                    gone_on.add(place[0])
                lowest[place] = min(offset, lowest.get(place, offset))
                highest[place] = max(offset, highest.get(place, offset))
        # A table of the topic without an offset in a partition has none of its records.
        unread = frozenset(place for place in lowest if read_by[place] < readers[place[0]])
        positions = {place: at for place, at in lowest.items() if place not in unread}
        ended = {place: at for place, at in ended.items() if place[0] not in gone_on}
        return Recorded(positions, ended, unread, highest)

    def forget_unused_start(self) -> None:
        self._checkpoint.forget_unused_start()

    def note_start(self, start: Positions) -> None:
        self._checkpoint.note_start(start)

    def noted_start(self) -> Positions:
        return self._checkpoint.noted_start()

    def taken_over(self, topic_ids: Mapping[str, str]) -> Collection[str]:
        positions = [table.position.among(topic_ids) for table in self._own.written()]
        return {topic for position in positions for topic, _ in position.offsets if topic not in position.topics}

    def move(self, places: Mapping[Place, int | None]) -> None:
        self.cut({place: end for place, end in places.items() if end is not None})
        self._move_others(places)
        self._checkpoint.move(places)

    def cut(self, ends: Mapping[Place, int]) -> None:
        self._book.cut(ends)

    def begin_anew(self, topics: Collection[str]) -> None:
        if topics:
            known = {place for place in self._book.places() if place[0] in topics}
            self._move_others(dict.fromkeys(known))
            Replays(self._checkpoint).end_with(topics)

    def _move_others(self, places: Mapping[Place, int | None]) -> None:
        """Change the positions of all tables outside the stream."""
        self._book.move(places)
        Replays(self._checkpoint).end_with({topic for (topic, _), end in places.items() if end is None})

    def made_anew(self, topic_ids: Mapping[str, str]) -> Sequence[str]:
        return self._book.recreated_topics(topic_ids)

    def note_topics(self, topic_ids: Mapping[str, str]) -> None:
        self._book.note_topics(topic_ids)
