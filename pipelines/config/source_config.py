"""The `source` block of a pipeline: Kafka or dump files, the format of the records, and what to do with bad ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, GetJsonSchemaHandler, Tag, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from pipelines.config.config_values import (
    REFUSED,
    ConfigModel,
    Instant,
    Location,
    OptionText,
    Pattern,
    Text,
    refused,
)
from pipelines.config.format_config import FORMAT_WORDS, SourceFormat
from pipelines.config.kafka_checks import misplaced
from pipelines.config.yaml_hints import list_words
from sources.dumps.settings import DumpSettings
from sources.kafka import settings as kafka_settings
from sources.kafka.client_properties import why_not_direct
from sources.kafka.settings import KafkaSettings
from sources.positions import Place
from sources.topics import TopicSelection

_TOPIC_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
"""The names that Kafka allows for a topic."""

_NOT_IN_JAVA = (
    (re.compile(r"(?<!\\)(?:\\\\)*\(\?P"), "(?P...) for a named group; write (?:...)"),
    (re.compile(r"(?<!\\)(?:\\\\)*\(\?\("), "(?(...)...) for a condition"),
    (re.compile(r"(?<!\\)(?:\\\\)*\\[1-9]"), "references to groups, because the patterns are joined into one"),
    (re.compile(r"(?<!\\)(?:\\\\)*\(\?[A-Za-z-]*[aLx]"), "the flags a, L and x"),
)
"""Syntax of Python's that Spark, which chooses the topics by Java's regular expressions, reads otherwise or not."""


class TopicFilter(ConfigModel):
    """Which topics to read: exact names, or patterns to include and patterns to exclude."""

    names: tuple[Text, ...] = Field(
        default=(), description="Exact topic names; a plain list under `topics` has the same meaning."
    )
    include: tuple[Pattern, ...] = Field(
        default=(), description="Regular expressions; Tidemark reads a topic if one of them matches its whole name."
    )
    exclude: tuple[Pattern, ...] = Field(
        default=(), description="Regular expressions; Tidemark skips a topic if one of them matches its whole name."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_list(cls, value: Any) -> Any:
        if isinstance(value, str | int | float):
            raise refused(list_words(value))
        return {"names": value} if isinstance(value, list) else value

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if self.names and (self.include or self.exclude):
            raise refused("set either `names` or `include` and `exclude`, not both")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "array", "items": {"type": "string"}}, handler.resolve_ref_schema(handler(core))]}

    @property
    def selection(self) -> TopicSelection:
        """The topics as a plain value."""
        return TopicSelection(self.names, self.include, self.exclude)


class StartTimestamp(ConfigModel):
    """Start at the first record of every partition that is not older than a given time."""

    timestamp: Instant = Field(description="ISO time with a zone, or milliseconds since 1970.")


class StartOffsets(ConfigModel):
    """Start at given offsets."""

    offsets: Mapping[Text, Mapping[int, int]] = Field(
        description="Topic, then partition, then the offset of the first record to read. -2 means the earliest "
        "record, -1 the end. All other partitions start at the earliest record.",
    )


def _form_of_start(value: Any) -> str | None:
    match value:
        case "earliest" | "latest":
            return "<word>"
        case {"timestamp": _} | StartTimestamp():
            return "<timestamp>"
        case {"offsets": _} | StartOffsets():
            return "<offsets>"
        case _:
            return None


Start = Annotated[
    Annotated[Literal["earliest", "latest"], Tag("<word>")]
    | Annotated[StartTimestamp, Tag("<timestamp>")]
    | Annotated[StartOffsets, Tag("<offsets>")],
    Discriminator(
        _form_of_start,
        custom_error_type=REFUSED,
        custom_error_message="expected earliest, latest, {timestamp: ...} or {offsets: ...}",
    ),
]
"""Where a new checkpoint starts: three forms, distinguished by shape, so that an error is about only one form."""


class KafkaSource(ConfigModel):
    """Topics of a Kafka cluster."""

    bootstrap_servers: Text = Field(description="Comma-separated host:port pairs.")
    topics: TopicFilter = Field(description="A list of topic names, or `include` and `exclude` patterns.")
    start: Start = Field(
        default="earliest",
        description="Where a new checkpoint starts: `earliest`, `latest`, `{timestamp: ...}` or "
        "`{offsets: {topic: {partition: offset}}}`. An existing checkpoint continues where it stopped.",
    )
    max_records_per_batch: int = Field(
        default=500_000,
        ge=1,
        description="Maximum number of records in one micro-batch. If more are left, topics take turns, about eight "
        "of them (at least two per core) in a batch. Spark's reader takes some records of each topic instead.",
    )
    reader: Literal["auto", "direct", "spark"] = Field(
        default="auto",
        description="Which client fetches the records. `direct`: the decode tasks, with librdkafka, which is faster "
        "and needs "
        "no Kafka jar. `spark`: Spark's Kafka connector. `auto` is `direct` with a `local[N]` master if "
        "librdkafka supports the `options` ([what it can](KAFKA_SECURITY.md#which-client-reads)), else "
        "`spark`. You may change the reader of an existing checkpoint.",
    )
    group_id: Text | None = Field(
        default=None,
        max_length=249,
        description="Consumer group to which Tidemark commits its offsets after each batch, so that Kafka's tools "
        "show the lag. Tidemark never reads these offsets. No other consumer may use the group.",
    )
    options: Mapping[str, OptionText] = Field(
        default_factory=dict,
        repr=False,
        description="Properties of the Kafka client under their own names, such as `security.protocol` "
        "([examples](KAFKA_SECURITY.md)). Tidemark skips records of aborted transactions unless "
        "`isolation.level` is `read_uncommitted`. `fetch.max.wait.ms` is 10 unless you set it here.",
    )

    @field_validator("options")
    @classmethod
    def _for_readers(cls, options: Mapping[str, str]) -> Mapping[str, str]:
        for name in options:
            text = misplaced(name)
            if text:
                raise refused(text, name)
        return options

    @model_validator(mode="after")
    def _for_direct(self) -> Self:
        found = why_not_direct(self.options) if self.reader == "direct" else None
        if found is not None:
            raise refused(f"{found}; or let `reader` be auto or spark", "options", found.name)
        return self

    @field_validator("topics")
    @classmethod
    def _of_kafka(cls, topics: TopicFilter) -> TopicFilter:
        if topics.selection.is_everything:
            raise refused("name at least one topic or pattern")
        for name in topics.names:
            if not _TOPIC_NAME.fullmatch(name):
                raise refused(
                    f"'{name}' cannot be the name of a topic (letters, digits, '.', '_' and '-', at most 249); write "
                    f"a "
                    "list of names, or patterns under `include`"
                )
        for pattern in (*topics.include, *topics.exclude):
            for syntax, words in _NOT_IN_JAVA:
                if syntax.search(pattern):
                    raise refused(f"pattern {pattern}: patterns of topics cannot have {words}")
        return topics

    @property
    def settings(self) -> KafkaSettings:
        """The same as plain values."""
        return KafkaSettings(
            self.bootstrap_servers,
            self.topics.selection,
            self.options,
            _plain(self.start),
            self.max_records_per_batch,
            self.group_id,
        )

    def begins_at_or_beyond(self, held: Mapping[Place, int]) -> bool:
        """Whether ``start`` is certainly at or after the offsets that a table holds, so that nothing is read twice."""
        return self.settings.begins_at_or_beyond(held)


def _plain(start: Start) -> kafka_settings.Start:
    match start:
        case StartTimestamp(timestamp=moment):
            return moment
        case StartOffsets(offsets=offsets):
            return {(topic, p): offset for topic, places in offsets.items() for p, offset in places.items()}
        case word:
            return word


class FilesSource(ConfigModel):
    """Records dumped to files as `kcat -J` prints them, also fixed lines of a quarantine: one JSON object a line.
    Files are plain or compressed with gzip or zstandard. A line that is not a record goes to quarantine with its
    position. Files may grow: Tidemark reads new lines once they are complete. If a compressed file ends early or the
    last line is incomplete, `run --once` and `available_now` name the file and end with exit code 1. Other runs warn
    once the file
    has not grown for a minute. Tidemark refuses a file whose beginning has changed since it was read, or that begins
    with the records of another file. If a file repeats offsets that were read before, Tidemark applies their records
    again, with a warning.
    """

    path: Location = Field(
        description="A file, a directory or a glob, relative to the YAML file. In a directory Tidemark reads the "
        "files whose names end in `.jsonl` or `.json`, also with `.gz` or `.zst`. It does not read "
        "subdirectories (`DIR/**/*.jsonl` does)."
    )
    topics: TopicFilter = Field(
        default_factory=TopicFilter, description="Which topics of the dump to read; by default all."
    )
    max_records_per_batch: int = Field(
        default=500_000, ge=1, description="Maximum number of records in one micro-batch."
    )

    @property
    def settings(self) -> DumpSettings:
        """The same as plain values."""
        return DumpSettings(self.path, self.topics.selection, self.max_records_per_batch)

    def begins_at_or_beyond(self, held: Mapping[Place, int]) -> bool:
        """Never: dumps are read from their begin."""
        return False


class Source(ConfigModel):
    """Where changes come from: exactly one of `kafka` and `files`."""

    model_config = {"json_schema_extra": {"oneOf": [{"required": ["kafka"]}, {"required": ["files"]}]}}

    kafka: KafkaSource | None = Field(default=None, description="Read topics of a Kafka cluster.")
    files: FilesSource | None = Field(default=None, description="Read dumped topics from files.")
    format: SourceFormat = Field(description=FORMAT_WORDS)
    on_bad_record: Literal["quarantine", "fail"] = Field(
        default="quarantine",
        description="If Tidemark cannot decode or convert a record, `quarantine` stores it in the quarantine, and "
        "`fail` stops the pipeline.",
    )
    on_data_loss: Literal["fail", "continue"] = Field(
        default="fail",
        description="If Kafka has deleted records before Tidemark read them (retention, deleted records, a topic "
        "deleted or recreated), `fail` stops with exit code 1. `continue` reads the remaining records. In both "
        "cases the log has the exact offsets.",
    )
    quarantine: Location | None = Field(
        default=None,
        description="Directory of the quarantine; by default the checkpoint's path with `-quarantine` added. It must "
        "be outside of the warehouse and the checkpoint.",
    )

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if (self.kafka is None) == (self.files is None):
            raise refused("set exactly one of `kafka` and `files`")
        if self.quarantine is not None and self.on_bad_record == "fail":
            raise refused("`quarantine` has no effect with `on_bad_record: fail`; remove one of them", "quarantine")
        if self.kafka is None and "on_data_loss" in self.model_fields_set:
            raise refused("`on_data_loss` is about Kafka and has no effect with `files`; remove it", "on_data_loss")
        return self

    @property
    def reader(self) -> KafkaSource | FilesSource:
        """The one of `kafka` and `files` that is given."""
        reader = self.kafka or self.files
        assert reader is not None
        return reader

    @property
    def start_offsets(self) -> Mapping[str, Mapping[int, int]] | None:
        """The offsets by topic and partition at which the file says to begin; None if it says none."""
        start = None if self.kafka is None else self.kafka.start
        return start.offsets if isinstance(start, StartOffsets) else None

    @property
    def skips_records(self) -> bool:
        """Whether the file says a moment to begin at; whether records come twice is then known to who wrote it."""
        start = None if self.kafka is None else self.kafka.start
        return start == "latest" or isinstance(start, StartTimestamp)
