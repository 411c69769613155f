"""Plain JSON: one object a record."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from sources.json_changes.embedded_schema import SchemaCutter
from sources.json_changes.outcome import Outcome
from sources.upsert_json.json_rows import NO_OPENING, JsonRows
from sources.upsert_json.metadata import NO_METADATA, FlatRows
from sources.upsert_json.record_headers import RecordHeaders
from sources.upsert_json.row_sorting import RowSorter

_SHAPE = FlatRows(NO_METADATA)


class JsonFormat:
    """See ``decoder.PlainFormat``. Remembers embedded schemas as a cache."""

    def __init__(self) -> None:
        self._cutter = SchemaCutter(_SHAPE.row_of_struct, NO_OPENING)

    def __reduce__(self) -> tuple[type[JsonFormat], tuple[()]]:
        return JsonFormat, ()

    def values(self, batch: pa.RecordBatch) -> JsonValues:
        """See ``decoder.PlainFormat``."""
        return JsonValues(batch, self._cutter)


@dataclass(frozen=True, slots=True)
class JsonValues:
    """See ``decoder.PlainValues``."""

    batch: pa.RecordBatch
    cutter: SchemaCutter
    parse: None = None
    own_keys: None = None

    def rows(self, outcome: Outcome) -> JsonRows:
        """See ``decoder.PlainValues``."""
        headers = RecordHeaders(self.batch)
        sorter_of = partial(RowSorter, shape=_SHAPE, in_headers=NO_METADATA, headers=headers, outcome=outcome)
        return JsonRows(self.batch, self.cutter, _SHAPE, sorter_of, outcome)
