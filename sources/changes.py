"""The result of decoding Kafka records: change rows per source table, bad records, and observations.

These values are the contract between the sources and the pipelines; ``sources.decode_target`` has what records are
decoded for. Everything is immutable and picklable; rows are Arrow tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime

import numpy as np
import pyarrow as pa

from paimon_table.ids import Offset
from paimon_table.types import DataType, string
from sources.change_columns import OFFSET_COLUMN
from sources.column_sources import Firsts
from sources.topics import names_in

RECORD_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))),
    ]
)
"""Input of a decoder: one Arrow row per Kafka record, in offset order inside a partition; ``headers`` may be absent."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table of the source database, as seen through one topic.

    The names come from the ``source`` block of the envelope, else from the last dotted parts of the topic.
    """

    topic: str
    database: str | None
    schema: str | None
    table: str

    @classmethod
    def of_topic(cls, topic: str) -> SourceTable:
        """The names from the topic alone: ``[...database.]schema.table`` in its last dotted parts."""
        return cls(topic, *names_in(topic))


@dataclass(frozen=True, slots=True)
class ObservedColumn:
    """A column of the source; ``type`` is None when only NULLs were seen and there is no schema."""

    name: str
    type: DataType | None
    votes: int | None = field(default=None, compare=False)
    """How many more embedded schemas say so than say otherwise; None for a type guessed from values."""
    form: str | None = field(default=None, compare=False)
    """How the source writes it (``sources.column_forms``), if known."""
    looks_like: str | None = field(default=None, compare=False)
    """The probable meaning of the values in a column without schema, if JSON does not show it."""
    fits_double: bool = field(default=False, compare=False)
    """Whether the type is guessed from values that DOUBLE holds with all integers exact."""
    has_default: bool = field(default=False, compare=False)
    """Whether an embedded schema states a default for it."""
    takes_null: bool = field(default=False, compare=False)
    """Whether an embedded schema makes it nullable, and the column of the target is NOT NULL."""
    types: tuple[DataType, ...] = field(default=(), compare=False)
    """All types that it was seen with, as first seen, if they have no common type."""

    @property
    def settled_type(self) -> DataType | None:
        """The type for a new column: text, which holds all values, if as many records say one type as another."""
        return string() if self.votes == 0 else self.type


@dataclass(frozen=True, slots=True)
class ShownSchema:
    """The columns of an embedded schema in its order, and the first record that has it."""

    columns: tuple[tuple[str, DataType], ...]
    timestamp_ms: int | None
    partition: int
    offset: int
    firsts: Firsts = field(compare=False)
    """The first record of each partition that has it."""

    @property
    def order(self) -> tuple[int, int, int]:
        """Sorts schemas by age, as far as records show it."""
        return (self.timestamp_ms or 0, self.offset, self.partition)

    def is_behind(self, other: ShownSchema) -> bool:
        """Whether it is certainly newer."""
        is_later = (self.timestamp_ms or 0) > (other.timestamp_ms or 0)
        return is_later or (self.partition == other.partition and self.offset > other.offset)


@dataclass(frozen=True, slots=True)
class Observation:
    """Columns of a source table that its target lacks, has with too narrow a type, or has without a remembered form.

    For an unknown source table these are all columns, in source order; none when no event has a row. ``key_columns``
    are the fields of the message key (the default primary key), none of a key without names, None when records carry no
    key. ``offset`` is the first record that showed this.
    """

    source: SourceTable
    columns: tuple[ObservedColumn, ...]
    key_columns: tuple[str, ...] | None
    partition: int
    offset: Offset
    key_only: tuple[ObservedColumn, ...] = ()
    """The fields of the message key that no row of an unknown source table has."""
    has_rows: bool = True
    """False if an unknown source table has only deletes and truncates."""
    schemas: tuple[ShownSchema, ...] = ()
    """The embedded schemas of the records, if the target asks for them."""
    shapes: frozenset[frozenset[str]] = frozenset()
    """The shapes of whole rows without embedded schema (their columns), if a row has a new column."""
    timestamp_ms: int = 0
    """Kafka's time of the first record of an unknown source table: of several message keys the oldest one counts."""


@dataclass(frozen=True, slots=True)
class NewestRow:
    """The columns that the newest row of a source table lacks, in a stretch of one partition."""

    source: SourceTable
    partition: int
    offset: Offset
    timestamp_ms: int | None
    absent: tuple[str, ...]
    """Columns of the target that are absent from the row, not just NULL."""
    comments: Mapping[str, str] = field(default_factory=dict)
    """The comments on columns of the target in the row's embedded schema."""
    is_whole: bool = True
    """Whether the row has every column of its source. If not, it may omit columns that are NULL."""
    left_out: tuple[str, ...] = ()
    """Its columns that the rule drops, or that it masks while the table lacks them (``DecodeTarget.left_out_of``)."""
    has_known: bool = True
    """Whether it has only known columns (``DecodeTarget.knows_all``)."""
    hidden: frozenset[str] = frozenset()
    """The masked and dropped columns that it has, or one of the rows that were the newest before it."""

    def after(self, other: NewestRow | None) -> NewestRow:
        """The newer one of two rows of a partition, with the hidden columns of both."""
        if other is None:
            return self
        newer = other if other.offset >= self.offset else self
        return replace(newer, hidden=self.hidden | other.hidden)


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Change rows of one source table and one Kafka partition, in arrival order.

    ``rows`` has the target's columns in table order with their exact Arrow types, then ``_VALUE_KIND``, ``_OFFSET``,
    if any value was not sent ``_UNAVAILABLE``, and if a key change is known ``_OTHER_KEY``.
    """

    source: SourceTable
    partition: int
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class QuarantineRow:
    """A record that could not be decoded or converted, whole, with the reason."""

    topic: str
    partition: int
    offset: Offset
    timestamp_ms: int | None
    reason: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    source: SourceTable | None = None
    """The source table that the record names; None if it names none, or cannot be read."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An event at which a table must stop by policy; the pipeline may not know the table of ``source``."""

    source: SourceTable
    partition: int
    offset: Offset
    reason: str
    rebuilt_from: datetime | None = None
    """Kafka's time of the record, if the table may be rebuilt from the records after it."""
    key: tuple[str, ...] = ()
    """The other message key from this record on, if a new table continues with it."""
    timestamp_ms: int = 0
    """Kafka's time of the record."""


