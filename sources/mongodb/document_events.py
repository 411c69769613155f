"""Events of MongoDB as events of a table: documents become rows with a column for each field.

Envelopes of the connector for MongoDB have documents as texts in ``before`` and ``after``, and the text of ``_id`` in
the message key. The result is envelopes and keys like other connectors write, with plain JSON values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from paimon_table.errors import MalformedRecord
from paimon_table.types import BINARIES, CHARACTERS, INTEGERS, DataType, Root
from sources.column_paths import ColumnPath
from sources.decode_target import DecodeTarget, Goal
from sources.json_changes.exact_parse import parse_text, value_at
from sources.mongodb.extended_json import canonical, plain, relaxed, scalar_of, text_of
from sources.mongodb.options import DocumentOptions

ID = "_id"
"""The field that is the primary key of every collection."""

KEY_FIELD = "id"
"""The field of message keys with the text of ``_id``."""
_NUMBERS = (*INTEGERS, Root.FLOAT, Root.DOUBLE, Root.DECIMAL)
_MOST_DIGITS = 38
_EXACT_IN_DOUBLE = 1 << 53
_NEW_TABLE = "write the collection into a new table with id_format: extended, or declare the type of _id there"
_FULL_DOCUMENTS = "let the connector send whole documents (capture.mode: change_streams_update_full)"

Row = dict[str, Any]


def is_of_mongodb(envelope: Any) -> bool:
    """Whether an envelope is one of the connector for MongoDB."""
    source = envelope.get("source") if isinstance(envelope, dict) else None
    return isinstance(source, dict) and (source.get("connector") == "mongodb" or "collection" in source)


def names_of_collection(envelope: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Database and collection of an event."""
    database, collection = envelope["source"].get("db"), envelope["source"].get("collection")
    return database if isinstance(database, str) else None, collection if isinstance(collection, str) else None


@dataclass(frozen=True, slots=True)
class DocumentEvents:
    """Reads the events of one collection; ``target`` is the table for its documents, None while there is none.

    ``unavailable`` stands in a row for a value that the event does not have.
    """

    options: DocumentOptions
    target: DecodeTarget | None
    unavailable: str
    types: Mapping[str, DataType] = field(default_factory=dict)

    @classmethod
    def of(cls, options: DocumentOptions, goal: Goal, unavailable: str) -> DocumentEvents:
        target = goal if isinstance(goal, DecodeTarget) else None
        return cls(options, target, unavailable, {} if target is None else dict(target.columns))

    def event(self, envelope: Mapping[str, Any], key: Callable[[], Any]) -> Row:
        """The event of a table; ``key`` gives the parsed message key of its envelope. Raises MalformedRecord."""
        before, after = _document(envelope, "before"), _document(envelope, "after")
        if after is None and envelope["op"] == "u":
            new: Row | None = self._changed_fields(envelope, self.key(key()))
        else:
            new = None if after is None else self._whole_row(after)
        database, collection = names_of_collection(envelope)
        told = envelope["source"]
        source = {"db": database, "table": collection, **{name: _whole(told.get(name)) for name in ("ts_ms", "ord")}}
        old = None if before is None else self._whole_row(before)
        event = {"before": old, "after": new, "source": source, "op": envelope["op"]}
        return event | {"transaction": envelope.get("transaction")}

    def key(self, key: Any) -> Row | None:
        """A parsed message key with the field ``_id``; None for a key of another form. Raises MalformedRecord."""
        if not isinstance(key, Mapping) or key.keys() != {KEY_FIELD} or not isinstance(key[KEY_FIELD], str):
            return None
        try:
            return {ID: self._id(parse_text(key[KEY_FIELD]))}
        except MalformedRecord as error:
            raise MalformedRecord(f"the message key holds no {ID} of MongoDB: {error}") from None

    # ------------------------------------------------------------ rows

    def _row(self, document: Mapping[str, Any]) -> Row:
        """The columns of a document."""
        types = self.types
        row: Row = {}
        for name, value in document.items():
            if name == ID:
                row[name] = self._id(value)
            elif value is None or isinstance(value, str):
                row[name] = value
            else:
                row[name] = plain(value, types.get(name))
        for column, path in self._paths.items():
            row[column] = plain(value_at(document, path), types.get(column))
        return row

    def _whole_row(self, document: Mapping[str, Any]) -> Row:
        """The columns of a document, including the column that holds the whole document."""
        row, column = self._row(document), self.options.document_column
        if column is None:
            return row
        if column in document:
            raise MalformedRecord(f"the document has a field {column} itself; choose another document_column")
        form = canonical if self.options.document_format == "canonical" else relaxed
        return {**row, column: text_of(form(document))}

    @property
    def _paths(self) -> Mapping[str, ColumnPath]:
        return {} if self.target is None else self.target.paths

    def _changed_fields(self, envelope: Mapping[str, Any], key: Row | None) -> Row:
        """The row of an update with only the changed fields: all other columns keep their values."""
        changes = envelope.get("updateDescription")
        if not isinstance(changes, Mapping):
            raise MalformedRecord(f"op u without a document in after: {_FULL_DOCUMENTS}")
        updated = _parsed(changes.get("updatedFields") or "{}", "updatedFields")
        removed = changes.get("removedFields") or []
        if not isinstance(removed, list) or not all(isinstance(name, str) for name in removed):
            raise MalformedRecord("removedFields of updateDescription is not a list of names")
        nested = next((name for name in (*updated, *removed) if "." in name), None)
        if nested is not None:
            raise MalformedRecord(f"op u changes {nested} inside of a field, without the document: {_FULL_DOCUMENTS}")
        if changes.get("truncatedArrays"):
            raise MalformedRecord(f"op u shortens an array, without the document: {_FULL_DOCUMENTS}")
        if self.options.document_column is not None:
            raise MalformedRecord(f"op u without the document for {self.options.document_column}: {_FULL_DOCUMENTS}")
        row = self._row({**updated, **dict.fromkeys(removed)})
        changed = {*updated, *removed}
        for column in self.types:
            if self._paths.get(column, (column,))[0] not in changed:
                row[column] = self.unavailable
        return {**row, **(key or {})}

    # ------------------------------------------------------------ _id

    def _id(self, value: Any) -> Any:
        """The value of the column ``_id``. Raises MalformedRecord if two documents would become one row."""
        if self.options.id_format == "extended":
            return text_of(relaxed(value))
        t = self.types.get(ID)
        found = _plain_id(value, t)
        is_declared = self.target is not None and ID in self.target.declared
        if self.target is not None and t is not None and not is_declared:
            _check_kind(found, t)
        if isinstance(found, Decimal):
            return format(found, "f").rstrip("0") if is_declared else float(found)
        return found


