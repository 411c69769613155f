"""`--from` and `--to` of a replay: earliest, a time, offsets, or where a table stood at a snapshot."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any

from paimon_table import Table
from paimon_table.errors import ConfigError
from paimon_table.nearest_name import did_you_mean
from pipelines.checkpoint.replay_state import Kind, Point
from pipelines.config.config import PipelineConfig
from pipelines.config.config_values import parse_instant
from sinks.commit.positions import newest_position, offsets_text, position_of

_SNAPSHOT = "snapshot:"
_FORMS = 'earliest, a time (2024-05-01T12:00:00Z), snapshot:ID, or offsets such as {"topic": {"0": 42}}'


def point_of(option: str, text: str, config: PipelineConfig, table: Table) -> Point:
    """The place that an option names; ConfigError when it names none."""
    if text == "earliest" and option == "--from":
        return Point(Kind.EARLIEST, "", "the earliest record")
    if config.source.kafka is None:
        raise ConfigError(f"{option} {text}: dump files are replayed from the earliest record on, up to the stream")
    if text.startswith(_SNAPSHOT):
        return Point(Kind.POSITION, _at_snapshot(option, text, config, table), text)
    if text.lstrip().startswith("{"):
        offsets = _offsets(option, text)
        _check_read(option, offsets, config, table)
        return Point(Kind.POSITION, json.dumps(offsets, separators=(",", ":")), "the offsets given")
    try:
        instant = parse_instant(int(text) if text.isascii() and text.isdigit() else text, zone=UTC)
    except ValueError as error:
        raise ConfigError(f"{option} {text}: expected {_FORMS} ({error})") from None
    return Point(Kind.TIMESTAMP, str(int(instant.timestamp() * 1000)), instant.isoformat())


def _at_snapshot(option: str, text: str, config: PipelineConfig, table: Table) -> str:
    number = text.removeprefix(_SNAPSHOT)
    if not number.isascii() or not number.isdecimal():
        raise ConfigError(f"{option} {text}: expected a snapshot's id, such as {_SNAPSHOT}12")
    snapshot = table.snapshots.find(int(number))
    if snapshot is None:
        earliest, latest = table.snapshots.earliest_id(), table.snapshots.latest_id()
        raise ConfigError(f"{option} {text}: the table has the snapshots {earliest} to {latest}")
    position = position_of(snapshot, config.name)
    if position is None:
        raise ConfigError(
            f"{option} {text}: the snapshot is none of pipeline {config.name}, so it does not say how far that was;"
            " choose one whose commit user begins with tidemark (tidemark table snapshots)"
        )
    newest = newest_position(table.snapshots, config.name) or position
    ended = sorted(topic for topic in position.topics if position.is_of_another(topic, newest.topics))
    if ended:
        raise ConfigError(
            f"{option} {text}: the snapshot's offsets are of topics that were made anew since: {', '.join(ended)};"
            " choose a later snapshot, or `earliest`"
        )
    return offsets_text(position.offsets)


def _offsets(option: str, text: str) -> dict[str, dict[str, int]]:
    problem = f'{option}: expected offsets as {{"topic": {{"0": 42}}}}'
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{problem}: {error}") from None
    for topic, places in document.items():
        if not isinstance(places, dict):
            raise ConfigError(f"{problem}, not {topic}: {places!r}")
        for partition, offset in places.items():
            is_offset = isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0
            if not (partition.isascii() and partition.isdecimal() and is_offset):
                raise ConfigError(f"{problem}, not {partition!r}: {offset!r} of topic {topic}")
    return dict(document)


def _check_read(option: str, offsets: dict[str, dict[str, int]], config: PipelineConfig, table: Table) -> None:
    """Refuse topics and partitions that the table has read nothing of: misspelt ones would replay everything."""
    position = newest_position(table.snapshots, config.name)
    read: dict[str, set[str]] = {}
    for topic, partition in () if position is None else position.offsets:
        read.setdefault(topic, set()).add(str(partition))
    for topic, places in offsets.items():
        if topic not in read:
            raise ConfigError(f"{option}: the table has read no topic {topic!r}; {did_you_mean(topic, read)}")
        unread = sorted({*places} - read[topic], key=int)
        if unread:
            known = ", ".join(sorted(read[topic], key=int))
            raise ConfigError(f"{option}: the table has read no partition {unread[0]} of {topic}; known: {known}")
