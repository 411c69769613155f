"""The ranges of `tidemark replay`: which tables can take records again, and which ranges of their topics.

`--from` and `--to` are earliest, a time, places of partitions, or the position of the table at a snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from paimon_table import Table
from paimon_table.errors import ConfigError
from paimon_table.nearest_name import did_you_mean
from paimon_table.surroundings import now_ms
from pipelines.checkpoint.replay_state import Kind, Point
from pipelines.config.config import PipelineConfig
from pipelines.config.config_values import parse_instant
from pipelines.config.repeated_records import replaces_newer
from sinks.commit.positions import Position, offsets_text, position_of
from sinks.exchange.version_columns import HISTORY_OPTION
from sources.positions import Place
from sources.slices import SliceReader
from sources.wording import first_of

_SNAPSHOT = "snapshot:"
_FORMS = 'earliest, a time (2024-05-01T12:00:00Z), snapshot:ID, or offsets such as {"topic": {"0": 42}}'


TopicIds = Mapping[str, str]
"""See ``Book.topic_ids``."""

_EARLIEST = "earliest"
_OTHERS = "*"
"""Stands for all other partitions of a topic."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN = 5


def read_of(config: PipelineConfig, position: Position, stream_end: str, topic_ids: TopicIds) -> dict[Place, int]:
    """The position of the stream in the partitions that feed a table at ``position``; ``stream_end`` is Spark's text.

    ``topic_ids`` are the topics that are read: offsets in earlier ones of their names do not count.
    """
    read = dict(position.among(topic_ids).offsets)
    if config.source.kafka is None:
        return read
    topics = {topic for topic, _ in position.offsets}
    ends: dict[str, dict[str, int]] = json.loads(stream_end)
    return read | {(t, int(p)): at for t, places in ends.items() if t in topics for p, at in places.items()}


def point_of(
    option: str, text: str, config: PipelineConfig, table: Table, read: Mapping[Place, int], topic_ids: TopicIds
) -> Point:
    """The place that an option names. Raises ConfigError if it names none. ``read`` is the result of ``read_of``."""
    if text == _EARLIEST and option == "--from":
        return Point(Kind.EARLIEST, "", "the earliest record")
    if config.source.kafka is None:
        raise ConfigError(f"{option} {text}: dump files are replayed from the earliest record on, up to the stream")
    if text.startswith(_SNAPSHOT):
        return Point(Kind.POSITION, _at_snapshot(option, text, config, table, topic_ids), text)
    if text.lstrip().startswith("{"):
        places = _places(option, text)
        _check_read(option, places, read)
        if option == "--from":
            _check_all_named(option, places, read)
        kind = Kind.PLACES if any(_has_words(named) for named in places.values()) else Kind.POSITION
        return Point(kind, json.dumps(places, separators=(",", ":")), "the offsets given")
    try:
        time_ms = _time_ms(text)
    except ValueError as error:
        raise ConfigError(f"{option} {text}: expected {_FORMS} ({error})") from None
    if option == "--from":
        _check_past(option, text, time_ms)
    return Point(Kind.TIMESTAMP, str(time_ms), (_EPOCH + timedelta(milliseconds=time_ms)).isoformat())


def position_of_places(value: str, reader: SliceReader, topics: Collection[str]) -> str:
    """The position for a value of ``Kind.PLACES``: offsets stay, a time becomes the first offset after that time.

    The position omits partitions that begin at their first record.
    """
    places: dict[str, dict[str, Any]] = json.loads(value)
    found = {topic: {p: at for p, at in named.items() if isinstance(at, int)} for topic, named in places.items()}
    times = {at for named in places.values() for at in named.values() if isinstance(at, str) and at != _EARLIEST}
    for time in sorted(times):
        by_time: dict[str, dict[str, int]] = json.loads(reader.position_at(_time_ms(time), topics))
        for topic, named in places.items():
            for partition, at in by_time.get(topic, {}).items():
                if named.get(partition, named.get(_OTHERS)) == time:
                    found[topic][partition] = at
    return json.dumps(found, separators=(",", ":"))


def _time_ms(text: str) -> int:
    instant = parse_instant(int(text) if text.isascii() and text.isdigit() else text, zone=UTC)
    return (instant - _EPOCH) // timedelta(milliseconds=1)


def _check_past(option: str, text: str, time_ms: int) -> None:
    if time_ms > now_ms():
        raise ConfigError(f"{option} {text}: this time is in the future, and no record is that new")


