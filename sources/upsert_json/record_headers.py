"""Metadata in the headers of records (``add.headers``)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import MalformedRecord
from sources.debezium_json.envelopes import unwrapped
from sources.json_changes.exact_parse import parse_json


class RecordHeaders:
    """The headers of a batch of records, by name."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._count = batch.num_rows
        self._found: dict[str, pa.Array | None] = {}
        self._headers = batch.column("headers") if "headers" in batch.schema.names else None
        if self._headers is not None and len(self._headers.flatten()) == 0:
            self._headers = None

    def texts(self, name: str) -> pa.Array | None:
        """Per record the text of its last header of this name, NULL if it has none; None if no record has one."""
        if name not in self._found:
            self._found[name] = self._texts(name)
        return self._found[name]

    def _texts(self, name: str) -> pa.Array | None:
        if self._headers is None:
            return None
        flat = self._headers.flatten()
        named = np.flatnonzero(np.asarray(pc.fill_null(pc.equal(pc.struct_field(flat, "key"), name), False)))
        if not len(named):
            return None
        values = pc.struct_field(flat, "value").take(pa.array(named)).dictionary_encode()
        texts = pa.array([_text(value) for value in values.dictionary.to_pylist()], pa.string())
        owners = np.asarray(pc.list_parent_indices(self._headers))[named]
        codes = np.full(self._count, -1, np.int64)
        codes[owners] = np.asarray(values.indices.fill_null(-1)).astype(np.int64)
        return texts.take(pa.array(codes, mask=codes < 0))


def _text(value: bytes | None) -> str | None:
    """The value of a header: plain text as Connect's SimpleHeaderConverter writes, or a text or number in JSON."""
    if value is None:
        return None
    try:
        parsed = unwrapped(parse_json(value))
    except MalformedRecord:
        parsed = value.decode("utf-8", "replace")
    if parsed is None or isinstance(parsed, dict | list):
        return None
    return parsed if isinstance(parsed, str) else str(parsed).lower() if isinstance(parsed, bool) else str(parsed)
