"""Records of topics in Avro: framings, keys of all kinds, schemas that change, what goes to quarantine and why."""

from __future__ import annotations

import json
import pickle
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.errors import Outage
from paimon_table.types import parse_type
from sources.avro.registry_settings import RegistrySettings
from sources.changes import RECORD_SCHEMA, Decoded, SourceTable
from sources.debezium_avro.decoder import DebeziumAvroDecoder
from sources.debezium_avro.options import AvroOptions
from sources.debezium_json.policies import DebeziumPolicies
from sources.decode_target import Behind, DecodeTarget, KeyRule, Rejection
from tests.support.avro_topics import AvroTopics, encoder
from tests.support.registry_server import RegistryServer, running_registry

TABLE = SourceTable("shop.public.t", "shop", "public", "t")
TARGET = DecodeTarget((("id", parse_type("INT")), ("v", parse_type("STRING"))), ("id",))
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}
SOURCE = {"type": "record", "name": "Source", "fields": [
    {"name": "ts_ms", "type": "long"}, {"name": "db", "type": "string"},
    {"name": "schema", "type": "string"}, {"name": "table", "type": "string"},
]}  # fmt: skip
NAMES = {"ts_ms": 1_700_000_000_123, "db": "shop", "schema": "public", "table": "t"}


def envelope(*columns: Any, union: tuple[str, str] = ("null", "Value")) -> dict[str, Any]:
    """The schema of envelopes of rows with ``id`` and other columns; ``union`` is the order of the branches."""
    row = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "int"}, *columns]}
    first = [row if branch == "Value" else branch for branch in union]
    return {"type": "record", "name": "Envelope", "namespace": "shop.public.t", "fields": [
        {"name": "before", "type": first}, {"name": "after", "type": list(union)},
        {"name": "source", "type": SOURCE}, {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ]}  # fmt: skip


TEXT = {"name": "v", "type": ["null", "string"], "default": None}


def event(op: str, after: Mapping[str, Any] | None, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"before": before, "after": after, "source": NAMES, "op": op, "ts_ms": None}


class Topic:
    """Records of one topic, and the schemas that wrote them."""

    def __init__(self) -> None:
        self.topics = AvroTopics()
        self.rows: list[dict[str, Any]] = []

    def add(self, value: bytes | None, key: bytes | None = None, **headers: bytes) -> None:
        named = [{"key": name.replace("__", ".") if name.startswith("apicurio") else name, "value": data}
                 for name, data in headers.items()]  # fmt: skip
        place = {"topic": TABLE.topic, "partition": 0, "offset": len(self.rows), "timestamp": 0}
        self.rows.append({**place, "key": key, "value": value, "headers": named})

    def add_event(self, schema: Any, value: Any, key: Any = None) -> None:
        self.add(self.topics.encoded(schema, value), None if key is None else self.topics.encoded(KEY, key))

    @property
    def batch(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(self.rows, schema=RECORD_SCHEMA)

    def decoded(self, directory: Path, target: DecodeTarget | None = TARGET, **options: Any) -> Decoded:
        decoder = pickle.loads(pickle.dumps(self.topics.decoder(directory, **options)))
        found: Decoded = decoder.decode(self.batch, {} if target is None else {TABLE: target})
        assert found.counts.accounted + found.counts.unknown_tables == len(self.rows)
        return found


def rows(decoded: Decoded) -> list[dict[str, Any]]:
    return [row for change in decoded.changes for row in change.rows.to_pylist()]


def values(decoded: Decoded) -> list[Any]:
    return [row["v"] for row in rows(decoded)]


def reasons(decoded: Decoded) -> list[str]:
    return [row.reason for row in decoded.quarantine]


@pytest.mark.parametrize("union", [("null", "Value"), ("Value", "null")])
def test_named_types_used_twice_and_unions_in_either_order_are_read(union: tuple[str, str], tmp_path: Path) -> None:
    topic = Topic()
    schema = envelope(TEXT, union=union)
    topic.add_event(schema, event("c", {"id": 1, "v": "a"}), {"id": 1})
    topic.add_event(schema, event("u", {"id": 1, "v": None}, {"id": 1, "v": "a"}), {"id": 1})
    topic.add_event(schema, event("d", None, {"id": 1, "v": None}), {"id": 1})
    topic.add(None, topic.topics.encoded(KEY, {"id": 1}))

    decoded = topic.decoded(tmp_path)

    assert [(row["_VALUE_KIND"], row["v"], row["_OFFSET"]) for row in rows(decoded)] == [
        (0, "a", 0), (2, None, 1), (3, None, 2),
    ]  # fmt: skip
    assert decoded.counts.tombstones == 1
    assert decoded.counts.exact == 0


@pytest.mark.parametrize(
    "default",
    [None, "", "\u0000", "ÿ", "AA==", 0, 1.5, True, [], {}, {"a": 1}, "no base64 at all", [None]],
)
@pytest.mark.parametrize("kind", ["string", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}])
def test_defaults_of_any_form_stop_nothing_and_null_stays_null(kind: Any, default: Any, tmp_path: Path) -> None:
    column = {"name": "v", "type": ["null", kind], "default": default}
    strange = {"name": "w", "type": kind, "default": default}
    topic = Topic()
    value = "x" if kind == "string" else b"\x04\xd2"
    topic.add_event(envelope(column, strange), event("c", {"id": 1, "v": None, "w": value}), {"id": 1})
    topic.add_event(envelope(column, strange), event("c", {"id": 2, "v": value, "w": value}), {"id": 2})

    decoded = topic.decoded(tmp_path)

    assert values(decoded) == [None, "x" if kind == "string" else "12.34"]


def test_each_record_is_read_by_the_schema_that_wrote_it(tmp_path: Path) -> None:
    topic = Topic()
    for number in range(6):
        more = [{"name": "w", "type": "long"}] if number % 2 else []
        row = {"id": number, "v": f"v{number}"} | ({"w": number} if number % 2 else {})
        topic.add_event(envelope(*more, TEXT), event("c", row), {"id": number})

    decoded = topic.decoded(tmp_path)

    assert [(row["id"], row["v"]) for row in rows(decoded)] == [(n, f"v{n}") for n in range(6)]
    (observation,) = decoded.observations
    assert [(c.name, str(c.type)) for c in observation.columns if c.name == "w"] == [("w", "BIGINT")]


def test_headers_name_the_schema_of_bare_avro_that_begins_with_zeros(tmp_path: Path) -> None:
    topic = Topic()
    guid = uuid.uuid4()
    schema = envelope(TEXT)
    topic.topics.schemas |= {"7": schema, str(guid): schema, "9": KEY, "1": "int"}
    bare = encoder(schema)(event("c", {"id": 0, "v": "a"}))
    assert bare[:1] == b"\x00"
    key = encoder(KEY)({"id": 0})
    ids = {"apicurio__key__globalId": (9).to_bytes(8, "big")}
    topic.add(bare, key, apicurio__value__globalId=(7).to_bytes(8, "big"), **ids)
    topic.add(bare, key, apicurio__value__contentId=(7).to_bytes(8, "big"), **ids)
    topic.add(bare, key, __value_schema_id=b"\x01" + guid.bytes, **ids)
    topic.add(b"\x01" + guid.bytes + bare, key, **ids)
    topic.add(bytes(8) + b"\x07" + bare, bytes(8) + b"\x09" + key)

    decoded = topic.decoded(tmp_path, replace(TARGET, keys=KeyRule("lake.t", is_stated=False)))

    assert values(decoded) == ["a"] * 5
    assert reasons(decoded) == []


@pytest.mark.parametrize(
    ("key", "options", "fields"),
    [
        (b'{"id":1}', {}, ("id",)),
        (b'{"schema":{"type":"struct","fields":[]},"payload":{"id":1}}', {}, ("id",)),
        (b"a plain text", {}, ()),
        (b"17", {}, ()),
        (b"Struct{id=1}", {}, ()),
        (b"\x00\x00\x00\x00\x00\x00\x00\x05", {"key_format": "text"}, ()),
        (b"\x00\x00\x00\x00\x00\x00\x00\x05", {"key_format": "json"}, ()),
        (None, {}, None),
    ],
)
def test_keys_need_not_be_avro(key: bytes | None, options: dict[str, Any], fields: Any, tmp_path: Path) -> None:
    topic = Topic()
    topic.add(topic.topics.encoded(envelope(TEXT), event("c", {"id": 1, "v": "a"})), key)

    (observation,) = topic.decoded(tmp_path, None, **options).observations

    assert observation.key_columns == fields
    assert values(topic.decoded(tmp_path, **options)) == ["a"]


def test_a_key_of_one_type_without_fields_is_read(tmp_path: Path) -> None:
    topic = Topic()
    value = topic.topics.encoded(envelope(TEXT), event("c", {"id": 1, "v": "a"}))
    topic.add(value, topic.topics.encoded("string", "k"))
    topic.add(value, topic.topics.encoded({"type": "long"}, 5))

    (observation,) = topic.decoded(tmp_path, None).observations

    assert observation.key_columns == ()


def test_a_delete_takes_its_key_from_the_avro_key_where_before_has_none(tmp_path: Path) -> None:
    topic = Topic()
    topic.add_event(envelope(TEXT), event("d", None), {"id": 5})

    decoded = topic.decoded(tmp_path)

    assert [(row["id"], row["_VALUE_KIND"]) for row in rows(decoded)] == [(5, 3)]


def test_a_message_key_of_other_columns_is_refused(tmp_path: Path) -> None:
    topic = Topic()
    other = {"type": "record", "name": "Other", "fields": [{"name": "v", "type": "string"}]}
    topic.add(
        topic.topics.encoded(envelope(TEXT), event("c", {"id": 1, "v": "a"})), topic.topics.encoded(other, {"v": "a"})
    )

    target = replace(TARGET, keys=KeyRule("lake.t", is_stated=False))
    found = topic.topics.decoder(tmp_path).decode(topic.batch, {TABLE: target})

    assert "its message key is now (v)" in found.refusals[0].reason


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "value is empty: let the producer write null"),
        (b'{"op": "c"}', "value is JSON, not Avro: use format debezium-json"),
        (b"\xff\xfe", "value names no schema: neither a header nor its first byte does"),
        (b"\x00\x00\x00\x03\xe7x", "schema 999 is not in registry.file"),
        (b"\x00\x00\x00\x00\x01", "value cannot be read as Avro of schema 1: value at byte 5 has a length of 1"),
    ],
)
def test_values_that_cannot_be_read_go_to_quarantine_whole(value: bytes, reason: str, tmp_path: Path) -> None:
    topic = Topic()
    topic.add_event(envelope(TEXT), event("c", {"id": 1, "v": "a"}), {"id": 1})
    topic.add(value, b'{"id":1}')
    topic.add_event(envelope(TEXT), event("c", {"id": 2, "v": "b"}), {"id": 2})

    decoded = topic.decoded(tmp_path)

    assert values(decoded) == ["a", "b"]
    (bad,) = decoded.quarantine
    assert reason in bad.reason
    assert (bad.value, bad.key) == (value, b'{"id":1}')


