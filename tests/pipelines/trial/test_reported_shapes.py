"""Records in the shapes of public bug reports about connectors and sinks, and the rows that they stand for.

The records are our own; ``source`` names the report or the page that describes the shape.
"""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from pipelines.config.config import PipelineConfig
from pipelines.trial.case_run import outcome_of
from pipelines.trial.trial_pipeline import TrialPipeline
from sources.changes import RECORD_SCHEMA

TOPIC = "srv.public.t"
UNSENT = "__debezium_unavailable_value"
Json = dict[str, Any]


@dataclass(frozen=True)
class Shape:
    """Keys and values of records, one by one, and the rows of the table."""

    source: str
    records: Sequence[tuple[Any, Any]]
    rows: Sequence[Mapping[str, Any]]
    form: str = "debezium-json"
    schemas: Mapping[int, Any] | None = None
    rule: Mapping[str, Any] | None = None
    batches: Sequence[int] = (1, 100)
    """Numbers of records of a batch; the outcome must not depend on it."""


def event(op: str, after: Any, before: Any = None, **source: Any) -> Json:
    named = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "t", **source}
    return {"before": before, "after": after, "source": named, "op": op, "ts_ms": 1}


def with_schema(fields: Sequence[Json], payload: Json) -> Json:
    rows = [{"type": "struct", "fields": fields, "optional": True, "field": side} for side in ("before", "after")]
    return {"schema": {"type": "struct", "fields": [*rows, {"type": "string", "field": "op"}]}, "payload": payload}


def written(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def framed(schema_id: int, schema: Json, value: Json) -> bytes:
    data = io.BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(schema), value)
    return b"\0" + struct.pack(">i", schema_id) + data.getvalue()


ID: Json = {"type": "int32", "optional": False, "field": "id"}


# ---------------------------------------------------------------- values in cells


def cell(value: Any, **more: Any) -> Json:
    return {"value": value, "set": True, **more}


def timed(value: Any) -> Json:
    return cell(value, deletion_ts=None)


def cell_fields(field: str, kind: str, *parts: Json, name: str) -> Json:
    inner = [{"field": "value", "type": kind, "optional": True}, *parts]
    return {"type": "struct", "fields": inner, "optional": True, "name": name, "field": field}


def avro_cell(name: str, kind: str) -> Json:
    inner = [{"name": "value", "type": ["null", kind]}, {"name": "set", "type": "boolean"}]
    return {"name": name, "type": ["null", {"type": "record", "name": f"cell_{name}", "fields": inner}]}


def avro_envelope(*fields: Any) -> Json:
    source = [{"name": name, "type": "string"} for name in ("connector", "db", "schema", "table")]
    return {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", {"type": "record", "name": "Value", "fields": fields}]},
            {"name": "after", "type": ["null", "Value"]},
            {"name": "source", "type": {"type": "record", "name": "Source", "fields": source}},
            {"name": "op", "type": "string"},
        ],
    }


YUGABYTE_ROWS = [
    ("c", {"id": cell(1), "name": cell("V"), "aura": cell(9876)}),
    ("u", {"id": cell(1), "name": None, "aura": cell(9999)}),
    ("u", {"id": cell(1), "name": None, "aura": cell(None)}),
]
CASSANDRA: Json = {"connector": "cassandra", "keyspace": "shop", "db": None, "schema": None}
CASSANDRA_ROWS: list[tuple[str, Json]] = [
    ("c", {"id": timed(1), "name": timed("a"), "note": timed("x")}),
    ("u", {"id": timed(1), "name": timed("b"), "note": None}),
    ("c", {"id": timed(2), "name": timed("c"), "note": None}),
    ("d", {"id": timed(2), "name": None, "note": None}),
]
SCYLLA: Json = {"connector": "scylla", "keyspace_name": "shop", "table_name": "t", "db": None, "table": None}
SCYLLA_ROWS = [
    ("c", {"id": 1, "name": {"value": "x"}, "n": {"value": 7}}),
    ("u", {"id": 1, "name": None, "n": {"value": 8}}),
    ("c", {"id": 1, "name": None, "n": {"value": None}}),
]
SCYLLA_FIELDS = [ID, *(cell_fields(n, k, name=f"t.{n}.Cell") for n, k in (("name", "string"), ("n", "int32")))]
AVRO_CELLS = avro_envelope(avro_cell("id", "int"), avro_cell("name", "string"), avro_cell("aura", "int"))
AVRO_KEY: Json = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}
YUGABYTE = "yugabyte/yugabyte-db#18913"

