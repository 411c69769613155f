"""Where reading Kafka starts, and whether Kafka still holds what is to be read from there.

Spark asks for a start only when a checkpoint is new. If the tables were written under an earlier checkpoint of the same
pipeline, ``on_lost_checkpoint`` decides: ``resume`` starts at the lowest position among them (rows that a table holds
already are dropped on the way), ``fail`` stops, ``restart`` reads from ``start`` again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import datetime

from paimon_table.errors import ConfigError, SinkUnavailable
from paimon_table.nearest_name import nearest
from sources.kafka.admin import KafkaAdmin
from sources.kafka.lost_records import lost_records
from sources.kafka.settings import EARLIEST, LATEST, KafkaSettings
from sources.positions import Bounds, Place


def source_bounds(admin: KafkaAdmin, kafka: KafkaSettings) -> dict[Place, Bounds]:
    """What Kafka holds of the topics that the source reads. Raises ConfigError for listed topics that are not there."""
    known = admin.topic_ids()
    missing = [name for name in kafka.topics.names if name not in known]
    if missing:
        close = {name: nearest(name, known) for name in missing}
        told = [f"'{name}'" + (f" (did you mean '{hint}'?)" if hint else "") for name, hint in close.items()]
        are = "topics are" if len(missing) > 1 else "topic is"
        raise ConfigError(
            f"Kafka at {kafka.servers}: {len(missing)} listed {are} not there, or this user may not see it:"
            f" {', '.join(told)}; make it, grant Describe and Read on it, or take it out of source.kafka.topics"
        )
    return admin.bounds(name for name in known if kafka.topics.selects(name))


def starting_options(
    kafka: KafkaSettings, resume: Mapping[Place, int], bounds: Mapping[Place, Bounds]
) -> dict[str, str]:
    """Spark options that say where to start; ``resume`` wins for the partitions that it names."""
    if resume:
        return {"startingOffsets": json.dumps(_resume_offsets(resume, bounds))}
    match kafka.start:
        case datetime() as moment:
            return {
                "startingTimestamp": str(int(moment.timestamp() * 1000)),
                "startingOffsetsByTimestampStrategy": "latest",
            }
        case str() as word:
            return {"startingOffsets": word}
        case chosen:
            _check_start(chosen, bounds)
            return {"startingOffsets": json.dumps(_nested({**dict.fromkeys(bounds, EARLIEST), **chosen}))}


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
    checkpoint: str, kafka: KafkaSettings, closed: Mapping[Place, int], bounds: Mapping[Place, Bounds]
) -> None:
    """Raise ConfigError if Kafka no longer holds what follows ``closed``, the end of the last batch that was closed.

    ``checkpoint`` is its place, for the message.
    """
    unread = sorted({topic for topic, _ in closed if not kafka.topics.selects(topic)})
    if unread:
        raise ConfigError(
            f"checkpoint {checkpoint} has read topics that source.kafka.topics no longer selects:"
            f" {', '.join(unread)}; select them again, or remove the checkpoint: with on_lost_checkpoint: resume"
            " reading goes on from the positions in the tables"
        )
    losses = lost_records(closed, bounds)
    if losses:
        lost = {place[0] for place, at in closed.items() if lost_records({place: at}, bounds)}
        raise ConfigError(f"{losses}; {way_on(checkpoint, closed, lost)}")
    held_back = [place for place, at in closed.items() if at > bounds[place].readable_end]
    if held_back:
        topic, partition = held_back[0]
        raise SinkUnavailable(
            f"topic {topic} partition {partition} has been read beyond the begin of a transaction that is still open:"
            " start again when it has ended, or set isolation.level to read_uncommitted under source.kafka.options"
        )


MOST_OFFSETS_TOLD = 20


def way_on(checkpoint: str, closed: Mapping[Place, int], lost: Collection[str]) -> str:
    """What a user does to go on with what is left of the topics ``lost``, without reading the others again."""
    kept = {place: at for place, at in closed.items() if place[0] not in lost}
    start = "take `start` from its newest file under offsets/, without the topics named here"
    if len(kept) <= MOST_OFFSETS_TOLD:
        start = (
            f"set source.kafka.start to {{offsets: {json.dumps(_nested(kept))}}}" if kept else "leave `start` as it is"
        )
    return (
        f"to go on with what is left, remove the checkpoint {checkpoint}, set on_lost_checkpoint to restart and"
        f" {start}; rows that no later record changes stay as they are"
    )


def _nested(positions: Mapping[Place, int]) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(positions.items()):
        nested.setdefault(topic, {})[str(partition)] = offset
    return nested
