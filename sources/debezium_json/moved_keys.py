"""Changes of a primary key: which key a row had before, and which one it went to.

Debezium writes such a change as a delete with the header ``__debezium.newkey`` and a create with the header
``__debezium.oldkey``. It matters where the create leaves values out (unchanged TOAST columns): they are those of the
row under the old key before that delete.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.row_kind import RowKind
from sources.changes import OFFSET_COLUMN, UNAVAILABLE_COLUMN, VALUE_KIND_COLUMN

OLD_KEY_HEADER = "__debezium.oldkey"
NEW_KEY_HEADER = "__debezium.newkey"


def other_keys(
    batch: pa.RecordBatch, topic: str, partition: int, rows: pa.Table, key: Sequence[str]
) -> pa.Array | None:
    """Per row of ``rows`` the other key of its key change, as JSON text of a list in the order of ``key``.

    Deletes get the new key, rows with values that were not sent the old one, all others NULL. None if that is all.
    """
    if "headers" not in batch.schema.names:
        return None
    headers = batch.column("headers")
    names = pc.struct_field(headers.flatten(), "key")
    is_move = pc.is_in(names, value_set=pa.array([OLD_KEY_HEADER, NEW_KEY_HEADER]))
    if not pc.any(is_move).as_py():
        return None
    parents = np.unique(np.asarray(pc.list_parent_indices(headers))[np.asarray(is_move)])
    here = pc.and_(pc.equal(batch.column("topic"), topic), pc.equal(batch.column("partition"), partition))
    texts = {
        batch.column("offset")[position].as_py(): _texts(headers[position].as_py(), key)
        for position in parents[np.asarray(here)[parents]].tolist()
    }
    header_of = _wanted_headers(rows)
    offsets = rows.column(OFFSET_COLUMN).to_pylist()
    found = [texts.get(offset, {}).get(header or "") for offset, header in zip(offsets, header_of, strict=True)]
    return None if all(text is None for text in found) else pa.array(found, pa.string())


def _wanted_headers(rows: pa.Table) -> list[str | None]:
    deletes = np.asarray(rows.column(VALUE_KIND_COLUMN)) == RowKind.DELETE
    gaps = np.zeros(len(rows), np.bool_)
    if UNAVAILABLE_COLUMN in rows.column_names:
        lengths = pc.list_value_length(rows.column(UNAVAILABLE_COLUMN))
        gaps = np.asarray(pc.fill_null(pc.greater(lengths, 0), False))
    return [
        NEW_KEY_HEADER if is_delete else OLD_KEY_HEADER if has_gaps else None
        for is_delete, has_gaps in zip(deletes.tolist(), gaps.tolist(), strict=True)
    ]


def _texts(headers: Sequence[dict[str, Any]] | None, key: Sequence[str]) -> dict[str, str | None]:
    return {h["key"]: _key_text(h["value"], key) for h in headers or () if h["key"] in (OLD_KEY_HEADER, NEW_KEY_HEADER)}


def _key_text(header: bytes | None, key: Sequence[str]) -> str | None:
    """The key of a header; Connect's header converter writes control characters of texts as they are."""
    try:
        fields: Any = json.loads(header or b"null", strict=False)
    except ValueError:
        return None
    if isinstance(fields, dict) and fields.keys() == {"schema", "payload"}:
        fields = fields["payload"]
    if not isinstance(fields, dict) or not all(name in fields for name in key):
        return None
    return json.dumps([fields[name] for name in key])
