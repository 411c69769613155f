"""The contract between the shared decoder and a replication tool's JSON format in this folder.

A record is read in two steps. Its head (names, operation, key) shows its kind; records with equal heads are judged
once. Its row images are read later, with the columns of their table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.rows.chunks import one_array
from sources.changes import SourceTable
from sources.decode_target import KeyFields
from sources.json_changes.change_rows import DELETE, UPDATE
from sources.json_changes.column_plan import Plan
from sources.json_changes.gaps import Mask
from sources.places_of_change import UNKNOWN_PLACE, PlaceOfChange
from sources.values.iso_time import parse_timestamp

Head: TypeAlias = Mapping[str, Any]
"""The head of a record, without its rows; values are texts, truth values or None."""

Row: TypeAlias = Mapping[str, Any]


class Absent:
    """In a row image: the value of a column that the record does not have at all."""

    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = Absent()


class AbsentFields:
    """Gaps (see ``gaps``) of row images from which columns are missing.

    In images as JSON objects the value is ``ABSENT``. Arrow images lack the field, which appears as a column of type
    null; present columns have another type.
    """

    def is_in(self, value: Any) -> bool:
        return value is ABSENT

    def mask(self, column: pa.Array | list[Any]) -> Mask | None:
        if isinstance(column, list):
            found = np.array([value is ABSENT for value in column], np.bool_)
            return found if found.any() else None
        return np.ones(len(column), np.bool_) if pa.types.is_null(column.type) and len(column) else None


@dataclass(frozen=True, slots=True)
class OfTable:
    """The record has rows of a source table, or says that it was truncated."""

    source: SourceTable
    op: int
    """INSERT, UPDATE, DELETE, or one of the codes of this module."""
    key: KeyFields
    """The columns of the primary key in the record; empty if it says that there are none, None if unknown."""


@dataclass(frozen=True, slots=True)
class NoRows:
    """The record does not belong to a table; ``kind`` (a noun in the singular) says what it is instead."""

    kind: str


@dataclass(frozen=True, slots=True)
class Bad:
    """The record cannot be read, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Strange:
    """The record is not of this format."""


Verdict: TypeAlias = OfTable | NoRows | Bad | Strange


@dataclass(frozen=True, slots=True)
class VectorRows:
    """Row images that Arrow has read of a stretch of texts.

    ``text_of`` has the text of each row, in rising order. ``new`` is the row after an INSERT or UPDATE, and the row
    before a DELETE. ``old`` has the values before an UPDATE, NULL for those that the record does not have; None if no
    row has one. ``doubt`` marks the texts to read exactly instead. ``absent`` marks the rows of UPDATEs that lack a
    column.
    """

    text_of: npt.NDArray[np.int64]
    new: pa.StructArray
    old: pa.StructArray | None
    doubt: Mask
    absent: Mapping[str, Mask] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RowChange:
    """One row of a record, read exactly: whole images, with ``ABSENT`` for columns that the record does not have."""

    before: Row | None
    after: Row | None


