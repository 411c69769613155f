"""Fields that a row omits although its embedded schema has them: each has the value of its DEFAULT.

A NULL stays NULL, whatever the DEFAULT is. Kafka Connect's converters write every field, other producers do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sources.debezium_json.envelopes import unwrapped
from sources.debezium_json.record_shapes import Envelopes, RecordShape
from sources.decode_target import DecodeTarget
from sources.json_changes.change_rows import DELETE, Events, image_column, is_null, present, row_objects
from sources.json_changes.embedded_schema import EmbeddedSchema
from sources.json_changes.outcome import Outcome
from sources.values.json_values import json_text


def with_defaults(
    events: Events, schema: EmbeddedSchema | None, target: DecodeTarget, outcome: Outcome, shape: RecordShape
) -> Events:
    """The events with the defaults of the columns of the table where their rows leave these out."""
    # An Avro record has all fields of its schema.
    defaults = (
        {}
        if schema is None or not outcome.is_json
        else {n: c.default for n, c in schema.by_name.items() if c.has_default}
    )
    absent: dict[int, dict[str, Any]] = {}
    rows: dict[int, Mapping[str, Any]] = {}
    flat: pa.Array | None = None
    for name, _ in target.columns:
        if name not in defaults:
            continue
        missing = present(events.after) & is_null(image_column(events.after, name)) & (events.ops != DELETE)
        indices = np.flatnonzero(missing)
        if not len(indices):
            continue
        if flat is None:
            flat = _flat_rows(outcome.values_at(events.positions), shape)
        named = pc.fill_null(pc.match_substring(flat.take(pa.array(indices)), f"{json_text(name)}:"), False)
        for index in indices[~np.asarray(named)].tolist():
            if index not in rows:
                rows[index] = _row(outcome, int(events.positions[index]), shape)
            if name not in rows[index]:
                absent.setdefault(index, {})[name] = defaults[name]
    if not absent:
        return events
    after = [*row_objects(events.after)]
    for index, values in absent.items():
        after[index] = {**(after[index] or {}), **values}
    return replace(events, before=[*row_objects(events.before)], after=after, images=None)


def _flat_rows(texts: pa.Array, shape: RecordShape) -> pa.Array:
    """The beginning of each row up to its first inner object, as text; NULL if it cannot be told from other parts.

    A field whose name is in it is in the row: JSON escapes quotes inside of a value.
    """
    start = f'"{"after" if isinstance(shape, Envelopes) else "payload"}"\\s*:'
    found = pc.extract_regex(texts, start + r"\s*\{(?P<row>[^{}]*)")
    return pc.if_else(pc.equal(pc.count_substring_regex(texts, start), 1), pc.struct_field(found, "row"), None)


def _row(outcome: Outcome, position: int, shape: RecordShape) -> Mapping[str, Any]:
    event = shape.event(unwrapped(outcome.parsed("value", position)))
    row = event.get("after") if isinstance(event, Mapping) else None
    return row if isinstance(row, Mapping) else {}