CELLS = {
    "yugabytedb": Shape(
        YUGABYTE,
        [({"id": cell(1)}, event(op, row, connector="yugabytedb")) for op, row in YUGABYTE_ROWS],
        [{"id": 1, "name": "V", "aura": None}],
    ),
    "yugabytedb-delete-by-key": Shape(
        YUGABYTE,
        [({"id": cell(1)}, event("c", YUGABYTE_ROWS[0][1])), ({"id": cell(1)}, event("d", None, {"id": cell(1)}))],
        [],
    ),
    "yugabytedb-avro": Shape(
        YUGABYTE,
        [(framed(1, AVRO_KEY, {"id": 1}), framed(2, AVRO_CELLS, event(op, row))) for op, row in YUGABYTE_ROWS],
        [{"id": 1, "name": "V", "aura": None}],
        "debezium-avro",
        {1: AVRO_KEY, 2: AVRO_CELLS},
    ),
    "cassandra": Shape(
        "debezium.io, connector for Cassandra",
        [({"id": row["id"]["value"]}, event(op, row, **CASSANDRA)) for op, row in CASSANDRA_ROWS],
        [{"id": 1, "name": "b", "note": "x"}],
    ),
    "scylla": Shape(
        "scylladb/scylla-cdc-source-connector#31",
        [({"id": 1}, event(op, row, **SCYLLA)) for op, row in SCYLLA_ROWS],
        [{"id": 1, "name": "x", "n": None}],
    ),
    "scylla-schema": Shape(
        "scylladb/scylla-cdc-source-connector#64",
        [({"id": 1}, with_schema(SCYLLA_FIELDS, event(op, row, **SCYLLA))) for op, row in SCYLLA_ROWS],
        [{"id": 1, "name": "x", "n": None}],
    ),
}


# ---------------------------------------------------------------- values not sent


def digits(number: int) -> str:
    return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)).decode()


DECIMAL: Json = {
    "type": "bytes",
    "name": "org.apache.kafka.connect.data.Decimal",
    "parameters": {"scale": "2", "connect.decimal.precision": "10"},
}
VARIABLE: Json = {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal", "fields": [
    {"type": "int32", "field": "scale"}, {"type": "bytes", "field": "value"},
]}  # fmt: skip
UNSENT_DIGITS = [digits(byte) for byte in UNSENT.encode()]
DEBEZIUM_ARRAYS = "debezium/debezium#7815"


def changed_beside(first: Any, unsent: Any, items: Json | None = None) -> list[tuple[Any, Any]]:
    """An insert with value ``first``, and an update that does not send it."""
    events = [event("c", {"id": 1, "n": 1, "v": first}), event("u", {"id": 1, "n": 2, "v": unsent})]
    array = {"type": "array", "items": items, "optional": True, "field": "v"}
    fields = [ID, {"type": "int32", "optional": True, "field": "n"}, array]
    return [({"id": 1}, e if items is None else with_schema(fields, e)) for e in events]


NOT_SENT = {
    "decimals": Shape(
        DEBEZIUM_ARRAYS,
        changed_beside([digits(150), digits(-25)], UNSENT_DIGITS, DECIMAL),
        [{"id": 1, "n": 2, "v": ["1.50", "-0.25"]}],
    ),
    "decimals-of-variable-scale": Shape(
        DEBEZIUM_ARRAYS,
        changed_beside(
            [{"scale": 1, "value": digits(15)}], [{"scale": 0, "value": text} for text in UNSENT_DIGITS], VARIABLE
        ),
        [{"id": 1, "n": 2, "v": ["1.5"]}],
    ),
    "decimals-without-schema": Shape(
        DEBEZIUM_ARRAYS,
        changed_beside([digits(150)], UNSENT_DIGITS),
        [{"id": 1, "n": 2, "v": [digits(150)]}],
    ),
    "vector-without-schema": Shape(
        "risingwavelabs/risingwave#25863", changed_beside([0.1, 0.2], UNSENT), [{"id": 1, "n": 2, "v": [0.1, 0.2]}]
    ),
    "texts-without-schema": Shape(
        "artie-labs/transfer#1583", changed_beside(["x", "y"], UNSENT), [{"id": 1, "n": 2, "v": ["x", "y"]}]
    ),
}


# ---------------------------------------------------------------- types of CockroachDB

COCKROACH: Json = {"origin": "cockroachdb", "database_name": "shop", "schema_name": "public", "table_name": "t"}
COCKROACH_FIELDS: list[Json] = [
    ID,
    {"type": "json", "field": "j", "optional": True},
    {"type": "float64", "name": "decimal", "parameters": {"precision": "30", "scale": "2"}, "field": "d"},
    {"type": "bytes", "field": "b", "optional": True},
    {"type": "struct", "name": "geometry", "field": "g", "optional": True},
]
COCKROACH_ROW = b'{"id":1,"j":{"a":[1,2.5]},"d":12345678901234567890.12,"b":"\\\\x616263","g":{"type":"Point"}}'

