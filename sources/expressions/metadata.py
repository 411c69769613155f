"""Metadata values: the parts of a record besides its row that expressions can read, under names with a dollar sign."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.rows.chunks import one_array
from paimon_table.types import arrow_type
from sources.change_columns import OFFSET_COLUMN
from sources.changes import ChangeBatch
from sources.expressions.rule_words import METADATA, OF_EVENTS


def metadata_columns(
    names: Collection[str], change: ChangeBatch, records: pa.RecordBatch, ingested_ms: int
) -> dict[str, pa.Array]:
    """The values for each row of a change; ``records`` is the batch that it was decoded from."""
    rows, count = change.rows, change.rows.num_rows
    source = change.source
    constant: dict[str, Any] = {
        "topic": source.topic,
        "partition": change.partition,
        "database": source.database,
        "schema": source.schema,
        "table": source.table,
        "ingested_at": ingested_ms,
    }
    positions: pa.Array | None = None
    found: dict[str, pa.Array] = {}
    for name in names:
        t = arrow_type(METADATA[name])
        if name in constant:
            value = constant[name]
            scalar = pa.scalar(value, pa.int64()).cast(t) if name == "ingested_at" else pa.scalar(value, t)
            found[name] = pa.repeat(scalar, count)
        elif name == "offset":
            found[name] = one_array(rows.column(OFFSET_COLUMN))
        elif name in OF_EVENTS:
            is_told = OF_EVENTS[name] in rows.column_names
            found[name] = one_array(rows.column(OF_EVENTS[name])) if is_told else pa.nulls(count, t)
        else:
            positions = record_positions(change, records) if positions is None else positions
            found[name] = _of_records(name, records, positions)
    return found


def record_positions(change: ChangeBatch, records: pa.RecordBatch) -> pa.Array:
    """The position in the batch of the record of each row."""
    here = pc.and_(
        pc.equal(records.column("topic"), change.source.topic), pc.equal(records.column("partition"), change.partition)
    )
    at = np.flatnonzero(np.asarray(here))
    offsets = np.asarray(records.column("offset"))[at]
    order = np.argsort(offsets, kind="stable")
    wanted = np.asarray(change.rows.column(OFFSET_COLUMN))
    return pa.array(at[order][np.searchsorted(offsets[order], wanted)])


def _of_records(name: str, records: pa.RecordBatch, positions: pa.Array) -> pa.Array:
    if name == "timestamp":
        return records.column("timestamp").cast(pa.timestamp("ms", "UTC"), safe=False).take(positions)
    if name == "key":
        return pa.array([_text(key) for key in records.column("key").take(positions).to_pylist()], pa.string())
    if "headers" not in records.schema.names:
        return pa.nulls(len(positions), arrow_type(METADATA["headers"]))
    headers = records.column("headers").take(positions).to_pylist()
    pairs = [
        None if one is None else list({h["key"]: _text(h["value"]) for h in one if h["key"] is not None}.items())
        for one in headers
    ]
    return pa.array(pairs, arrow_type(METADATA["headers"]))


def _text(data: bytes | None) -> str | None:
    """The bytes as text; invalid bytes as Python's surrogates, so that nothing is lost."""
    return None if data is None else data.decode("utf-8", "backslashreplace")
