"""Sorting rows without envelope by source table and operation, before their columns are read.

The metadata fields of a row, or the headers of its record, give both. This module also handles values that are not
rows: it counts control records, quarantines malformed values and passes nulls on as deletes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import MalformedRecord
from sources.changes import SourceTable
from sources.debezium_json.control_records import control_kind
from sources.debezium_json.envelope_split import Heads
from sources.debezium_json.envelopes import unwrapped_key
from sources.debezium_json.event_sorting import RowImages, TableEvents
from sources.debezium_json.ops import LETTERS, MESSAGE, OPS, UNKNOWN_OP, UNSTATED
from sources.debezium_json.strange_values import strange_bytes
from sources.debezium_json.texts import Records
from sources.json_changes.change_rows import DELETE
from sources.json_changes.outcome import Outcome
from sources.upsert_json.metadata import DELETED_FIELD, OPERATION_HEADER, TIMES, FlatRows, Metadata, Role
from sources.upsert_json.record_headers import RecordHeaders
from sources.upsert_json.source_names import RowNames
from sources.values.json_values import json_text

_ROW_OPS = tuple(letter for letter in OPS if letter in "crud")
_OP_VALUES = pa.array(_ROW_OPS)
_OP_CODES = np.array([OPS[letter] for letter in _ROW_OPS], np.int8)
_NAMES = (Role.DATABASE, Role.SCHEMA, Role.TABLE)
_OF_FATE = (Role.OP, Role.DELETED)
_MARKS = pa.array(["true", "false", None])
_NO_ROW = "value is not a row: "


class RowSorter:
    """Sorts the rows of one topic partition; ``events`` has those found, by source table in order of first sight.

    ``deleted`` has the positions of records whose value says null.
    """

    def __init__(
        self, topic: str, shape: FlatRows, in_headers: Metadata, headers: RecordHeaders, outcome: Outcome
    ) -> None:
        self.events: dict[SourceTable, list[TableEvents]] = {}
        self.deleted: list[int] = []
        self._topic = topic
        self._names = RowNames(topic)
        self._shape = shape
        self._in_headers = in_headers
        self._headers = headers
        self._outcome = outcome

    def sort_lines(
        self, texts: Records, fields: Mapping[str, pa.Array], lines: pa.Array, times_ms: pa.Array | None = None
    ) -> None:
        """Sort rows by their metadata fields, texts or integers; ``lines`` have the rows (see ``Heads``).

        ``times_ms`` are times from the fields; where one is NULL, the time is read from ``fields``.
        """
        found = self._found(texts, fields)
        ops, times = found.ops(), found.times_ms()
        times = times if times_ms is None else pc.coalesce(times_ms, times)
        self._add(found, TableEvents(texts, ops, Heads(lines, ops == DELETE), times_ms=times))

    def sort_columns(
        self, records: Records, fields: Mapping[str, pa.Array], rows: pa.StructArray, sources: pa.StructArray
    ) -> None:
        """Sort rows that are columns already; ``sources`` has the fields that source positions are made of."""
        found = self._found(records, fields)
        ops = found.ops()
        parts, of_rows, gone = rows.flatten(), list(rows.type), ops == DELETE
        before, after = (pa.StructArray.from_arrays(parts, fields=of_rows, mask=pa.array(m)) for m in (~gone, gone))
        images = RowImages(before, after, rows)
        self._add(found, TableEvents(records, ops, images=images, times_ms=found.times_ms(), sources=sources))

    def sort_values(self, records: Records, values: Sequence[Any]) -> None:
        """Sort parsed values, some of which may not be rows."""
        rows = [index for index, value in enumerate(values) if self._is_row(value, int(records.positions[index]))]
        if rows:
            chosen = [values[index] for index in rows]
            fields = {
                name: pa.array([field_text(row.get(name)) for row in chosen]) for name in self._shape.metadata.roles
            }
            told = records.taken(np.array(rows, np.int64))
            found = self._found(told, fields)
            events = tuple(self._shape.event(row) for row in chosen)
            self._add(found, TableEvents(told, found.ops(), values=events, times_ms=found.times_ms()))

    def _is_row(self, value: Any, position: int) -> bool:
        if value is None:
            self.deleted.append(position)
            return False
        if not isinstance(value, Mapping):
            self._outcome.quarantine(position, _no_row(value, self._outcome.cell("value", position)))
            return False
        if not self._shape.metadata.is_of_connector:
            return True
        if isinstance(value.get("source"), Mapping) and value.get("op") in [*OPS]:
            if value["op"] == LETTERS[MESSAGE] and isinstance(value.get("message"), Mapping):
                self._outcome.count(messages=1)
                return False
            if value.keys() & {"before", "after"}:
                form = "debezium-json" if self._outcome.is_json else "debezium-avro"
                reason = f"{_NO_ROW}it is an envelope of Debezium, which the format {form} reads"
                self._outcome.quarantine(position, reason)
                return False
        kind = control_kind(value, unwrapped_key(self._outcome.parsed("key", position)), self._topic)
        if kind is None or self._names_table(position):
            return True
        self._outcome.note_control(self._topic, kind, position)
        return False

    def _names_table(self, position: int) -> bool:
        """Whether headers give operation and table of a record: then it is a row, whatever its columns are."""
        names = (*self._in_headers.named(Role.OP), *self._in_headers.named(Role.TABLE))
        told = (self._headers.texts(name) for name in names)
        return any(texts is not None and texts[position].is_valid for texts in told)

    # ------------------------------------------------------------ rows

    def _found(self, records: Records, fields: Mapping[str, pa.Array]) -> _Found:
        return _Found(fields, self._shape.metadata.roles, self._in_headers, self._headers, records.positions)

    def _add(self, found: _Found, rows: TableEvents) -> None:
        """Add rows to the events of the source tables that they name."""
        known = rows.ops != UNKNOWN_OP
        for index in np.flatnonzero(~known).tolist():
            self._outcome.quarantine(int(rows.texts.positions[index]), f"{_NO_ROW}{found.unknown_op(index)}")
        for names, members in found.tables():
            if (members & known).any():
                part = rows.chosen(members & known)
                self.events.setdefault(self._names.table_of(*names), []).append(part)


@dataclass(frozen=True, slots=True)
class _Found:
    """The metadata of rows: fields of the rows first, then headers of their records."""

    fields: Mapping[str, pa.Array]
    roles: Mapping[str, Role]
    in_headers: Metadata
    headers: RecordHeaders
    positions: npt.NDArray[np.int64]

    def text(self, role: Role) -> pa.Array | None:
        """The texts of a role, NULL if neither fields nor headers have it; None if no row has it."""
        named = (name for name, of in self.roles.items() if of is role and name in self.fields)
        parts = [as_text(self.fields[name]) for name in named]
        if role is not Role.DELETED:
            names = [*self.in_headers.named(role)]
            if role is Role.OP and self.in_headers.is_of_connector:
                names.append(OPERATION_HEADER)
            told = (self.headers.texts(name) for name in names)
            parts += [texts.take(pa.array(self.positions)) for texts in told if texts is not None]
        return pc.coalesce(*parts) if parts else None

    def ops(self) -> npt.NDArray[np.int8]:
        """The codes of the operations c, r, u and d, else UNSTATED or UNKNOWN_OP."""
        ops = np.full(len(self.positions), UNSTATED, np.int8)
        stated = self.text(Role.OP)
        if stated is not None:
            given = np.asarray(stated.is_valid())
            index = np.asarray(pc.fill_null(pc.index_in(stated, _OP_VALUES), -1))
            ops[given] = np.where(index >= 0, _OP_CODES[index], UNKNOWN_OP)[given]
        deleted = self.text(Role.DELETED)
        if deleted is not None:
            mark = pc.utf8_lower(deleted)
            is_known = np.asarray(pc.is_in(mark, _MARKS))
            ops[np.asarray(pc.fill_null(pc.equal(mark, "true"), False))] = DELETE
            ops[~is_known] = UNKNOWN_OP
        return ops

    def unknown_op(self, index: int) -> str:
        """Why the operation of a row is unknown."""
        op, deleted = (None if texts is None else texts[index].as_py() for texts in map(self.text, _OF_FATE))
        if deleted is not None and deleted.lower() not in ("true", "false"):
            return f"{DELETED_FIELD} is {deleted!r}, and not true or false"
        return f"op is {op!r}, and not c, r, u or d"

    def times_ms(self) -> pa.Array:
        """When the source made each change, as int64; NULL if nothing gives it."""
        parts = []
        for role, per_ms in TIMES.items():
            texts = self.text(role)
            if texts is not None:
                is_time = pc.fill_null(pc.match_substring_regex(texts, r"\A[0-9]{1,18}\z"), False)
                numbers = pc.if_else(is_time, texts, None).cast(pa.int64())
                parts.append(numbers if per_ms == 1 else pc.divide(numbers, per_ms))
        return pc.coalesce(*parts) if parts else pa.nulls(len(self.positions), pa.int64())

    def tables(self) -> Iterator[tuple[Sequence[str | None], npt.NDArray[np.bool_]]]:
        """Database, schema and table as stated, and the rows that state them."""
        told = {role.value: texts for role in _NAMES if (texts := self.text(role)) is not None}
        if not told:
            yield (None, None, None), np.ones(len(self.positions), np.bool_)
            return
        for row in pa.table(told).group_by([*told], use_threads=False).aggregate([]).to_pylist():
            mine = np.ones(len(self.positions), np.bool_)
            for name, texts in told.items():
                is_same = texts.is_null() if row[name] is None else pc.fill_null(pc.equal(texts, row[name]), False)
                mine &= np.asarray(is_same)
            yield [row.get(role.value) for role in _NAMES], mine


def header_times_ms(in_headers: Metadata, headers: RecordHeaders, positions: npt.NDArray[np.int64]) -> pa.Array:
    """The times of changes in the source, if the headers of records have them."""
    return _Found({}, {}, in_headers, headers, positions).times_ms()


def as_text(column: pa.Array) -> pa.Array:
    return column if pa.types.is_string(column.type) else column.cast(pa.string())


def field_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json_text(value)


def _no_row(value: Any, raw: bytes) -> str:
    if isinstance(value, MalformedRecord):
        return strange_bytes(raw) or str(value)
    if isinstance(value, str) and value.lstrip().startswith("{"):
        return f"{_NO_ROW}it is a JSON text inside a string: convert it once (JsonConverter as value.converter)"
    return f"{_NO_ROW}it is not a JSON object"
