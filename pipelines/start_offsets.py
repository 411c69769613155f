"""Where a new checkpoint starts reading Kafka: what the YAML says, or the positions that the tables record.

Spark asks for a start only when a checkpoint is new. If the tables were written under an earlier checkpoint of the same
pipeline, ``on_lost_checkpoint`` decides: ``resume`` starts at the lowest position among them (rows that a table holds
already are dropped on the way), ``fail`` stops, ``restart`` reads from ``start`` again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from paimon_table.errors import ConfigError, SinkUnavailable
from paimon_table.file_io import FileIO
from pipelines.config import PipelineConfig
from pipelines.source_config import KafkaSource, StartOffsets, StartTimestamp
from pipelines.written_tables import written_tables

Positions = dict[tuple[str, int], int]
EARLIEST = -2
"""Spark's word for the first offset of a partition."""


def recorded_positions(config: PipelineConfig, io: FileIO, warehouse: str) -> Positions:
    """Per (topic, partition) the lowest position among the tables that this pipeline has written."""
    lowest: Positions = {}
    for table in written_tables(io, warehouse, config.name):
        for place, offset in table.position.offsets.items():
            lowest[place] = min(offset, lowest.get(place, offset))
    return lowest


def starting_options(kafka: KafkaSource, resume: Positions) -> dict[str, str]:
    """Spark options that say where to start; ``resume`` wins for the partitions that it names."""
    if resume:
        return {"startingOffsets": json.dumps(_resume_offsets(kafka, resume))}
    match kafka.start:
        case StartTimestamp(timestamp=moment):
            return {
                "startingTimestamp": str(int(moment.timestamp() * 1000)),
                "startingOffsetsByTimestampStrategy": "latest",
            }
        case StartOffsets(offsets=offsets):
            everything = dict.fromkeys(end_offsets(kafka), EARLIEST)
            chosen = {(topic, p): o for topic, places in offsets.items() for p, o in places.items()}
            return {"startingOffsets": json.dumps(_nested({**everything, **chosen}))}
        case word:
            return {"startingOffsets": str(word)}


def _resume_offsets(kafka: KafkaSource, resume: Positions) -> dict[str, dict[str, int]]:
    begins, ends = _bounds(kafka)
    chosen: Positions = {}
    for place, end in ends.items():
        position = resume.get(place, EARLIEST)
        if position > end:
            raise ConfigError(
                f"topic {place[0]} partition {place[1]} ends at offset {end}, but the tables hold it up to {position}:"
                " the topic was made anew; set on_lost_checkpoint to restart to read it from `start`"
            )
        if place in resume and position < begins[place]:
            raise ConfigError(
                f"topic {place[0]} partition {place[1]} begins at offset {begins[place]}, but the tables hold it only"
                f" up to {position}: records may be lost; set on_lost_checkpoint to restart to read what is left"
            )
        chosen[place] = position
    return _nested(chosen)


def end_offsets(kafka: KafkaSource) -> Positions:
    """End offset of every partition of the topics that the source reads."""
    return _bounds(kafka)[1]


def _bounds(kafka: KafkaSource) -> tuple[Positions, Positions]:
    """First and end offsets of every partition of the topics that the source reads."""
    try:
        consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers.split(","), **client_settings(kafka.options))
        try:
            topics = sorted(t for t in consumer.topics() if kafka.topics.selects(t))
            places = [TopicPartition(t, p) for t in topics for p in consumer.partitions_for_topic(t) or ()]
            begins, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
        finally:
            consumer.close()
    except KafkaError as error:
        raise SinkUnavailable(
            f"Kafka at {kafka.bootstrap_servers} does not answer: {error}; check bootstrap_servers, and the user and"
            " password under options (a wrong password shows as a timeout)"
        ) from error
    return _by_place(begins), _by_place(ends)


def _by_place(offsets: Mapping[TopicPartition, int]) -> Positions:
    return {(place.topic, place.partition): offset for place, offset in offsets.items()}


_CLIENT_NAMES = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "ssl.truststore.location": "ssl_cafile",
    "ssl.keystore.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "request.timeout.ms": "request_timeout_ms",
}


def client_settings(options: Mapping[str, str]) -> dict[str, str | int]:
    """The properties of a Java client that the Python client needs to look up offsets with the same access."""
    settings: dict[str, str | int] = {}
    for name, setting in _CLIENT_NAMES.items():
        if name in options:
            value = options[name]
            settings[setting] = int(value) if value.isascii() and value.isdigit() else value
    jaas = options.get("sasl.jaas.config", "")
    for word, setting in (("username=", "sasl_plain_username"), ("password=", "sasl_plain_password")):
        if word in jaas:
            settings[setting] = jaas.split(word, 1)[1].split()[0].strip("\"';")
    return settings


def _nested(positions: Positions) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(positions.items()):
        nested.setdefault(topic, {})[str(partition)] = offset
    return nested
