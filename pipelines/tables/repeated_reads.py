"""Repeated reads: a pipeline reads records into a table for which another pipeline has already read them.

This happens with a copy of a pipeline file under another name, with a renamed pipeline, and if a topic moves from one
pipeline to another. Rows of a key end up equal; sums and tables without primary key would count every record twice.
Source tables that share a topic are distinguished: each pipeline may read its own source tables.

Dump files can repeat records too: Kafka gives each offset once, in order, but files may repeat or reorder them. A
record in two files is applied twice, and a record after later ones replaces their rows; the log warns of both.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from paimon_table import Catalog, Table, TableName
from paimon_table.errors import ConfigError, TidemarkError
from pipelines.config.config import PipelineConfig
from pipelines.config.repeated_records import counted_again, places_deletes, replaces_newer
from pipelines.tables.known_routes import known_sources
from sinks.commit.known_positions import KnownPositions
from sinks.commit.pipeline_mark import marking_pipelines
from sinks.commit.positions import FedBy, TopicPartition
from sinks.commit.table_sink import TableSink
from sources.positions import ReadOffsets

log = logging.getLogger(__name__)

_BEHIND = (
    ". To continue after it, stop it and start with a new checkpoint with `start: "
    "{{offsets: {{{topic}: {{{places}}}}}}}`"
    " under source.kafka"
)
"""The remedy for a source with a `start`."""

Offsets = Mapping[int, int]
"""The next offset by partition."""


def check_repeated_reads(config: PipelineConfig, sink: TableSink, source: FedBy) -> None:
    """Refuse a source table of another pipeline in a table that counts records; warn for other tables.

    The ConfigError names the position of the other pipeline: with a `start` at these offsets each record is read once.
    The first commit raises it too, if the other pipeline has begun since.
    """
    warned: set[str] = set()
    sink.check_first(lambda: _check(config, sink, source, warned))


def check_stored_reads(config: PipelineConfig, catalog: Catalog, topic_ids: Mapping[str, str]) -> None:
    """Refuse, before anything is read, what ``check_repeated_reads`` would refuse under a new checkpoint.

    ``topic_ids`` are the topics to read. Tables whose names come from events are checked with their events.
    """
    for into in config.fixed_names:
        name = TableName.of(into)
        table = _found(catalog, name)
        if table is None:
            continue
        others = [mark for mark in marking_pipelines(table.io, table.paths) if mark != config.name]
        positions = KnownPositions(table.snapshots).newest(config.name, *others) if others else {}
        own = positions.pop(config.name, None)
        for pipeline, position in positions.items():
            for source in known_sources(config, name, position.sources):
                fed = FedBy(source.topic, source.database, source.schema, source.table)
                offsets = position.among(topic_ids).offsets_in(source.topic)
                if source.topic in topic_ids and offsets and (own is None or not own.has_read(fed)):
                    _refuse(config, into, table, source.topic, pipeline, offsets)


def _found(catalog: Catalog, name: TableName) -> Table | None:
    """The table if it exists; a problem with it is reported when its rows arrive."""
    try:
        return catalog.find(name)
    except TidemarkError:
        return None


def _check(config: PipelineConfig, sink: TableSink, source: FedBy, warned: set[str]) -> None:
    own = sink.position.offsets_in(source.topic)
    for pipeline, offsets in sink.read_by_others(source).items():
        if _is_behind(own, offsets):
            continue
        _refuse(config, sink.identifier, sink.table, source.topic, pipeline, offsets)
        told = sink.table.schema, sink.table.options
        counted, replaced = counted_again(*told), replaces_newer(*told)
        is_known = _begins_behind(config, source.topic, offsets) or pipeline in warned
        if not is_known and (counted is not None or replaced is not None):
            warned.add(pipeline)
            effect = counted or f"older rows replace newer ones{replaced} until it catches up"
            head = f"table {sink.identifier} has records of topic {source.topic} from pipeline {pipeline}"
            places = _places(offsets)
            log.warning("%s up to offsets %s. Pipeline %s reads them again: %s", head, places, config.name, effect)


def _refuse(config: PipelineConfig, identifier: str, table: Table, topic: str, pipeline: str, offsets: Offsets) -> None:
    """Raise ConfigError if records that ``pipeline`` has read up to ``offsets`` would count again."""
    counted = counted_again(table.schema, table.options)
    if counted is None or config.source.skips_records or _begins_behind(config, topic, offsets):
        return
    behind = "" if config.source.kafka is None else _BEHIND.format(topic=topic, places=_places(offsets))
    raise ConfigError(
        f"table {identifier} has records of topic {topic} from pipeline {pipeline}: pipeline {config.name} would "
        f"apply them a second time, and {counted}. Write into another table (another `into`), or continue as pipeline"
        f" {pipeline}, by that name{behind}"
    ).without_values()


def _places(offsets: Offsets) -> str:
    return ", ".join(f"{partition}: {offset}" for partition, offset in sorted(offsets.items()))


def _begins_behind(config: PipelineConfig, topic: str, offsets: Offsets) -> bool:
    """Whether the file sets offsets that the other pipeline has not reached yet."""
    start = config.source.start_offsets
    return start is not None and _is_behind(start.get(topic, {}), offsets)


def _is_behind(begins: Offsets, offsets: Offsets) -> bool:
    """Whether a read from ``begins`` on includes no record before ``offsets``."""
    return all(begins.get(partition, 0) >= offset for partition, offset in offsets.items())


_REMEDY = (
    "A record that two files hold is applied twice. Sums and tables without primary key count it twice, and an older"
    " row replaces a newer one unless the table has a sequence.field. Put each offset into one file, with "
    "offsets that rise with the names of the files. To start over, drop the table and use a new checkpoint"
)


class RepeatedOffsets:
    """Warnings, each once per partition of a topic."""

    def __init__(self) -> None:
        self._warned: set[tuple[TopicPartition, bool]] = set()

    def note(
        self, batch_id: int, started_ms: int | None, sink: TableSink, read: Mapping[TopicPartition, ReadOffsets]
    ) -> None:
        """Warn, before a commit, of offsets that a batch has twice, or that the table already has."""
        told = sink.table.schema, sink.table.options
        if places_deletes(*told) and counted_again(*told) is None:
            return
        for place, offsets in sorted(read.items()):
            if offsets.is_repeated:
                span = offsets.end - offsets.lowest
                many = f"{offsets.count:,} records have {span:,} offsets from {offsets.lowest:,} on"
                self._warn(place, True, f"batch {batch_id}: {many}", sink.identifier)
            before = sink.position.offsets.get(place, 0)
            is_taken_over = sink.position.floors.get(place, 0) >= before  # lower ones are left out
            if offsets.lowest < before and not is_taken_over and not sink.is_appended(batch_id, started_ms):
                late = f"offsets from {offsets.lowest:,} on come after {before - 1:,} was read"
                self._warn(place, False, f"batch {batch_id}: {late}", sink.identifier)

    def _warn(self, place: TopicPartition, is_twice: bool, text: str, identifier: str) -> None:
        if (place, is_twice) not in self._warned:
            self._warned.add((place, is_twice))
            log.warning("%s partition %d: %s, for table %s. %s", *place, text, identifier, _REMEDY)
