"""What decoding Kafka records gives: change rows per source table, bad records, and what was learned on the way.

These values are the contract between the sources and the pipelines. Everything is immutable and picklable; rows are
Arrow tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import pyarrow as pa

from paimon_table.ids import Offset
from paimon_table.types import DataType, string
from sources.change_columns import WEAK_COLUMN
from sources.column_forms import ColumnForms
from sources.column_paths import ColumnPath
from sources.event_columns import OnChange
from sources.position_kinds import POSITION

_T = TypeVar("_T")

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
        """What the topic's name alone tells: ``[...database.]schema.table`` by its last dotted parts."""
        parts = topic.split(".")
        return cls(topic, parts[-3] if len(parts) > 3 else None, parts[-2] if len(parts) > 2 else None, parts[-1])


@dataclass(frozen=True, slots=True)
class KeyRule:
    """Which message keys the records of a source table may have."""

    table: str
    """Name of the target table, for messages."""
    is_stated: bool
    """The user chose the primary key: message keys that are part of it are fine, and so is their first form."""
    first: tuple[str, ...] = ()
    """The fields of the message key when the source table was first seen; none if that is not known."""


class RowTransform(Protocol):
    """Makes rows of a table of rows of its source; picklable, and without secrets."""

    @property
    def hides_values(self) -> bool:
        """Whether reasons of bad records show no values."""
        ...

    @property
    def filters(self) -> bool:
        """Whether the table has some rows of its source alone."""
        ...

    def transformed(
        self, change: ChangeBatch, records: pa.RecordBatch, mask_keys: Mapping[str, bytes]
    ) -> TransformedRows:
        """``records`` is the batch that the change was decoded from; ``mask_keys`` are secret, by their names."""
        ...


@dataclass(frozen=True, slots=True)
class TransformedRows:
    """Rows of a table, the reasons of bad records by their offsets, and how many records give no row.

    None for ``rows`` where the transform lacks columns that the records may show.
    """

    rows: pa.Table | None
    problems: Mapping[int, str] = field(default_factory=dict)
    filtered: int = 0


FindUnstorable: TypeAlias = Callable[[pa.Array], Mapping[int, str]]
"""Finds the values of a column for which a table has no place: positions and reasons."""


OnTruncate: TypeAlias = Literal["apply", "skip", "pause"]
"""What a TRUNCATE of the source table does: a Truncation, nothing, or a Refusal."""


