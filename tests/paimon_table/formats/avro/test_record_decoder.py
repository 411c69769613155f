"""Decoders made for one schema give what the general decoder gives, and refuse what it refuses."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_table.formats.avro.container import without_logical_types
from paimon_table.formats.avro.record_decoder import record_decoder, row_decoder
from paimon_table.metadata.entry_row import ENTRY_PATHS, EntryRow
from paimon_table.metadata.index_manifest import INDEX_SCHEMA
from paimon_table.metadata.manifest_codec import ENTRY_SCHEMA, LIST_SCHEMA

SCHEMAS = [without_logical_types(dict(schema)) for schema in (ENTRY_SCHEMA, LIST_SCHEMA, INDEX_SCHEMA)]
LONGS = st.one_of(st.integers(-70, 70), st.integers(-(2**63), 2**63 - 1))


def values(schema: Any) -> st.SearchStrategy[Any]:
    if isinstance(schema, list):
        return st.one_of([values(branch) for branch in schema])
    match schema["type"] if isinstance(schema, dict) else schema:
        case "null":
            return st.none()
        case "int":
            return st.integers(-(2**31), 2**31 - 1)
        case "long":
            return LONGS
        case "bytes":
            return st.binary(max_size=200)
        case "string":
            return st.text(max_size=100)
        case "array":
            return st.lists(values(schema["items"]), max_size=80)
        case _:
            return st.fixed_dictionaries({field["name"]: values(field["type"]) for field in schema["fields"]})


def encoded(schema: Any, records: list[Any]) -> bytes:
    out = io.BytesIO()
    for record in records:
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return out.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("schema", SCHEMAS, ids=["entry", "list", "index"])
@given(data=st.data())
def test_records_are_those_of_the_general_decoder(schema: Any, data: st.DataObject) -> None:
    records = data.draw(st.lists(values(schema), max_size=3))
    stored = encoded(schema, records)
    decode = record_decoder(json.dumps(schema))
    assert decode is not None
    at = 0
    for record in records:
        found, at = decode(stored, at)
        assert found == record
    assert at == len(stored)


PATHS = tuple(ENTRY_PATHS[name] for name in EntryRow._fields)
MAYBE = frozenset({"_EXTERNAL_PATH", "_WRITE_COLS"})


def value_at(record: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        record = record[name]
    return tuple(record) if isinstance(record, list) else record


@pytest.mark.slow
@given(data=st.data())
def test_rows_have_the_values_of_the_general_decoder(data: st.DataObject) -> None:
    records = data.draw(st.lists(values(SCHEMAS[0]), max_size=3))
    stored = encoded(SCHEMAS[0], records)
    decode = row_decoder(json.dumps(SCHEMAS[0]), EntryRow, PATHS, MAYBE)
    assert decode is not None
    rows, at = decode(stored, len(records))
    assert rows == [tuple(value_at(record, path) for path in PATHS) for record in records]
    assert at == len(stored)


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 200])
def test_counts_of_nulls_of_many_columns(count: int) -> None:
    """Where most of them are zero they are not read one by one, nor where there are too many for one byte."""
    schema = {"type": "array", "items": ["null", "long"]}
    decode = record_decoder(json.dumps(schema))
    assert decode is not None
    for counts in ([0] * count, [0] * (count - 1) + [3], [None] * count):
        stored = encoded(schema, [counts])
        assert decode(stored + b"\x02\x00", 0) == (counts, len(stored))


def test_rows_need_the_fields_that_are_not_optional() -> None:
    fields = [field for field in SCHEMAS[0]["fields"][-1]["type"]["fields"] if field["name"] != "_EXTERNAL_PATH"]
    schema = json.loads(json.dumps(SCHEMAS[0]))
    schema["fields"][-1]["type"]["fields"] = fields
    assert row_decoder(json.dumps(schema), EntryRow, PATHS, MAYBE) is not None
    with pytest.raises(KeyError, match="_EXTERNAL_PATH"):
        row_decoder(json.dumps(schema), EntryRow, PATHS, frozenset())


def test_rows_of_records_that_may_be_null_are_left_to_the_general_decoder() -> None:
    schema = json.loads(json.dumps(SCHEMAS[0]))
    schema["fields"][-1]["type"] = ["null", schema["fields"][-1]["type"]]
    assert row_decoder(json.dumps(schema), EntryRow, PATHS, MAYBE) is None


@given(cut=st.integers(0, 400), flip=st.integers(0, 400), bit=st.integers(0, 7))
def test_damaged_bytes_end_in_one_of_the_errors_or_elsewhere(cut: int, flip: int, bit: int) -> None:
    schema = SCHEMAS[2]
    ranges = [{"f0": "data-1", "f1": 1, "f2": 300, "_CARDINALITY": None}, None]
    whole = encoded(schema, [{
        "_VERSION": 1, "_KIND": 0, "_PARTITION": b"p" * 30, "_BUCKET": 3, "_INDEX_TYPE": "HASH", "_FILE_NAME": "i",
        "_FILE_SIZE": 2**40, "_ROW_COUNT": 7, "_DELETIONS_VECTORS_RANGES": ranges, "_EXTERNAL_PATH": None,
        "_GLOBAL_INDEX": None,
    }])  # fmt: skip
    damaged = bytearray(whole)
    damaged[flip % len(whole)] ^= 1 << bit
    decode = record_decoder(json.dumps(schema))
    assert decode is not None
    for data in (whole[: cut % len(whole)], bytes(damaged)):
        try:
            _, at = decode(data, 0)
        except (IndexError, ValueError, OverflowError):
            continue
        assert at != len(whole) or data != whole[: len(data)]


def test_blocks_of_arrays_may_have_their_size_before_them() -> None:
    decode = record_decoder(json.dumps({"type": "array", "items": ["null", "long"]}))
    assert decode is not None
    sized = b"\x05\x0c" + b"\x02\x06\x00\x02\x00" + b"\x02\x02\x08\x00"
    assert decode(sized, 0) == ([3, None, 0, 4], len(sized))


@pytest.mark.parametrize("schema", ["double", {"type": "map", "values": "int"}, ["null", {"type": "enum"}]])
def test_other_types_are_for_the_general_decoder(schema: Any) -> None:
    record = {"type": "record", "name": "r", "fields": [{"name": "f", "type": schema}]}
    assert record_decoder(json.dumps(record)) is None


def test_huge_counts_are_refused_before_anything_is_made() -> None:
    decode = record_decoder(json.dumps({"type": "array", "items": "null"}))
    assert decode is not None
    with pytest.raises(ValueError, match="more items than bytes"):
        decode(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00", 0)
