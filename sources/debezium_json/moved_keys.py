"""Rows that came to their key by an update of the primary key: which key they had before.

Debezium writes such an update as a delete and a create; the create carries the header ``__debezium.oldkey``. It matters
where the create leaves values out (unchanged TOAST columns): they are those of the row under the old key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from sources.changes import OFFSET_COLUMN, UNAVAILABLE_COLUMN

OLD_KEY_HEADER = "__debezium.oldkey"


def old_keys(batch: pa.RecordBatch, topic: str, partition: int, rows: pa.Table, key: Sequence[str]) -> pa.Array | None:
    """Per row of ``rows`` the old key as JSON text of a list in the order of ``key``, NULL where it did not move.

    Looks only at rows with values that were not sent; None when none of them moved.
    """
    if UNAVAILABLE_COLUMN not in rows.column_names or "headers" not in batch.schema.names:
        return None
    gaps = pc.fill_null(pc.greater(pc.list_value_length(rows.column(UNAVAILABLE_COLUMN)), 0), False)
    wanted = np.flatnonzero(np.asarray(gaps))
    here = pc.and_(pc.equal(batch.column("topic"), topic), pc.equal(batch.column("partition"), partition))
    positions = np.flatnonzero(np.asarray(here))
    offsets = np.asarray(batch.column("offset"))[positions]
    found: list[str | None] = [None] * len(rows)
    for row in wanted.tolist():
        at = positions[np.searchsorted(offsets, rows.column(OFFSET_COLUMN)[row].as_py())]
        headers = batch.column("headers")[int(at)].as_py() or ()
        found[row] = next((_key_text(h["value"], key) for h in headers if h["key"] == OLD_KEY_HEADER), None)
    return None if all(text is None for text in found) else pa.array(found, pa.string())


def _key_text(header: bytes | None, key: Sequence[str]) -> str | None:
    try:
        fields: Any = orjson.loads(header or b"null")
    except orjson.JSONDecodeError:
        return None
    if isinstance(fields, dict) and fields.keys() == {"schema", "payload"}:
        fields = fields["payload"]
    if not isinstance(fields, dict) or not all(name in fields for name in key):
        return None
    return orjson.dumps([fields[name] for name in key]).decode()
