"""The input of decoding besides the records: the target of each source table, and the contract of decoders.

``sources.changes`` has the result. Everything is immutable and picklable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import pyarrow as pa

from paimon_table.types import DataType
from sources.change_columns import WEAK_COLUMN
from sources.changes import ChangeBatch, Decoded, SourceTable
from sources.column_forms import ColumnForms
from sources.column_paths import ColumnPath
from sources.column_sources import PastName
from sources.event_columns import OnChange
from sources.position_kinds import POSITION

_T = TypeVar("_T")

KeyFields: TypeAlias = tuple[str, ...] | None
"""The names of a key's fields in order; empty if the key is not a JSON object; None without a key."""

_UNREADABLE = "\0{}"
"""A name that no column of a record has."""


@dataclass(frozen=True, slots=True)
class KeyRule:
    """The message keys that records of a source table may have."""

    table: str
    """Name of the target table, for messages."""
    is_stated: bool
    """The user chose the primary key: message keys that are part of it are fine, and so is their first form."""
    first: tuple[str, ...] = ()
    """The fields of the message key when the source table was first seen; empty if unknown."""
    is_followed: bool = False
    """Whether a new table continues with another message key: the first record with it shows the table's columns."""
    earlier: tuple[tuple[str, ...], ...] = ()
    """The message keys of the tables that this one continues."""
    begin: Mapping[int, int] = field(default_factory=dict)
    """By partition the first offset of this one: those tables have the records before it with their keys."""

    def takes(self, fields: KeyFields, primary_key: Sequence[str]) -> bool:
        """Whether records with such a key may change rows under the primary key."""
        if not self.is_stated:
            return bool(fields) and set(fields or ()) == set(primary_key)
        return not fields or not self.first or set(fields) <= set(primary_key) or set(fields) == set(self.first)

    def is_earlier(self, fields: KeyFields) -> bool:
        """Whether records with such a key belong to a table before this one."""
        return any(set(fields or ()) == set(one) for one in self.earlier)