def _check_kind(found: int | Decimal | str | None, t: DataType) -> None:
    """Raise MalformedRecord for an ``_id`` that another one could equal in a column of this type."""
    is_number = isinstance(found, int | Decimal)
    if (is_number and t.root in CHARACTERS) or (isinstance(found, str) and t.root in _NUMBERS):
        kind = "a number" if is_number else "no number"
        raise MalformedRecord(
            f"{ID} is {kind}, and column {ID} {t} holds other values: two documents could get the same text; "
            f"{_NEW_TABLE}"
        )
    if isinstance(found, Decimal) and t.root in INTEGERS:
        raise MalformedRecord(f"{ID} is not a whole number, but column {ID} {t} holds only whole numbers; {_NEW_TABLE}")
    if isinstance(found, int | Decimal) and t.root is Root.DOUBLE and not _is_exact(found):
        raise MalformedRecord(f"{ID} is a number with more digits than column {ID} {t} can hold; {_NEW_TABLE}")


def _is_exact(number: int | Decimal) -> bool:
    """Whether DOUBLE holds a number without a second number that has the same value."""
    if isinstance(number, int):
        return abs(number) <= _EXACT_IN_DOUBLE
    return Decimal(repr(float(number))) == number


def _plain_id(value: Any, t: DataType | None) -> int | Decimal | str | None:
    """A number as it is: an integer where it is one, whichever type it has; else text."""
    number = value
    if isinstance(value, dict):
        scalar = scalar_of(value)
        if scalar is not None and scalar.kind in ("int", "long", "double", "decimal"):
            number = scalar.content if scalar.kind in ("int", "long") else Decimal(str(scalar.content))
    if isinstance(number, int) and not isinstance(number, bool):
        return number
    if isinstance(number, Decimal | float):
        return _plain_number(Decimal(str(number)))
    found = plain(value, t if t is not None and t.root in BINARIES else None)
    if found is None or isinstance(found, str):
        return None if found is None else str(found)  # without a type of its own: the column is STRING
    return text_of(found)


def _plain_number(number: Decimal) -> int | Decimal | str:
    """An integer, a fraction, or the text of a number outside the range of columns."""
    if not number.is_finite() or abs(number.adjusted()) > _MOST_DIGITS:
        return str(number)
    return int(number) if number == number.to_integral_value() else number


# ---------------------------------------------------------------- documents


def _document(envelope: Mapping[str, Any], side: str) -> Row | None:
    value = envelope.get(side)
    return None if value is None else _parsed(value, side)


def _parsed(value: Any, name: str) -> Row:
    if isinstance(value, str):
        try:
            value = parse_text(value)
        except MalformedRecord as error:
            raise MalformedRecord(f"{name} holds no document of MongoDB: {error}") from None
    if not isinstance(value, dict):
        raise MalformedRecord(f"{name} holds no document of MongoDB")
    return value


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
