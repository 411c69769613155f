"""Departed rows: they moved to another key in the last change of a batch, and are kept for the batch with that key.

Debezium writes a key change as a delete and, right after it, a create that may lack values. If a batch ends between the
two, the row may be in no snapshot, because the same batch also created or changed it. So the snapshot of the delete
records its values. In that case the delete is the last change of its topic partition, so each lane keeps at most one
row per partition.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from paimon_table import TableContext, TableSchema, conform_column
from paimon_table.rows.python_values import row_values
from sinks.exchange.blob import decode_rows, encode_rows

Key = tuple[Any, ...]
Values = Mapping[str, Any]

_SCHEMA = b"schema"
"""The version of the schema of rows, in the metadata of their Arrow schema."""


def to_text(rows: pa.Table, schema: TableSchema) -> str:
    """Rows with the id of their schema, as one word of ASCII."""
    rows = rows.replace_schema_metadata({_SCHEMA: str(schema.id)})
    return base64.b64encode(encode_rows(rows, compression="zstd")).decode()


def by_key(texts: Iterable[str], key: Sequence[str], context: TableContext) -> dict[Key, Values]:
    """The rows by primary key, under the current schema; for each key the row of the last text counts.

    The values of a row do not include columns that the table got later.
    """
    found: dict[Key, Values] = {}
    for text in texts:
        for row in row_values(_conformed(decode_rows(base64.b64decode(text)), context)):
            found[tuple(row[name] for name in key)] = row
    return found


def _conformed(rows: pa.Table, context: TableContext) -> pa.Table:
    written = context.schemas[int(rows.schema.metadata[_SCHEMA])]
    then = {f.id: f for f in written.fields if f.name in rows.column_names}
    columns = {f.name: (then[f.id], f) for f in context.schema.fields if f.id in then}
    return pa.table({name: conform_column(rows.column(was.name), was, now) for name, (was, now) in columns.items()})