class Feed(Protocol):
    """One format. Stateless and picklable. Formats override the parts that they have."""

    tool: str
    """The tool that writes the records, for reasons."""
    op_names: Sequence[str]
    """The tool's word for each operation code."""
    image_names: Sequence[str] = ("data", "old")
    """The fields that may have a row."""
    head_fields: Mapping[str, pa.DataType]
    """What the head has, by name: texts, truth values, lists of names, and objects of which counts whether they are
    there. A dot is before the name of a field inside of an object."""
    time_fields: Sequence[str]
    """The fields that may have the time of the change; the first one that has it counts."""
    time_type: pa.DataType
    types_field: str | None = None
    """The field with the source's types of the columns, an object of texts; None if the format has none.

    Records without it are read exactly.
    """
    tells_every_column: bool = False
    """Whether a row without a column, except of an update, shows that the source lacks the column."""
    old_is_image: bool = False
    """Whether the values before an update are complete: a column that they lack is unknown, not unchanged."""

    @property
    def head_schema(self) -> pa.Schema:
        """The fields that Arrow reads for the head."""
        types = {**self.head_fields, **dict.fromkeys(self.time_fields, self.time_type)}
        by_first: dict[str, list[tuple[str, pa.DataType]]] = {}
        for name, t in types.items():
            first, _, inner = name.partition(".")
            by_first.setdefault(first, []).append((inner, t))
        return pa.schema([(name, pa.struct(of) if of[0][0] else of[0][1]) for name, of in by_first.items()])

    def heads(self, table: pa.Table) -> dict[str, pa.Array]:
        """The heads of records parsed with ``head_schema``: columns of texts and truth values."""
        columns = {name: _column(table, name) for name in self.head_fields}
        columns |= {name: joined_names(c) for name, c in columns.items() if pa.types.is_list(c.type)}
        return columns | {name: c.is_valid() for name, c in columns.items() if pa.types.is_struct(c.type)}

    def head_of(self, value: Row) -> Head:
        """The same of one record parsed exactly."""
        found = {name: _value(value, name) for name in self.head_fields}
        found |= {name: join_names(found[name]) for name, t in self.head_fields.items() if pa.types.is_list(t)}
        return found | {name: found[name] is not None for name, t in self.head_fields.items() if pa.types.is_struct(t)}

    def verdict(self, head: Head, topic: str) -> Verdict:
        """The verdict on records with this head."""
        ...

    def key_of(self, fields: KeyFields, raw: bytes | None) -> KeyFields:
        """The primary key that a message key gives, by its fields and, where these say nothing, its bytes."""
        return None

    def raw_times(self, table: pa.Table) -> pa.Array:
        """The time of each change, as in the records."""
        return pc.coalesce(*(_column(table, name) for name in self.time_fields))

    def raw_time_of(self, value: Row) -> Any:
        """The same for one record parsed exactly; None if it has no usable time."""
        found = (_value(value, name) for name in self.time_fields)
        return next((time for time in found if _is_time(time, self.time_type)), None)

    def times_ms(self, raw: pa.Array) -> pa.Array:
        """Milliseconds since the epoch (int64) from ``raw_times``; NULL if they have none."""
        ...

    def place_of(self, value: Row) -> PlaceOfChange:
        """The position of a change in the log of the source, from a record parsed exactly."""
        return UNKNOWN_PLACE

    def image_fields(self, plan: Plan) -> list[pa.Field]:
        """The fields that Arrow reads for the rows."""
        return [pa.field(name, struct_of(plan)) for name in self.image_names]

    def vector_rows(
        self, texts: pa.Array, table: pa.Table, ops: npt.NDArray[np.int8], plan: Plan, typed: Mapping[str, Mask]
    ) -> VectorRows:
        """The rows of texts parsed with ``image_fields``; ``ops`` has the operation of each text.

        ``typed`` has, where records name types, per column the texts that name the type of the column.
        """
        ...

    def rows_of(self, value: Row, op: int, columns: Sequence[str]) -> list[RowChange] | str:
        """The rows of one record parsed exactly, or why it has none; ``columns`` are the table's."""
        ...

    def types_of(self, value: Row) -> Mapping[str, str] | None:
        """The source's types of the columns, as one record parsed exactly gives them."""
        return None


def images_in(feed: Feed, value: Any) -> list[Row]:
    """The row images of a record parsed exactly, whatever its operation."""
    if not isinstance(value, dict):
        return []
    for op in (DELETE, UPDATE):
        changes = feed.rows_of(value, op, ())
        if not isinstance(changes, str):
            return [row for change in changes for row in (change.before, change.after) if row is not None]
    return []


def _column(table: pa.Table, name: str) -> pa.Array:
    first, _, inner = name.partition(".")
    column = one_array(table.column(first))
    return pc.struct_field(column, inner) if inner else column


def _value(value: Row, name: str) -> Any:
    first, _, inner = name.partition(".")
    found = value.get(first)
    return found if not inner else found.get(inner) if isinstance(found, Mapping) else None


def _is_time(time: Any, t: pa.DataType) -> bool:
    if pa.types.is_string(t):
        return isinstance(time, str)
    return isinstance(time, int) and not isinstance(time, bool) and abs(time) < 1 << 53


def struct_of(plan: Plan) -> pa.DataType:
    """The type of row images with the columns of a plan."""
    return pa.struct([(column.name, column.form) for column in plan])


def joined_names(names: pa.Array) -> pa.Array:
    """Lists of names, each as one text; see ``split_names``."""
    return pc.binary_join(names, _BETWEEN)


def join_names(names: Any) -> str | None:
    """The same for one list; None if it is not a list of names."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    return _BETWEEN.join(names)


def split_names(text: str | None) -> KeyFields:
    """The names in a text of ``joined_names``; empty for an empty list, None if there is no list."""
    if text is None:
        return None
    return tuple(text.split(_BETWEEN)) if text else ()


_BETWEEN = "\x1f"


def epoch_ms(texts: pa.Array, zone: str) -> pa.Array:
    """Milliseconds since the epoch (int64); NULL for values that are not a time. Texts without a zone are in
    ``zone``."""
    encoded = texts.dictionary_encode()
    found: list[int | None] = []
    for text in encoded.dictionary.to_pylist():
        moment = parse_timestamp(text)
        if moment is None or not -(1 << 62) < moment[0] < 1 << 62:
            found.append(None)
        elif moment[1] or zone == "UTC":
            found.append(moment[0] // 1_000_000)
        else:
            local = pa.scalar(moment[0] // 1_000_000, pa.int64()).cast(pa.timestamp("ms"))
            instant = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="latest")
            found.append(instant.cast(pa.int64()).as_py())
    return pa.array(found, pa.int64()).take(encoded.indices)
