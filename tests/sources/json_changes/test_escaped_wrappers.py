"""Embedded schemas whose member names are written with escapes."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from sources.debezium_json.envelope_schema import PLAIN_OPENING, row_of_envelope
from sources.json_changes.embedded_schema import SchemaCutter

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