def _at_snapshot(option: str, text: str, config: PipelineConfig, table: Table, topic_ids: TopicIds) -> str:
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
            f"{option} {text}: the snapshot is not one of pipeline {config.name}, so it has no position of the "
            f"pipeline. Choose one whose commit user begins with tidemark (tidemark table snapshots)"
        )
    ended = sorted(topic for topic in position.topics if position.is_of_another(topic, topic_ids))
    if ended:
        raise ConfigError(
            f"{option} {text}: the snapshot's offsets are of topics that were recreated since: {', '.join(ended)};"
            " choose a later snapshot, or `earliest`"
        )
    return offsets_text(position.among(topic_ids).offsets)


def _places(option: str, text: str) -> dict[str, dict[str, Any]]:
    problem = f'{option}: expected offsets as {{"topic": {{"0": 42}}}}'
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{problem}: {error}") from None
    for topic, places in document.items():
        if not isinstance(places, dict):
            raise ConfigError(f"{problem}, not {topic}: {places!r}")
        for partition, at in places.items():
            is_partition = partition.isascii() and partition.isdecimal()
            is_offset = isinstance(at, int) and not isinstance(at, bool) and at >= 0 and is_partition
            if not is_offset and not (isinstance(at, str) and (is_partition or partition == _OTHERS)):
                raise ConfigError(f"{problem}, not {partition!r}: {at!r} of topic {topic}")
            if isinstance(at, str):
                _check_words(option, topic, partition, at)
    return dict(document)


def _check_words(option: str, topic: str, partition: str, at: str) -> None:
    if at == _EARLIEST and option == "--from":
        return
    try:
        time_ms = _time_ms(at)
    except ValueError as error:
        raise ConfigError(
            f"{option}: expected an offset, a time or `earliest` for {partition!r} of topic {topic}, not"
            f" {at!r} ({error})"
        ) from None
    if option == "--from":
        _check_past(option, at, time_ms)


def _has_words(named: Mapping[str, Any]) -> bool:
    return any(isinstance(at, str) for at in named.values())


def _check_read(option: str, places: Mapping[str, Mapping[str, Any]], read: Mapping[Place, int]) -> None:
    """Refuse places in which the table has read nothing: misspelt ones would replay everything, or nothing."""
    topics = {topic for topic, _ in read}
    for topic, named in places.items():
        if topic not in topics:
            raise ConfigError(f"{option}: the table has read no topic {topic!r}; {did_you_mean(topic, topics)}")
        ends = {partition: end for (other, partition), end in read.items() if other == topic}
        for partition, at in named.items():
            if partition != _OTHERS and int(partition) not in ends:
                known = ", ".join(map(str, sorted(ends)))
                raise ConfigError(f"{option}: the table has read no partition {partition} of {topic}; known: {known}")
            if isinstance(at, int) and at > ends[int(partition)]:
                raise ConfigError(
                    f"{option}: there is no offset {at} in partition {partition} of {topic}: the stream has read it up"
                    f" to offset {ends[int(partition)]}"
                )


def _check_all_named(option: str, places: Mapping[str, Mapping[str, Any]], read: Mapping[Place, int]) -> None:
    """Refuse to begin at the first record of partitions that the user did not name."""
    missing = [
        f"{topic} partition {partition}"
        for topic, partition in sorted(read)
        if not {str(partition), _OTHERS} & {*places.get(topic, ())}
    ]
    if missing:
        raise ConfigError(
            f"{option}: {', '.join(first_of(missing, _SHOWN, 'partitions'))}: feeds the table and is not named, so"
            ' the replay would begin at its first record. Give each partition an offset, a time or "earliest".'
            ' "*" stands for all other partitions of a topic. Example:'
            ' {"topic": {"0": 42, "*": "2024-05-01T12:00:00Z"}}'
        )


def refusal(identifier: str, table: Table, *, ends_early: bool) -> str | None:
    """Why a replay would leave wrong rows; None if it leaves the right ones.

    If deletes apply, an insert restores a row until its delete removes it again. So a replay is right only once it has
    met the stream; ``ends_early``: it ends before that.
    """
    options, schema = table.options, table.schema
    if not schema.primary_keys:
        return f"table {identifier} has no primary key: every record would add its row a second time"
    if options.merge_engine == "first-row" or HISTORY_OPTION in schema.options:
        return None
    repeated = table.write_traits.accumulating
    if options.merge_engine == "aggregation" or repeated:
        columns = f" (columns {', '.join(repeated)})" if repeated else ""
        return f"table {identifier} aggregates{columns}: values that its rows already contain would count a second time"
    if replaces_newer(schema, options) is not None:
        return (
            f"table {identifier} has no sequence.field: older records would replace newer rows until the replay "
            f"reaches the newer records"
        )
    if ends_early and not options.ignore_delete:
        return (
            f"table {identifier} takes deletes: rows that are deleted after --to would reappear. Leave out --to: "
            "the replay then continues up to the position of the stream"
        )
    return None
