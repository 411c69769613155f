"""Canal's flat JSON messages, as Canal, TiCDC and the transmission services of several clouds write them.

    {"database": "shop", "table": "orders", "type": "UPDATE", "isDdl": false, "pkNames": ["id"], "es": 1700000000000,
     "data": [{"id": "1", "note": "new"}], "old": [{"note": "a"}], "mysqlType": {"id": "bigint(20)", ...}, ...}

A message may hold several rows. All values are texts, whose meaning ``mysqlType`` gives. ``old`` has the earlier values
of the columns that changed. A column that ``mysqlType`` does not name is in no row of the message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    split_names,
    struct_of,
)
from sources.json_changes.change_rows import DELETE, INSERT, SNAPSHOT, TRUNCATE, UPDATE
from sources.json_changes.column_plan import Plan
from sources.json_changes.gaps import Mask

_ROW = TRUNCATE + 1
_OPS = {"INSERT": INSERT, "UPDATE": UPDATE, "DELETE": DELETE, "INIT": SNAPSHOT, "ROW": _ROW}
_CONTROL = {
    "QUERY": "query",
    "GTID": "transaction mark",
    "MHEARTBEAT": "heartbeat",
    "XACOMMIT": "transaction mark",
    "XAROLLBACK": "transaction mark",
    "INFO": "heartbeat",
    "TIDB_WATERMARK": "resolved message",
}
_DDL_TYPES = frozenset({"CREATE", "ALTER", "ERASE", "RENAME", "CINDEX", "DINDEX", "DDL", "INIT_DDL", "TRUNCATE"})
_KEY_ALONE, _ELSEWHERE = "_tidb.onlyHandleKey", "_tidb.claimCheckLocation"
_HEAD = dict.fromkeys(("database", "table", "type", _ELSEWHERE), pa.string())
_HEAD |= {"isDdl": pa.bool_(), _KEY_ALONE: pa.bool_(), "pkNames": pa.list_(pa.string())}
_LARGE = (
    "the message has no row, only {what}, as TiCDC writes for a row larger than max-message-bytes. Raise it in the "
    "changefeed, and the limits of the topic"
)


@dataclass(frozen=True, slots=True)
class CanalFeed(Feed):
    """Canal's messages."""

    tool = "Canal"
    op_names = ("INSERT", "UPDATE", "DELETE", "INIT", "TRUNCATE", "ROW")
    head_fields = _HEAD
    time_fields, time_type = ("es",), pa.int64()
    tells_every_column = True
    types_field = "mysqlType"

    def verdict(self, head: Head, topic: str) -> Verdict:
        """See ``feed.Feed``."""
        kind, table = head["type"], head["table"]
        if not isinstance(kind, str):
            return Strange()
        if kind in _CONTROL:
            return NoRows("DDL statement" if head["isDdl"] is True else _CONTROL[kind])
        if head["isDdl"] is True or kind in _DDL_TYPES:
            if kind == "TRUNCATE" and isinstance(table, str) and table:
                return OfTable(self._source(head, topic), TRUNCATE, split_names(head["pkNames"]))
            return NoRows("DDL statement")
        if kind not in _OPS:
            return Bad(f"value is not a record of {self.tool}: type is {kind!r}") if _is_named(head) else Strange()
        op = _OPS[kind]
        if head[_KEY_ALONE] is True and op != DELETE:
            return Bad(f"op {kind} without a row: {_LARGE.format(what='the key (onlyHandleKey)')}")
        if head[_ELSEWHERE] is not None and op != DELETE:
            return Bad(f"op {kind} without a row: {_LARGE.format(what='its location (claimCheckLocation)')}")
        return OfTable(self._source(head, topic), op, split_names(head["pkNames"]) or None)

    def _source(self, head: Head, topic: str) -> SourceTable:
        """The source table; if a message names none, the name of the topic replaces it."""
        if not _is_named(head):
            return SourceTable.of_topic(topic)
        database = head["database"]
        return SourceTable(topic, database if isinstance(database, str) and database else None, None, head["table"])

    def times_ms(self, raw: pa.Array) -> pa.Array:
        """See ``feed.Feed``; rows that were read from the table have the time 0."""
        usable = pc.and_(pc.greater(raw, 0), pc.less(raw, 1 << 53))
        return pc.if_else(usable, raw, pa.scalar(None, pa.int64()))

    def image_fields(self, plan: Plan) -> list[pa.Field]:
        """See ``feed.Feed``."""
        return [pa.field(name, pa.list_(struct_of(plan))) for name in self.image_names]

    def vector_rows(
        self, texts: pa.Array, table: pa.Table, ops: npt.NDArray[np.int8], plan: Plan, typed: Mapping[str, Mask]
    ) -> VectorRows:
        """See ``feed.Feed``."""
        data, old = (one_array(table.column(name)) for name in ("data", "old"))
        counts = np.asarray(pc.fill_null(pc.list_value_length(data), 0))
        new = data.flatten()
        doubt = counts == 0
        if new.null_count:
            doubt[np.asarray(pc.list_parent_indices(data))[np.asarray(new.is_null())]] = True
        text_of = np.repeat(np.arange(len(data)), counts)
        old_counts = np.asarray(pc.fill_null(pc.list_value_length(old), 0))
        is_update = ops == UPDATE
        doubt |= is_update & (old_counts != 0) & (old_counts != counts)
        paired = is_update & (old_counts == counts) & (counts > 0)
        before = _spread(old, np.where(old_counts > 0, old_counts, 0), paired, text_of) if paired.any() else None
        absent = {}
        for column in plan:
            lacking = is_update & ~doubt & ~typed[column.name]
            if lacking.any():
                lacking[text_of[np.asarray(new.field(column.name).is_valid())]] = False
                # A record may have a value without naming its type, and that may be NULL.
                named = np.asarray(pc.match_substring(texts, f'"{column.name}"'))
                doubt |= lacking & named
                absent[column.name] = (lacking & ~named)[text_of]
        return VectorRows(text_of, new, before, doubt, absent)

    def rows_of(self, value: Row, op: int, columns: Sequence[str]) -> list[RowChange] | str:
        """See ``feed.Feed``."""
        rows, old = (_listed(value.get(name)) for name in ("data", "old"))
        if op == DELETE and not rows:
            rows = old
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            return f"op {self.op_names[op]} without a row in data"
        if op == DELETE:
            return [RowChange(row, None) for row in rows]
        if op != UPDATE:
            return [RowChange(None, row) for row in rows]
        if old is None or old == []:
            old = [None] * len(rows)
        if not isinstance(old, list) or len(old) != len(rows):
            return f"op {self.op_names[op]}: old does not have one entry for each row in data"
        named = self.types_of(value) or {}
        lacking = dict.fromkeys((name for name in columns if name not in named), ABSENT)
        return [
            RowChange({**lacking, **row, **earlier} if isinstance(earlier, dict) else None, {**lacking, **row})
            for row, earlier in zip(rows, old, strict=True)
        ]

    def types_of(self, value: Row) -> Mapping[str, str] | None:
        """See ``feed.Feed``."""
        types = value.get("mysqlType")
        if not isinstance(types, dict) or not types:
            return None
        return {name: text for name, text in types.items() if isinstance(text, str)}


def _listed(rows: Any) -> Any:
    """Rows as a list: SeaTunnel writes a lone row without one."""
    return [rows] if isinstance(rows, dict) else rows


def _is_named(head: Head) -> bool:
    return isinstance(head["table"], str) and bool(head["table"])


def _spread(
    old: pa.Array, counts: npt.NDArray[np.int64], paired: npt.NDArray[np.bool_], text_of: npt.NDArray[np.int64]
) -> pa.StructArray:
    """The entries of ``old``, each next to its row; NULL for rows without one."""
    firsts = np.cumsum(counts) - counts
    starts = np.concatenate(([0], np.flatnonzero(np.diff(text_of)) + 1)) if len(text_of) else np.empty(0, np.int64)
    within = np.arange(len(text_of)) - np.repeat(starts, np.diff(np.concatenate((starts, [len(text_of)]))))
    indices = firsts[text_of] + within
    return old.flatten().take(pa.array(indices, mask=~paired[text_of]))
