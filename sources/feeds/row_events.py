"""Reading the row images of the records of one source table: whole stretches by Arrow, the others one by one.

The result is groups of similar events: events of a group have the same source types and lack the same columns.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sources.debezium_json.envelopes import EnvelopeParser, Layout, VectorStretch
from sources.decode_target import DecodeTarget
from sources.feeds.cut_objects import NOT_CUT
from sources.feeds.feed import ABSENT, Feed, Row, VectorRows, images_in
from sources.feeds.sorting import ParsedRows, TableRecords
from sources.feeds.source_types import SourceTypes
from sources.json_changes.before_values import filled
from sources.json_changes.change_rows import DELETE, UPDATE, Events, Mask, Rows
from sources.json_changes.column_plan import Plan
from sources.json_changes.outcome import Outcome
from sources.json_changes.taking import taken

_NULL_TEXT = r":\s*null"


@dataclass(frozen=True, slots=True)
class EventGroup:
    """Events under one set of types."""

    events: Events
    types: SourceTypes


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads records for one target."""

    feed: Feed
    target: DecodeTarget
    plan: Plan
    """The types that Arrow expects."""
    outcome: Outcome
    parsed: Sequence[ParsedRows] = ()
    """Rows that were read with the heads of their records."""

    def groups(self, records: TableRecords) -> Iterator[EventGroup]:
        """The events of all records that have rows; the others go to quarantine."""
        whole = records.types == NOT_CUT
        if whole.any():
            yield from self._exact_groups(records, np.flatnonzero(whole))
            records = records.chosen(~whole)
        for rows in self.parsed:
            records = yield from self._read_groups(records, rows)
        if not len(records):
            return
        layout = Layout(self.feed.image_fields, partial(images_in, self.feed))
        exact: list[npt.NDArray[np.int64]] = []
        for stretch in EnvelopeParser(records.texts.values, self.plan, layout=layout).stretches():
            indices = np.arange(stretch.start, stretch.start + stretch.size)
            if isinstance(stretch, VectorStretch):
                doubt = yield from self._vector_groups(records, stretch)
                exact.append(indices[doubt])
            else:
                exact.append(indices)
        rest = np.concatenate(exact) if exact else np.empty(0, np.int64)
        if len(rest):
            yield from self._exact_groups(records, rest)

    def _read_groups(self, records: TableRecords, rows: ParsedRows) -> Generator[EventGroup, None, TableRecords]:
        """The groups of records that are already parsed; returns the others, with the records to read exactly."""
        if not len(records):
            return records
        index = np.minimum(np.searchsorted(records.texts.positions, rows.positions), len(records) - 1)
        mine = records.texts.positions[index] == rows.positions
        if not mine.any():
            return records
        table = rows.table if mine.all() else rows.table.filter(pa.array(mine))
        doubt = yield from self._vector_groups(records.taken(index[mine]), VectorStretch(0, table))
        left = np.ones(len(records), np.bool_)
        left[index[mine]] = False
        if doubt.any():
            yield from self._exact_groups(records, index[mine][doubt])
        return records.chosen(left)

    # ------------------------------------------------------------ by Arrow

    def _vector_groups(self, records: TableRecords, stretch: VectorStretch) -> Generator[EventGroup, None, Mask]:
        """The groups of a stretch; returns which of its texts to read exactly."""
        within = slice(stretch.start, stretch.start + stretch.size)
        texts, ops = records.texts.values[within], records.ops[within]
        types = records.types[within]
        rows = self.feed.vector_rows(texts, stretch.table, ops, self.plan, self._typed(records, types))
        rows = self._with_old_values(rows)
        doubt = rows.doubt | self._unsure_before(texts, ops, rows)
        kept = np.flatnonzero(~doubt[rows.text_of])
        if not len(kept):
            return doubt
        of_row = rows.text_of[kept]
        new, old = (None if images is None else taken(images, kept) for images in (rows.new, rows.old))
        positions, row_ops = records.texts.positions[within][of_row], ops[of_row]
        lacking, lack_of = _lacking_sets({name: mask[kept] for name, mask in rows.absent.items()}, len(kept))
        group_of = types[of_row] * len(lacking) + lack_of
        for code in np.unique(group_of).tolist():
            some, names = np.flatnonzero(group_of == code), lacking[code % len(lacking)]
            sides = (None if images is None else _without(taken(images, some), names) for images in (new, old))
            events = self._events(positions[some], row_ops[some], *sides)
            yield EventGroup(events, records.type_sets[code // len(lacking)])
        return doubt

    def _with_old_values(self, rows: VectorRows) -> VectorRows:
        """The rows with values of ``old`` that ``new`` lacks, by the rule of ``with_before_values``."""
        if rows.old is None or not self.feed.old_is_image:
            return rows
        new, absent = rows.new, dict(rows.absent)
        for name in rows.absent.keys() - self.target.counted_again:
            old = rows.old.field(name)
            fills = absent[name] & np.asarray(old.is_valid())
            found = filled(new, name, fills, old) if fills.any() else new
            if found is not new:
                new, absent[name] = found, absent[name] & ~fills
        return replace(rows, new=new, absent=absent)

    def _typed(self, records: TableRecords, types: npt.NDArray[np.int64]) -> dict[str, Mask]:
        """Per column the texts that name its type; none where the format has no types."""
        if self.feed.types_field is None:
            return {}
        names = [{name for name, _ in known.columns} for known in records.type_sets]
        return {c.name: np.array([c.name in known for known in names], np.bool_)[types] for c in self.plan}

    def _unsure_before(self, texts: pa.Array, ops: npt.NDArray[np.int8], rows: VectorRows) -> Mask:
        """Updates for which Arrow cannot distinguish a NULL in the old row from a missing value, where that matters."""
        unsure = np.zeros(len(texts), np.bool_)
        if rows.old is None:
            return unsure
        asked = (ops == UPDATE) & (True if self.target.emit_update_before else self._moved(len(texts), rows))
        if not asked.any():
            return unsure
        unsure |= asked & np.asarray(pc.match_substring_regex(texts, _NULL_TEXT))
        if self.feed.old_is_image and self.target.emit_update_before:
            for column in self.plan:
                lacking = np.asarray(rows.old.field(column.name).is_null())
                unsure[rows.text_of[lacking & np.asarray(rows.new.field(column.name).is_valid())]] |= True
            unsure &= asked
        return unsure

    def _moved(self, count: int, rows: VectorRows) -> Mask:
        """The texts with a row whose key changes."""
        moved = np.zeros(count, np.bool_)
        assert rows.old is not None
        for name in self.target.primary_key:
            moved[rows.text_of[_differs(rows.old, rows.new, name)]] = True
        return moved

    def _events(
        self,
        positions: npt.NDArray[np.int64],
        ops: npt.NDArray[np.int8],
        new: pa.StructArray,
        old: pa.StructArray | None,
    ) -> Events:
        deleted = ops == DELETE
        fields = list(new.type)
        children = [new.field(i) for i in range(len(fields))]
        after = pa.StructArray.from_arrays(children, fields=fields, mask=pa.array(deleted))
        if old is None or not self._needs_before(ops, new, old):
            before = pa.StructArray.from_arrays(children, fields=fields, mask=pa.array(~deleted))
            return Events(positions, ops, before, after, new)
        updated = (ops == UPDATE) & np.asarray(old.is_valid())
        overlaid = [_overlaid(old, f, child, updated) for f, child in zip(fields, children, strict=True)]
        paired = deleted | updated
        before = pa.StructArray.from_arrays(overlaid, fields=fields, mask=pa.array(~paired))
        return Events(positions, ops, before, after)

    def _needs_before(self, ops: npt.NDArray[np.int8], new: pa.StructArray, old: pa.StructArray) -> bool:
        """Whether rows before an update give change rows of their own."""
        updated = (ops == UPDATE) & np.asarray(old.is_valid())
        if not updated.any():
            return False
        if self.target.emit_update_before:
            return True
        return any((updated & _differs(old, new, name)).any() for name in self.target.primary_key)

    # ------------------------------------------------------------ one by one

    def _exact_groups(self, records: TableRecords, indices: npt.NDArray[np.int64]) -> Iterator[EventGroup]:
        self.outcome.count(exact=len(indices))
        names = [column.name for column in self.plan]
        found: dict[SourceTypes, list[tuple[int, int, Row | None, Row | None]]] = {}
        for index in np.sort(indices).tolist():
            position, op = int(records.texts.positions[index]), int(records.ops[index])
            value = self.outcome.parsed("value", position)
            changes = self.feed.rows_of(value, op, names) if isinstance(value, dict) else str(value)
            if isinstance(changes, str):
                self.outcome.quarantine(position, changes)
                continue
            types = SourceTypes.of(self.feed.types_of(value))
            for change in changes:
                earlier = change.before
                if earlier is not None and change.after is not None and not self.target.emit_update_before:
                    earlier = {name: change.after.get(name) if v is ABSENT else v for name, v in earlier.items()}
                found.setdefault(types, []).append((position, op, earlier, change.after))
        for types, rows in found.items():
            positions = np.array([row[0] for row in rows], np.int64)
            ops = np.array([row[1] for row in rows], np.int8)
            before: Rows = [row[2] for row in rows]
            yield EventGroup(Events(positions, ops, before, [row[3] for row in rows]), types)


def _lacking_sets(absent: Mapping[str, Mask], count: int) -> tuple[list[Sequence[str]], npt.NDArray[np.int64]]:
    """The distinct sets of columns that rows lack, and the number of the set that each row has."""
    if not absent:
        return [()], np.zeros(count, np.int64)
    names = [*absent]
    matrix = np.column_stack([absent[name] for name in names])
    distinct, of = np.unique(matrix, axis=0, return_inverse=True)
    sets = [tuple(name for name, lacks in zip(names, row.tolist(), strict=True) if lacks) for row in distinct]
    return [*sets], of.reshape(-1)


def _without(rows: pa.StructArray, names: Sequence[str]) -> pa.StructArray:
    """The images without these columns. A remaining column of type null becomes text: type null means absent."""
    if not names and not any(pa.types.is_null(f.type) for f in rows.type):
        return rows
    kept = [i for i, f in enumerate(rows.type) if f.name not in names]
    fields, children = [], []
    for i in kept:
        f, child = rows.type.field(i), rows.field(i)
        if pa.types.is_null(f.type):
            f, child = pa.field(f.name, pa.string()), pa.nulls(len(child), pa.string())
        fields.append(f)
        children.append(child)
    return pa.StructArray.from_arrays(children, fields=fields, mask=rows.is_null())


def _differs(old: pa.StructArray, new: pa.StructArray, name: str) -> Mask:
    """The updates in which the earlier value of a column is known and may differ from the new one."""
    if old.type.get_field_index(name) < 0 or new.type.get_field_index(name) < 0:
        return np.zeros(len(new), np.bool_)
    earlier, now = pc.struct_field(old, name), pc.struct_field(new, name)
    if earlier.type != now.type or pa.types.is_nested(now.type) or pa.types.is_null(now.type):
        return np.asarray(earlier.is_valid())
    return np.asarray(pc.fill_null(pc.not_equal(earlier, now), False))


def _overlaid(old: pa.StructArray, f: pa.Field, now: pa.Array, updated: Mask) -> pa.Array:
    """The earlier values of updates that have them, otherwise the values of the new row."""
    index = old.type.get_field_index(f.name)
    if index < 0 or old.type.field(index).type != f.type:
        return now
    earlier = pc.struct_field(old, [index])
    return pc.if_else(pc.and_(earlier.is_valid(), pa.array(updated)), earlier, now)
