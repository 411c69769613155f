"""The fields of ``source`` that source positions are made of, as columns.

Envelopes have them in ``source``, rows without envelope in metadata fields. Arrow parses these fields alone: of split
texts (see ``envelope_split``) the tails, else the whole texts. What it refuses is parsed one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from sources.debezium_json.envelopes import joined_lines, may_be_deep, unwrapped
from sources.debezium_json.event_sorting import TableEvents
from sources.debezium_json.record_shapes import RecordShape
from sources.json_changes.exact_parse import parse_exactly
from sources.json_changes.text_parts import slices
from sources.position_kinds import FIELDS, TEXTS
from sources.source_positions import columns_of


def source_fields(events: TableEvents) -> Mapping[str, pa.Array]:
    """One entry per event in each column; a column that is not there is NULL for all of them."""
    if events.sources is not None:
        return dict(zip(events.sources.type.names, events.sources.flatten(), strict=True))
    shape = events.texts.shape
    if events.values is not None and shape.source_names is None:
        return columns_of([value.get("source") for value in events.values])
    if shape.source_names == {} or not len(events.ops):
        return {}
    texts = _texts(events)
    first = _source_of(_parsed(events, 0), shape)
    return _by_arrow(texts, first, shape) or columns_of(
        [_source_of(_parsed(events, index), shape) for index in range(len(events.ops))]
    )


def _parsed(events: TableEvents, index: int) -> Any:
    if events.texts.shape.source_names is None:
        return events.texts.parsed(index)
    return unwrapped(parse_exactly(events.texts.values[index].as_py()))


def _source_of(value: Any, shape: RecordShape) -> Any:
    """The fields of ``source`` of a parsed payload, whatever their names are there."""
    if not isinstance(value, Mapping) or shape.source_names is None:
        return value.get("source") if isinstance(value, Mapping) else None
    found = {}
    for field, names in shape.source_names.items():
        found[field] = next((value[name] for name in names if value.get(name) is not None), None)
    return found


def _texts(events: TableEvents) -> pa.Array:
    """JSON objects that have the fields: the tails of split texts, else all of the texts."""
    texts, tails = events.texts.values, events.tails
    if tails is None:
        return texts
    ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset + 1 : texts.offset + len(texts) + 1]
    lengths = np.array([len(tail) for tail in tails.firsts], np.int64)[tails.shape_of]
    data = np.frombuffer(texts.buffers()[2], np.uint8)
    # A tail begins with a comma.
    cut = slices(texts, data, ends - lengths + 1, ends.astype(np.int64))
    return pc.binary_join_element_wise(pa.scalar(b"{", pa.binary()), cut, pa.scalar(b"", pa.binary()))


def _by_arrow(texts: pa.Array, first: Any, shape: RecordShape) -> Mapping[str, pa.Array] | None:
    """The columns of texts whose fields have the types of the first one; None where Arrow does not take them."""
    if may_be_deep(texts).any():
        return None
    types = {name: _type_of(name, first) for name in FIELDS}
    if shape.source_names is None:
        schema = pa.schema([("source", pa.struct(list(types.items())))])
    else:
        schema = pa.schema([(name, types[field]) for field, names in shape.source_names.items() for name in names])
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
        source = table.column("source").combine_chunks()
        return dict(zip(source.type.names, source.flatten(), strict=True))
    return {field: _first_of(table, names) for field, names in shape.source_names.items() if names}


def _first_of(table: pa.Table, names: Sequence[str]) -> pa.Array:
    return pc.coalesce(*(table.column(name) for name in names)).combine_chunks()


def _type_of(name: str, first: Any) -> pa.DataType:
    value = first.get(name) if isinstance(first, Mapping) else None
    is_text = isinstance(value, str) if value is not None else name in TEXTS
    return pa.string() if is_text else pa.int64()
