"""From parsed envelopes to data events of one source table.

Everything that is no data event of that table is dealt with here: malformed records go to quarantine, control records
and messages are counted, truncates are refused or counted, events of other tables in the same topic are handed back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import MalformedRecord
from sources.changes import DecoderOptions, SourceTable
from sources.debezium_json.change_rows import (
    DELETE,
    MESSAGE,
    OPS,
    TRUNCATE,
    UNKNOWN_OP,
    Events,
    Mask,
    present,
)
from sources.debezium_json.column_plan import Plan
from sources.debezium_json.envelope_split import SplitEnvelopes, split_envelopes
from sources.debezium_json.envelopes import NAMES, EnvelopeParser, VectorStretch, parse_exactly, unwrapped
from sources.debezium_json.outcome import Outcome

_OP_VALUES = pa.array(list(OPS))
_TRANSACTION_FIELDS = {"status", "id", "event_count"}
_SCHEMA_CHANGE_FIELDS = {"databaseName", "ddl", "tableChanges"}


@dataclass(frozen=True, slots=True)
class Texts:
    """Binary JSON texts with their positions in the batch."""

    values: pa.Array
    positions: npt.NDArray[np.int64]

    def taken(self, indices: npt.NDArray[np.int64]) -> Texts:
        return Texts(self.values.take(pa.array(indices)), self.positions[indices])

    def parsed(self, index: int) -> Any:
        """One text parsed exactly: the payload, or a MalformedRecord."""
        return unwrapped(parse_exactly(self.values[int(index)].as_py()))


@dataclass(frozen=True, slots=True)
class SourceNames:
    """Reads the names of source tables; the topic's name stands in where an envelope has no ``source``."""

    topic: str

    def table_of(self, envelope: Any) -> SourceTable | None:
        """The source table of a parsed data event, None for other values."""
        if not isinstance(envelope, Mapping) or envelope.get("op") not in tuple("rcudt"):
            return None
        source = envelope.get("source")
        return self.named(source) if isinstance(source, Mapping) else self.from_topic()

    def named(self, source: Mapping[str, Any]) -> SourceTable:
        fallback = self.from_topic()
        table = source.get("table")
        if not isinstance(table, str) or not table:
            return fallback
        database, schema = source.get("db"), source.get("schema")
        return SourceTable(
            self.topic,
            database if isinstance(database, str) else None,
            schema if isinstance(schema, str) else None,
            table,
        )

    def from_topic(self) -> SourceTable:
        """``[...database.]schema.table`` by the topic's last dotted parts, after a prefix."""
        parts = self.topic.split(".")
        schema = parts[-2] if len(parts) > 2 else None
        return SourceTable(self.topic, parts[-3] if len(parts) > 3 else None, schema, parts[-1])


@dataclass(frozen=True, slots=True)
class ReadEvents:
    """Data events (r, c, u, d) of the wanted source, in order, and the texts (indices) of other source tables."""

    events: list[Events]
    others: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Tails:
    """Operation codes, and the names of source tables: one per event, or several events to one by ``name_of``."""

    ops: npt.NDArray[np.int8]
    names: pa.StructArray
    name_of: npt.NDArray[np.int64] | None


def _tails(stretch: VectorStretch, split: SplitEnvelopes | None) -> _Tails:
    if split is None:
        codes = pc.fill_null(pc.index_in(stretch.table.column("op"), _OP_VALUES), UNKNOWN_OP)
        names = stretch.table.column("source").combine_chunks()
        return _Tails(np.asarray(codes).astype(np.int8), names, None)
    shape_of = split.shape_of[stretch.start : stretch.start + stretch.table.num_rows]
    ops = [shape.get("op") for shape in split.shapes]
    codes = np.array([OPS.find(op) if isinstance(op, str) and len(op) == 1 else UNKNOWN_OP for op in ops], np.int8)
    sources = [shape.get("source") or {} for shape in split.shapes]
    names = [{name: _text(source.get(name)) for name in NAMES.names} for source in sources]
    return _Tails(codes[shape_of], pa.array(names, NAMES), shape_of)


