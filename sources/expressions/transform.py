"""Turns change rows of a source table into rows of its Paimon table, if the rule does more than select columns.

The decoder gives rows in columns of the source. A ``Transform`` renames, leaves out, computes and masks columns. It
decides by ``where`` and by computed keys on each row. It travels with the plan of a batch and holds no secret: the
caller passes the keys of masks separately.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.row_kind import VALUE_KIND, RowKind
from paimon_table.rows.chunks import one_array
from paimon_table.types import DataType, arrow_type
from sources.change_columns import ABSENT_COLUMN, OFFSET_COLUMN, OTHER_KEY_COLUMN, UNAVAILABLE_COLUMN
from sources.changes import ChangeBatch
from sources.decode_target import FindUnstorable, TransformedRows
from sources.delete_order import DeleteOrder, delete_order
from sources.event_columns import EVENT_NAMES, TOLD_NAMES
from sources.expressions.evaluation import Column, Evaluation, evaluated
from sources.expressions.expression import Bound, column_name, metadata_name
from sources.expressions.metadata import metadata_columns, record_positions
from sources.expressions.row_fates import Fates, fates_of
from sources.expressions.rule_words import OF_EVENTS, OF_SOURCE, Leaving
from sources.position_kinds import POSITION
from sources.position_lists import position_lists

Mask = npt.NDArray[np.bool_]

_OP = OF_EVENTS["op"]
_TEXTS = re.compile(r"['\"\[{].*", re.DOTALL)
"""From the first quote or bracket to the end: a value may have quotes itself, and may be cut."""
_NUMBERS = re.compile(r"[-+]?\d[\d.:eETZ+-]*")
_FULL = "let the source send whole rows (PostgreSQL: REPLICA IDENTITY FULL; MySQL: binlog_row_image=FULL)"


def without_values(reason: str) -> str:
    """A reason without numbers, texts in quotes, arrays and objects."""
    return _NUMBERS.sub("...", _TEXTS.sub("...", reason))


@dataclass(frozen=True, slots=True)
class Unfed:
    """A column of the table that no column of the source fills any longer."""

    type: DataType


@dataclass(frozen=True, slots=True)
class Transform:
    """See the module. ``columns`` are the table's columns: source columns, computed columns and unfilled ones."""

    columns: tuple[tuple[str, str | Column | Unfed], ...]
    primary_key: tuple[str, ...]
    where: Bound | None = None
    leaving: Leaving = Leaving.OMITTED
    has_whole_before: bool = False
    wants_update_before: bool = False
    needs_retracts: bool = False
    """Whether the values of retracts matter, as in sums."""
    refused_deletes: str | None = None
    unstorable: Mapping[str, FindUnstorable] = field(default_factory=dict)
    keeps_events: bool = False
    """Whether the rows keep the columns of an event log."""
    passed: tuple[str, ...] = ()
    """Columns that the decoder fills itself and the rows keep unchanged (``DecodeTarget.own_columns``)."""
    deleted_at: str | None = None
    """The column of ``passed`` with the time of deletes, if a delete keeps the other columns of its row unchanged."""
    sequence: tuple[str, ...] = ()
    """See ``DecodeTarget``."""
    hides_values: bool = False
    """Whether reasons of bad records must not show values."""
    lacks_columns: bool = False
    """Expressions name columns that the source has not shown yet: no row can be transformed."""
    ingested_ms: int = 0

    def transformed(
        self, change: ChangeBatch, records: pa.RecordBatch, mask_keys: Mapping[str, bytes]
    ) -> TransformedRows:
        """See ``RowTransform``."""
        if self.lacks_columns:
            return TransformedRows(None)
        return _Transformation(self, change, records, mask_keys).result()

    @property
    def filters(self) -> bool:
        return self.where is not None

    @property
    def computes_key(self) -> bool:
        return any(name in self.primary_key for name, _ in self.computed)

    @property
    def is_ordered(self) -> bool:
        """Whether the table orders its rows itself, so that older ones may arrive later."""
        return self.leaving is Leaving.DELETED and (bool(self.sequence) or POSITION in self.passed)

    @property
    def computed(self) -> list[tuple[str, Column]]:
        return [(name, column) for name, column in self.columns if isinstance(column, Column)]

    @property
    def metadata(self) -> set[str]:
        names = {name for _, column in self.computed for name in column.metadata}
        return names | set(() if self.where is None else self.where.metadata)

    def inputs(self) -> set[str]:
        """The columns of the source that expressions need."""
        names = {name for _, column in self.computed for name in column.inputs}
        return names | set(() if self.where is None else self.where.inputs)


