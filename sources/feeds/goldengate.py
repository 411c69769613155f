"""GoldenGate's JSON, modelled as operations (``format=json``): one row a record, before and after.

    {"table": "SHOP.ORDERS", "op_type": "U", "op_ts": "2024-05-01 10:00:00.000000", "pos": "00000000000000002928",
     "primary_keys": ["ID"], "before": {"ID": 1, "NOTE": "a"}, "after": {"ID": 1, "NOTE": "new"}}

An update that was compressed in the trail has its key and the columns that changed; all others keep their values. Older
versions write every column, with a flag whether it is missing (``NOTE_isMissing``). With ``omitNullValues`` a column is
missing where it is NULL: only the option ``missing_columns`` distinguishes that from one that did not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.rows.chunks import one_array
from sources.changes import SourceTable
from sources.feeds.feed import (
    ABSENT,
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
    split_names,
)
from sources.feeds.feed_options import FeedOptions, GoldenGateOptions
from sources.feeds.presence import Elsewhere, absent_columns
from sources.json_changes.change_rows import DELETE, INSERT, TRUNCATE, UPDATE
from sources.json_changes.column_plan import Plan
from sources.json_changes.gaps import Mask
from sources.places_of_change import PlaceOfChange, place

_OPS = {"I": INSERT, "U": UPDATE, "D": DELETE, "T": TRUNCATE}
_HEAD = {**dict.fromkeys(("table", "op_type", "$schema"), pa.string()), "primary_keys": pa.list_(pa.string())}
_MISSING = "_isMissing"
_ENVELOPE = (
    "table",
    "op_type",
    "op_ts",
    "current_ts",
    "pos",
    "primary_keys",
    "tokens",
    "before",
    "after",
    "csn",
    "xid",
)
_FLAT = (
    "op {op} without before and after: the record has its columns next to op_type; set format=json in the handler of "
    "GoldenGate, not json_row"
)


@dataclass(frozen=True, slots=True)
class GoldenGateFeed(Feed):
    """Records of GoldenGate."""

    options: FeedOptions = field(default_factory=FeedOptions)
    of_records: GoldenGateOptions = field(default_factory=GoldenGateOptions)
    tool = "GoldenGate"
    op_names = ("I", "U", "D", "I", "T")
    head_fields = _HEAD
    time_fields, time_type = ("op_ts",), pa.string()
    old_is_image = True
    image_names = ("before", "after")

    def verdict(self, head: Head, topic: str) -> Verdict:
        """See ``feed.Feed``. If a record names no table, as of Flink SQL, the name of the topic replaces it."""
        op, table = head["op_type"], head["table"]
        if op is None and isinstance(head["$schema"], str):
            return NoRows("schema")
        if table is None and isinstance(op, str) and op in _OPS:
            return OfTable(SourceTable.of_topic(topic), _OPS[op], split_names(head["primary_keys"]) or None)
        if not isinstance(table, str) or not isinstance(op, str):
            return Strange()
        *owners, name = table.split(".", 2)
        if not name or not all(owners):
            return Bad(f"value is not a record of {self.tool}: table is {table!r}")
        if op not in _OPS:
            return Bad(f"value is not a record of {self.tool}: op_type is {op!r}")
        database, schema = (owners[0], owners[-1]) if owners else (None, None)
        return OfTable(SourceTable(topic, database, schema, name), _OPS[op], split_names(head["primary_keys"]) or None)

    def times_ms(self, raw: pa.Array) -> pa.Array:
        """See ``feed.Feed``. The times are the trail's, in UTC unless the option says otherwise."""
        return epoch_ms(raw, self.options.time_zone if self.options.has_zone else "UTC")

    def place_of(self, value: Row) -> PlaceOfChange:
        """See ``feed.Feed``."""
        return place(value.get("pos"), value.get("xid"))

    def vector_rows(
        self, texts: pa.Array, table: pa.Table, ops: npt.NDArray[np.int8], plan: Plan, typed: Mapping[str, Mask]
    ) -> VectorRows:
        """See ``feed.Feed``."""
        before, after = (one_array(table.column(name)) for name in ("before", "after"))
        new = _chosen(after, before, ops == DELETE)
        is_update = ops == UPDATE
        has_before = np.asarray(before.is_valid())
        doubt = np.asarray(new.is_null())
        rows = np.arange(len(new))
        for side in (before, after):
            for name in (f.name for f in side.type if f.name.endswith(_MISSING)):
                doubt = doubt | np.asarray(side.field(name).is_valid())
        if self._lacks_nulls:
            return VectorRows(rows, new, before, doubt)
        null = {c.name: np.asarray(new.field(c.name).is_null()) & is_update for c in plan}
        if any(name in _ENVELOPE and mask.any() for name, mask in null.items()):
            return VectorRows(rows, new, before, doubt | is_update)
        others = {c.name: np.asarray(before.field(c.name).is_valid()) & has_before for c in plan}
        absent, unsure = absent_columns(texts, null, Elsewhere(has_before, others))
        return VectorRows(rows, new, before, doubt | unsure, absent)

    def rows_of(self, value: Row, op: int, columns: Sequence[str]) -> list[RowChange] | str:
        """See ``feed.Feed``."""
        before, after = (_image(value.get(side)) for side in ("before", "after"))
        if (before if op == DELETE else after) is None:
            if "before" not in value and "after" not in value:
                return _FLAT.format(op=self.op_names[op])
            return f"op {self.op_names[op]} without a row in {'before' if op == DELETE else 'after'}"
        if op == DELETE:
            return [RowChange(before, None)]
        if op != UPDATE:
            return [RowChange(None, after)]
        lacking = {} if self._lacks_nulls else dict.fromkeys(columns, ABSENT)
        earlier = None if before is None else {**lacking, **before}
        return [RowChange(earlier, {**lacking, **(after or {})})]

    @property
    def _lacks_nulls(self) -> bool:
        return self.of_records.missing_columns == "set_null"


def _image(value: Any) -> Row | None:
    """A row without its missing columns; None if there is none."""
    if not isinstance(value, dict) or not value:
        return None
    missing = {name for name in value if name.endswith(_MISSING) and name.removesuffix(_MISSING) in value}
    gone = missing | {name.removesuffix(_MISSING) for name in missing if value[name] is True}
    return {name: item for name, item in value.items() if name not in gone} if gone else value


def _chosen(after: pa.StructArray, before: pa.StructArray, is_before: npt.NDArray[np.bool_]) -> pa.StructArray:
    """Rows of one side or the other, with the fields of both."""
    if not is_before.any():
        return after
    if is_before.all():
        return before
    names = dict.fromkeys([f.name for f in after.type] + [f.name for f in before.type])
    fields, children = [], []
    for name in names:
        sides = [s.field(name) if s.type.get_field_index(name) >= 0 else None for s in (after, before)]
        kinds = [s.type for s in sides if s is not None]
        if len({*kinds}) > 1:
            continue
        left, right = (pa.nulls(len(after), kinds[0]) if s is None else s for s in sides)
        children.append(pc.if_else(pa.array(is_before), right, left))
        fields.append(pa.field(name, kinds[0]))
    is_null = np.where(is_before, np.asarray(before.is_null()), np.asarray(after.is_null()))
    return pa.StructArray.from_arrays(children, fields=fields, mask=pa.array(is_null))
