"""Maxwell's JSON: one row a record, with values as JSON has them.

    {"database": "shop", "table": "orders", "type": "update", "ts": 1700000000, "primary_key_columns": ["id"],
     "data": {"id": 1, "note": "new"}, "old": {"note": "a"}}

``old`` has the earlier values of the columns that changed. If Maxwell writes no NULLs (``output_nulls=false``), a
column in ``old`` and not in ``data`` became NULL. A column in neither did not change. Where records do not name the
primary key, the message keys do: ``{"database": .., "table": .., "pk.id": 1}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.rows.chunks import one_array
from sources.changes import SourceTable
from sources.decode_target import KeyFields
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
    split_names,
)
from sources.feeds.presence import absent_columns
from sources.json_changes.change_rows import DELETE, INSERT, SNAPSHOT, UPDATE
from sources.json_changes.column_plan import Plan
from sources.json_changes.gaps import Mask
from sources.places_of_change import PlaceOfChange, place

_OPS = {"insert": INSERT, "update": UPDATE, "delete": DELETE, "bootstrap-insert": SNAPSHOT}
_CONTROL = {
    "bootstrap-start": "bootstrap mark",
    "bootstrap-complete": "bootstrap mark",
    "heartbeat": "heartbeat",
    **{f"{what}-{how}": "DDL statement" for what in ("database", "table") for how in ("create", "alter", "drop")},
}
_HEAD = dict.fromkeys(("database", "table", "type"), pa.string())
_HEAD |= {"primary_key_columns": pa.list_(pa.string()), "encrypted": pa.struct([("iv", pa.string())])}
_ENVELOPE = (
    "database", "table", "type", "ts", "xid", "xoffset", "commit", "position", "gtid", "server_id", "thread_id",
    "schema_id", "primary_key", "primary_key_columns", "push_ts", "comment", "query", "data", "old", "encrypted",
)  # fmt: skip
_KEY_PREFIX = "pk."
_ENCRYPTED = "the row is encrypted: set encrypt=none in Maxwell"


@dataclass(frozen=True, slots=True)
class MaxwellFeed(Feed):
    """Records of Maxwell."""

    tool = "Maxwell"
    op_names = ("insert", "update", "delete", "bootstrap-insert")
    head_fields = _HEAD
    time_fields, time_type = ("ts",), pa.int64()

    def verdict(self, head: Head, topic: str) -> Verdict:
        """See ``feed.Feed``."""
        kind, database, table = head["type"], head["database"], head["table"]
        if head["encrypted"]:
            return Bad(f"op {kind} without a row: {_ENCRYPTED}")
        if not isinstance(kind, str):
            return Strange()
        if kind in _CONTROL:
            return NoRows(_CONTROL[kind])
        is_named = isinstance(table, str) and bool(table)
        if kind not in _OPS:
            is_mine = is_named and isinstance(database, str) and kind.islower()
            return Bad(f"value is not a record of {self.tool}: type is {kind!r}") if is_mine else Strange()
        source = SourceTable.of_topic(topic)
        if is_named:
            source = SourceTable(topic, database if isinstance(database, str) and database else None, None, table)
        return OfTable(source, _OPS[kind], split_names(head["primary_key_columns"]) or None)

    def key_of(self, fields: KeyFields, raw: bytes | None) -> KeyFields:
        """See ``feed.Feed``. Names of columns in message keys are in small letters."""
        if fields:
            named = tuple(name.removeprefix(_KEY_PREFIX) for name in fields if name.startswith(_KEY_PREFIX))
            return named or None
        try:
            key = json.loads(raw or b"null")
        except (ValueError, RecursionError):
            return None
        if not isinstance(key, list) or len(key) != 3 or not isinstance(key[2], list):
            return None
        return tuple(name for part in key[2] if isinstance(part, dict) for name in part) or None

    def times_ms(self, raw: pa.Array) -> pa.Array:
        """See ``feed.Feed``; the times are in seconds."""
        usable = pc.and_(pc.greater(raw, 0), pc.less(raw, 1 << 40))
        return pc.multiply(pc.if_else(usable, raw, pa.scalar(None, pa.int64())), 1000)

    def place_of(self, value: Row) -> PlaceOfChange:
        """See ``feed.Feed``."""
        return place(value.get("position"), value.get("xid"), value.get("xoffset"))

    def vector_rows(
        self, texts: pa.Array, table: pa.Table, ops: npt.NDArray[np.int8], plan: Plan, typed: Mapping[str, Mask]
    ) -> VectorRows:
        """See ``feed.Feed``."""
        new, old = (one_array(table.column(name)) for name in ("data", "old"))
        doubt = np.asarray(new.is_null())
        is_update = ops == UPDATE
        null = {c.name: np.asarray(new.field(c.name).is_null()) & is_update for c in plan}
        if any(name in _ENVELOPE and mask.any() for name, mask in null.items()):
            return VectorRows(np.arange(len(new)), new, old, doubt | is_update)
        # A name only in ``old`` counts as present: the column became NULL.
        absent, unsure = absent_columns(texts, null)
        return VectorRows(np.arange(len(new)), new, old, doubt | unsure, absent)

    def rows_of(self, value: Row, op: int, columns: Sequence[str]) -> list[RowChange] | str:
        """See ``feed.Feed``."""
        row, old = value.get("data"), value.get("old")
        if not isinstance(row, dict) or not row:
            return f"op {self.op_names[op]} without a row in data"
        if op == DELETE:
            return [RowChange(row, None)]
        if op != UPDATE:
            return [RowChange(None, row)]
        earlier = old if isinstance(old, dict) else {}
        is_told = isinstance(old, dict)
        gone = {name: None for name in earlier if name not in row}
        lacking = dict.fromkeys((name for name in columns if name not in row and name not in gone), ABSENT)
        after = {**lacking, **gone, **row}
        return [RowChange({**after, **earlier} if is_told else None, after)]