@dataclass(frozen=True, slots=True)
class DecodeTarget:
    """The Paimon table that rows of a source table are decoded for."""

    columns: tuple[tuple[str, DataType], ...]
    """Those that the source has values for."""
    primary_key: tuple[str, ...]
    emit_update_before: bool = False
    counted_again: frozenset[str] = frozenset()
    """Columns whose value would count twice if a row repeated it: what the source did not send stays NULL there."""
    declared: frozenset[str] = frozenset()
    """Columns whose type the user fixed: never reported as widened."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Columns of the source that the table cannot have, and why: records with a value there go to quarantine."""
    beyond: str | None = None
    """Why the table takes no new columns at all: a value in one has the same end. None: it takes them."""
    ignores_new: bool = False
    """New columns are left out and never reported."""
    unstorable: Mapping[str, FindUnstorable] = field(default_factory=dict)
    """Per column a function (picklable) that finds values for which the table has no place: positions and reasons."""
    keys: KeyRule | None = None
    """What message keys are held against; None takes every key."""
    has_whole_before: bool = False
    """The user says that ``before`` of deletes is the whole old row, with nothing made up."""
    refused_deletes: str | None = None
    """Why the table cannot take deletes, if so: their records go to quarantine."""
    refused_deletes_with: tuple[str, ...] = ()
    """Only deletes with a value in one of these columns are refused; none stands for every delete."""
    on_truncate: OnTruncate = "pause"
    deleted_at: str | None = None
    """The column that gets the time of deletes, where deleted rows stay; it is none of ``columns``."""
    versions: tuple[str, str] | None = None
    """The columns that get time and offset of each change, where every version of a row stays."""
    on_change: OnChange | None = None
    """What updates and deletes do where the table has no primary key; None where it has one."""
    forms: ColumnForms = field(default_factory=ColumnForms)
    """How its columns have been read so far."""
    decimal_formats: Mapping[str, str] = field(default_factory=dict)
    """The columns whose ``decimal_format`` the user states, beside that of the record format."""
    follows_retypes: bool = False
    """Whether values that no wider type of their column holds change more than where their record goes."""
    leaves_out: Callable[[str], bool] | None = None
    """Tells (picklable) which columns of the source the rule leaves out: they are no news. None: none of them."""
    drops: Callable[[str], bool] | None = None
    """Tells (picklable) which columns of the source ``columns.drop`` means: newest rows say which they have."""
    ordering: tuple[tuple[str, DataType], ...] = ()
    """The columns that the rows have behind their own where deletes have their order: ``POSITION`` first where source
    positions tell it, others stay NULL."""
    tells_events: bool = False
    """The rows have the event columns behind their own, whatever the table stores of them."""
    tells_places: bool = False
    """The rows have the columns of places (``PLACE_COLUMNS``) behind their own."""
    transform: RowTransform | None = None
    """What makes rows of the table of them; None where the table has the columns of the source."""
    paths: Mapping[str, ColumnPath] = field(default_factory=dict)
    """The columns that are filled from inside of nested values."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Former names of columns, each with that of ``columns``: records with an embedded schema may be from before."""
    reused: Mapping[str, str] = field(default_factory=dict)
    """Former names that other columns have now, each with the column that was called so."""
    dropped: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Per dropped column of the source the offset in each partition below which its values mean nothing any more."""
    tells_schemas: bool = False
    """Observations have the embedded schemas of the records, whatever is news in them, and shapes of other rows."""
    called: tuple[str, ...] = ()
    """The names of the columns in change rows, where ``columns`` has those of the records."""

    @property
    def row_columns(self) -> tuple[tuple[str, DataType], ...]:
        """The columns of change rows."""
        if not self.called:
            return self.columns
        return tuple((name, t) for name, (_, t) in zip(self.called, self.columns, strict=True))

    def called_now(self, column: str) -> str:
        """The name in change rows of a column that records have."""
        names = [name for name, _ in self.columns]
        return self.called[names.index(column)] if self.called and column in names else column

    def lacked_by(self, shown: Collection[str]) -> tuple[str, ...]:
        """The columns, but those of the key, that are not among those that a row has, by their names in change rows."""
        both = zip(self.columns, self.row_columns, strict=True)
        return tuple(now for (name, _), (now, _) in both if name not in shown and name not in self.primary_key)

    def left_out_of(self, shown: Collection[str]) -> tuple[str, ...]:
        """Those of the columns that a row has which the rule drops."""
        return () if self.drops is None else tuple(sorted(name for name in shown if self.drops(name)))

    def knows_all(self, shown: Collection[str]) -> bool:
        """Whether the table has, or the rule refuses, all columns of a row; one that had only NULL so far waits."""
        known = {*(name for name, _ in self.columns), *self.refused}
        leaves_out = self.leaves_out or (lambda _name: False)
        return all(name in known or leaves_out(name) for name in shown)

    def under(self, names: Mapping[str, str]) -> DecodeTarget:
        """The target for records that have other names for its columns, by those of now."""
        if not names:
            return self

        def renamed(by_name: Mapping[str, _T]) -> dict[str, _T]:
            return {names.get(name, name): value for name, value in by_name.items()}

        def known(columns: Iterable[str]) -> list[str]:
            return [names.get(name, name) for name in columns]

        return replace(
            self,
            columns=tuple(renamed(dict(self.columns)).items()),
            called=tuple(name for name, _ in self.row_columns),
            counted_again=frozenset(known(self.counted_again)),
            declared=frozenset(known(self.declared)),
            unstorable=renamed(self.unstorable),
            refused_deletes_with=tuple(known(self.refused_deletes_with)),
            decimal_formats=renamed(self.decimal_formats),
            forms=self.forms.renamed(names),
            paths=renamed(self.paths),
        )

    def for_schema(self, shown: Collection[str] | None) -> DecodeTarget:
        """The target for records with these columns in an embedded schema; None: without schema.

        Without one nothing tells whether a former name is that of an older record or of another column.
        """
        if not self.renamed:
            return self
        if shown is None:
            why = {
                old: f"column {now!r} was called so before, and this record has no embedded schema that tells whether"
                " it still is; let the connector send schemas"
                for old, now in self.renamed.items()
            }
            return replace(self, refused={**self.refused, **why})
        then: dict[str, str] = {}
        for old, now in self.renamed.items():  # the last name last
            if now not in shown and old in shown:
                then[now] = old
        return self.under(then)

    def unclear_name(self, shown: Collection[str] | None) -> str | None:
        """Why nobody knows which column these names of an embedded schema mean; None where it is clear."""
        columns = dict(self.columns)
        for name, other in self.reused.items():
            if shown is not None and name in shown and other not in shown and other in columns:
                return (
                    f"column {other!r} was called {name!r} before, which is another column now, and this record has"
                    f" only {name!r}: it may be from before. If the source has dropped {other!r} since, name it under"
                    " columns.drop of the rule, and retry the record"
                )
        return None

    @property
    def needs_events(self) -> bool:
        """Whether the rows take operations and times from their events."""
        is_told = self.tells_events or self.tells_places or self.on_change == "log"
        return is_told or bool(self.deleted_at or self.versions or self.orders_by_position)

    @property
    def orders_by_position(self) -> bool:
        """Whether the rows have the positions of their changes."""
        return any(name == POSITION for name, _ in self.ordering)

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The columns that the decoder fills itself, beside those of an event log."""
        of_versions = () if self.versions is None else (*self.versions, WEAK_COLUMN)
        of_deletes = () if self.deleted_at is None else (self.deleted_at,)
        return of_versions + of_deletes + tuple(name for name, _ in self.ordering)

    def refusal(self, column: str) -> str | None:
        """Why a value in a column that the table lacks cannot be left out in silence; None if there is no reason."""
        if self.leaves_out is not None and self.leaves_out(column):
            return None
        return self.refused.get(column) or (None if self.ignores_new else self.beyond)

    def is_news(self, column: str) -> bool:
        """Whether a column that the table lacks is to be reported."""
        if self.leaves_out is not None and self.leaves_out(column):
            return False
        return not self.ignores_new and self.refusal(column) is None


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a source table has no target: its records go to quarantine with this reason.

    ``is_unmade`` means that a table can be made as soon as events show what it needs: they are observed each time.
    ``is_empty`` means that none had a row so far: deletes and truncates of it change nothing and are counted.
    """

    reason: str
    is_unmade: bool = False
    is_empty: bool = False


@dataclass(frozen=True, slots=True)
class Behind:
    """The table of a source table is behind the stream: its records are counted now and read again later."""


Goal: TypeAlias = DecodeTarget | Rejection | Behind | None
"""What records of a source table are decoded for; None skips them."""


@dataclass(frozen=True, slots=True)
class ObservedColumn:
    """A column of the source; ``type`` is None when only NULLs were seen and there is no schema."""

    name: str
    type: DataType | None
    votes: int | None = field(default=None, compare=False)
    """How many more records have an embedded schema that says so than one that says otherwise; None for a type guessed
    from values."""
    form: str | None = field(default=None, compare=False)
    """How the source writes it (``sources.column_forms``), where that is known."""
    looks_like: str | None = field(default=None, compare=False)
    """What the values of a column without schema most probably stand for, where JSON does not show it."""
    fits_double: bool = field(default=False, compare=False)
    """Whether the type is guessed from values of which DOUBLE holds every integer exactly."""
    has_default: bool = field(default=False, compare=False)
    """Whether an embedded schema states a default for it."""
    takes_null: bool = field(default=False, compare=False)
    """Whether an embedded schema lets it be NULL, and the column of the target does not."""

    @property
    def settled_type(self) -> DataType | None:
        """The type for a new column: text, which holds all values, where as many records say one type as another."""
        return string() if self.votes == 0 else self.type


@dataclass(frozen=True, slots=True)
class ShownSchema:
    """The columns of an embedded schema in its order, and the first record that has it."""

    columns: tuple[tuple[str, DataType], ...]
    timestamp_ms: int | None
    partition: int
    offset: int

    @property
    def order(self) -> tuple[int, int, int]:
        """Sorts schemas by age, as far as records tell it."""
        return (self.timestamp_ms or 0, self.offset, self.partition)

    def is_behind(self, other: ShownSchema) -> bool:
        """Whether it is newer for sure."""
        is_later = (self.timestamp_ms or 0) > (other.timestamp_ms or 0)
        return is_later or (self.partition == other.partition and self.offset > other.offset)


@dataclass(frozen=True, slots=True)
class Observation:
    """Columns of a source table that its target does not have, has with a type that does not hold the source's, or
    does not remember the form of.

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
    """False where only deletes and truncates of an unknown source table came."""
    schemas: tuple[ShownSchema, ...] = ()
    """Those that the records have, where the target asks for them."""
    shapes: frozenset[frozenset[str]] = frozenset()
    """The same of whole rows without one: the columns of those that bring a new column."""


