"""Records of 10 MB, among small ones: their values are in the table byte for byte, whatever the format."""

from __future__ import annotations

import hashlib
import io
import json
import random
import struct
from functools import cache
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2

from tests.support.envelope_records import event
from tests.support.plain_pipeline import PlainPipeline, plain_batch
from tests.support.protobuf_messages import F, class_of, field, file, files_with, framed, serialized

ROW = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}, {"name": "v", "type": "string"}]}
ENVELOPE = {"type": "record", "name": "Envelope", "fields": [
    {"name": "before", "type": ["null", ROW]}, {"name": "after", "type": ["null", "Row"]},
    {"name": "op", "type": "string"},
]}  # fmt: skip
FILES = files_with(
    file(
        [descriptor_pb2.DescriptorProto(name="Row", field=[field("id", 1, F.TYPE_INT32), field("v", 2, F.TYPE_STRING)])]
    )
)
_BYTES = 10 << 20


@cache
def large_text() -> str:
    """Nested JSON, with letters that JSON escapes and others that take several bytes."""
    r = random.Random(1)
    words = ["".join(r.choices('abc"\\\n,;é😀', k=60)) for _ in range(500)]
    items: list[Any] = [{"n": n, "deep": [r.choice(words)] * 3} for n in range(_BYTES // 500)]
    text = json.dumps(items, ensure_ascii=False)
    return text + "x" * max(0, _BYTES - len(text))


def avro(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return struct.pack(">bI", 0, 1) + out.getvalue()


def record(form: str, number: int, text: str) -> Any:
    row = {"id": number, "v": text}
    match form:
        case "debezium-json":
            return event("c", None, row)
        case "debezium-avro":
            return avro(ENVELOPE, {"before": None, "after": row, "op": "c"})
        case "avro":
            return avro(ROW, row)
        case "protobuf":
            return framed(class_of(FILES, "shop.Row")(**row), 1)
        case "csv":
            return f'{number},"{text.replace(chr(34), chr(34) * 2)}"'.encode()
        case "canal-json":
            types = {"id": "int", "v": "longtext"}
            told = {"database": "shop", "table": "orders", "pkNames": ["id"], "isDdl": False, "type": "INSERT"}
            return {**told, "data": [{"id": str(number), "v": text}], "old": None, "mysqlType": types, "ts": 1, "es": 1}
    return row


FORMS = ["debezium-json", "debezium-avro", "canal-json", "json", "avro", "csv", "protobuf"]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_record_of_ten_megabytes_is_a_row(tmp_path: Path, form: str) -> None:
    schemas = {"avro": ROW, "debezium-avro": ENVELOPE, "protobuf": {"schema": serialized(FILES.file[-1])}}
    options: Any = {"columns": ["id", "v"]} if form == "csv" else {}
    if form in schemas:
        place = tmp_path / "schemas.json"
        place.write_text(json.dumps({"schemas": {"1": schemas[form]}}))
        options = {"registry": {"file": str(place)}}
    texts = ["small", large_text(), "", "small too"]
    rule: dict[str, object] = {"primary_key": ["id"], "columns": {"types": {"id": "INT"}}}
    pipeline = PlainPipeline(tmp_path, {form: options} if options else form, rule)

    pipeline.run(plain_batch([({"id": n}, record(form, n, text)) for n, text in enumerate(texts)]))

    found = dict(pipeline.rows("id", "v"))
    assert len(texts[1].encode()) > _BYTES
    assert {n: _digest(text) for n, text in found.items()} == {n: _digest(text) for n, text in enumerate(texts)}
    assert not Path(pipeline.quarantine.path).exists()


def _digest(text: str) -> tuple[int, str]:
    """Instead of the text itself, which nobody reads in a failure."""
    return len(text), hashlib.sha256(text.encode()).hexdigest()