class RowTransform(Protocol):
    """Makes rows of a table of rows of its source; picklable, and without secrets."""

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The key of the table."""
        ...

    @property
    def hides_values(self) -> bool:
        """Whether reasons of bad records must not show values."""
        ...

    @property
    def filters(self) -> bool:
        """Whether the table has only some rows of its source."""
        ...

    @property
    def computes_key(self) -> bool:
        """Whether the key of the table is not a key of the source."""
        ...

    def transformed(
        self, change: ChangeBatch, records: pa.RecordBatch, mask_keys: Mapping[str, bytes]
    ) -> TransformedRows:
        """``records`` is the batch that the change was decoded from; ``mask_keys`` are secret, by their names."""
        ...


@dataclass(frozen=True, slots=True)
class TransformedRows:
    """Rows of a table, the reasons of bad records by their offsets, and the number of records without a row.

    None for ``rows`` if the transform lacks columns that later records may show.
    """

    rows: pa.Table | None
    problems: Mapping[int, str] = field(default_factory=dict)
    filtered: int = 0


FindUnstorable: TypeAlias = Callable[[pa.Array], Mapping[int, str]]
"""Finds the values of a column that the table cannot store: positions and reasons."""


OnTruncate: TypeAlias = Literal["apply", "skip", "pause"]
"""The effect of a TRUNCATE of the source table: a Truncation, nothing, or a Refusal."""


@dataclass(frozen=True, slots=True)
class DecodeTarget:
    """The Paimon table that rows of a source table are decoded for."""

    columns: tuple[tuple[str, DataType], ...]
    """The columns for which the source has values."""
    primary_key: tuple[str, ...]
    emit_update_before: bool = False
    counted_again: frozenset[str] = frozenset()
    """Columns whose value would count twice if a row repeated it: values that the source did not send stay NULL
    there.
    """
    declared: frozenset[str] = frozenset()
    """Columns whose type the user fixed: never reported as widened."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Columns that the table cannot have, with the reason: records with a value there go to quarantine."""
    beyond: str | None = None
    """Why the table takes no new columns at all: records with a value in one go to quarantine. None: it takes them."""
    ignores_new: bool = False
    """New columns are left out and never reported."""
    unstorable: Mapping[str, FindUnstorable] = field(default_factory=dict)
    """Per column a function (picklable) that finds values which the table cannot store: positions and reasons."""
    keys: KeyRule | None = None
    """The rule for message keys; None takes every key."""
    has_whole_before: bool = False
    """The user declares that ``before`` of deletes is the whole old row, with nothing invented."""
    refused_deletes: str | None = None
    """Why the table cannot take deletes: their records go to quarantine. None: it can."""
    refused_deletes_with: tuple[str, ...] = ()
    """Only deletes with a value in one of these columns are refused; empty: every delete."""
    on_truncate: OnTruncate = "pause"
    may_truncate: bool = True
    """Whether the rule of the table may say that a TRUNCATE deletes its rows."""
    deleted_at: str | None = None
    """The column that gets the time of deletes, where deleted rows stay; it is none of ``columns``."""
    versions: tuple[str, str] | None = None
    """The columns that get time and offset of each change, where every version of a row stays."""
    on_change: OnChange | None = None
    """The effect of updates and deletes in a table without primary key; None for a table with one."""
    forms: ColumnForms = field(default_factory=ColumnForms)
    """The known forms of its columns."""
    decimal_formats: Mapping[str, str] = field(default_factory=dict)
    """The columns with their own ``decimal_format``, which the user states in addition to the format's."""
    follows_retypes: bool = False
    """Whether the table follows a type change that no wider type holds, and does not only quarantine such records."""
    leaves_out: Callable[[str], bool] | None = None
    """Tells (picklable) which columns of the source the rule drops: these are never reported. None: it drops none."""
    masked: frozenset[str] = frozenset()
    """The columns of the source that the rule masks."""
    drops: Callable[[str], bool] | None = None
    """Tells (picklable) which columns of the source ``columns.drop`` names: the newest rows report which they have."""
    ordering: tuple[tuple[str, DataType], ...] = ()
    """The columns after those of the rows if deletes have their order: ``POSITION`` first if source positions give it;
    others stay NULL."""
    sequence: tuple[str, ...] = ()
    """The sequence columns of the table, except those of its key: the delete of an update has its place among them."""
    tells_events: bool = False
    """The rows have the event columns after their own, whichever event columns the table stores."""
    tells_places: bool = False
    """The rows have the columns of places (``PLACE_COLUMNS``) after their own."""
    awaited: frozenset[str] = frozenset()
    """Columns that expressions need and no record has shown, in lower case: reported even if they have only NULL."""
    nullable_key: frozenset[str] = frozenset()
    """The columns of the key that only its expressions read, if old rows are whole: NULL is a value there."""
    joined: frozenset[str] = frozenset()
    """Columns that expressions need, if each source table sends only parts of the rows (``ABSENT_COLUMN``)."""
    transform: RowTransform | None = None
    """Turns the decoded rows into rows of the table; None if the table has the columns of the source."""
    paths: Mapping[str, ColumnPath] = field(default_factory=dict)
    """The columns that are filled from inside of nested values."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Former column names, each with the name in ``columns``: records with an embedded schema may predate a rename."""
    past: Mapping[str, tuple[PastName, ...]] = field(default_factory=dict)
    """The meanings of names in older records: see ``sources.past_columns``."""
    tells_schemas: bool = False
    """Observations include the embedded schemas of the records in any case, and the shapes of other rows."""
    called: tuple[str, ...] = ()
    """The names of the columns in change rows, if ``columns`` has the names that the records use."""

    @property
    def row_columns(self) -> tuple[tuple[str, DataType], ...]:
        """The columns of change rows."""
        if not self.called:
            return self.columns
        return tuple((name, t) for name, (_, t) in zip(self.called, self.columns, strict=True))

    @property
    def certain_key(self) -> tuple[str, ...]:
        """The columns of the key in which NULL is no value."""
        return tuple(name for name in self.primary_key if name not in self.nullable_key)

    def called_now(self, column: str) -> str:
        """The name in change rows of a column that records have."""
        names = [name for name, _ in self.columns]
        return self.called[names.index(column)] if self.called and column in names else column

    def lacked_by(self, shown: Collection[str]) -> tuple[str, ...]:
        """The non-key columns that a row with the columns ``shown`` lacks, by their names in change rows."""
        both = zip(self.columns, self.row_columns, strict=True)
        return tuple(now for (name, _), (now, _) in both if name not in shown and name not in self.primary_key)

    def left_out_of(self, shown: Collection[str]) -> tuple[str, ...]:
        """The columns of a row that the rule drops, and those that it masks while the table lacks them."""
        unseen = self.masked.difference(name for name, _ in self.columns)
        dropped = set() if self.drops is None else {*filter(self.drops, shown)}
        return tuple(sorted(dropped | unseen.intersection(shown)))

    def knows_all(self, shown: Collection[str]) -> bool:
        """Whether the table has, or the rule refuses, all columns of a row; one with only NULL so far is unknown."""
        known = {*(name for name, _ in self.columns), *self.refused, *self.masked}
        return all(name in known or self._is_left_out(name) for name in shown)

    def under(self, names: Mapping[str, str]) -> DecodeTarget:
        """The target for records that use other column names; ``names`` maps each current name to the other one."""
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

        Without a schema nothing shows whether a former name comes from an older record or means another column.
        """
        if not self.renamed:
            return self
        called = {now: name for (name, _), (now, _) in zip(self.columns, self.row_columns, strict=True)}
        if shown is None:
            why = {
                old: f"column {now!r} had this name earlier, and without an embedded schema the record does not "
                "show which column it means; let the connector send schemas"
                for old, now in self.renamed.items()
            }
            return replace(self.without(self.renamed), refused={**self.refused, **why})
        then: dict[str, str] = {}
        opened: dict[str, str] = {}
        for old, now in self.renamed.items():  # the last name last
            if old not in shown or (now in shown and called.get(now, now) == now):
                continue
            if self._hides(old) and not self._hides(now):
                opened[old] = (
                    f"the rule hides column {old}, which is now called {now} and not hidden. To store this older "
                    f"record, name {now} under columns.mask or columns.drop too, then retry it"
                )
            else:
                then[called.get(now, now)] = old
        found = self.without([*then.values(), *opened]).under(then)
        return replace(found, refused={**self.refused, **opened}).leaving_out(but=opened)

    def leaving_out(self, more: Collection[str] = (), but: Collection[str] = ()) -> DecodeTarget:
        """The target that leaves out ``more`` columns as well, and ``but`` no longer."""
        if not (more or but):
            return self
        return replace(self, leaves_out=partial(_leaves_out, frozenset(more), frozenset(but), self.leaves_out))

    def _hides(self, column: str) -> bool:
        return column in self.masked or (self.drops is not None and self.drops(column))

    def without(self, names: Iterable[str]) -> DecodeTarget:
        """The target for records in which these names mean none of its columns."""
        there = {name for name, _ in self.columns}.intersection(names)
        return self.under({name: _UNREADABLE.format(name) for name in there})

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
        """The columns that the decoder fills itself, without the event columns of an event log."""
        of_versions = () if self.versions is None else (*self.versions, WEAK_COLUMN)
        of_deletes = () if self.deleted_at is None else (self.deleted_at,)
        return of_versions + of_deletes + tuple(name for name, _ in self.ordering)

    def refusal(self, column: str) -> str | None:
        """Why a value in a column that the table lacks must not be dropped silently; None if it may be."""
        if self._is_left_out(column):
            return None
        return self.refused.get(column) or (None if self.ignores_new else self.beyond)

    def is_news(self, column: str) -> bool:
        """Whether to report a column that the table lacks."""
        return not self.ignores_new and not self._is_left_out(column) and self.refusal(column) is None

    def awaits(self, column: str) -> bool:
        """Whether to report a column that the table lacks even if all its values are NULL."""
        return column.lower() in self.awaited and self.is_news(column)

    def _is_left_out(self, column: str) -> bool:
        return self.leaves_out is not None and self.leaves_out(column)


def _leaves_out(more: frozenset[str], but: frozenset[str], others: Callable[[str], bool] | None, name: str) -> bool:
    return name in more or (name not in but and others is not None and others(name))


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a source table has no target: its records go to quarantine with this reason.

    ``is_unmade``: the table can be created once events show what it needs, so they are observed each time.
    ``is_empty``: no event had a row so far; deletes and truncates change nothing and are counted.
    """

    reason: str
    is_unmade: bool = False
    is_empty: bool = False


