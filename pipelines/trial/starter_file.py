"""The pipeline file that `tidemark init` writes: findings about the topics, and comments on open decisions."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pipelines.config.yaml_hints import is_secret
from sources.changes import SourceTable
from sources.topic_formats import Settings, TopicFormat
from sources.wording import counted

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_IS_DECIMAL = "(p, s)"
"""In what values look like, where they may be decimals."""
_KEYED_BY_RULE = ("json", "csv")
"""Formats whose message keys never make the primary key of a table."""
_NAMING_KEYS = ("canal-json", "maxwell-json", "ogg-json")
_NAMING_TABLES = (*_NAMING_KEYS, "dms-json")
"""Formats whose records name their source table: a topic often has several, and some name the primary key."""


@dataclass(frozen=True, slots=True)
class Start:
    """The beginning of the file, from the author's options."""

    name: str
    source: Mapping[str, str]
    """``bootstrap_servers`` of Kafka, or ``path`` of dump files."""
    topics: Sequence[TopicFormat]
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Properties of Kafka's client, references to the environment as they were given."""
    types: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Per topic and column what values without a schema look like, with the types that would read them."""

    @property
    def read(self) -> list[TopicFormat]:
        """The topics that the file reads: all topics with the most common format and settings."""
        formats = Counter(_written(topic) for topic in self.topics if topic.format is not None)
        most = formats.most_common(1)[0][0] if formats else ""
        return [topic for topic in self.topics if topic.format is not None and _written(topic) == most]

    @property
    def format(self) -> str | None:
        """Their format; None if no topic can be read."""
        return self.read[0].format if self.read else None

    @property
    def settings(self) -> Settings:
        """The options of the format."""
        return self.read[0].settings if self.read else {}


def _written(topic: TopicFormat) -> str:
    """Format and settings as one text."""
    return json.dumps([topic.format, topic.settings], sort_keys=True)


def starter_file(start: Start) -> str:
    """The whole file; it is valid as it is."""
    return "\n".join(_lines(start)) + "\n"


def _lines(start: Start) -> Iterator[str]:
    yield "# Written by `tidemark init`: `tidemark validate FILE` checks it, `tidemark plan FILE` shows what it would"
    yield "# do, and `tidemark run FILE` starts it. Paths are relative to this file."
    yield "version: 1"
    yield f"name: {start.name}"
    yield "source:"
    yield from _source(start)
    yield from _format(start)
    yield "  # Records that cannot be decoded go to quarantine; `fail` stops the pipeline instead."
    yield "  on_bad_record: quarantine"
    yield f"checkpoint: state/{start.name}"
    yield "catalog:"
    yield "  warehouse: warehouse  # a directory, or s3://BUCKET/PATH"
    yield "defaults:"
    yield "  options:"
    yield "    bucket: 1  # about one for each GB of a table; -1 lets buckets grow"
    if any(topic.key is not None or topic.format in _NAMING_KEYS for topic in start.read):
        yield "    # changelog-producer: lookup  # a complete changelog for streaming readers"
    yield from _rules(start)
    yield "otherwise: skip"
    yield from _left_out(start)


def _source(start: Start) -> Iterator[str]:
    is_kafka = "path" not in start.source
    if is_kafka:
        yield "  kafka:"
        yield f"    bootstrap_servers: {_text(start.source['bootstrap_servers'])}"
    else:
        yield "  files:"
        yield f"    path: {_text(start.source['path'])}"
    yield "    topics:"
    for topic in start.read:
        yield f"      - {_text(topic.topic)}  # {_comment(topic)}"
    if is_kafka:
        yield "    start: earliest  # or latest, a timestamp, offsets"
    if start.properties:
        yield "    options:"
        for name, value in start.properties.items():
            variable = variable_of(name)
            if is_secret(name) and "${env:" not in value:
                yield f"      {name}: {_quoted(f'${{env:{variable}}}')}  # set {variable} in the environment"
            else:
                yield f"      {name}: {_text(value)}"


def _comment(topic: TopicFormat) -> str:
    match topic.key:
        case None:
            key = "no message key"
        case ():
            key = "a message key without names"
        case names:
            key = f"message key {', '.join(map(_shown, names))}"
    return f"{topic.words}; {key}"


def _format(start: Start) -> Iterator[str]:
    if not start.settings:
        yield f"  format: {start.format}"
        return
    yield "  format:"
    yield f"    {start.format}:"
    for name, value in start.settings.items():
        match value:
            case str():
                yield f"      {name}: {_quoted(value)}"
            case list():
                yield f"      {name}: [{', '.join(map(_quoted, value))}]"
            case _:
                yield f"      {name}:"
                yield from (f"        {inner}: {_quoted(text)}" for inner, text in value.items())


def _rules(start: Start) -> Iterator[str]:
    yield "tables:"
    for topic, into in zip(start.read, targets([topic.topic for topic in start.read]), strict=True):
        yield f"  - match: {{ topic: {_quoted(_literal(topic.topic))} }}"
        if topic.format in _NAMING_TABLES:
            yield f"    into: '{f'{into}_' if len(start.read) > 1 else 'lake.'}{{table}}'  # records name their tables"
        else:
            yield f"    into: {into}"
        if topic.format in _NAMING_KEYS:
            yield "    # The records name the columns of the key. If those of a table do not, the table is a log of"
            yield "    # events: to give it a key, add a rule for it above this one, with its primary_key."
        elif topic.format == "auto":
            yield "    # If the first records are not change events, state the columns of the key: primary_key: [id]"
        elif topic.format in _KEYED_BY_RULE or topic.key is None:
            yield "    # Every record is a row of a log of events. For the newest row of each key state the columns of"
            yield "    # the key in place of these three lines: primary_key: [id]"
            yield "    mode: append"
            yield "    on_change: log"
            yield "    options: { bucket: -1 }"
        elif not topic.key:
            yield "    # The message key has no names: set the columns of the key, such as primary_key: [id]"
        looks = start.types.get(topic.topic, {})
        if looks:
            yield "    # JSON does not show the types of these columns. Declare each type that is right:"
            yield "    # columns:"
            if any(_IS_DECIMAL in look for look in looks.values()):
                yield "    #   decimal_format: base64  # texts such as 1234 are numbers in base64, not decimals"
            yield "    #   types:"
            yield from (f"    #     {_text(name)}: {_quoted(_type_of(look))}  # {look}" for name, look in looks.items())


def _left_out(start: Start) -> Iterator[str]:
    others = [topic for topic in start.topics if topic not in start.read]
    if others:
        yield f"# {counted(len(others), 'topic')} left out:"
        for topic in others:
            why = topic.words if topic.format is None else f"{topic.words}; a separate file reads {topic.format}"
            yield f"#   {_shown(topic.topic)}: {why}"


def _type_of(look: str) -> str:
    """The type at the end of what values look like, such as ``epoch microseconds: TIMESTAMP(6)``."""
    t = look.rpartition(": ")[2]
    return "DECIMAL(10, 2)" if _IS_DECIMAL in t else t


def targets(topics: Sequence[str]) -> list[str]:
    """A table for each topic, named after its source table; with more of the topic's name where two would be one."""
    short = [_name(SourceTable.of_topic(topic).table) for topic in topics]
    counts = Counter(name.lower() for name in short)
    found: list[str] = []
    for topic, name in zip(topics, short, strict=True):
        wanted = name if counts[name.lower()] == 1 else _name(topic)
        number = 2
        unique = wanted
        while f"lake.{unique}".lower() in (other.lower() for other in found):
            unique, number = f"{wanted}_{number}", number + 1
        found.append(f"lake.{unique}")
    return found


def _name(text: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_]", "_", text)[:150]
    return name if re.search(r"[A-Za-z0-9]", name) else f"t{name}"


def _literal(topic: str) -> str:
    """A pattern that matches only the name of a topic."""
    return re.sub(r"\.", r"\\.", topic)


def variable_of(name: str) -> str:
    """The environment variable for the value of a property."""
    return f"KAFKA_{re.sub('[^A-Za-z0-9]', '_', name).upper()}"


def _text(text: str) -> str:
    return text if _PLAIN.fullmatch(text) and text.lower() not in _WORDS else _quoted(text)


_WORDS = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")


def _quoted(text: str) -> str:
    return f"'{text.replace(chr(39), chr(39) * 2)}'" if text.isprintable() else json.dumps(text)


def _shown(text: str) -> str:
    return text if text.isprintable() else json.dumps(text)
