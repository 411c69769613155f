"""Cases of Avro topics: values as their author reads them, the schemas in the case file in place of the registry."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from paimon_table.errors import ConfigError
from pipelines.trial.avro_values import avro_schema
from tests.support.command import tidemark

INNER = {"type": "record", "name": "Inner", "fields": [{"name": "n", "type": "int"}]}
EVERYTHING = {
    "type": "record",
    "name": "Row",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "share", "type": "double"},
        {"name": "raw", "type": "bytes"},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
        {"name": "inner", "type": ["null", INNER], "default": None},
        {"name": "others", "type": {"type": "array", "items": "Inner"}},
        {"name": "sizes", "type": {"type": "map", "values": "long"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "either", "type": ["long", "string"]},
        {"name": "state", "type": "string", "default": "new"},
    ],
}
WRITTEN = {
    "id": 1,
    "share": 1,
    "raw": "AQI=",
    "price": "12.50",
    "inner": {"n": 5},
    "others": [{"n": 6}],
    "sizes": {"a": 7},
    "kind": "B",
    "either": "text",
}


def test_a_value_is_written_as_its_schema_says_and_read_by_another_reader() -> None:
    data = avro_schema(258, EVERYTHING, "here").framed(WRITTEN, "here")
    assert data[:5] == b"\0\0\0\1\2"
    read = fastavro.schemaless_reader(io.BytesIO(data[5:]), fastavro.parse_schema(EVERYTHING), None)
    given = {"share": 1.0, "raw": b"\1\2", "price": Decimal("12.50"), "state": "new"}
    assert read == {**WRITTEN, **given}


def test_what_may_be_null_or_has_a_default_is_left_out() -> None:
    schema = avro_schema(1, EVERYTHING, "here")
    least = {name: value for name, value in WRITTEN.items() if name not in ("price", "inner")}
    read = fastavro.schemaless_reader(
        io.BytesIO(schema.framed({**least, "either": 9}, "here")[5:]), fastavro.parse_schema(EVERYTHING), None
    )
    assert (read["price"], read["inner"], read["either"]) == (None, None, 9)  # type: ignore[call-overload, index]


PIPELINE = """\
version: 1
name: shop
source:
  kafka: { bootstrap_servers: 'localhost:9', topics: [shop.orders] }
  format: FORMAT
checkpoint: state
catalog: { warehouse: lake }
tables: [{ match: { table: orders }, into: lake.orders, primary_key: [id] }]
"""
REGISTRY = "{ registry: { url: 'https://nowhere:1' } }"
ROW = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}, {"name": "n", "type": "int"}]}
CASES = """\
schemas: { 7: SCHEMA }
cases:
  - name: one
    topic: shop.orders
    value_schema: 7
    records: [{ key: null, value: { id: 1, n: 2 } }]
    expect:
      tables: { lake.orders: [{ id: 1, n: 2 }] }
      schema: { lake.orders: { id: BIGINT NOT NULL, n: INT } }
"""


def write(root: Path, form: str, cases: str = CASES, schema: Any = ROW) -> Path:
    (root / "shop.yaml").write_text(PIPELINE.replace("FORMAT", form))
    (root / "shop.test.yaml").write_text(cases.replace("SCHEMA", json.dumps(schema)))
    return root / "shop.yaml"


@pytest.mark.parametrize("form", [f"{{ avro: {REGISTRY} }}", f"{{ auto: {REGISTRY} }}"])
def test_the_schemas_of_the_file_take_the_place_of_the_registry(tmp_path: Path, form: str) -> None:
    done = tidemark("test", write(tmp_path, form))
    assert done.returncode == 0, done.stdout + done.stderr


RECORD = "{ key: null, value: { id: 1, n: 2 } }"


def test_a_schema_may_be_pasted_as_the_answer_of_a_registry() -> None:
    answer = {"subject": "s-value", "version": 3, "id": 258, "schema": json.dumps(EVERYTHING), "schemaType": "AVRO"}
    assert avro_schema(258, answer, "here").given == EVERYTHING
    with pytest.raises(ConfigError, match=r"^here: no Avro schema: .*copy it from the registry"):
        avro_schema(1, {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"}, "here")


MISTAKES = [
    (
        RECORD,
        "{ value: { id: 1, n: many } }",
        'shop.test.yaml:6: not a value of schema 7: n: "many" is not a value of type int',
    ),
    (RECORD, "{ value: { id: 1, m: 2 } }", "shop.test.yaml:6: not a value of schema 7: no field 'm'; known: id, n"),
    (RECORD, "{ value: { id: 1 } }", "shop.test.yaml:6: not a value of schema 7: n: null is not a value of type int"),
    (RECORD, "{ value: 3 }", "shop.test.yaml:6: not a value of schema 7: expected a mapping with id, n"),
    (RECORD, "{ value_b64: AA==, value_schema: 7 }", "the bytes of `value_b64` need no schema"),
    (RECORD, "{ value: { id: 1 }, value_schema: 8 }", "shop.test.yaml:6:35: there is no schema 8 under `schemas`"),
    ("SCHEMA", '{ "type": "recrd" }', "shop.test.yaml:1: no Avro schema: "),
    (
        "SCHEMA",
        '{ "type": "record", "name": "R", "fields": [{ "name": "a", "type": "b" }] }',
        "shop.test.yaml:1: no Avro schema: ",
    ),
]


@pytest.mark.parametrize(("right", "wrong", "told"), MISTAKES)
def test_mistakes_are_told_with_their_place(tmp_path: Path, right: str, wrong: str, told: str) -> None:
    done = tidemark("test", write(tmp_path, f"{{ avro: {REGISTRY} }}", CASES.replace(right, wrong)))
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("form", ["json", f"{{ protobuf: {REGISTRY} }}", "{ avro: { schema_file: order.avsc } }"])
def test_schemas_without_a_registry_that_they_stand_for_are_refused(tmp_path: Path, form: str) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(ROW))
    done = tidemark("test", write(tmp_path, form))
    assert done.returncode == 2
    assert "of the pipeline file has no registry of Avro schemas; remove `schemas`" in done.stderr
