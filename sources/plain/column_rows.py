"""Rows of binary formats: columns of vectorised rows, objects of rows that were read one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sources.changes import SourceTable
from sources.debezium_json.event_sorting import RowImages, TableEvents
from sources.debezium_json.ops import UNSTATED
from sources.debezium_json.texts import ParsedRecords
from sources.json_changes.embedded_schema import EmbeddedSchema
from sources.json_changes.outcome import Outcome
from sources.upsert_json.metadata import WHOLE_ROWS
from sources.upsert_json.row_decoding import Positions, RowGroup


@dataclass(frozen=True, slots=True)
class ColumnRows:
    """Makes groups of the rows of one topic partition."""

    topic: str
    outcome: Outcome

    def group(
        self,
        schema: EmbeddedSchema,
        columns: tuple[Positions, pa.StructArray] | None,
        objects: tuple[Positions, Sequence[Mapping[str, Any]]] | None = None,
    ) -> RowGroup:
        """The rows of one schema: positions with columns, and positions with objects."""
        parts: list[TableEvents] = []
        if columns is not None and len(columns[0]):
            positions, rows = columns
            images = RowImages(pa.nulls(len(rows), rows.type), rows, rows)
            parts.append(self._events(positions, images=images))
        if objects is not None and len(objects[0]):
            positions, values = objects
            parts.append(self._events(positions, values=tuple({"after": dict(value)} for value in values)))
        events = {SourceTable.of_topic(self.topic): parts} if parts else {}
        return RowGroup(events, schema, WHOLE_ROWS)

    def _events(self, positions: Positions, **rows: Any) -> TableEvents:
        records = ParsedRecords(self.outcome, self.outcome.values_at(positions), positions, WHOLE_ROWS)
        ops = np.full(len(positions), UNSTATED, np.int8)
        return TableEvents(records, ops, times_ms=pa.nulls(len(positions), pa.int64()), **rows)
