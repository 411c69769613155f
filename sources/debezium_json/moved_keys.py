"""Changes of a primary key: the key of a row before and after.

Debezium writes such a change as a delete with the header ``__debezium.newkey`` and a create with the header
``__debezium.oldkey``. It matters if the create leaves values out (unchanged TOAST columns): they are the values of the
row under the old key before that delete.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.row_kind import VALUE_KIND, RowKind
from paimon_table.types import arrow_type
from sources.change_columns import OFFSET_COLUMN, OTHER_KEY_COLUMN
from sources.changes import ChangeBatch, SourceTable
from sources.debezium_json.envelopes import unwrapped_key
from sources.decode_target import DecodeTarget, Goal

OLD_KEY_HEADER = "__debezium.oldkey"
NEW_KEY_HEADER = "__debezium.newkey"


def with_other_keys(
    batch: pa.RecordBatch, changes: Iterable[ChangeBatch], targets: Mapping[SourceTable, Goal]
) -> tuple[ChangeBatch, ...]:
    """The changes that the records gave, with the column of other keys where headers have one."""
    moves = _records_with_moves(batch)
    if not len(moves):
        return tuple(changes)
    return tuple(_with_column(batch, moves, change, targets[change.source]) for change in changes)


def _records_with_moves(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Positions of the records that have a header of a key change."""
    if "headers" not in batch.schema.names:
        return np.empty(0, np.int64)
    headers = batch.column("headers")
    names = pc.struct_field(headers.flatten(), "key")
    is_move = pc.is_in(names, value_set=pa.array([OLD_KEY_HEADER, NEW_KEY_HEADER]))
    if not pc.any(is_move).as_py():
        return np.empty(0, np.int64)
    return np.unique(np.asarray(pc.list_parent_indices(headers))[np.asarray(is_move)]).astype(np.int64)


def _with_column(batch: pa.RecordBatch, moves: npt.NDArray[np.int64], change: ChangeBatch, target: Goal) -> ChangeBatch:
    if not isinstance(target, DecodeTarget) or not target.primary_key:
        return change
    types = dict(target.columns)
    # Under a computed key no row can be looked up: the column only marks the rows that moved.
    is_mark = target.transform is not None and target.transform.computes_key
    names = () if is_mark else target.primary_key
    keys = _other_keys(batch, moves, change, {name: arrow_type(types[name]) for name in names})
    return change if keys is None else replace(change, rows=change.rows.append_column(OTHER_KEY_COLUMN, keys))


def _other_keys(
    batch: pa.RecordBatch, moves: npt.NDArray[np.int64], change: ChangeBatch, key: Mapping[str, pa.DataType]
) -> pa.Array | None:
    """Per change row the other key of its key change. None if no row has one."""
    headers, rows = batch.column("headers"), change.rows
    here = pc.and_(
        pc.equal(batch.column("topic"), change.source.topic), pc.equal(batch.column("partition"), change.partition)
    )
    texts = {
        batch.column("offset")[position].as_py(): _texts(headers[position].as_py(), key)
        for position in moves[np.asarray(here)[moves]].tolist()
    }
    deletes, offsets = np.asarray(rows.column(VALUE_KIND)) == RowKind.DELETE, rows.column(OFFSET_COLUMN).to_pylist()
    header_of = [NEW_KEY_HEADER if is_delete else OLD_KEY_HEADER for is_delete in deletes.tolist()]
    found = [texts.get(offset, {}).get(header) for offset, header in zip(offsets, header_of, strict=True)]
    return None if all(text is None for text in found) else pa.array(found, pa.string())


def _texts(headers: Sequence[dict[str, Any]] | None, key: Mapping[str, pa.DataType]) -> dict[str, str | None]:
    return {h["key"]: _key_text(h["value"], key) for h in headers or () if h["key"] in (OLD_KEY_HEADER, NEW_KEY_HEADER)}


def _key_text(header: bytes | None, key: Mapping[str, pa.DataType]) -> str | None:
    """The key of a header, if its values fit the table's key columns.

    Connect's header converter writes control characters of texts as they are.
    """
    try:
        fields: Any = json.loads(header or b"null", strict=False)
    except (ValueError, RecursionError):
        return None
    fields = unwrapped_key(fields)
    if not isinstance(fields, dict) or not all(name in fields for name in key):
        return None
    return json.dumps([fields[name] for name in key]) if all(_fits(fields[n], t) for n, t in key.items()) else None


def _fits(value: Any, stored: pa.DataType) -> bool:
    """Whether a JSON value can be looked up as a key: an object or a list cannot."""
    try:
        return not isinstance(value, dict | list) and pa.array([value], stored) is not None
    except (pa.ArrowException, OverflowError):
        return False
