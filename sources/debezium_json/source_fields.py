"""The fields of ``source`` that source positions are made of, as columns.

Envelopes have them in ``source``, rows without envelope in metadata fields. Split texts (see ``envelope_split``) have
them at the same place as the first one of their shape. For others Arrow parses only these fields; texts that it
refuses are parsed one by one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from paimon_table.rows.chunks import one_array
from sources.debezium_json.envelopes import joined_lines, may_be_deep
from sources.debezium_json.event_sorting import TableEvents
from sources.debezium_json.record_shapes import RecordShape
from sources.json_changes.text_parts import slices
from sources.places_of_change import PlaceOfChange
from sources.position_kinds import TEXTS
from sources.source_positions import columns_of

_LEAD = len(b',"source":{"')
"""Bytes that stand before every field of a tail: longer slices are cheaper to cut than short ones."""


def source_fields(events: TableEvents, wanted: Sequence[str]) -> Mapping[str, pa.Array]:
    """The wanted fields, one entry per event; a missing column is NULL for all events."""
    if events.sources is not None:
        return dict(zip(events.sources.type.names, events.sources.flatten(), strict=True))
    shape = events.texts.shape
    if shape.source_names == {} or not len(events.ops):
        return {}
    if events.values is not None and shape.source_names is None:
        return columns_of([value.get("source") for value in events.values])
    if events.values is not None:
        return _one_by_one(events)
    found = _by_shapes(events, wanted)
    if found is None:
        found = _by_arrow(events.texts.values, _source_of(events.texts.payload(0), shape), shape, wanted)
    return _one_by_one(events) if found is None else found


def _one_by_one(events: TableEvents) -> Mapping[str, pa.Array]:
    texts = events.texts
    return columns_of([_source_of(texts.payload(index), texts.shape) for index in range(len(events.ops))])


def places(events: TableEvents) -> Iterator[PlaceOfChange]:
    """The position of each event in the log of its source."""
    shape = events.texts.shape
    if shape.source_names is None:
        return map(shape.place, events.envelopes())
    return map(shape.place, map(events.texts.payload, range(len(events.ops))))


def _source_of(value: Any, shape: RecordShape) -> Any:
    """The fields of ``source`` of a parsed payload, whatever their names are there."""
    if not isinstance(value, Mapping) or shape.source_names is None:
        return value.get("source") if isinstance(value, Mapping) else None
    found = {}
    for field, names in shape.source_names.items():
        found[field] = next((value[name] for name in names if value.get(name) is not None), None)
    return found


# ------------------------------------------------------------ split texts


def _by_shapes(events: TableEvents, wanted: Sequence[str]) -> Mapping[str, pa.Array] | None:
    """The fields of split texts: tails of one shape differ in digits alone, so all have a field where one has it."""
    if events.tails is None:
        return None
    texts = events.texts.values
    ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset + 1 : texts.offset + len(texts) + 1]
    data, shape_of = np.frombuffer(texts.buffers()[2], np.uint8), events.tails.shape_of
    order = np.argsort(shape_of, kind="stable")
    back = pa.array(np.argsort(order, kind="stable"))
    parts: dict[str, list[pa.Array]] = {name: [] for name in wanted}
    for shape in np.unique(shape_of).tolist():
        tail = events.tails.firsts[shape]
        begins = ends[order[shape_of[order] == shape]].astype(np.int64) - len(tail)
        places = _places(tail, wanted)
        if places is None:
            return None
        for name, column in parts.items():
            if name in places:
                begin, end = places[name]
                found = slices(texts, data, begins + begin - _LEAD, begins + end)
                found = pc.binary_slice(found, _LEAD, _LEAD + end - begin)
                column.append(pc.replace_substring(found.cast(pa.string()), '\\"', '"'))
            else:
                column.append(pa.nulls(len(begins), pa.string()))
    return {name: pa.concat_arrays(column).take(back) for name, column in parts.items()}


def _places(tail: bytes, wanted: Sequence[str]) -> Mapping[str, tuple[int, int]] | None:
    """Where the values of the fields are in a tail, texts without their quotes; None if that is not certain."""
    begin = tail.index(b"{")
    text = tail[begin:].decode()
    try:
        source, length = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return None
    block = text[:length].encode()
    found = {}
    for name in wanted:
        value = source.get(name)
        if isinstance(value, bool) or not isinstance(value, int | str):
            continue
        key, literal = f'"{name}":'.encode(), json.dumps(value).encode()
        at = block.find(key)
        is_sure = block.count(key) == 1 and block.startswith((key + literal + b",", key + literal + b"}"), at)
        if not is_sure or (isinstance(value, str) and "\\" in value):
            return None
        quotes = int(isinstance(value, str))
        first = begin + at + len(key)
        found[name] = first + quotes, first + len(literal) - quotes
    return found


# ------------------------------------------------------------ whole texts


def _by_arrow(texts: pa.Array, first: Any, shape: RecordShape, wanted: Sequence[str]) -> Mapping[str, pa.Array] | None:
    """The columns of texts whose fields have the types of the first one; None if Arrow does not take them."""
    if may_be_deep(texts).any():
        return None
    types = {name: _type_of(name, first) for name in wanted}
    names = {field: named for field, named in (shape.source_names or {}).items() if field in types and named}
    if shape.source_names is None:
        schema = pa.schema([("source", pa.struct(list(types.items())))])
    else:
        schema = pa.schema([(name, types[field]) for field, named in names.items() for name in named])
    lines = joined_lines(texts)
    try:
        table = pj.read_json(
            pa.BufferReader(lines),
            read_options=pj.ReadOptions(use_threads=False, block_size=lines.size + 1),
            parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(texts):
        return None
    if shape.source_names is None:
        source = one_array(table.column("source"))
        return dict(zip(source.type.names, source.flatten(), strict=True))
    return {field: _first_of(table, named) for field, named in names.items()}


def _first_of(table: pa.Table, names: Sequence[str]) -> pa.Array:
    return one_array(pc.coalesce(*(table.column(name) for name in names)))


def _type_of(name: str, first: Any) -> pa.DataType:
    value = first.get(name) if isinstance(first, Mapping) else None
    is_text = isinstance(value, str) if value is not None else name in TEXTS
    return pa.string() if is_text else pa.int64()