NUMBERS_AND_DOCUMENTS = {
    "cockroachdb": Shape(
        "cockroachdb/cockroach#142280",
        [({"id": 1}, written(with_schema(COCKROACH_FIELDS, event("c", "ROW"))).replace(b'"ROW"', COCKROACH_ROW))],
        [{"id": 1, "j": '{"a":[1,2.5]}', "d": "12345678901234567890.12", "b": "YWJj", "g": '{"type":"Point"}'}],
    ),
}


# ---------------------------------------------------------------- other writers

DATE = {"type": "int32", "name": "io.debezium.time.Date", "optional": True, "field": "d"}
INFINITE_DATES = [event("c", {"id": i, "d": days}) for i, days in enumerate([-2147472692, -2147472691, 19782])]

OTHER_FORMS = {
    "infinite-dates": Shape(
        "debezium.io, connector for PostgreSQL",
        [({"id": e["after"]["id"]}, with_schema([ID, DATE], e)) for e in INFINITE_DATES],
        [{"id": 0, "d": "infinity"}, {"id": 1, "d": "-infinity"}, {"id": 2, "d": "2024-02-29"}],
    ),
    "columns-schema-and-payload": Shape(
        "rows of any registry of schemas",
        [({"id": 1}, {"schema": "public", "payload": {"a": 1}}), ({"id": 2}, {"schema": "x", "payload": None})],
        [{"schema": "public", "payload": '{"a":1}'}, {"schema": "x", "payload": None}],
        "json",
        rule={"mode": "append"},
    ),
    "canal-lone-row": Shape(
        "apache/seatunnel#6955",
        [
            (None, {"data": {"id": 1, "v": v}, "type": op})
            for op, v in (("INSERT", "a"), ("DELETE", "a"), ("INSERT", "b"))
        ],
        [{"id": 1, "v": "b"}],
        "canal-json",
        rule={"primary_key": ["id"]},
    ),
    "canal-delete-of-old": Shape(
        "apache/flink-cdc#3788",
        [
            (None, {"data": [{"id": 8}], "old": None, "type": "INSERT"}),
            (None, {"data": None, "old": [{"id": 8}], "type": "DELETE"}),
        ],
        [],
        "canal-json",
        rule={"primary_key": ["id"]},
    ),
    "goldengate-times": Shape(
        "docs.oracle.com, GoldenGate for Big Data, JSON formatter",
        [
            (
                None,
                {
                    "table": "S.T",
                    "op_type": "I",
                    "op_ts": "2024-05-01 10:00:00.000000",
                    "pos": "1",
                    "primary_keys": ["id"],
                    "after": {"id": 1, "t": "2010-06-01:10:00:00.123456"},
                },
            )
        ],
        [{"id": 1, "t": "2010-06-01T10:00:00.123456"}],
        "ogg-json",
        rule={"columns": {"types": {"t": "TIMESTAMP(6)"}}},
    ),
}


REPORTED = {**CELLS, **NOT_SENT, **NUMBERS_AND_DOCUMENTS, **OTHER_FORMS}


def batches_of(records: Sequence[tuple[Any, Any]], size: int) -> list[pa.RecordBatch]:
    rows = [
        {"topic": TOPIC, "partition": 0, "offset": offset, "timestamp": 0, "headers": None}
        | {"key": None if key is None else written(key), "value": written(value)}
        for offset, (key, value) in enumerate(records)
    ]
    return [
        pa.RecordBatch.from_pylist(rows[start : start + size], schema=RECORD_SCHEMA)
        for start in range(0, len(rows), size)
    ]


def config_of(shape: Shape, root: Path) -> PipelineConfig:
    form: Any = shape.form
    if shape.schemas:
        (root / "schemas.json").write_text(json.dumps({"schemas": shape.schemas}))
        form = {shape.form: {"registry": {"file": str(root / "schemas.json")}}}
    source = {"kafka": {"bootstrap_servers": "localhost:9", "topics": [TOPIC]}, "format": form}
    rule = {"match": {"topic": TOPIC}, "into": "lake.t", **(shape.rule or {})}
    return PipelineConfig.model_validate(
        {"version": 1, "name": "shop", "source": source, "checkpoint": str(root / "state")}
        | {"catalog": {"warehouse": str(root / "lake")}, "tables": [rule]}
    )


@pytest.mark.parametrize(("name", "size"), [(name, size) for name, shape in REPORTED.items() for size in shape.batches])
def test_the_table_has_the_rows_of_the_source(name: str, size: int, tmp_path: Path) -> None:
    shape = REPORTED[name]
    pipeline = TrialPipeline(config_of(shape, tmp_path), tmp_path / "trial")
    for batch in batches_of(shape.records, size):
        pipeline.run(batch)

    outcome = outcome_of(pipeline, None)

    assert [record.reason for record in outcome.quarantined] == []
    assert sorted(map(str, outcome.tables["lake.t"].rows)) == sorted(map(str, shape.rows))
