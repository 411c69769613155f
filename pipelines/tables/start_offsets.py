"""Where reading Kafka starts, and whether Kafka still holds what is to be read from there.

Spark asks for a start only when a checkpoint is new. If the tables were written under an earlier checkpoint of the same
pipeline, ``on_lost_checkpoint`` decides: ``resume`` starts at the lowest position among them (rows that a table holds
already are dropped on the way), ``fail`` stops, ``restart`` reads from ``start`` again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from paimon_table.catalog.catalog import Catalog
from paimon_table.errors import ConfigError, SinkUnavailable
from pipelines.config.config import PipelineConfig
from pipelines.config.nearest_name import nearest
from pipelines.config.source_config import KafkaSource, StartOffsets, StartTimestamp
from pipelines.kafka.admin import Bounds, KafkaAdmin, Place
from pipelines.kafka.lost_records import lost_records
from pipelines.tables.written_tables import written_tables

Positions = dict[Place, int]
EARLIEST, LATEST = -2, -1
"""Spark's words for the first offset of a partition and for the one after its last record."""


def recorded_positions(config: PipelineConfig, catalog: Catalog) -> Positions:
    """Per (topic, partition) the lowest position among the tables that this pipeline has written."""
    lowest: Positions = {}
    for table in written_tables(catalog, config.name):
        for place, offset in table.position.offsets.items():
            lowest[place] = min(offset, lowest.get(place, offset))
    return lowest


def goes_on(source: object, held: Mapping[Place, int]) -> bool:
    """Whether ``start`` surely lies nowhere below the offsets that a table holds, so that nothing is read twice."""
    if not isinstance(source, KafkaSource) or not isinstance(source.start, StartOffsets):
        return False
    offsets = source.start.offsets
    starts = {place: offsets.get(place[0], {}).get(place[1], EARLIEST) for place in held}
    return all(starts[place] == LATEST or starts[place] >= at for place, at in held.items())


def source_bounds(admin: KafkaAdmin, kafka: KafkaSource) -> dict[Place, Bounds]:
    """What Kafka holds of the topics that the source reads. Raises ConfigError for listed topics that are not there."""
    known = admin.topic_ids()
    missing = [name for name in kafka.topics.names if name not in known]
    if missing:
        close = {name: nearest(name, known) for name in missing}
        told = [f"'{name}'" + (f" (did you mean '{hint}'?)" if hint else "") for name, hint in close.items()]
        are = "topics are" if len(missing) > 1 else "topic is"
        raise ConfigError(
            f"Kafka at {kafka.bootstrap_servers}: {len(missing)} listed {are} not there, or this user may not see it:"
            f" {', '.join(told)}; make it, grant Describe and Read on it, or take it out of source.kafka.topics"
        )
    return admin.bounds(name for name in known if kafka.topics.selects(name))


def starting_options(kafka: KafkaSource, resume: Mapping[Place, int], bounds: Mapping[Place, Bounds]) -> dict[str, str]:
    """Spark options that say where to start; ``resume`` wins for the partitions that it names."""
    if resume:
        return {"startingOffsets": json.dumps(_resume_offsets(resume, bounds))}
    match kafka.start:
        case StartTimestamp(timestamp=moment):
            return {
                "startingTimestamp": str(int(moment.timestamp() * 1000)),
                "startingOffsetsByTimestampStrategy": "latest",
            }
        case StartOffsets(offsets=offsets):
            everything = dict.fromkeys(bounds, EARLIEST)
            chosen = {(topic, p): o for topic, places in offsets.items() for p, o in places.items()}
            _check_start(chosen, bounds)
            return {"startingOffsets": json.dumps(_nested({**everything, **chosen}))}
        case word:
            return {"startingOffsets": str(word)}


def _check_start(chosen: Mapping[Place, int], bounds: Mapping[Place, Bounds]) -> None:
    for (topic, partition), offset in chosen.items():
        held = bounds.get((topic, partition))
        where = f"source.kafka.start: topic {topic} partition {partition}"
        if held is None:
            raise ConfigError(f"{where} is not among those that are read; take it out, or add it to `topics`")
        if offset not in (EARLIEST, LATEST) and not held.begin <= offset <= held.end:
            raise ConfigError(
                f"{where} holds offsets {held.begin} to {held.end}, not {offset}; write one of these, -2 for the"
                " earliest or -1 for the latest"
            )


def _resume_offsets(resume: Mapping[Place, int], bounds: Mapping[Place, Bounds]) -> dict[str, dict[str, int]]:
    losses = lost_records({place: at for place, at in resume.items() if place in bounds}, bounds)
    if losses:
        raise ConfigError(
            f"the tables cannot go on where they stand: {losses}; set on_lost_checkpoint to restart to read what Kafka"
            " holds from `start` again (rows that no later record changes stay as they are)"
        )
    return _nested({place: min(resume.get(place, EARLIEST), held.readable_end) for place, held in bounds.items()})


def check_checkpoint(
    config: PipelineConfig, kafka: KafkaSource, closed: Mapping[Place, int], bounds: Mapping[Place, Bounds]
) -> None:
    """Raise ConfigError if Kafka no longer holds what follows ``closed``, the end of the last batch that was closed."""
    unread = sorted({topic for topic, _ in closed if not kafka.topics.selects(topic)})
    if unread:
        raise ConfigError(
            f"checkpoint {config.checkpoint} has read topics that source.kafka.topics no longer selects:"
            f" {', '.join(unread)}; select them again, or remove the checkpoint: with on_lost_checkpoint: resume"
            " reading goes on from the positions in the tables"
        )
    losses = lost_records(closed, bounds)
    if losses:
        lost = {place[0] for place, at in closed.items() if lost_records({place: at}, bounds)}
        raise ConfigError(f"{losses}; {way_on(config, closed, lost)}")
    held_back = [place for place, at in closed.items() if at > bounds[place].readable_end]
    if held_back:
        topic, partition = held_back[0]
        raise SinkUnavailable(
            f"topic {topic} partition {partition} has been read beyond the begin of a transaction that is still open:"
            " start again when it has ended, or set isolation.level to read_uncommitted under source.kafka.options"
        )


MOST_OFFSETS_TOLD = 20


def way_on(config: PipelineConfig, closed: Mapping[Place, int], lost: Collection[str]) -> str:
    """What a user does to go on with what is left of the topics ``lost``, without reading the others again."""
    kept = {place: at for place, at in closed.items() if place[0] not in lost}
    start = "take `start` from its newest file under offsets/, without the topics named here"
    if len(kept) <= MOST_OFFSETS_TOLD:
        start = (
            f"set source.kafka.start to {{offsets: {json.dumps(_nested(kept))}}}" if kept else "leave `start` as it is"
        )
    return (
        f"to go on with what is left, remove the checkpoint {config.checkpoint}, set on_lost_checkpoint to restart and"
        f" {start}; rows that no later record changes stay as they are"
    )


def _nested(positions: Mapping[Place, int]) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(positions.items()):
        nested.setdefault(topic, {})[str(partition)] = offset
    return nested