@dataclass(frozen=True, slots=True)
class NewestRow:
    """What the newest row of a source table in a stretch of one partition lacks."""

    source: SourceTable
    partition: int
    offset: Offset
    timestamp_ms: int | None
    absent: tuple[str, ...]
    """Columns of the target that it does not have at all, not even as NULL."""
    comments: Mapping[str, str] = field(default_factory=dict)
    """What its embedded schema says of columns of the target."""
    is_whole: bool = True
    """Whether it has every column of its source. If not, it may leave out those that are NULL."""
    left_out: tuple[str, ...] = ()
    """Those of its columns that the rule drops."""
    has_known: bool = True
    """Whether it has known columns alone (``DecodeTarget.knows_all``)."""


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
    """The source table that the record names; None where it names none, as when it cannot be read."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An event that a table must not pass by policy; ``source`` may be a table that the pipeline does not know."""

    source: SourceTable
    partition: int
    offset: Offset
    reason: str
    rebuilt_from: datetime | None = None
    """Kafka's time of the record, where the table may be built anew from what is behind it."""


@dataclass(frozen=True, slots=True)
class Truncation:
    """An event that says that all rows of a source table before it are gone."""

    source: SourceTable
    partition: int
    offset: Offset


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """The first record of a topic that says nothing of a row, of each ``kind`` (a noun in the singular)."""

    topic: str
    kind: str
    partition: int
    offset: Offset


