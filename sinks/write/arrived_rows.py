"""Executor side: the changes that one write task received, by lane, in order of arrival, with gaps filled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table import (
    BucketAssigner,
    BucketId,
    BucketWriter,
    Lane,
    TableOptions,
    WriterEnvironment,
    former_rows,
    lane_split,
    write_traits,
)
from paimon_table.row_kind import VALUE_KIND, RowKind
from paimon_table.rows.chunks import one_array
from paimon_table.rows.python_values import to_arrow
from sinks.exchange.blob import Blob, decode_rows
from sinks.exchange.target import OTHER_KEY, UNAVAILABLE, Target
from sinks.exchange.version_columns import VersionColumns
from sinks.write.departed import by_key
from sinks.write.gap_filling import ColumnOrder, Filled, FindEnded, GapFiller, Histories, Key
from sinks.write.row_versions import newest_versions, version_ended_at, versions_after
from sinks.write.unsent import Became


class ArrivedRows:
    """All lanes of one table that a write task owns in one batch."""

    def __init__(
        self,
        target: Target,
        blobs: Mapping[Lane, Sequence[Blob]],
        assigner: BucketAssigner,
        environment: WriterEnvironment,
    ) -> None:
        self._target = target
        self._context = target.context
        self._blobs = blobs
        self._assigner = assigner
        self._environment = environment
        schema = target.context.schema
        versions = target.versions
        self._key = schema.primary_keys if versions is None else versions.row_key(schema.primary_keys)
        self._departed = by_key(target.departed, self._key, self._context)
        self._histories: dict[Lane, Histories] = {}
        self._writers: dict[BucketId, BucketWriter] = {}

    def filled(self, lane: Lane) -> Filled:
        """The rows of a lane, with filled gaps: the values that the source did not send.

        If a delete keeps its row, it becomes an update. If the table keeps versions, the result is the versions that
        the rows add, change or remove.
        """
        if self._target.versions is not None:
            return self._versions(lane, self._target.versions)
        filled, column = self._filled(lane), self._target.deleted_at
        if column is None:
            return filled
        return replace(filled, rows=_kept_deletes(filled.rows.filter(self._has_effect(lane, column)), column))

    def _has_effect(self, lane: Lane, deleted_at: str) -> pa.Array:
        """Which rows of a lane to keep: all but deletes of rows that are marked as deleted already.

        Under a filter, deletes of rows that the table lacks have no effect either. Most of them are updates of rows
        that the filter always left out.
        """
        rows = self._rows(lane)
        kept = np.asarray(pc.not_equal(rows.column(VALUE_KIND), RowKind.DELETE)).copy()
        histories, deletes, order = self._histories_of(lane, rows), np.flatnonzero(~kept).tolist(), self._order
        if deletes:
            histories.prepare(deletes)
        for number in deletes:
            key = histories.key_of(number)
            held = histories.holder(key, histories.place(number), order)
            if held.number is not None:
                is_live = histories.kind(held.number) is not RowKind.DELETE
            else:
                row = histories.current(key)
                is_live = not self._target.is_filtered if row is None else row[deleted_at] is None
            kept[number] = is_live or histories.is_newer(number, held, order)
        return pa.array(kept)

    @property
    def _order(self) -> ColumnOrder:
        options = self._context.options
        return ColumnOrder(options.sequence_fields, options.sequence_descending)

    def _filled(self, lane: Lane) -> Filled:
        rows = self._rows(lane)
        if UNAVAILABLE not in rows.column_names and OTHER_KEY not in rows.column_names:
            return Filled(rows)
        options = self._context.options
        if not options.has_key:
            return _unfilled(rows)
        filler = GapFiller(
            self._histories_of_key,
            write_traits(self._context).accumulating,
            self._order,
            _groups(options),
            follows_source=self._follows_source,
            keeps_deleted=self._target.deleted_at is not None and not self._target.is_filtered,
            removes_deleted=self._removes_deleted,
        )
        departed = self._departing(lane, rows, filler)
        if UNAVAILABLE not in rows.column_names:
            return Filled(rows.drop_columns([OTHER_KEY]), departed=departed)
        return replace(filler.fill(self._histories_of(lane, rows), rows), departed=departed)

    @property
    def _follows_source(self) -> bool:
        return self._removes_deleted and self._target.deleted_at is None

    @property
    def _removes_deleted(self) -> bool:
        options = self._context.options
        return options.merge_engine == "deduplicate" and not options.ignore_delete

    def _versions(self, lane: Lane, names: VersionColumns) -> Filled:
        filled = Filled(self._rows(lane))
        if OTHER_KEY in filled.rows.column_names:
            filler = GapFiller(self._histories_of_key, order=ColumnOrder((names.valid_from, names.from_offset)))
            departed = self._departing(lane, filled.rows, filler)
            filled = filler.fill_moved(self._histories_of(lane, filled.rows), filled.rows)
            filled = replace(filled, departed=departed)
        rows = filled.rows
        rows = rows.filter(pc.not_equal(rows.column(VALUE_KIND), RowKind.UPDATE_BEFORE))
        stored = self._found(self._assigner.find(lane, rows.select(self._key)), self._stored_versions)
        wants_before = write_traits(self._context).wants_update_before
        found = versions_after(stored, rows, self._key, names, with_update_before=wants_before)
        return replace(filled, rows=found.rows, unsent=Counter(filled.unsent) + Counter(found.unsent))

    def _stored_versions(self, bucket: BucketId, keys: pa.Table) -> pa.Table:
        return self._writer(bucket).find_beginning(keys).select(self._context.schema.column_names)

    def _departing(self, lane: Lane, rows: pa.Table, filler: GapFiller) -> pa.Table | None:
        """The rows that the last change of each topic partition in the lane moves to another key.

        None in postponed buckets, where rows cannot be looked up.
        """
        if OTHER_KEY not in rows.column_names or self._context.options.is_postponed:
            return None
        numbers = self._last_rows(lane)
        last = rows.select([VALUE_KIND, OTHER_KEY]).take(numbers)
        leaves = pc.and_(pc.equal(last[VALUE_KIND], RowKind.DELETE), pc.is_valid(last[OTHER_KEY]))
        leaving = numbers.filter(one_array(leaves)).to_pylist()
        if not leaving:
            return None
        histories = self._histories_of(lane, rows)
        own = () if self._target.versions is None else self._target.versions.names
        names = [name for name in self._context.schema.column_names if name not in own]
        found = [row for number in leaving if (row := filler.departing(histories, number, names))]
        if not found:
            return None
        types = self._context.schema.arrow_schema
        columns = [to_arrow([row[name] for row in found], types.field(name).type) for name in names]
        return pa.table(columns, names)

    def _last_rows(self, lane: Lane) -> pa.Array:
        """The number of the last row of the lane from each topic partition."""
        last: dict[tuple[str, int], int] = {}
        number = 0
        for blob in self._ordered(lane):
            number += blob.row_count
            last[blob.topic, blob.topic_partition] = number - 1
        return pa.array(last.values(), pa.int64())

    def _ordered(self, lane: Lane) -> list[Blob]:
        return sorted(self._blobs.get(lane, ()), key=lambda blob: blob.arrival)

    def _rows(self, lane: Lane) -> pa.Table:
        blobs = self._ordered(lane)
        if not blobs:
            return self._context.schema.arrow_schema.empty_table()
        return pa.concat_tables([decode_rows(blob.data) for blob in blobs], promote_options="default")

    def _histories_of(self, lane: Lane, rows: pa.Table) -> Histories:
        known = self._histories.get(lane)
        if known is None:
            known = Histories(
                rows,
                self._key,
                lambda keys: self._found(self._assigner.find(lane, keys), self._current_rows),
                lambda keys: self._found(self._assigner.find_former(lane, keys), self._former_rows),
                self._departed,
                self._ended(lane),
                self._target.former_columns,
                self._target.deleted_at,
            )
            self._histories[lane] = known
        return known

    def _ended(self, lane: Lane) -> tuple[str, FindEnded] | None:
        names = self._target.versions
        if names is None:
            return None

        def find(keys: pa.Table, time: pa.Scalar) -> pa.Table:
            stored = self._found(self._assigner.find(lane, keys), self._stored_versions)
            return version_ended_at(stored, names, time)

        return names.valid_from, find

    def _found(
        self, places: Iterable[tuple[BucketId, pa.Table]], look_up: Callable[[BucketId, pa.Table], pa.Table]
    ) -> pa.Table:
        """The rows of keys in the buckets that may hold them."""
        found = [look_up(bucket, part.select(self._trimmed_key)) for bucket, part in places]
        return pa.concat_tables(found) if found else self._context.schema.arrow_schema.empty_table()

    @property
    def _trimmed_key(self) -> list[str]:
        trimmed = self._context.schema.trimmed_primary_keys
        return [name for name in trimmed if name in self._key]

    def _writer(self, bucket: BucketId) -> BucketWriter:
        """Looks up the rows before the batch: its own rows are written by other writers."""
        if bucket not in self._writers:
            state = self._target.live.of(bucket)
            self._writers[bucket] = BucketWriter(self._context, bucket, state, self._environment)
        return self._writers[bucket]

    def _current_rows(self, bucket: BucketId, keys: pa.Table) -> pa.Table:
        if self._target.versions is not None:
            found = self._stored_versions(bucket, keys)
            return found.filter(found.column(self._target.versions.is_current))
        found = self._writer(bucket).lookup(keys, with_deletes=True)
        if self._target.deleted_at is None or not self._target.is_filtered:
            return found
        return found.filter(pc.is_null(found.column(self._target.deleted_at)))

    def _former_rows(self, bucket: BucketId, keys: pa.Table) -> pa.Table:
        """The last rows of these keys that the table ever had; none under a filter, because they may have changed
        outside of it."""
        if self._target.is_filtered:
            return self._context.schema.arrow_schema.empty_table()
        if self._target.versions is not None:
            return newest_versions(self._stored_versions(bucket, keys), self._key, self._target.versions)
        return former_rows(self._context, bucket, keys, self._environment, self._target.live.of(bucket).files)

    def _histories_of_key(self, key: Key) -> Histories:
        """The histories in the lane of a primary key, given in primary key order. They have its changes if this task
        owns the lane."""
        schema = self._context.schema
        types = [schema.arrow_schema.field(name).type for name in self._key]
        columns = [pa.array([value], t) for value, t in zip(key, types, strict=True)]
        row = pa.table(columns, list(self._key))
        ((lane, _),) = lane_split(schema, self._context.options, self._target.live).split(row)
        return self._histories_of(lane, self._rows(lane))


def _groups(options: TableOptions) -> dict[str, ColumnOrder]:
    """The columns of sequence groups, with their orders."""
    groups = options.field_options.sequence_groups
    return {name: ColumnOrder(g.sequence) for g in groups for name in (*g.sequence, *g.protected)}


def _kept_deletes(rows: pa.Table, deleted_at: str) -> pa.Table:
    """The rows with each delete that has a time as an update; deletes of a key change have a time too."""
    kinds = rows.column(VALUE_KIND)
    is_kept = pc.and_(pc.equal(kinds, RowKind.DELETE), pc.is_valid(rows.column(deleted_at)))
    kinds = pc.if_else(is_kept, pa.scalar(int(RowKind.UPDATE_AFTER), kinds.type), kinds)
    return rows.set_column(rows.schema.get_field_index(VALUE_KIND), VALUE_KIND, kinds)


def _unfilled(rows: pa.Table) -> Filled:
    """Rows of a table without key: no stored row has a value that was not sent, so it stays NULL."""
    rows = rows.drop_columns([OTHER_KEY]) if OTHER_KEY in rows.column_names else rows
    if UNAVAILABLE not in rows.column_names:
        return Filled(rows)
    positions = Counter(pc.list_flatten(rows.column(UNAVAILABLE)).to_pylist())
    unsent = {(rows.schema.field(position).name, Became.NULL): count for position, count in positions.items()}
    return Filled(rows.drop_columns([UNAVAILABLE]), unsent)
