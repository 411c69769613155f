"""Columns of the primary key that only the message key has, as after a router or in topics of plain upserts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from paimon_table.errors import MalformedRecord
from paimon_table.rows.chunks import one_array
from paimon_table.types import INTEGERS, DataType, Root, string
from sources.debezium_json.envelopes import unwrapped, unwrapped_key
from sources.debezium_json.record_shapes import ENVELOPES, RecordShape
from sources.decode_target import DecodeTarget
from sources.json_changes.change_rows import DELETE, Events, Mask, image_column, is_null, present, row_objects
from sources.json_changes.embedded_schema import EmbeddedSchema, read_schema
from sources.json_changes.exact_parse import parse_json
from sources.json_changes.outcome import Outcome
from sources.values.connect_types import ConnectColumn
from sources.values.encodings import Kind
from sources.values.json_values import json_text
from sources.values.scalar_conversion import convert_value
from sources.values.value_forms import ValueForms

_BARE_KEY = r'\A\{"(?:[^"\\]*)":[^{}\[\]\\]*\}\z'
"""A message key with plain values, without a wrapper around them."""
_WRAPPER = r'"(?:schema|payload)":'
_TIMES = frozenset({Kind.DATE, Kind.TIME, Kind.TIMESTAMP})
_OF_SCHEMAS = _TIMES | {Kind.DECIMAL, Kind.VARIABLE_DECIMAL, Kind.UNSIGNED}
"""Encodings that give a value another meaning than its JSON has."""


def with_values_of_keys(
    events: Events,
    target: DecodeTarget,
    schema: EmbeddedSchema | None,
    outcome: Outcome,
    shape: RecordShape = ENVELOPES,
) -> Events:
    """The events with those columns of the primary key that only the message key has, as after a router.

    If a row has the column, its NULL stays NULL.
    """
    lacking = np.zeros(len(events.ops), np.bool_)
    for name in target.primary_key:
        column = image_column(events.after, name)
        if not isinstance(column, list) and not column.null_count:
            continue
        if schema is None or name not in schema.by_name:
            lacking |= present(events.after) & is_null(column)
    lacking &= events.ops != DELETE
    if not lacking.any():
        return events
    at_once = _filled_at_once(events, target, lacking, outcome)
    return _filled_singly(events, target, lacking, outcome, shape) if at_once is None else at_once


@dataclass(frozen=True, slots=True)
class MessageKey:
    """A message key, and the columns in its embedded schema; None for one without schema."""

    value: Any
    schema: EmbeddedSchema | None

    def plain(self, types: Mapping[str, DataType]) -> Any:
        """The value as in records without a schema: numbers and times themselves, not their encodings.

        ``types`` are the table's, by column. Raises Unconvertible.
        """
        if self.schema is None:
            return self.value
        told = {
            column.name: _plain(self.value[column.name], column, types.get(column.name))
            for column in self.schema.columns
            if column.encoding.kind in _OF_SCHEMAS and self.value.get(column.name) is not None
        }
        return {**self.value, **told}


def key_at(outcome: Outcome, position: int) -> MessageKey:
    """The message key of a record. One that cannot be read, or whose schema cannot, is a MalformedRecord."""
    if not outcome.has_key_texts:
        return MessageKey(unwrapped_key(outcome.parsed("key", position)), None)
    text = outcome.keys_at(np.array([position], np.int64))[0].as_py()
    try:
        key: Any = None if text is None else parse_json(text)
        value = unwrapped_key(key)
        is_wrapped = isinstance(key, dict) and isinstance(value, dict) and value is not key
        return MessageKey(value, read_schema(key.get("schema"), lambda row: row) if is_wrapped else None)
    except MalformedRecord as error:
        return MessageKey(error, None)


def _plain(value: Any, column: ConnectColumn, target: DataType | None) -> Any:
    if target is not None and target.root in INTEGERS and column.encoding.kind in _TIMES:
        return value  # a column of numbers holds the numbers of the source
    text = convert_value(value, column.encoding, string(), ValueForms())
    if column.encoding.kind is Kind.TIMESTAMP and (target or column.type).root is Root.TIMESTAMP_LTZ:
        return f"{text}Z"
    return Decimal(text) if column.type.root is Root.DECIMAL else text


def _filled_singly(events: Events, target: DecodeTarget, lacking: Mask, outcome: Outcome, shape: RecordShape) -> Events:
    filled: dict[int, tuple[Mapping[str, Any] | None, Mapping[str, Any]]] = {}
    types = dict(target.columns)
    for index in np.flatnonzero(lacking).tolist():
        position = int(events.positions[index])
        envelope = shape.event(unwrapped(outcome.parsed("value", position)))
        key = key_at(outcome, position).plain(types)
        if not isinstance(envelope, Mapping) or not isinstance(envelope.get("after"), Mapping):
            continue  # the exact parser is stricter: the key stays NULL, which no table stores
        old, new = envelope.get("before"), envelope["after"]
        names = [n for n in target.primary_key if n not in new and n in key] if isinstance(key, dict) else []
        if names:
            values = {name: key[name] for name in names}
            filled[index] = ({**values, **old} if isinstance(old, dict) else None, {**new, **values})
    if not filled:
        return events
    before, after = [*row_objects(events.before)], [*row_objects(events.after)]
    for index, (old, new) in filled.items():
        before[index], after[index] = old, new
    return Events(events.positions, events.ops, before, after)


def _filled_at_once(events: Events, target: DecodeTarget, lacking: Mask, outcome: Outcome) -> Events | None:
    """The events filled with the key values that Arrow reads; None if rows or keys do not allow that."""
    after = events.after
    if isinstance(after, list) or (present(events.before) & lacking).any():
        return None
    indices = np.flatnonzero(lacking)
    positions = events.positions[indices]
    names = [*target.primary_key]
    if any(after.type.get_field_index(name) < 0 for name in names):
        return None
    texts = outcome.values_at(positions)
    missing = {name: ~np.asarray(pc.match_substring(texts, json_text(name))) for name in names}
    if not np.logical_and.reduce([missing[n] | ~_nulls(after, n)[indices] for n in names]).all():
        return None
    keys = outcome.keys_at(positions)
    if keys.null_count or not _are_bare(keys):
        return None
    read = _read_keys(keys, pa.schema([after.type.field(name) for name in names]))
    if read is None:
        return None
    children = {f.name: after.field(f.name) for f in after.type}
    for name in names:
        mask = np.zeros(len(after), np.bool_)
        mask[indices[_nulls(after, name)[indices]]] = True
        values = one_array(read.column(name)).filter(pa.array(mask[indices]))
        children[name] = pc.replace_with_mask(children[name], pa.array(mask), values)
    fields = [pa.field(name, child.type) for name, child in children.items()]
    filled = pa.StructArray.from_arrays([*children.values()], fields=fields, mask=after.is_null())
    return replace(events, after=filled, images=None)


def _nulls(rows: pa.StructArray, name: str) -> npt.NDArray[np.bool_]:
    return is_null(image_column(rows, name))


def _are_bare(keys: pa.Array) -> bool:
    plain = pc.and_(pc.match_substring_regex(keys, _BARE_KEY), pc.invert(pc.match_substring_regex(keys, _WRAPPER)))
    return bool(pc.all(plain).as_py())


def _read_keys(keys: pa.Array, schema: pa.Schema) -> pa.Table | None:
    lines = b"\n".join(keys.to_pylist())
    try:
        read = pj.read_json(
            pa.BufferReader(lines),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(lines) + 1),
            parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return None
    return read if read.num_rows == len(keys) else None
