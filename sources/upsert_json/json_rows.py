"""The JSON values of a batch as rows: texts are grouped by embedded schema, rows by source table and operation."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sources.debezium_json.present_texts import present_texts
from sources.debezium_json.texts import Texts
from sources.json_changes.embedded_schema import SchemaCutter
from sources.json_changes.outcome import Outcome
from sources.upsert_json.metadata import FlatRows
from sources.upsert_json.row_decoding import Positions, RowGroup
from sources.upsert_json.row_sorting import RowSorter
from sources.upsert_json.text_sorting import TextSorter

NO_OPENING = b"\x00"
"""Begins no JSON text."""
_OPENING = re.compile(rb'\{"(?!schema"|payload")[^"\\]+":')
"""How a row begins that cannot be a wrapper of a schema and a payload."""


@dataclass(frozen=True, slots=True)
class JsonRows:
    """See ``row_decoding.RowReading``."""

    batch: pa.RecordBatch
    cutter: SchemaCutter
    shape: FlatRows
    sorter_of: Callable[[str], RowSorter]
    """By topic."""
    outcome: Outcome

    def rows_of(self, topic: str, positions: Positions) -> tuple[list[RowGroup], Positions]:
        """The rows, and the positions of values that are null."""
        texts, nulls = present_texts(self.batch, positions, self.outcome)
        groups: list[RowGroup] = []
        for group in self.cutter.split(texts.values, _opening(texts.values)):
            if group.problem is not None:
                for position in texts.positions[group.indices].tolist():
                    self.outcome.quarantine(position, group.problem)
                continue
            sorter = self.sorter_of(topic)
            TextSorter(sorter, self.shape).sort(Texts(group.payloads, texts.positions[group.indices]))
            groups.append(RowGroup(sorter.events, group.schema, self.shape))
            nulls = np.concatenate([nulls, np.array(sorter.deleted, np.int64)])
        return groups, nulls


def _opening(texts: pa.Array) -> bytes:
    """The beginnings of rows that certainly have no schema around them, as far as the first row shows."""
    found = _OPENING.match(texts[0].as_py()) if len(texts) else None
    return NO_OPENING if found is None else found[0]