class _Transformation:
    """One change in progress."""

    def __init__(
        self, transform: Transform, change: ChangeBatch, records: pa.RecordBatch, mask_keys: Mapping[str, bytes]
    ) -> None:
        self._transform = transform
        self._change = change
        self._rows = change.rows
        self._records = records
        self._mask_keys = mask_keys
        self._count = change.rows.num_rows
        self._offsets = np.asarray(change.rows.column(OFFSET_COLUMN))
        self._kinds = np.asarray(change.rows.column(VALUE_KIND)).astype(np.int8)
        self._is_old = np.isin(self._kinds, (RowKind.DELETE, RowKind.UPDATE_BEFORE))
        self._problems: dict[int, str] = {}
        self._unsent = self._listed(UNAVAILABLE_COLUMN)
        """Per column of the source the rows whose value was not sent."""
        self._absent = self._listed(ABSENT_COLUMN)
        """Per column of the source the rows whose record does not have it, if other sources send it."""

    def result(self) -> TransformedRows:
        transform = self._transform
        found = self._evaluated()
        lacking = self._lacks_row()
        is_match = self._matches(found, lacking)
        computed = {name: self._fed(column, found[i]) for i, (name, column) in enumerate(transform.computed)}
        key_columns = self._key_columns(computed)
        tells_ops = _OP in self._rows.column_names and not transform.sequence
        fates = fates_of(
            self._offsets,
            self._kinds,
            is_match,
            lacking,
            self._moved(key_columns),
            self._rows.column(_OP) if tells_ops else None,
            transform.leaving,
            wants_update_before=transform.wants_update_before,
            is_ordered=transform.is_ordered,
        )
        deletes = fates.kept & (fates.kinds == RowKind.DELETE) & bool(transform.sequence)
        order = delete_order(self._offsets, self._kinds, deletes)
        self._note_problems(computed, fates, order)
        bad = np.isin(self._offsets, self._offsets[list(self._problems)]) if self._problems else None
        kept = fates.kept if bad is None else fates.kept & ~bad
        rows = order.placed(self._table(computed, fates.kinds), transform.sequence)
        if not kept.all():
            rows = rows.filter(pa.array(kept))
        problems = {int(self._offsets[row]): reason for row, reason in sorted(self._problems.items(), reverse=True)}
        with_rows = len(np.unique(self._offsets[kept]))
        return TransformedRows(rows, problems, len(np.unique(self._offsets)) - with_rows - len(problems))

    def _evaluated(self) -> list[Evaluation]:
        """The values of the computed columns, then of ``where``."""
        transform = self._transform
        columns = {column_name(n): self._rows.column(n) for n in sorted(transform.inputs())}
        told = metadata_columns(sorted(transform.metadata), self._change, self._records, transform.ingested_ms)
        columns |= {metadata_name(name): values for name, values in told.items()}
        wanted = [column for _, column in transform.computed]
        if transform.where is not None:
            wanted.append(Column.of_condition(transform.where))
        rows = pa.table(columns) if columns else pa.table({"row": pa.nulls(self._count)})
        return evaluated(wanted, rows, self._mask_keys)

    def _fed(self, column: Column, found: Evaluation) -> Evaluation:
        """The values of a column, NULL without a problem for rows that lack one of its inputs."""
        lacks = self._lacks(column)
        if not lacks.any():
            return found
        values = pc.if_else(pa.array(lacks), pa.scalar(None, found.values.type), found.values)
        return Evaluation(values, {row: why for row, why in found.problems.items() if not lacks[row]})

    def _lacks(self, column: Column) -> Mask:
        """The rows whose record lacks an input; not those that have none of the values, which the table may have."""
        absent = [self._absent[name] for name in column.inputs if name in self._absent]
        if not absent:
            return np.zeros(self._count, np.bool_)
        unsent = np.logical_and.reduce([self._unsent_in(name) for name in column.inputs])
        lacks: Mask = np.logical_or.reduce(absent) & ~unsent
        return lacks

    def _matches(self, found: Sequence[Evaluation], lacking: Mask) -> Mask:
        """The rows that ``where`` accepts; if that is unknown for a row, its record is bad."""
        where = self._transform.where
        if where is None:
            return np.ones(self._count, np.bool_)
        values = found[-1]
        is_match = np.asarray(pc.fill_null(values.values, False)).copy()
        told = ~lacking if self._needs_old_rows else ~self._is_old
        is_match |= ~told
        for row, reason in values.problems.items():
            if told[row]:
                self._problem(row, f"where: {where.text}: {reason}")
        for name in where.inputs:
            for row in np.flatnonzero(self._unsent_in(name) & told).tolist():
                self._problem(row, f"where: {where.text}: the source did not send {name} (unchanged TOAST): {_FULL}")
        return is_match

    @property
    def _needs_old_rows(self) -> bool:
        """Whether the filter must decide on old rows; elsewhere a delete by key is right for any of them."""
        transform = self._transform
        return not transform.primary_key or (transform.has_whole_before and transform.leaving is Leaving.REFUSED)

    def _lacks_row(self) -> Mask:
        """The needed old rows without values: NULL in all columns outside the key, although `before: full` is set.

        A tombstone is none: it has no row, and repeats the delete before it.
        """
        transform, lacking = self._transform, np.zeros(self._count, np.bool_)
        if transform.where is None or not transform.primary_key or not self._needs_old_rows:
            return lacking
        sources = {
            name: (o,) if isinstance(o, str) else o.inputs for name, o in transform.columns if not isinstance(o, Unfed)
        }
        of_key = {source for name in transform.primary_key for source in sources[name]}
        if of_key.issuperset(transform.where.inputs):
            return lacking
        beyond = {source for names in sources.values() for source in names} | {*transform.where.inputs}
        lacking |= self._is_old
        for name in beyond - of_key:
            lacking &= np.asarray(self._rows.column(name).is_null()) & ~self._unsent_in(name)
        if lacking.any():
            values = self._records.column("value").take(record_positions(self._change, self._records))
            lacking &= np.asarray(values.is_valid())
        return lacking

    def _key_columns(self, computed: Mapping[str, Evaluation]) -> list[pa.Array | pa.ChunkedArray]:
        """The key values, if a key column is computed; none if the decoder has provided the whole key."""
        key = self._transform.primary_key
        if not self._transform.computes_key:
            return []
        origins = dict(self._transform.columns)
        return [computed[n].values if n in computed else self._rows.column(str(origins[n])) for n in key]

    def _moved(self, key_columns: Sequence[pa.Array | pa.ChunkedArray]) -> Mask | None:
        """Per row whether the next one has another key; None if the kinds of the rows already show it."""
        if not key_columns:
            return None
        moved = np.zeros(self._count, np.bool_)
        for values in key_columns:
            column = one_array(values)
            differs = pc.fill_null(pc.not_equal(column.slice(0, max(self._count - 1, 0)), column.slice(1)), True)
            moved[: max(self._count - 1, 0)] |= np.asarray(differs)
        return moved

    def _note_problems(self, computed: Mapping[str, Evaluation], fates: Fates, order: DeleteOrder) -> None:
        transform = self._transform
        retracts = np.isin(fates.kinds, (RowKind.DELETE, RowKind.UPDATE_BEFORE))
        for name, column in transform.computed:
            is_key = name in transform.primary_key
            concerned = fates.kept if is_key or transform.needs_retracts else fates.kept & ~retracts
            if name in transform.sequence and order.told.any():
                concerned = concerned.copy()
                concerned[order.row_of[order.told]] = True
            for row, reason in computed[name].problems.items():
                if concerned[row]:
                    self._problem(row, f"column {name}: {column.text}: {reason}")
            if is_key:
                for row in np.flatnonzero(np.asarray(computed[name].values.is_null()) & fates.kept).tolist():
                    self._problem(row, f"column {name} {column.type}: NULL in a column that is NOT NULL")
            if name in transform.unstorable:
                for row, reason in transform.unstorable[name](computed[name].values).items():
                    if fates.kept[row]:
                        self._problem(row, f"column {name} {column.type}: {reason}")
            self._note_unsent(name, column, concerned, is_key)
            if is_key:
                self._note_moved_gaps(fates.kept & ~retracts)
        for row in np.flatnonzero(fates.refused & fates.kept).tolist():
            what = "is deleted" if self._is_old[row] else "no longer matches"
            self._problem(row, f"where: the row {what}, and the event lacks the old row: {_FULL}")
        made = fates.kept & (fates.kinds == RowKind.DELETE) & (self._kinds != RowKind.DELETE)
        if transform.refused_deletes is not None:
            for row in np.flatnonzero(made).tolist():
                self._problem(row, transform.refused_deletes)
        if transform.deleted_at is not None:
            lacks_time = np.asarray(self._rows.column(transform.deleted_at).is_null())
            for row in np.flatnonzero(made & lacks_time).tolist():
                self._problem(row, "neither the event nor its record has a time")

    def _note_unsent(self, name: str, column: Column, concerned: Mask, is_key: bool) -> None:
        """Values that were not sent: an expression of only such a column is not sent either, others are unknown."""
        unsent = [self._unsent_in(column_) for column_ in column.inputs]
        if not self._unsent or not unsent:
            return
        some = np.logical_or.reduce(unsent) & concerned & ~self._lacks(column)
        depends = len(column.inputs) > 1 or bool(set(column.metadata) - OF_SOURCE) or is_key
        for row in np.flatnonzero(some & depends).tolist():
            names = ", ".join(n for n in column.inputs if self._unsent_in(n)[row])
            self._problem(
                row, f"column {name}: {column.text}: the source did not send {names} (unchanged TOAST): {_FULL}"
            )

    def _note_moved_gaps(self, concerned: Mask) -> None:
        """Rows that moved from another key without all values: under a computed key the old row is unknown."""
        if not self._unsent or OTHER_KEY_COLUMN not in self._rows.column_names:
            return
        has_moved = np.asarray(self._rows.column(OTHER_KEY_COLUMN).is_valid()) & concerned
        lacks = np.logical_or.reduce(list(self._unsent.values()))
        for row in np.flatnonzero(has_moved & lacks).tolist():
            names = ", ".join(name for name, mask in self._unsent.items() if mask[row])
            self._problem(row, f"the key changed, part of it is computed, and the source did not send {names}: {_FULL}")

    def _problem(self, row: int, reason: str) -> None:
        self._problems.setdefault(row, without_values(reason) if self._transform.hides_values else reason)

    def _table(self, computed: Mapping[str, Evaluation], kinds: npt.NDArray[np.int8]) -> pa.Table:
        transform, rows = self._transform, self._rows
        arrays: list[pa.Array | pa.ChunkedArray] = []
        for name, origin in transform.columns:
            if isinstance(origin, Unfed):
                arrays.append(pa.nulls(self._count, arrow_type(origin.type)))
                continue
            arrays.append(computed[name].values if isinstance(origin, Column) else rows.column(origin))
        names = [name for name, _ in transform.columns]
        if transform.keeps_events:
            names += EVENT_NAMES
            arrays += [rows.column(name) for name in TOLD_NAMES]
        names += [VALUE_KIND, OFFSET_COLUMN]
        arrays += [pa.array(kinds), rows.column(OFFSET_COLUMN)]
        keeps_row = np.zeros(self._count, np.bool_) if transform.deleted_at is None else kinds == RowKind.DELETE
        for name in transform.passed:
            names.append(name)
            arrays.append(self._own(name, kinds))
        if self._unsent or keeps_row.any():
            names.append(UNAVAILABLE_COLUMN)
            arrays.append(self._unavailable(keeps_row))
        if OTHER_KEY_COLUMN in rows.column_names and not transform.computes_key:
            names.append(OTHER_KEY_COLUMN)
            arrays.append(rows.column(OTHER_KEY_COLUMN))
        return pa.table(arrays, names=names).combine_chunks()

    def _own(self, name: str, kinds: npt.NDArray[np.int8]) -> pa.Array | pa.ChunkedArray:
        """A column that the decoder has filled, if the fate of the rows does not change it."""
        values = self._rows.column(name)
        if name == self._transform.deleted_at:
            return pc.if_else(pa.array(kinds == RowKind.DELETE), values, None)
        return values

    # ------------------------------------------------------------ values that were not sent

    def _listed(self, listing: str) -> dict[str, Mask]:
        """Per column of the source the rows that have its position in a column of lists."""
        if listing not in self._rows.column_names:
            return {}
        found: dict[str, Mask] = {}
        for row, positions in enumerate(self._rows.column(listing).to_pylist()):
            for position in positions or ():
                name = self._rows.schema.field(position).name
                found.setdefault(name, np.zeros(self._count, np.bool_))[row] = True
        return found

    def _unsent_in(self, name: str) -> Mask:
        return self._unsent.get(name, np.zeros(self._count, np.bool_))

    def _unavailable(self, keeps_row: Mask) -> pa.Array:
        """Positions among the columns of the table whose values were not sent, or that the row keeps."""
        masks: dict[int, Mask] = {}
        for position, (name, origin) in enumerate(self._transform.columns):
            inputs = origin.inputs if isinstance(origin, Column) else () if isinstance(origin, Unfed) else (origin,)
            none = np.zeros(self._count, np.bool_)
            hidden = np.logical_or.reduce([self._unsent_in(column) for column in inputs]) if inputs else none
            if isinstance(origin, Column):
                hidden = hidden & ~self._lacks(origin)
            if name not in self._transform.primary_key:
                hidden = hidden | keeps_row
            if hidden.any():
                masks[position] = hidden
        return position_lists(masks, self._count)