class EventReader:
    """Reads the events of one source table out of texts."""

    def __init__(self, names: SourceNames, source: SourceTable, options: DecoderOptions, outcome: Outcome) -> None:
        self._names = names
        self._source = source
        self._options = options
        self._outcome = outcome

    def read(self, texts: Texts, plan: Plan, wanted: bool = True) -> ReadEvents:
        """Parse the texts with the plan's columns; an empty plan reads no row images. ``wanted``: refuse truncates.

        Events come in pieces that may overlap in positions.
        """
        split = split_envelopes(texts.values)
        if split is None:
            return self._read(texts, np.arange(len(texts.positions)), None, plan, wanted)
        taken = np.zeros(len(texts.positions), np.bool_)
        taken[split.indices] = True
        read = self._read(texts if taken.all() else texts.taken(split.indices), split.indices, split, plan, wanted)
        if taken.all():
            return read
        rest = np.flatnonzero(~taken)
        other = self._read(texts.taken(rest), rest, None, plan, wanted)
        return ReadEvents(read.events + other.events, np.sort(np.concatenate((read.others, other.others))))

    def _read(
        self, texts: Texts, indices: npt.NDArray[np.int64], split: SplitEnvelopes | None, plan: Plan, wanted: bool
    ) -> ReadEvents:
        """Read texts that were all split or all not; ``indices`` are theirs in the caller's texts."""
        events: list[Events] = []
        others: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
        for stretch in EnvelopeParser(texts.values, plan, None if split is None else split.heads).stretches():
            if isinstance(stretch, VectorStretch):
                part, odd = self._from_vectors(stretch, _tails(stretch, split), texts, wanted)
            else:
                self._outcome.count(exact=len(stretch.values))
                within = stretch.start + np.arange(len(stretch.values))
                part, odd = self._from_values(within, stretch.values, texts, wanted)
            events += part
            others.append(odd)
        return ReadEvents(events, indices[np.concatenate(others)])

    def _from_vectors(
        self, stretch: VectorStretch, tails: _Tails, texts: Texts, wanted: bool
    ) -> tuple[list[Events], npt.NDArray[np.int64]]:
        ops, mine = tails.ops, self._is_mine(tails)
        indices = stretch.start + np.arange(len(ops))
        data = (ops >= 0) & (ops <= DELETE)
        usable = data & mine
        others = data & ~mine
        rest = np.flatnonzero(~data)
        if len(rest):
            values = tuple(texts.parsed(int(i)) for i in indices[rest])
            _, odd = self._from_values(indices[rest], values, texts, wanted)
            others[odd - stretch.start] = True
        before, after = (stretch.table.column(side).combine_chunks() for side in ("before", "after"))
        positions = texts.positions[indices]
        if not usable.all():
            chosen = pa.array(usable)
            ops, positions = ops[usable], positions[usable]
            before, after = before.filter(chosen), after.filter(chosen)
        events = self._complete(Events(positions, ops, before, after))
        return events, indices[others]

    def _is_mine(self, tails: _Tails) -> Mask:
        mine = np.ones(len(tails.names), np.bool_)
        expected = {"db": self._source.database, "schema": self._source.schema, "table": self._source.table}
        for name, value in expected.items():
            mine &= _equals(pc.struct_field(tails.names, name), value)
        if self._source == self._names.from_topic():
            mine |= np.asarray(tails.names.is_null())
        return mine if tails.name_of is None else mine[tails.name_of]

    def _from_values(
        self, indices: npt.NDArray[np.int64], values: tuple[Any, ...], texts: Texts, wanted: bool
    ) -> tuple[list[Events], npt.NDArray[np.int64]]:
        kept: list[tuple[int, Mapping[str, Any]]] = []
        others: list[int] = []
        for index, value in zip(indices.tolist(), values, strict=True):
            position = int(texts.positions[index])
            if self._is_no_table_event(value, position):
                continue
            if self._names.table_of(value) != self._source:
                others.append(index)
            elif value["op"] == OPS[TRUNCATE]:
                self._truncated(position, wanted)
            else:
                kept.append((position, value))
        events = Events(
            np.array([position for position, _ in kept], np.int64),
            np.array([OPS.index(value["op"]) for _, value in kept], np.int8),
            [_image(value.get("before")) for _, value in kept],
            [_image(value.get("after")) for _, value in kept],
        )
        return self._complete(events), np.array(others, np.int64)

    def _is_no_table_event(self, value: Any, position: int) -> bool:
        """Deal with whatever is not r, c, u, d or t."""
        if isinstance(value, MalformedRecord):
            self._outcome.quarantine(position, str(value))
        elif value is None:
            self._outcome.count(tombstones=1)
        elif not isinstance(value, Mapping):
            self._outcome.quarantine(position, "value is no Debezium envelope: it is not a JSON object")
        elif "op" not in value and (value.keys() >= _TRANSACTION_FIELDS or value.keys() >= _SCHEMA_CHANGE_FIELDS):
            self._outcome.count(control=1)
        elif value.get("op") == OPS[MESSAGE]:
            self._message(position)
        elif self._names.table_of(value) is None:
            found = f"op is {value['op']!r}" if "op" in value else "it has no field op"
            self._outcome.quarantine(position, f"value is no Debezium envelope: {found}")
        else:
            return False
        return True

    def _message(self, position: int) -> None:
        self._outcome.count(messages=1)
        if self._options.on_message == "fail":
            reason = "logical decoding message (op m): set on_message to skip, or keep it out of the topics"
            self._outcome.refuse(self._names.from_topic(), position, reason)

    def _truncated(self, position: int, wanted: bool) -> None:
        if not wanted:
            return
        self._outcome.count(truncates=1)
        if self._options.on_truncate == "fail":
            reason = "the source table was truncated (op t): empty the Paimon table, or set on_truncate to skip"
            self._outcome.refuse(self._source, position, reason)

    def _complete(self, events: Events) -> list[Events]:
        """The events without those that lack the image that their operation needs."""
        if not len(events.ops):
            return []
        lacking = (events.ops != DELETE) & ~present(events.after)
        if not lacking.any():
            return [events]
        for position, op in zip(events.positions[lacking], events.ops[lacking], strict=True):
            self._outcome.quarantine(position, f"op {OPS[op]} without a row in after")
        return [events.chosen(~lacking)] if not lacking.all() else []


def _equals(column: pa.Array, expected: str | None) -> Mask:
    if expected is None:
        return np.asarray(column.is_null())
    return np.asarray(pc.fill_null(pc.equal(column, expected), False))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _image(value: Any) -> Mapping[str, Any] | None:
    return value if isinstance(value, dict) else None
