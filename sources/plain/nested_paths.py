"""Columns from inside of nested fields (``columns.paths`` of a rule), for rows that are plain JSON.

Each value gets the columns as fields of its row before it is decoded. What goes to quarantine has the value that came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from paimon_table.errors import MalformedRecord
from sources.changes import DecodeCounts, Decoded, DecodeTarget, Goal, QuarantineRow, SourceTable
from sources.column_paths import ColumnPath, value_at
from sources.json_changes.exact_parse import parse_json
from sources.record_rows import record_row
from sources.values.json_values import json_text

_OF_SCHEMA = (
    "`columns.paths` reads records without an embedded schema: declare the nested field as ROW, or take `paths` out of"
    " the rule"
)

Paths = Mapping[str, ColumnPath]
"""Places of columns by their names."""


def paths_by_topic(targets: Mapping[SourceTable, Goal]) -> dict[str, Paths]:
    """The columns to fill of each topic that has some."""
    return {s.topic: goal.paths for s, goal in targets.items() if isinstance(goal, DecodeTarget) and goal.paths}


@dataclass(frozen=True, slots=True)
class FilledRows:
    """``batch`` are the records with the columns as fields, those in ``bad`` left out."""

    batch: pa.RecordBatch
    given: Mapping[tuple[str, int, int], bytes]
    """The values that came, by topic, partition and offset, of records whose value is another one now."""
    bad: tuple[QuarantineRow, ...]

    def told(self, decoded: Decoded) -> Decoded:
        """What became of the records, with their own values in the quarantine."""
        rows = tuple(
            replace(row, value=self.given.get((row.topic, row.partition, row.offset), row.value))
            for row in decoded.quarantine
        )
        counts = decoded.counts + DecodeCounts(quarantined=len(self.bad))
        return replace(decoded, quarantine=(*rows, *self.bad), counts=counts)


def filled_rows(batch: pa.RecordBatch, paths: Mapping[str, Paths]) -> FilledRows:
    """Fill the columns of the topics in ``paths``; what is no JSON object stays as it is."""
    topics = batch.column("topic").to_pylist()
    values: list[bytes | None] = batch.column("value").to_pylist()
    given: dict[tuple[str, int, int], bytes] = {}
    bad: list[QuarantineRow] = []
    kept = np.ones(len(values), np.bool_)
    for position, (topic, value) in enumerate(zip(topics, values, strict=True)):
        if topic not in paths or value is None:
            continue
        try:
            row = parse_json(value)
        except MalformedRecord:
            continue
        if not isinstance(row, dict):
            continue
        if {*row} == {"schema", "payload"} and isinstance(row["schema"], dict):
            bad.append(record_row(batch, position, _OF_SCHEMA, SourceTable.of_topic(topic)))
            kept[position] = False
            continue
        place = topic, batch.column("partition")[position].as_py(), batch.column("offset")[position].as_py()
        given[place] = value
        values[position] = _filled(value, row, paths[topic])
    column = batch.schema.get_field_index("value")
    filled = batch.set_column(column, batch.schema.field(column), pa.array(values, batch.schema.field(column).type))
    return FilledRows(filled if kept.all() else filled.filter(pa.array(kept)), given, tuple(bad))


def _filled(text: bytes, row: Mapping[str, object], paths: Paths) -> bytes:
    """The text of a row with its columns; a column wins over a field of its name."""
    found = {name: value_at(row, path) for name, path in paths.items()}
    if found.keys() & row.keys() or not row:
        return json_text({**row, **found}).encode()
    fields = ",".join(f"{json_text(name)}:{json_text(value)}" for name, value in found.items())
    return text.rstrip()[:-1] + b"," + fields.encode() + b"}"
