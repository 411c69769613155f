"""Sorting the records of one topic partition by source table, before their rows are read.

This module also handles everything that is not an event of a table. Malformed records go to quarantine; tombstones,
control records and messages are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.rows.chunks import one_array
from sources.changes import SourceTable
from sources.debezium_json.control_records import control_kind
from sources.debezium_json.envelope_schema import NAME_FIELDS, names_of
from sources.debezium_json.envelope_split import Heads, SplitEnvelopes, Tails, split_envelopes
from sources.debezium_json.envelopes import EnvelopeParser, VectorStretch, unwrapped_key
from sources.debezium_json.ops import LETTERS, MESSAGE, OPS, UNKNOWN_OP
from sources.debezium_json.policies import DebeziumPolicies
from sources.debezium_json.strange_values import strange_value
from sources.debezium_json.texts import Records, SourceNames, Texts, op_code
from sources.json_changes.change_rows import TRUNCATE
from sources.json_changes.outcome import Outcome
from sources.json_changes.taking import taken
from sources.mongodb.document_events import is_of_mongodb

_OP_VALUES = pa.array(LETTERS)


@dataclass(frozen=True, slots=True)
class RowImages:
    """Row images of events as columns; ``alone`` where each event has one image, as in ``Events.images``."""

    before: pa.StructArray
    after: pa.StructArray
    alone: pa.StructArray | None = None

    def taken(self, indices: npt.NDArray[np.int64]) -> RowImages:
        alone = None if self.alone is None else taken(self.alone, indices)
        return RowImages(taken(self.before, indices), taken(self.after, indices), alone)


@dataclass(frozen=True, slots=True)
class TableEvents:
    """Texts of one source table with their operation codes (r, c, u, d, t).

    ``heads`` are the parts of the texts with the row images, ``tails`` the others (see ``envelope_split``), both None
    for texts not split.
    ``values`` are the parsed envelopes of texts that only the exact parser takes.
    ``images`` are the row images, ``times_ms`` the times in the source, and ``sources`` the fields of ``source``, of a
    format that gives them as columns.
    """

    texts: Records
    ops: npt.NDArray[np.int8]
    heads: Heads | None = None
    tails: Tails | None = None
    values: tuple[Mapping[str, Any], ...] | None = None
    images: RowImages | None = None
    times_ms: pa.Array | None = None
    sources: pa.StructArray | None = None

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        return self.texts.positions

    def chosen(self, mask: npt.NDArray[np.bool_]) -> TableEvents:
        if mask.all():
            return self
        indices = np.flatnonzero(mask)
        heads = None if self.heads is None else self.heads.taken(indices)
        tails = None if self.tails is None else self.tails.taken(indices)
        values = None if self.values is None else tuple(self.values[i] for i in indices)
        images = None if self.images is None else self.images.taken(indices)
        times = None if self.times_ms is None else taken(self.times_ms, indices)
        sources = None if self.sources is None else taken(self.sources, indices)
        return TableEvents(self.texts.taken(indices), self.ops[mask], heads, tails, values, images, times, sources)

    def envelopes(self) -> Iterator[Any]:
        """The events as they are parsed one by one."""
        if self.values is not None:
            return iter(self.values)
        return map(self.texts.parsed, range(len(self.ops)))


class EventSorter:
    """Sorts texts; ``events`` has the events by source table, in order of first sight.

    With ``parts_documents``, events of MongoDB are in ``documents`` instead, in parts.
    """

    def __init__(
        self, names: SourceNames, policies: DebeziumPolicies, outcome: Outcome, *, parts_documents: bool = False
    ) -> None:
        self.events: dict[SourceTable, list[TableEvents]] = {}
        self.documents: list[Records] = []
        self._parts_documents = parts_documents
        self._names = names
        self._policies = policies
        self._outcome = outcome

    def sort(self, texts: Texts) -> None:
        split = split_envelopes(texts.values)
        if split is None:
            self._sort_whole(texts)
            return
        left = np.ones(len(texts.positions), np.bool_)
        left[split.indices] = False
        self._sort_split(texts, split, left)
        if left.any():
            self._sort_whole(texts.taken(np.flatnonzero(left)))

    def _sort_split(self, texts: Texts, split: SplitEnvelopes, left: npt.NDArray[np.bool_]) -> None:
        """Sort split texts by the shapes of their tails; texts of other events are marked in ``left``."""
        by_table: dict[SourceTable, list[int]] = {}
        codes = np.full(len(split.shapes), UNKNOWN_OP, np.int8)
        documents = []
        for shape, tail in enumerate(split.shapes):
            source, op = self._names.table_of(tail), op_code(tail)
            if source is not None and op is not None and self._is_document(tail):
                documents.append(shape)
                codes[shape] = op
            elif source is not None and op is not None:
                by_table.setdefault(source, []).append(shape)
                codes[shape] = op
        ops = codes[split.tails.shape_of]
        left[split.indices[ops == UNKNOWN_OP]] = True
        self._add_documents(texts, split.indices[split.tails.of_shapes(documents)])
        for source, shapes in by_table.items():
            members = split.tails.of_shapes(shapes)
            if len(members):
                heads, tails = split.heads.taken(members), split.tails.taken(members)
                self._add(source, TableEvents(texts.taken(split.indices[members]), ops[members], heads, tails))

    def _sort_whole(self, texts: Texts) -> None:
        """Sort texts by parsing them for names and operation alone."""
        for stretch in EnvelopeParser(texts.values, (), shape=texts.shape).stretches():
            indices = stretch.start + np.arange(stretch.size)
            if isinstance(stretch, VectorStretch):
                self._sort_parsed(texts.taken(indices), stretch.table)
            else:
                self.sort_values(texts.taken(indices), stretch.values)

    def _sort_parsed(self, texts: Texts, table: pa.Table) -> None:
        """Sort texts that Arrow parsed; texts from MongoDB have no rows."""
        rowless = np.asarray(pc.and_(table.column("before").is_null(), table.column("after").is_null()))
        if self._parts_documents and rowless.any():
            found = [index for index in np.flatnonzero(rowless).tolist() if self._is_document(texts.parsed(index))]
            if found:
                self._add_documents(texts, np.array(found, np.int64))
                others = np.setdiff1d(np.arange(table.num_rows), found)
                texts, table = texts.taken(others), table.take(pa.array(others))
        self.sort_columns(texts, table)

    def _is_document(self, envelope: Any) -> bool:
        return self._parts_documents and is_of_mongodb(envelope) and op_code(envelope) not in (None, TRUNCATE)

    def _add_documents(self, texts: Records, indices: npt.NDArray[np.int64]) -> None:
        if len(indices):
            self.documents.append(texts.taken(indices))

    def sort_columns(
        self,
        texts: Records,
        table: pa.Table,
        images: RowImages | None = None,
        times_ms: pa.Array | None = None,
        sources: pa.StructArray | None = None,
    ) -> None:
        """Sort envelopes that are columns already: ``table`` has ``op`` and ``source`` with the names of tables."""
        ops = np.asarray(pc.fill_null(pc.index_in(table.column("op"), _OP_VALUES), UNKNOWN_OP)).astype(np.int8)
        on_table = (ops >= 0) & (ops <= TRUNCATE)
        for index in np.flatnonzero(~on_table).tolist():
            self._no_table_event(texts.parsed(index), int(texts.positions[index]))
        columns = zip(NAME_FIELDS, one_array(table.column("source")).flatten(), strict=True)
        # Most records have the words of one of the two writers.
        names = {name: c for name, c in columns if c.null_count < len(c) or name == NAME_FIELDS[0]}
        distinct = pa.table(names).filter(pa.array(on_table)).group_by([*names]).aggregate([])
        by_table: dict[SourceTable, npt.NDArray[np.bool_]] = {}
        for row in distinct.to_pylist():
            mine = on_table.copy()
            for key, column in names.items():
                mine &= _equals(column, row[key])
            source = self._names.named(*names_of(row))
            by_table[source] = by_table.get(source, False) | mine
        for source, mine in by_table.items():
            indices = np.flatnonzero(mine)
            row_images = None if images is None else images.taken(indices)
            times = None if times_ms is None else taken(times_ms, indices)
            told = None if sources is None else taken(sources, indices)
            part = TableEvents(texts.taken(indices), ops[mine], images=row_images, times_ms=times, sources=told)
            self._add(source, part)

    def sort_values(self, texts: Records, values: tuple[Any, ...]) -> None:
        """Sort parsed values, some of which may not be envelopes."""
        by_table: dict[SourceTable, list[int]] = {}
        documents = []
        for index, value in enumerate(values):
            source = self._names.table_of(value)
            if source is None:
                self._no_table_event(value, int(texts.positions[index]))
            elif self._is_document(value):
                documents.append(index)
            else:
                by_table.setdefault(source, []).append(index)
        self._add_documents(texts, np.array(documents, np.int64))
        for source, members in by_table.items():
            ops = np.array([OPS[values[i]["op"]] for i in members], np.int8)
            mine = texts.taken(np.array(members, np.int64))
            self._add(source, TableEvents(mine, ops, values=tuple(values[i] for i in members)))

    def _add(self, source: SourceTable, events: TableEvents) -> None:
        self.events.setdefault(source, []).append(events)

    def _no_table_event(self, value: Any, position: int) -> None:
        if value is None:
            self._outcome.count(tombstones=1)
            return
        kind = None
        if isinstance(value, Mapping):
            if value.get("op") == LETTERS[MESSAGE]:
                self._message(position)
                return
            key = unwrapped_key(self._outcome.parsed("key", position))
            kind = control_kind(value, key, self._names.topic)
        if kind is None:
            self._outcome.quarantine(position, strange_value(value, self._outcome.cell("value", position)))
        else:
            self._outcome.note_control(self._names.topic, kind, position)

    def _message(self, position: int) -> None:
        self._outcome.count(messages=1)
        if self._policies.on_message == "fail":
            reason = "logical decoding message (op m): set on_message to skip, or keep it out of the topics"
            self._outcome.refuse(self._names.from_topic(), position, reason)


def _equals(column: pa.Array, expected: str | None) -> npt.NDArray[np.bool_]:
    if expected is None:
        return np.asarray(column.is_null())
    return np.asarray(pc.fill_null(pc.equal(column, expected), False))