def test_a_key_of_an_unknown_schema_goes_to_quarantine_with_the_remedy(tmp_path: Path) -> None:
    topic = Topic()
    topic.add(topic.topics.encoded(envelope(TEXT), event("c", {"id": 1, "v": "a"})), b"\x00\x00\x00\x03\xe7\x02")

    decoded = topic.decoded(tmp_path)

    assert reasons(decoded)[0].startswith("the message key has no usable schema: schema 999 is not in registry.file /")
    assert reasons(decoded)[0].endswith("; set key_format if keys are not Avro")


def test_a_text_that_is_not_utf_8_hides_no_other_record(tmp_path: Path) -> None:
    topic = Topic()
    good = topic.topics.encoded(envelope(TEXT), event("c", {"id": 1, "v": "aaaa"}))
    for value in (good, good.replace(b"aaaa", b"a\xff\xffa"), good):
        topic.add(value, topic.topics.encoded(KEY, {"id": 1}))

    decoded = topic.decoded(tmp_path)

    assert values(decoded) == ["aaaa", "aaaa"]
    assert [row.offset for row in decoded.quarantine] == [1]
    assert "is not UTF-8" in reasons(decoded)[0]


def test_names_that_avro_does_not_allow_come_back(tmp_path: Path) -> None:
    def named(name: str, adjusted: str, kind: str) -> dict[str, Any]:
        parameters = {"__debezium.source.column.name": name}
        return {"name": adjusted, "type": {"type": kind, "connect.parameters": parameters}}

    row = {"type": "record", "name": "Value", "fields": [named("k-ey", "k_ey", "int"), named("SAME", "same", "int")]}
    schema = envelope(TEXT)
    schema["fields"][0]["type"][1] = row
    topic = Topic()
    key = topic.topics.encoded({"type": "record", "name": "Key", "fields": row["fields"][:1]}, {"k_ey": 1})
    topic.add(topic.topics.encoded(schema, event("c", {"k_ey": 1, "same": 2})), key)

    (observation,) = topic.decoded(tmp_path, None).observations

    assert [c.name for c in observation.columns] == ["k-ey", "same"]
    assert observation.key_columns == ("k-ey",)


