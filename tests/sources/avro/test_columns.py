"""Columns of Avro values, and values one by one, against fastavro."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_table.errors import MalformedRecord
from sources.avro.columns import Walk, arrow_form
from sources.avro.exact_values import exact_value
from sources.avro.record_bytes import Mask, Places, RecordBytes
from sources.avro.writer_schema import Node, read_writer_schema
from sources.values.json_values import json_text
from tests.sources.avro.drawn_schemas import schemas


def read_values(node: Node, values: pa.Array, skipped: Places) -> tuple[pa.Array, Mask]:
    """The values, each after a prefix of this length; and which of them are not in doubt."""
    records = RecordBytes.of(values, skipped)
    array, at = Walk(records).read(node, records.starts.copy(), np.arange(len(values)))
    return array, ~records.doubt & (at == records.ends)


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def defined(schema: Any, data: bytes) -> Any:
    """What fastavro reads."""
    return fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(schema), None)


def comparable(value: Any, schema: Any) -> Any:
    """Values with NaN made equal to itself, 32-bit numbers at their digits, and unions of several types as text."""
    match schema:
        case list() if len([part for part in schema if part != "null"]) > 1:
            return value if value is None or isinstance(value, str) else json_text(value)
        case list():
            return None if value is None else comparable(value, next(part for part in schema if part != "null"))
        case {"type": "record"}:
            return {f["name"]: comparable(value[f["name"]], f["type"]) for f in schema["fields"]}
        case {"type": "array"}:
            return [comparable(item, schema["items"]) for item in value]
        case {"type": "map"}:
            return {key: comparable(item, schema["values"]) for key, item in value.items()}
        case "float":
            return "NaN" if math.isnan(value) else float(np.float32(value))
        case "double":
            return "NaN" if math.isnan(value) else value
        case _:
            return value


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_columns_and_single_values_equal_those_of_fastavro(data: st.DataObject) -> None:
    schema, values = data.draw(schemas())
    rows = data.draw(st.lists(values, min_size=1, max_size=6))
    prefix = data.draw(st.sampled_from([b"", b"\x00\x00\x00\x00\x07"]))
    node = read_writer_schema(json.dumps(schema))
    texts = [prefix + written(schema, row) for row in rows]

    expected = [comparable(defined(schema, text[len(prefix) :]), schema) for text in texts]
    array, good = read_values(node, pa.array(texts, pa.binary()), np.full(len(texts), len(prefix)))

    assert good.all()
    assert array.type == arrow_form(node)
    array.validate(full=True)
    assert [comparable(row, schema) for row in array.to_pylist(maps_as_pydicts="lossy")] == expected
    assert [comparable(exact_value(node, text, len(prefix)), schema) for text in texts] == expected


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_damaged_bytes_never_come_out_as_another_value_than_the_exact_one(data: st.DataObject) -> None:
    schema, values = data.draw(schemas())
    node = read_writer_schema(json.dumps(schema))
    text = bytearray(written(schema, data.draw(values)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    lanes = [written(schema, data.draw(values)), bytes(text), written(schema, data.draw(values))]

    array, good = read_values(node, pa.array(lanes, pa.binary()), np.zeros(3, np.int64))
    array.validate(full=True)

    assert good[0] and good[2]
    try:
        expected = exact_value(node, bytes(text))
    except MalformedRecord:
        assert not good[1]
        return
    if good[1]:
        assert comparable(array[1].as_py(maps_as_pydicts="lossy"), schema) == comparable(expected, schema)


def test_arrays_in_several_blocks_with_sizes_are_read() -> None:
    node = read_writer_schema('{"type": "array", "items": "int"}')
    # A block of two items, one of one item that says its size (-1, 1 byte), the end.
    text = bytes([4, 2, 4, 1, 2, 6, 0])

    array, good = read_values(node, pa.array([text], pa.binary()), np.zeros(1, np.int64))

    assert good.all()
    assert array.to_pylist() == [[1, 2, 3]] == [exact_value(node, text)]


def test_an_array_of_very_many_items_is_left_to_the_exact_reader() -> None:
    schema = {"type": "array", "items": "long"}
    node = read_writer_schema(json.dumps(schema))
    lanes = [written(schema, [1]), written(schema, list(range(5000)))]

    array, good = read_values(node, pa.array(lanes, pa.binary()), np.zeros(2, np.int64))

    assert good.tolist() == [True, False]
    assert array[0].as_py() == [1]
    assert exact_value(node, lanes[1]) == list(range(5000))


def test_a_count_of_items_beyond_the_bytes_ends_at_once() -> None:
    node = read_writer_schema('{"type": "array", "items": "null"}')
    text = bytes([0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F])

    _, good = read_values(node, pa.array([text], pa.binary()), np.zeros(1, np.int64))

    assert not good.any()
    try:
        exact_value(node, text)
    except MalformedRecord as error:
        assert "more items than bytes" in str(error)
    else:
        raise AssertionError("read")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b"\xff" * 9 + b"\x01", -(2**63)),
        (b"\xfe" + b"\xff" * 8 + b"\x01", 2**63 - 1),
        (b"\xff" * 9 + b"\x02", None),  # 65 bits
        (b"\xff" * 10 + b"\x01", None),
        (b"\x80\x00", 0),
        (b"\x82" + b"\x80" * 8 + b"\x00", 1),
        (b"\x80", None),
        (b"", None),
    ],
)
def test_numbers_of_all_lengths_are_read_or_left_to_the_exact_reader(text: bytes, number: int | None) -> None:
    node = read_writer_schema('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}')
    lanes = [b"\x02", text, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"]

    array, good = read_values(node, pa.array(lanes, pa.binary()), np.zeros(3, np.int64))

    assert good.tolist() == [True, number is not None, True]
    assert [array[i].as_py() for i in (0, 2)] == [{"a": 1}, {"a": 2**62 - 1}]
    if number is None:
        with pytest.raises(MalformedRecord):
            exact_value(node, text)
    else:
        assert array[1].as_py() == {"a": number} == exact_value(node, text)
