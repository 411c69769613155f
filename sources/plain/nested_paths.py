"""Columns from inside of nested fields (``columns.paths`` of a rule).

In JSON the columns become fields of the rows before decoding, and an embedded schema gets their types. Quarantined
records keep their original value. Rows of binary formats get these columns in addition to their own, with what the
schema says about the nested fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import MalformedRecord
from paimon_table.types import string
from sources.changes import Decoded, SourceTable
from sources.column_paths import ColumnPath
from sources.debezium_json.event_sorting import RowImages, TableEvents
from sources.decode_target import DecodeTarget, Goal
from sources.json_changes.embedded_schema import EmbeddedSchema, is_wrapper
from sources.json_changes.exact_parse import parse_json, value_at
from sources.json_changes.outcome import Parse
from sources.upsert_json.row_decoding import Positions, RowGroup, RowReading
from sources.values.connect_types import ConnectColumn
from sources.values.encodings import AUTO
from sources.values.json_values import json_text

_TEXT = {"type": "string"}
"""The type of a column for which an embedded schema has none."""

Paths = Mapping[str, ColumnPath]
"""Places of columns by their names."""


def paths_by_topic(targets: Mapping[SourceTable, Goal]) -> dict[str, Paths]:
    """The columns to fill of each topic that has some."""
    return {s.topic: goal.paths for s, goal in targets.items() if isinstance(goal, DecodeTarget) and goal.paths}


@dataclass(frozen=True, slots=True)
class FilledRows:
    """``batch`` are the records with the columns as fields."""

    batch: pa.RecordBatch
    given: Mapping[tuple[str, int, int], bytes]
    """The values that came, by topic, partition and offset, of records whose value is another one now."""

    def told(self, decoded: Decoded) -> Decoded:
        """The outcome of the records, with their own values in the quarantine."""
        rows = tuple(
            replace(row, value=self.given.get((row.topic, row.partition, row.offset), row.value))
            for row in decoded.quarantine
        )
        return replace(decoded, quarantine=rows)


def filled_rows(batch: pa.RecordBatch, paths: Mapping[str, Paths]) -> FilledRows:
    """Fill the columns of the topics in ``paths``; values that are not JSON objects stay unchanged."""
    topics = batch.column("topic").to_pylist()
    values: list[bytes | None] = batch.column("value").to_pylist()
    given: dict[tuple[str, int, int], bytes] = {}
    for position, (topic, value) in enumerate(zip(topics, values, strict=True)):
        if topic not in paths or value is None:
            continue
        try:
            row = parse_json(value)
        except MalformedRecord:
            continue
        if not isinstance(row, dict):
            continue
        place = topic, batch.column("partition")[position].as_py(), batch.column("offset")[position].as_py()
        given[place] = value
        values[position] = _filled_wrapper(row, paths[topic]) if is_wrapper(row) else _filled(value, row, paths[topic])
    column = batch.schema.get_field_index("value")
    filled = batch.set_column(column, batch.schema.field(column), pa.array(values, batch.schema.field(column).type))
    return FilledRows(filled, given)


def _filled(text: bytes, row: Mapping[str, object], paths: Paths) -> bytes:
    """The text of a row with its columns; a column wins over a field of its name."""
    found = {name: value_at(row, path) for name, path in paths.items()}
    if found.keys() & row.keys() or not row:
        return json_text({**row, **found}).encode()
    fields = ",".join(f"{json_text(name)}:{json_text(value)}" for name, value in found.items())
    return text.rstrip()[:-1] + b"," + fields.encode() + b"}"


# ---------------------------------------------------------------- JSON with an embedded schema


def _filled_wrapper(wrapper: Mapping[str, Any], paths: Paths) -> bytes:
    """The text of a schema and a payload, both with the columns; anything else stays for the decoder to refuse."""
    row, schema = wrapper["payload"], wrapper.get("schema")
    if isinstance(row, dict):
        paths = {name: path if path[0] in row else _inside(path) for name, path in paths.items()}
        found = {name: value_at(row, path) for name, path in paths.items()}
        if isinstance(schema, dict) and isinstance(schema.get("fields"), list):
            types = {name: _type_at(schema, path) for name, path in paths.items()}
            found = {name: _as_text(value) if types[name] is _TEXT else value for name, value in found.items()}
            schema = {**schema, "fields": _filled_fields(schema["fields"], types)}
        row = {**row, **found}
    return json_text({"schema": schema, "payload": row}).encode()


def _inside(path: ColumnPath) -> ColumnPath:
    """The path in a payload, from where records without wrapper begin it."""
    return path[1:] if path[0] == "payload" and len(path) > 1 else path


def _type_at(schema: Any, path: ColumnPath) -> Mapping[str, Any]:
    """The type of a nested field in an embedded schema; a text if it has none."""
    for name in path:
        kind = schema.get("type") if isinstance(schema, dict) else None
        fields = schema.get("fields") if kind == "struct" else None
        if kind == "map":
            schema = schema.get("values")
        elif isinstance(fields, list):
            schema = next((f for f in fields if isinstance(f, dict) and f.get("field") == name), None)
        else:
            return _TEXT
    return schema if isinstance(schema, dict) else _TEXT


def _filled_fields(fields: Sequence[Any], types: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    own = [f for f in fields if not (isinstance(f, dict) and f.get("field") in types)]
    return own + [
        {**{word: told for word, told in of.items() if word != "default"}, "optional": True, "field": name}
        for name, of in types.items()
    ]


def _as_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json_text(value)


# ---------------------------------------------------------------- binary formats


@dataclass(frozen=True, slots=True)
class FilledReading:
    """The rows of a binary format with their columns; see ``sources.upsert_json.row_decoding.RowReading``."""

    reading: RowReading
    paths: Mapping[str, Paths]
    """The columns to fill of each topic."""

    def rows_of(self, topic: str, positions: Positions) -> tuple[list[RowGroup], Positions]:
        """See ``RowReading``."""
        groups, nulls = self.reading.rows_of(topic, positions)
        paths = self.paths.get(topic)
        return (groups if paths is None else [_with_columns(group, paths) for group in groups]), nulls


def filling(parse: Parse, batch: pa.RecordBatch, paths: Mapping[str, Paths]) -> Parse:
    """Reads values one by one, with their columns."""
    topics = batch.column("topic")

    def parsed(column: str, position: int) -> Any:
        row = parse(column, position)
        of_topic = paths.get(topics[position].as_py())
        if of_topic is None or not isinstance(row, dict):
            return row
        return {**row, **{name: value_at(row, path) for name, path in of_topic.items()}}

    return parsed


def _with_columns(group: RowGroup, paths: Paths) -> RowGroup:
    assert group.schema is not None
    events = {source: [_filled_images(part, paths) for part in parts] for source, parts in group.events.items()}
    return RowGroup(events, _filled_schema(group.schema, paths), group.shape)


def _filled_images(part: TableEvents, paths: Paths) -> TableEvents:
    """Events with the columns; those that were read one by one already have them (``filling``)."""
    if part.images is None:
        return part
    rows = part.images.after
    columns = dict(zip((f.name for f in rows.type), rows.flatten(), strict=True))
    columns |= {name: _nested(rows, path) for name, path in paths.items()}
    filled = pa.StructArray.from_arrays([*columns.values()], names=[*columns])
    return replace(part, images=RowImages(pa.nulls(len(filled), filled.type), filled, filled))


def _nested(rows: pa.StructArray, path: ColumnPath) -> pa.Array:
    found = rows
    for step, name in enumerate(path):
        if not pa.types.is_struct(found.type):
            return pa.array([_text_at(value, path[step:], found.type) for value in found.to_pylist()], pa.string())
        index = found.type.get_field_index(name)
        if index < 0:
            return pa.nulls(len(rows), pa.string())
        found = pc.struct_field(found, [index])
    return found


def _text_at(value: Any, path: ColumnPath, t: pa.DataType) -> str | None:
    """The value at a path inside of a map, or of a union, which is a JSON text in a column."""
    return _as_text(value_at(dict(value) if value is not None and pa.types.is_map(t) else value, path))


def _filled_schema(schema: EmbeddedSchema, paths: Paths) -> EmbeddedSchema:
    columns = schema.by_name
    return EmbeddedSchema(
        tuple((columns | {name: _column_at(columns, name, path) for name, path in paths.items()}).values())
    )


def _column_at(columns: Mapping[str, ConnectColumn], name: str, path: ColumnPath) -> ConnectColumn:
    """The type of a nested field in the schema; a text if it has none."""
    found = columns.get(path[0])
    for step in path[1:]:
        found = None if found is None else _fields(found).get(step)
    return ConnectColumn(name, string(), AUTO, pa.null()) if found is None else replace(found, name=name, default=None)


def _fields(column: ConnectColumn) -> dict[str, ConnectColumn]:
    encodings = dict(column.encoding.fields)
    return {f.name: ConnectColumn(f.name, f.type, encodings.get(f.name, AUTO), pa.null()) for f in column.type.fields}
