"""The JSON of AWS Database Migration Service: one row a record, with its kind in ``metadata``.

    {"data": {"id": 1, "note": "new"},
     "metadata": {"timestamp": "2024-05-01T10:00:00.000000Z", "record-type": "data", "operation": "update",
                  "partition-key-type": "schema-table", "schema-name": "shop", "table-name": "orders"}}

NULLs are not written unless ``IncludeNullAndEmpty`` is set, so a column that is missing is NULL. The row before an
update is there with ``EnableBeforeImage`` as ``before-image``, or in ``data`` under names with the prefix ``BI_``;
these names are options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.rows.chunks import one_array
from sources.changes import SourceTable
from sources.feeds.feed import (
    Bad,
    Feed,
    Head,
    NoRows,
    OfTable,
    Row,
    RowChange,
    Strange,
    VectorRows,
    Verdict,
    epoch_ms,
    struct_of,
)
from sources.feeds.feed_options import DmsOptions
from sources.json_changes.change_rows import DELETE, INSERT, SNAPSHOT, TRUNCATE, UPDATE
from sources.json_changes.column_plan import Plan
from sources.json_changes.gaps import Mask
from sources.places_of_change import PlaceOfChange, place

_OPS = {"insert": INSERT, "update": UPDATE, "delete": DELETE, "load": SNAPSHOT}
_CHANGES = ("update", "delete")
_TRUNCATES = ("truncate-table", "truncate")
_OPERATION = "metadata.operation"
_HEAD = ("metadata.record-type", _OPERATION, "metadata.schema-name", "metadata.table-name")


@dataclass(frozen=True, slots=True)
class DmsFeed(Feed):
    """Records of DMS."""

    options: DmsOptions = field(default_factory=DmsOptions)
    tool = "AWS DMS"
    op_names = ("insert", "update", "delete", "load", "truncate-table")
    head_fields = dict.fromkeys(_HEAD, pa.string())
    time_fields, time_type = ("metadata.commit-timestamp", "metadata.timestamp"), pa.string()

    def verdict(self, head: Head, topic: str) -> Verdict:
        """See ``feed.Feed``."""
        kind, op, schema, table = (head[name] for name in _HEAD)
        if not isinstance(op, str) or not isinstance(kind, str):
            return Strange()
        is_named = isinstance(table, str) and bool(table)
        owner = schema if isinstance(schema, str) and schema else None
        if kind == "control" and not (is_named and op in _TRUNCATES):
            return NoRows("control message")
        if not is_named:
            return Bad(f"value is not a record of {self.tool}: metadata has no table-name")
        source = SourceTable(topic, owner, owner, table)
        if op in _TRUNCATES:
            return OfTable(source, TRUNCATE, None)
        if op not in _OPS:
            return Bad(f"value is not a record of {self.tool}: operation is {op!r}")
        return OfTable(source, _OPS[op], None)

    def times_ms(self, raw: pa.Array) -> pa.Array:
        """See ``feed.Feed``."""
        return epoch_ms(raw, "UTC")

    def place_of(self, value: Row) -> PlaceOfChange:
        """See ``feed.Feed``."""
        told = value.get("metadata")
        fields: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
        return place(fields.get("stream-position"), fields.get("transaction-id"), fields.get("transaction-record-id"))

    def image_fields(self, plan: Plan) -> list[pa.Field]:
        """See ``feed.Feed``."""
        return [pa.field("data", struct_of(plan)), pa.field(self.options.before_image, struct_of(plan))]

    def vector_rows(
        self, texts: pa.Array, table: pa.Table, ops: npt.NDArray[np.int8], plan: Plan, typed: Mapping[str, Mask]
    ) -> VectorRows:
        """See ``feed.Feed``."""
        new, old = (one_array(table.column(name)) for name in ("data", self.options.before_image))
        doubt = np.asarray(new.is_null())
        known = {column.name for column in plan}
        for name in (f.name for f in new.type if self.options.is_before(f.name) and f.name not in known):
            doubt = doubt | np.asarray(new.field(name).is_valid())
        return VectorRows(np.arange(len(new)), new, old, doubt)

    def rows_of(self, value: Row, op: int, columns: Sequence[str]) -> list[RowChange] | str:
        """See ``feed.Feed``."""
        row, old = value.get("data"), value.get(self.options.before_image)
        if not isinstance(row, dict) or not row:
            return f"op {self.op_names[op]} without a row in data"
        row, earlier = self._parted(row, columns, self.head_of(value)[_OPERATION] in _CHANGES)
        if isinstance(old, dict):
            earlier = {**earlier, **old}
        if op == DELETE:
            return [RowChange(row, None)]
        return [RowChange({**row, **earlier} if op == UPDATE and earlier else None, row)]

    def _parted(self, row: Row, columns: Sequence[str], is_change: bool) -> tuple[Row, Row]:
        """The row, and the earlier values in it, under names with the prefix of before images.

        Loads and inserts have no earlier values, but may have the names with NULL.
        """
        known = {*columns, *row}
        names = [name for name in row if self.options.is_before(name) and name not in columns]
        names = [name for name in names if is_change or row[name] is None]
        column_of = self.options.column_of
        if not any(column_of(name) in known for name in names):
            return row, {}
        kept = {name: value for name, value in row.items() if name not in names}
        return kept, {column_of(name): row[name] for name in names}