@dataclass(frozen=True, slots=True)
class Behind:
    """The table of a source table is behind the stream: its records are counted now and read again later."""


Goal: TypeAlias = DecodeTarget | Rejection | Behind | None
"""The goal of a source table's records; None skips them."""


@dataclass(frozen=True, slots=True)
class TopicFormats:
    """The known formats of topics, if their first records decide them."""

    chosen: Mapping[str, str] = field(default_factory=dict)
    """By topic."""
    earlier: Mapping[str, str] = field(default_factory=dict)
    """Those under earlier checkpoints: they count for records that show no format, such as null values."""


class Decoder(Protocol):
    """Turns Kafka records into change rows; runs on executors, keeps no state that changes its answers.

    Picklable and small: it travels with every batch.
    """

    def decode(self, batch: pa.RecordBatch, targets: Mapping[SourceTable, Goal]) -> Decoded:
        """Decode records for the given targets.

        A source that maps to None or Behind is skipped and counted; the records of one that maps to a Rejection go to
        quarantine. An absent source is unknown: it gives an Observation of all its columns, even if there are none, and
        no rows. Rows of known sources are decoded into the target's columns. Bad records become QuarantineRows; no
        record makes this raise.
        """
        ...


@runtime_checkable
class FindsFormats(Protocol):
    """A decoder that chooses the formats of topics from their records."""

    def under(self, formats: TopicFormats) -> Decoder:
        """The decoder for topics of these formats."""
        ...


def decoder_under(decoder: Decoder, formats: TopicFormats) -> Decoder:
    """The decoder with the known formats of topics, if it chooses formats."""
    return decoder.under(formats) if isinstance(decoder, FindsFormats) else decoder