@dataclass(frozen=True, slots=True)
class Truncation:
    """A TRUNCATE: all earlier rows of a source table are deleted."""

    source: SourceTable
    partition: int
    offset: Offset


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """The first record of a topic that is not a row, for each ``kind`` (a noun in the singular)."""

    topic: str
    kind: str
    partition: int
    offset: Offset


@dataclass(frozen=True, slots=True)
class DecodeCounts:
    """Numbers of records by outcome, each record under exactly one outcome; ``exact`` is a separate count."""

    with_rows: int = 0
    """Records that gave change rows."""
    quarantined: int = 0
    tombstones: int = 0
    control: int = 0
    """Heartbeats, transaction metadata, schema changes and the like: see ``ControlRecord``."""
    skipped_tables: int = 0
    """Records of source tables that the pipeline leaves out."""
    tables_behind: int = 0
    """Records of source tables whose table is behind and reads them later."""
    unknown_tables: int = 0
    """Records of source tables that were only observed."""
    messages: int = 0
    truncates: int = 0
    """TRUNCATE events, and rows before one that came in the same batch."""
    changes: int = 0
    """Updates and deletes that a table without primary key skips by policy."""
    without_table: int = 0
    """Deletes and truncates of source tables whose table does not exist yet."""
    without_effect: int = 0
    """Events that retract rows which were never stored."""
    filtered: int = 0
    """Records that the rule's ``where`` leaves out."""
    already_stored: int = 0
    """Records below the offset from which a new checkpoint continues the table."""
    exact: int = 0
    """Records that took the exact per-record path and not the vectorised one."""

    def __add__(self, other: DecodeCounts) -> DecodeCounts:
        return DecodeCounts(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(DecodeCounts)})

    @property
    def skipped(self) -> dict[str, int]:
        """Records that give no rows on purpose, by the word for the reason; omits zeros."""
        numbers = {word: getattr(self, name) for name, word in SKIPS.items()}
        return {word: number for word, number in numbers.items() if number}

    @property
    def accounted(self) -> int:
        """Records that ended in a table, in quarantine or in a skip."""
        return self.with_rows + self.quarantined + sum(self.skipped.values())


SKIPS = {
    "tombstones": "tombstones",
    "control": "control records",
    "skipped_tables": "of skipped tables",
    "tables_behind": "of tables that are paused",
    "messages": "messages",
    "truncates": "truncates",
    "changes": "updates and deletes",
    "without_table": "deletes without a table",
    "without_effect": "without effect",
    "filtered": "left out by `where`",
    "already_stored": "already stored",
}
"""The counts of records that give no rows on purpose, with their words in progress lines."""


@dataclass(frozen=True, slots=True)
class TopicLook:
    """The looks of the first records in one topic partition, as far as a task has read them."""

    topic: str
    partition: int
    offset: Offset
    seen: Mapping[str, int]
    """Records by format, or by words for what they are instead; "" counts those that show no format."""

    @property
    def tells(self) -> bool:
        return any(self.seen.keys())


@dataclass(frozen=True, slots=True)
class Decoded:
    """The result of decoding one batch of records."""

    changes: tuple[ChangeBatch, ...] = ()
    quarantine: tuple[QuarantineRow, ...] = ()
    observations: tuple[Observation, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    truncations: tuple[Truncation, ...] = ()
    """Those to apply."""
    counts: DecodeCounts = field(default_factory=DecodeCounts)
    skipped: tuple[tuple[SourceTable, int], ...] = ()
    """The source tables that the pipeline leaves out, and how many records of each."""
    newest: tuple[NewestRow, ...] = ()
    """One per known source table and partition that has rows."""
    control: tuple[ControlRecord, ...] = ()
    """One per topic and kind."""
    looks: tuple[TopicLook, ...] = ()
    """Looks at topics whose format is not chosen yet; these topics report nothing else."""


def in_arrival_order(parts: Sequence[pa.Table]) -> pa.Table:
    """Change rows of one topic partition as one table, by offset; rows of one record keep their order."""
    if len(parts) == 1:
        return parts[0]
    table = pa.concat_tables(parts, promote_options="default").combine_chunks()
    offsets = np.asarray(table.column(OFFSET_COLUMN))
    return table.take(pa.array(np.argsort(offsets, kind="stable")))