def test_unions_of_several_types_and_records_in_themselves_are_json_text(tmp_path: Path) -> None:
    tree = {"type": "record", "name": "Tree", "fields": [
        {"name": "n", "type": "int"}, {"name": "next", "type": ["null", "Tree"]},
    ]}  # fmt: skip
    columns = [{"name": "v", "type": ["null", "string", "long"]}, {"name": "t", "type": tree}]
    topic = Topic()
    for number, value in enumerate(["a", 7, None]):
        row = {"id": number, "v": value, "t": {"n": 1, "next": {"n": 2, "next": None}}}
        topic.add_event(envelope(*columns), event("c", row), {"id": number})
    target = replace(TARGET, columns=(*TARGET.columns, ("t", parse_type("STRING"))))

    decoded = topic.decoded(tmp_path, target)

    assert values(decoded) == ["a", "7", None]
    assert {row["t"] for row in rows(decoded)} == {'{"n":1,"next":{"n":2,"next":null}}'}


def test_truncates_messages_and_rows_without_envelope_end_as_those_of_json(tmp_path: Path) -> None:
    topic = Topic()
    topic.add_event(envelope(TEXT), event("t", None))
    topic.add_event(envelope(TEXT), event("m", None))
    topic.add_event(envelope(TEXT), event("x", None))
    topic.add_event({"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}]}, {"id": 1})
    topic.add(topic.topics.encoded("string", "x"))

    decoded = topic.decoded(tmp_path)

    assert (decoded.counts.truncates, decoded.counts.messages) == (1, 1)
    assert "the source table was truncated" in decoded.refusals[0].reason
    assert [reason.partition("; fields")[0] for reason in reasons(decoded)] == [
        "value is not a Debezium envelope: op is 'x'",
        "value is not a Debezium envelope: it has no field op; it is a row without envelope: read it with the"
        " format upsert-avro, or remove the transform ExtractNewRecordState from the connector, or leave the topic out",
        "value is not a Debezium envelope: it is not a JSON object",
    ]


def test_an_event_log_has_the_time_of_the_source(tmp_path: Path) -> None:
    topic = Topic()
    for offset in range(3):
        topic.add_event(envelope(TEXT), event("c", {"id": offset, "v": "a"}))

    decoded = topic.decoded(tmp_path, replace(TARGET, primary_key=(), on_change="log"))

    assert {row["event_time"].timestamp() for row in rows(decoded)} == {1_700_000_000.123}


def test_a_registry_that_does_not_answer_stops_the_batch_and_loses_no_record() -> None:
    topic = Topic()
    topic.add_event(envelope(TEXT), event("c", {"id": 1, "v": "a"}), {"id": 1})
    with running_registry(RegistryServer(failure="503")) as server:
        settings = RegistrySettings(url=(server.url(),), proxy="none")
        decoder = DebeziumAvroDecoder(DebeziumPolicies(), AvroOptions(settings))
        with pytest.raises(Outage, match="no schema registry answers"):
            decoder.decode(topic.batch, {TABLE: TARGET})

        server.failure, server.schemas = None, topic.topics.schemas

        assert values(decoder.decode(topic.batch, {TABLE: TARGET})) == ["a"]
        asked = len(server.requests)
        decoder.decode(topic.batch, {TABLE: TARGET})
        assert len(server.requests) == asked


def test_two_topics_of_two_registries_with_the_same_ids_are_each_read_by_their_own(tmp_path: Path) -> None:
    first, second = Topic(), Topic()
    first.add_event(envelope(TEXT), event("c", {"id": 1, "v": "a"}), {"id": 1})
    number = {"name": "v", "type": "long"}
    second.add_event(envelope(number), event("c", {"id": 1, "v": 7}), {"id": 1})

    for topic in (first, second):
        assert topic.rows[0]["value"][:5] == b"\x00\x00\x00\x00\x01"
    assert [values(topic.decoded(tmp_path)) for topic in (first, second)] == [["a"], ["7"]]


def test_a_decoder_is_small_and_shows_no_secret() -> None:
    settings = RegistrySettings(url=("http://a:1",), username="me", password="s3cret")
    decoder = DebeziumAvroDecoder(DebeziumPolicies(), AvroOptions(settings))

    assert len(pickle.dumps(decoder)) < 2000
    assert "s3cret" not in f"{decoder.options!r} {json.dumps(str(decoder))}"


def test_inserts_and_deletes_with_one_image_each_keep_their_rows_apart(tmp_path: Path) -> None:
    topic = Topic()
    for number in range(7):
        row = {"id": number, "v": f"v{number}"}
        value = event("d", None, row) if number % 3 == 1 else event("c", row)
        topic.add_event(envelope(TEXT), value, {"id": number})

    decoded = topic.decoded(tmp_path)

    assert [(row["id"], row["v"], row["_VALUE_KIND"]) for row in rows(decoded)] == [
        (n, f"v{n}", 3 if n % 3 == 1 else 0) for n in range(7)
    ]


def test_records_of_no_interest_are_counted(tmp_path: Path) -> None:
    topic = Topic()
    topic.add_event(envelope(TEXT), event("c", {"id": 1, "v": "a"}), {"id": 1})
    decoder = topic.topics.decoder(tmp_path)

    assert decoder.decode(topic.batch, {TABLE: None}).counts.skipped_tables == 1
    assert decoder.decode(topic.batch, {TABLE: Behind()}).counts.tables_behind == 1
    rejected = decoder.decode(topic.batch, {TABLE: Rejection("it has no table")})
    assert reasons(rejected) == ["it has no table"]


def test_an_envelope_that_may_be_null_is_read_and_its_null_is_a_tombstone(tmp_path: Path) -> None:
    topic = Topic()
    schema = ["null", envelope(TEXT)]
    for value in (event("c", {"id": 1, "v": "a"}), None, event("u", {"id": 1, "v": "b"})):
        topic.add_event(schema, value, {"id": 1})

    decoded = topic.decoded(tmp_path)

    assert values(decoded) == ["a", "b"]
    assert decoded.counts.tombstones == 1


def test_rows_of_two_types_are_read_where_these_have_the_same_columns(tmp_path: Path) -> None:
    same, other = envelope(TEXT), envelope(TEXT)
    for schema, column in ((same, TEXT), (other, {"name": "v", "type": "long"})):
        fields = [{"name": "id", "type": "int"}, column]
        schema["fields"][1]["type"] = ["null", {"type": "record", "name": "Again", "fields": fields}]
    topic = Topic()
    topic.add_event(same, event("u", {"id": 1, "v": "b"}, {"id": 1, "v": "a"}), {"id": 1})
    topic.add_event(other, event("u", {"id": 1, "v": 5}, {"id": 1, "v": "a"}), {"id": 1})

    decoded = topic.decoded(tmp_path)

    assert values(decoded) == ["b"]
    assert reasons(decoded) == ["schema 3: before and after have different columns: give both the same type"]
