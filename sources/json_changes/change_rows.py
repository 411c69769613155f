"""From events to change rows: which images of an event become rows, of which kind, in which order.

INSERT    +I after
UPDATE    +U after; with -U before in front if the target asks for it and ``before`` is complete;
          -D before and +I after if the primary key changed
DELETE    -D before
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.row_kind import RowKind
from sources.json_changes.gaps import Gaps

Rows: TypeAlias = pa.StructArray | list[Mapping[str, Any] | None]
"""Row images of events: parsed by Arrow, or JSON objects of the exact path."""

Mask = npt.NDArray[np.bool_]

StoredValues: TypeAlias = Callable[[str, "pa.Array | list[Any]"], pa.Array]
"""Converts the JSON values of a column, by its name, to stored values; NULL if nothing is stored."""

INSERT, UPDATE, DELETE, SNAPSHOT, TRUNCATE = range(5)
"""Operations. A row that the tool read from the table, and not from the log, is a SNAPSHOT, a kind of INSERT.

A format may have higher codes for its own kinds of INSERT.
"""


@dataclass(frozen=True, slots=True)
class Events:
    """Data events of one source table: positions in the batch of records, operations and row images."""

    positions: npt.NDArray[np.int64]
    ops: npt.NDArray[np.int8]
    before: Rows
    after: Rows
    images: pa.StructArray | None = None
    """The one image that the operation of each event needs, in one array, if every event has it."""

    def chosen(self, mask: Mask) -> Events:
        return Events(self.positions[mask], self.ops[mask], _filtered(self.before, mask), _filtered(self.after, mask))


def _filtered(rows: Rows, mask: Mask) -> Rows:
    if isinstance(rows, list):
        return [row for row, keep in zip(rows, mask.tolist(), strict=True) if keep]
    return rows.filter(pa.array(mask))


@dataclass(frozen=True, slots=True)
class ChangeRows:
    """Row images in order, each with the position of its record and its kind."""

    positions: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int8]
    images: Rows


def present(rows: Rows) -> Mask:
    """The events that have this image."""
    if isinstance(rows, list):
        return np.array([row is not None for row in rows], np.bool_)
    return np.asarray(rows.is_valid())


def row_objects(rows: Rows) -> list[Mapping[str, Any] | None]:
    """The images as JSON objects."""
    return rows if isinstance(rows, list) else rows.to_pylist()


def image_column(rows: Rows, name: str) -> pa.Array | list[Any]:
    """The JSON values of one column; NULL if the image or the field is missing."""
    if isinstance(rows, list):
        return [None if row is None else row.get(name) for row in rows]
    index = rows.type.get_field_index(name)
    return pa.nulls(len(rows)) if index < 0 else pc.struct_field(rows, [index])


def field_names(rows: Rows) -> list[str]:
    """The names of all fields of the images."""
    if isinstance(rows, list):
        return list({name: None for row in rows if row is not None for name in row})
    return [f.name for f in rows.type]


def is_null(column: pa.Array | list[Any]) -> Mask:
    if isinstance(column, list):
        return np.array([value is None for value in column], np.bool_)
    return np.asarray(column.is_null())


def lacks_key(rows: Rows, primary_key: Sequence[str]) -> Mask:
    """Which images are missing or have NULL in a primary key column."""
    lacking = ~present(rows)
    for name in primary_key:
        lacking = lacking | is_null(image_column(rows, name))
    return lacking


@dataclass(frozen=True, slots=True)
class OldRowRule:
    """Which old rows of updates are read: those with another key than the new row, and those that fill its gaps.

    The others change nothing in a table that takes no ``UPDATE_BEFORE`` rows.
    """

    primary_key: Sequence[str]
    columns: Sequence[str]
    gaps: Gaps

    def unread(self, before: Rows, after: Rows) -> Mask:
        """The events whose two images have certainly the same key, and whose new row has no gaps."""
        return self.has_same_key(before, after) & ~self.has_gaps(after)

    def has_same_key(self, before: Rows, after: Rows) -> Mask:
        """The events with both images and certainly the same key in them."""
        same = ~lacks_key(before, self.primary_key) & ~lacks_key(after, self.primary_key)
        for name in self.primary_key:
            same = same & ~_may_differ(image_column(before, name), image_column(after, name))
        return same

    def has_gaps(self, after: Rows) -> Mask:
        """The rows with a value that was not sent."""
        found = np.zeros(len(after), np.bool_)
        for name in self.columns:
            mask = self.gaps.mask(image_column(after, name))
            found = found if mask is None else found | mask
        return found


def without_old_rows(rows: Rows, unread: Mask) -> Rows:
    """The ``before`` images without those that are not read."""
    if not unread.any():
        return rows
    if isinstance(rows, list):
        return [None if left_out else row for row, left_out in zip(rows, unread.tolist(), strict=True)]
    return with_nulls(rows, unread | ~present(rows))


def with_nulls(rows: pa.StructArray, mask: Mask) -> pa.StructArray:
    """The images, of which exactly the marked ones are missing."""
    children = [rows.field(i) for i in range(rows.type.num_fields)]
    return pa.StructArray.from_arrays(children, fields=list(rows.type), mask=pa.array(mask))


def _key_changed(events: Events, primary_key: Sequence[str], stored: StoredValues) -> Mask:
    changed = np.zeros(len(events.ops), np.bool_)
    updated = (events.ops == UPDATE) & present(events.before)
    if not updated.any():
        return changed
    updated &= ~lacks_key(events.before, primary_key)
    for name in primary_key:
        old, new = image_column(events.before, name), image_column(events.after, name)
        differs = np.flatnonzero(updated & ~changed & _may_differ(old, new))
        if len(differs):
            before, after = (stored(name, _taken(column, differs)) for column in (old, new))
            # As Arrow's scalars: Python has no values for some times.
            changed[differs] = [not (a.is_valid and a.equals(b)) for a, b in zip(before, after, strict=True)]
    return changed


def _may_differ(old: pa.Array | list[Any], new: pa.Array | list[Any]) -> Mask:
    """Marks certain differences between two columns of JSON values: one stored value may have several forms."""
    if isinstance(old, list) or isinstance(new, list):
        return np.array([a != b for a, b in zip(old, new, strict=True)], np.bool_)
    if pa.types.is_nested(old.type) or old.type != new.type:
        return np.asarray(pc.and_(old.is_valid(), new.is_valid()))
    if pa.types.is_null(old.type):
        return np.zeros(len(old), np.bool_)
    return np.asarray(pc.fill_null(pc.not_equal(old, new), False))


def _taken(column: pa.Array | list[Any], indices: npt.NDArray[np.int64]) -> pa.Array | list[Any]:
    return [column[i] for i in indices.tolist()] if isinstance(column, list) else column.take(pa.array(indices))


def change_rows(
    events: Events, primary_key: Sequence[str], stored: StoredValues, emit_update_before: bool, incomplete: Mask
) -> ChangeRows:
    """Rows of events whose images are there; ``incomplete`` marks ``before`` images with values not sent."""
    ops = events.ops
    deleted = ops == DELETE
    changed = _key_changed(events, primary_key, stored)
    paired = changed
    if emit_update_before:
        paired = changed | ((ops == UPDATE) & present(events.before) & ~incomplete)
    kinds = np.select(
        [deleted, (ops == UPDATE) & ~changed], [RowKind.DELETE, RowKind.UPDATE_AFTER], RowKind.INSERT
    ).astype(np.int8)
    if not paired.any():
        return ChangeRows(events.positions, kinds, _chosen(events, deleted))
    counts = 1 + paired
    index = np.repeat(np.arange(len(ops)), counts)
    first_of_pair = np.zeros(len(index), np.bool_)
    first_of_pair[(np.cumsum(counts) - counts)[paired]] = True
    first_kinds = np.where(changed, RowKind.DELETE, RowKind.UPDATE_BEFORE)
    kinds = np.where(first_of_pair, first_kinds[index], kinds[index]).astype(np.int8)
    from_before = first_of_pair | deleted[index]
    return ChangeRows(events.positions[index], kinds, _picked(events, index, from_before))


def _chosen(events: Events, deleted: Mask) -> Rows:
    """One image per event."""
    if events.images is not None:
        return events.images
    if not deleted.any():
        return events.after
    if deleted.all():
        return events.before
    return _picked(events, np.arange(len(deleted)), deleted)


def _picked(events: Events, index: npt.NDArray[np.int64], from_before: Mask) -> Rows:
    before, after = events.before, events.after
    if isinstance(before, list) or isinstance(after, list):
        return [before[i] if old else after[i] for i, old in zip(index.tolist(), from_before.tolist(), strict=True)]
    if before.type != after.type:
        before, after = _same_type(before, after)
    both = pa.concat_arrays([before, after])
    return both.take(pa.array(np.where(from_before, index, index + len(before))))


def _same_type(before: pa.StructArray, after: pa.StructArray) -> tuple[pa.StructArray, pa.StructArray]:
    """Both with their common fields; extra columns of one side do not matter here."""
    shared = [f for f in before.type if after.type.get_field_index(f.name) >= 0 and after.type.field(f.name) == f]
    return with_fields(before, shared), with_fields(after, shared)


def with_fields(rows: pa.StructArray, fields: list[pa.Field]) -> pa.StructArray:
    """The images with some of their fields."""
    children = [rows.field(f.name) for f in fields]
    return pa.StructArray.from_arrays(children, fields=fields, mask=rows.is_null())
