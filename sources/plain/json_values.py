"""Plain JSON: one object a record."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from sources.json_changes.embedded_schema import SchemaCutter
from sources.json_changes.outcome import Outcome
from sources.plain.decoder import PlainFormat
from sources.upsert_json.json_rows import NO_OPENING, JsonRows
from sources.upsert_json.metadata import NO_METADATA, WHOLE_ROWS
from sources.upsert_json.record_headers import RecordHeaders
from sources.upsert_json.row_sorting import RowSorter


def json_format() -> PlainFormat:
    """Values in JSON. Remembers embedded schemas as a cache."""
    return partial(JsonValues, cutter=SchemaCutter(WHOLE_ROWS.row_of_struct, NO_OPENING))


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
        sorter_of = partial(RowSorter, shape=WHOLE_ROWS, in_headers=NO_METADATA, headers=headers, outcome=outcome)
        return JsonRows(self.batch, self.cutter, WHOLE_ROWS, sorter_of, outcome)