@dataclass(frozen=True, slots=True)
class DecodeCounts:
    """Numbers of records by what became of them, each record under one of them; ``exact`` stands beside."""

    with_rows: int = 0
    """Records that gave change rows."""
    quarantined: int = 0
    tombstones: int = 0
    control: int = 0
    """Heartbeats, transaction metadata, schema changes and the like: see ``ControlRecord``."""
    skipped_tables: int = 0
    """Records of source tables that the pipeline leaves out."""
    tables_behind: int = 0
    """Records of source tables whose table is left out for now and reads them later."""
    unknown_tables: int = 0
    """Records of source tables that were only observed."""
    messages: int = 0
    truncates: int = 0
    """TRUNCATE events, and rows before one that came in the same batch."""
    changes: int = 0
    """Updates and deletes that a table without primary key leaves out."""
    without_table: int = 0
    """Deletes and truncates of source tables whose table is not made yet."""
    without_effect: int = 0
    """Events that take back what was never stored."""
    filtered: int = 0
    """Records that the rule's ``where`` leaves out."""
    already_stored: int = 0
    """Records below the offset at which a new checkpoint took a table over."""
    exact: int = 0
    """Records that took the exact per-record path instead of the vectorised one."""

    def __add__(self, other: DecodeCounts) -> DecodeCounts:
        return DecodeCounts(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(DecodeCounts)})

    @property
    def skipped(self) -> dict[str, int]:
        """Records that give nothing on purpose, by a word for why; without zeros."""
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
"""The counts of records that give nothing on purpose, with what progress lines call them."""


@dataclass(frozen=True, slots=True)
class TopicFormats:
    """What is known of the formats of topics, where their first records tell them."""

    chosen: Mapping[str, str] = field(default_factory=dict)
    """By topic."""
    earlier: Mapping[str, str] = field(default_factory=dict)
    """Those under earlier checkpoints: they count for records that show no format, such as null values."""


@dataclass(frozen=True, slots=True)
class TopicLook:
    """What the first records of one topic partition look like, as far as a task has read it."""

    topic: str
    partition: int
    offset: Offset
    seen: Mapping[str, int]
    """Records by format, or by words for what they are instead; "" stands for those that tell nothing."""

    @property
    def tells(self) -> bool:
        return any(self.seen.keys())


@dataclass(frozen=True, slots=True)
class Decoded:
    """All that came out of one batch of records."""

    changes: tuple[ChangeBatch, ...] = ()
    quarantine: tuple[QuarantineRow, ...] = ()
    observations: tuple[Observation, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    truncations: tuple[Truncation, ...] = ()
    """Those to apply."""
    counts: DecodeCounts = field(default_factory=DecodeCounts)
    newest: tuple[NewestRow, ...] = ()
    """One per known source table and partition that has rows."""
    control: tuple[ControlRecord, ...] = ()
    """One per topic and kind."""
    looks: tuple[TopicLook, ...] = ()
    """Of topics whose format is not chosen yet; nothing else is told of these."""


class Decoder(Protocol):
    """Turns Kafka records into change rows; runs on executors, keeps no state that changes its answers.

    Picklable and small: it travels with every batch.
    """

    def decode(self, batch: pa.RecordBatch, targets: Mapping[SourceTable, Goal]) -> Decoded:
        """Decode records for the given targets.

        A source that maps to None or Behind is skipped and counted, one that maps to a Rejection goes to quarantine. A
        source that is absent is unknown: it gives an Observation of all its columns, even if there are none, and no
        rows. Rows of known sources are decoded as far as the target's columns go. Bad records become QuarantineRows; no
        record makes this raise.
        """
        ...


@runtime_checkable
class FindsFormats(Protocol):
    """A decoder of topics whose formats are chosen on the way."""

    def under(self, formats: TopicFormats) -> Decoder:
        """The decoder for topics of these formats."""
        ...


def decoder_under(decoder: Decoder, formats: TopicFormats) -> Decoder:
    """The decoder, which knows the formats of the topics if it has to."""
    return decoder.under(formats) if isinstance(decoder, FindsFormats) else decoder
