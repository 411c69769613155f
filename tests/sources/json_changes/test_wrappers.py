"""Wrappers of payloads in all layouts: with escaped names, without a schema, with the schema behind."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from sources.debezium_json.envelope_schema import PLAIN_OPENING, row_of_envelope
from sources.json_changes.embedded_schema import SchemaCutter, is_wrapper

FIELDS = [{"field": "id", "type": "int32", "optional": False}]
SCHEMA = json.dumps({"type": "struct", "fields": FIELDS}, separators=(",", ":"))


@pytest.mark.parametrize("schema", ['"schema"', '"sch\\u0065ma"', '"\\u0073chema"'])
@pytest.mark.parametrize("payload", ['"payload"', '"pa\\u0079load"', '"payl\\u006Fad"'])
def test_a_wrapper_with_escaped_names_is_taken_off(schema: str, payload: str) -> None:
    plain = b'{"before":null,"after":{"id":2}}'
    texts = [f'{{{schema}:{SCHEMA},{payload}:{{"id":1}}}}'.encode(), plain]

    groups = {
        tuple(g.indices.tolist()): g
        for g in SchemaCutter(row_of_envelope, PLAIN_OPENING).split(pa.array(texts, pa.binary()))
    }

    assert groups.keys() == {(0,), (1,)}
    assert groups[0,].schema is not None and [c.name for c in groups[0,].schema.columns] == ["id"]
    assert json.loads(groups[0,].payloads[0].as_py()) == {"id": 1}
    assert groups[1,].schema is None and groups[1,].payloads.to_pylist() == [plain]


def groups_of(*texts: bytes) -> list[tuple[list[int], list[str] | None, list[bytes]]]:
    found = SchemaCutter(row_of_envelope, PLAIN_OPENING).split(pa.array(texts, pa.binary()))
    return [
        (g.indices.tolist(), None if g.schema is None else [c.name for c in g.schema.columns], g.payloads.to_pylist())
        for g in found
    ]


PLAIN = b'{"op":"c","after":{"id":2}}'


@pytest.mark.parametrize("opening", [b'{"payload":', b'{"payload": ', b'{ "payload" : ', b'{"pa\\u0079load":'])
def test_a_payload_without_schema_is_unwrapped(opening: bytes) -> None:
    texts = [opening + b'{"id":1}}', PLAIN, opening + b"null}"]

    assert sorted(groups_of(*texts)) == [([0, 2], None, [b'{"id":1}', b"null"]), ([1], None, [PLAIN])]


@pytest.mark.parametrize("schema", [b'"schema":', b'"schema" : ', b'"sch\\u0065ma":'])
def test_texts_with_the_same_schema_behind_the_payload_are_one_group(schema: bytes) -> None:
    texts = [b'{"payload":{"id":%d},' % i + schema + SCHEMA.encode() + b"}" for i in range(3)]

    assert groups_of(*texts) == [([0, 1, 2], ["id"], [b'{"id":0}', b'{"id":1}', b'{"id":2}'])]


def test_a_column_named_schema_does_not_hide_the_wrapper() -> None:
    row = b'{"op":"c","after":{"schema":{"a":1},"payload":2}}'

    assert groups_of(b'{"payload":' + row + b"}", row) == [([0], None, [row]), ([1], None, [row])]


def test_a_row_with_columns_schema_and_payload_is_no_wrapper() -> None:
    row = b'{"schema":"public","payload":{"id":1}}'

    assert groups_of(row, PLAIN) == [([0, 1], None, [row, PLAIN])]
    assert not is_wrapper(json.loads(row))
    assert is_wrapper({"schema": None, "payload": 1}) and is_wrapper({"schema": {}, "payload": 1})
