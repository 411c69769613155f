"""Plain JSON: every record is a row, or the newest of its key is."""

from __future__ import annotations

import json
import pickle
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table.errors import SchemaChangeRefused
from tests.support.plain_pipeline import PlainPipeline, plain_batch

UPSERT: dict[str, object] = {"primary_key": ["id"]}
APPEND: dict[str, object] = {"mode": "append"}


@pytest.mark.parametrize("copies", [1, 40])
def test_every_record_is_a_row_where_no_key_is_declared(tmp_path: Path, copies: int) -> None:
    pipeline = PlainPipeline(tmp_path, "json", APPEND)

    pipeline.run(
        plain_batch([({"id": 1}, {"id": 1, "v": "a"}), ({"id": 1}, {"id": 1, "v": "b"}), (b"x", None)] * copies)
    )

    assert pipeline.rows("id", "v") == [(1, "a")] * copies + [(1, "b")] * copies
    assert (pipeline.table.schema.primary_keys, pipeline.skipped()) == ((), {"tombstones": copies})
    assert not Path(pipeline.quarantine.path).exists()


def test_without_a_mode_the_table_is_a_log_that_tells_where_rows_come_from(tmp_path: Path) -> None:
    pipeline = PlainPipeline(tmp_path, "json")

    pipeline.run(plain_batch([({"id": 1}, {"id": 1}), ({"id": 1}, None)], first=7))

    assert [(row["event_topic"], row["event_offset"], row["id"]) for row in pipeline.rows()] == [("orders", 7, 1)]


def test_a_declared_key_makes_records_replace_each_other(tmp_path: Path) -> None:
    """Message keys that spread records, or name other things, do not matter for rows."""
    pipeline = PlainPipeline(tmp_path, "json", UPSERT)

    pipeline.run(
        plain_batch(
            [(None, {"id": 1, "v": "a"}), ({"region": 5}, {"id": 2, "v": "b"}), (b"\xff\x00", {"id": 1, "v": "c"})]
        ),
        plain_batch([({"id": 2}, None), (None, None), ({"region": 5}, None), (b"\xff", None)], first=3),
    )

    assert pipeline.rows() == [{"id": 1, "v": "c"}]
    assert pipeline.skipped() == {"tombstones": 1}
    assert {offset: reason.partition(",")[0] for offset, reason in pipeline.bad.items()} == {
        5: "the message key lacks part of the primary key (id)",
        6: "the message key is not UTF-8 text; set its key_format; so the record does not identify the row to delete",
    }


@pytest.mark.parametrize("options", [{}, {"key_format": "string"}])
def test_the_text_of_a_struct_names_no_row_to_delete(tmp_path: Path, options: dict[str, str]) -> None:
    pipeline = PlainPipeline(tmp_path, {"json": options}, {**UPSERT, "columns": {"types": {"id": "STRING"}}})

    pipeline.run(plain_batch([(b"Struct{id=a}", {"id": "a", "v": "x"}), (b"Struct{id=a}", None)]))

    assert pipeline.rows() == [{"id": "a", "v": "x"}]
    assert "JsonConverter as key.converter" in pipeline.bad[1]


@pytest.mark.parametrize(
    ("options", "keys", "declared"),
    [
        ({}, (b"1", b"2"), "INT"),
        ({}, (b'{"schema":null,"payload":1}', b'{"id":2}'), "INT"),
        ({"key_format": "string"}, (b"1", b"2"), "STRING"),
        ({"key_format": "string"}, (b"1", b"2"), "INT"),
        ({"key_format": "int"}, ((1).to_bytes(4, "big"), (2).to_bytes(4, "big")), "INT"),
        ({"key_format": "long"}, ((1).to_bytes(8, "big"), (2).to_bytes(8, "big")), "BIGINT"),
        ({"key_format": "json"}, (b'{"id":"\\u0031"}', b'{"id":"2"}'), "STRING"),
        ({"key_format": "json"}, (b'"a"', b'"b"'), "STRING"),
    ],
)
@pytest.mark.parametrize("is_named", [True, False])
def test_keys_of_any_serializer_delete_and_fill_the_row(
    tmp_path: Path, options: dict[str, str], keys: tuple[bytes, bytes], declared: str, is_named: bool
) -> None:
    """``is_named``: the column of the key stands in the key alone."""
    form = {"json": {**options, **({"key_column": "id"} if is_named else {})}}
    pipeline = PlainPipeline(tmp_path, form, {**UPSERT, "columns": {"types": {"id": declared}}})
    first, second = keys

    if is_named:
        rows: list[tuple[Any, Any]] = [(first, {"v": "a"}), (second, {"v": "b"}), (first, {"v": "c"})]
    else:
        value = "1" if declared == "STRING" else 1
        other = "2" if declared == "STRING" else 2
        if keys[0] == b'"a"':
            value, other = "a", "b"
        rows = [(first, {"id": value, "v": "a"}), (second, {"id": other, "v": "b"}), (first, {"id": value, "v": "c"})]
    pipeline.run(plain_batch(rows * 20), plain_batch([(second, None)] * 3, first=60))

    assert pipeline.rows("v") == [("c",)]
    assert not Path(pipeline.quarantine.path).exists()


def test_keys_of_bytes_are_a_column_of_bytes(tmp_path: Path) -> None:
    form = {"json": {"key_format": "bytes", "key_column": "id"}}
    pipeline = PlainPipeline(tmp_path, form, {**UPSERT, "columns": {"types": {"id": "BYTES"}}})

    pipeline.run(plain_batch([(b"\xff1", {"v": "a"}), (b"\xff2", {"v": "b"}), (b"\xff1", None)]))

    assert pipeline.rows() == [{"id": b"\xff2", "v": "b"}]


@pytest.mark.parametrize("options", [{"on_null": "skip"}, {"key_format": "none"}])
def test_a_null_value_may_mean_nothing(tmp_path: Path, options: dict[str, str]) -> None:
    pipeline = PlainPipeline(tmp_path, {"json": options}, UPSERT)

    pipeline.run(plain_batch([({"id": 1}, {"id": 1}), ({"id": 1}, None), ({"id": 1}, b"null")]))

    assert (pipeline.rows("id"), pipeline.skipped()) == ([(1,)], {"tombstones": 2})


def test_a_key_of_another_serializer_is_named(tmp_path: Path) -> None:
    pipeline = PlainPipeline(tmp_path, {"json": {"key_format": "long"}}, UPSERT)

    pipeline.run(plain_batch([(b"1", {"id": 1}), (b"1", None)]))

    assert pipeline.rows("id") == [(1,)]
    assert pipeline.bad == {
        1: "the message key has 1 bytes, and one of `long` has 8: set the key_format of the producer's serializer; so"
        " the record does not identify the row to delete"
    }


def test_every_field_is_a_column_and_every_object_a_row(tmp_path: Path) -> None:
    """What other formats take for metadata, heartbeats or envelopes."""
    pipeline = PlainPipeline(tmp_path, "json", APPEND)
    values: list[dict[str, Any]] = [
        {"__deleted": "true", "__op": "d", "__table": "t"},
        {"ts_ms": 1},
        {"id": "7", "aggregate_type": "a", "type": "t", "additional_data": {}},
        {"source": {"db": "d"}, "op": "c", "before": None, "after": {"x": 1}, "ts_ms": 2},
        {"status": "BEGIN", "id": "5", "event_count": None, "data_collections": None},
    ]

    pipeline.run(plain_batch([({"serverName": "s"}, value) for value in values] * 20))

    assert len(pipeline.rows()) == 100
    assert pipeline.skipped() == {}
    assert {"__deleted", "__op", "__table", "ts_ms", "source", "after"} <= pipeline.types.keys()


def test_what_is_no_object_goes_to_quarantine(tmp_path: Path) -> None:
    pipeline = PlainPipeline(tmp_path, "json", APPEND)
    values = [b'{"id":1}', b"[1]", b"7", b'"x"', b"{", b"", b"\xff", b'{"id":1}{"id":2}', b"\x00\x00\x00\x00\x01\x02"]

    pipeline.run(plain_batch([(None, value) for value in values]))

    assert (pipeline.rows("id"), [*pipeline.bad]) == ([(1,)], [*range(1, len(values))])


def test_nested_objects_are_rows_where_a_type_says_so_else_text(tmp_path: Path) -> None:
    types = {"address": "ROW<city STRING, zip INT>", "sold": "DECIMAL(10, 2)", "at": "TIMESTAMP_LTZ(3)"}
    pipeline = PlainPipeline(tmp_path, "json", {**APPEND, "columns": {"types": types}})
    value = {"address": {"city": "B", "zip": 5}, "other": {"a": [1]}, "sold": "12.50", "at": "2024-05-01T10:00:00Z"}

    pipeline.run(plain_batch([(None, value)] * 20))

    row = pipeline.rows()[0]
    assert (row["address"], row["other"], str(row["sold"])) == ({"city": "B", "zip": 5}, '{"a":[1]}', "12.50")


def test_an_embedded_schema_tells_types(tmp_path: Path) -> None:
    fields = [{"field": "id", "type": "int32"}, {"field": "day", "type": "int32", "name": "io.debezium.time.Date"}]
    value = {"schema": {"type": "struct", "fields": fields}, "payload": {"id": 1, "day": 19000}}
    pipeline = PlainPipeline(tmp_path, "json", UPSERT)

    pipeline.run(plain_batch([({"id": 1}, value)]))

    assert pipeline.types == {"id": "INT NOT NULL", "day": "DATE"}


_KEYS = st.integers(1, 4)
_VALUES = st.one_of(st.none(), st.fixed_dictionaries({"v": st.sampled_from(["a", "é", None])}))


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(_KEYS, _VALUES, st.booleans()), min_size=1, max_size=60))
def test_any_history_leaves_the_newest_row_of_each_key(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[int, dict[str, Any] | None, bool]]
) -> None:
    """Against a dictionary; the key stands in the row, or in the message key alone."""
    pipeline = PlainPipeline(tmp_path_factory.mktemp("any"), "json", UPSERT)
    start = (1, {"v": "a"}, True)
    records = [({"id": key}, value if value is None or not own else {"id": key, **value})
               for key, value, own in [start, *history]]  # fmt: skip
    model: dict[int, Any] = {}
    for key, value, _ in [start, *history]:
        if value is None:
            model.pop(key, None)
        else:
            model[key] = value["v"]

    pipeline.run(plain_batch(records[:20]), plain_batch(records[20:], first=20))

    assert dict(pipeline.rows("id", "v")) == model
    pipeline.assert_all_accounted_for([plain_batch(records)])


def test_the_decoder_travels(tmp_path: Path) -> None:
    decoder = PlainPipeline(tmp_path, {"json": {"key_column": "id"}}).config.source.format.decoder
    batch = plain_batch([(None, {"id": 1})])

    assert pickle.loads(pickle.dumps(decoder)).decode(batch, {}) == decoder.decode(batch, {})


def test_texts_that_could_be_numbers_are_the_keys_that_they_are(tmp_path: Path) -> None:
    """``1e3`` and ``-0`` are numbers in JSON, written otherwise there."""
    keys = [b"1e3", b"1E3", b"5", b" 5", b"-0", b"0", b"q"]
    rule: dict[str, object] = {"primary_key": ["id"], "columns": {"types": {"id": "STRING"}}}
    pipeline = PlainPipeline(tmp_path, {"json": {"key_column": "id"}}, rule)

    pipeline.run(plain_batch([(key, {"v": n}) for n, key in enumerate(keys)]), plain_batch([(b" 5", None)], first=9))

    assert pipeline.rows("id") == sorted([(key.decode(),) for key in keys if key != b" 5"], key=repr)


@pytest.mark.parametrize("row", [{"payload": {"a": 1}, "x": 2}, {"payload": 1, "x": 2}, {"x": 2, "payload": 1}])
def test_a_row_may_have_a_field_called_payload(tmp_path: Path, row: dict[str, Any]) -> None:
    pipeline = PlainPipeline(tmp_path, "json", {"mode": "append"})

    pipeline.run(plain_batch([(None, row)]))

    assert pipeline.rows("x") == [(2,)] and "payload" in pipeline.types
    assert not Path(pipeline.quarantine.path).exists()


OF_OTHER_KIND = [(None, {"id": 1, "n": 7}), (None, {"id": 2, "n": 8, "f": 0.5})], [(None, {"id": 3, "n": "many"})]


@pytest.mark.parametrize(
    ("words", "rows"), [({"retype": "to_string"}, [(1, "7"), (2, "8"), (3, "many")]), ("evolve", [(1, 7), (2, 8)])]
)
def test_a_value_of_another_kind_does_what_the_rule_says(tmp_path: Path, words: object, rows: list[Any]) -> None:
    pipeline = PlainPipeline(tmp_path, "json", {"primary_key": ["id"], "schema_changes": words})
    first, second = OF_OTHER_KIND

    pipeline.run(plain_batch(first), plain_batch(second, 2))

    assert (pipeline.rows("id", "n"), len(pipeline.bad)) == (rows, 3 - len(rows))


def test_a_value_of_another_kind_pauses_its_table_where_the_rule_says_so(tmp_path: Path) -> None:
    pipeline = PlainPipeline(tmp_path, "json", {"primary_key": ["id"], "schema_changes": {"retype": "pause"}})
    first, second = OF_OTHER_KIND

    with pytest.raises(SchemaChangeRefused, match="column n: its type is now STRING, which does not fit into BIGINT"):
        pipeline.run(plain_batch(first), plain_batch(second, 2))


def test_a_column_that_cannot_become_text_keeps_its_type(tmp_path: Path) -> None:
    pipeline = PlainPipeline(tmp_path, "json", {"primary_key": ["id"], "schema_changes": "lenient"})
    first, _ = OF_OTHER_KIND

    pipeline.run(plain_batch(first), plain_batch([(None, {"id": 3, "f": "x"}), (None, {"id": 4, "f": 1.5})], 2))

    assert (pipeline.rows("id", "f"), [*pipeline.bad]) == ([(1, None), (2, 0.5), (4, 1.5)], [2])


PATHS: dict[str, object] = {
    "types": {"city": "STRING", "n": "BIGINT", "all": "ARRAY<INT>", "v": "DECIMAL(20, 2)"},
    "paths": {"city": "to.city", "n": "to.deep.n", "all": "to.all", "v": "to.v"},
}


@pytest.mark.parametrize("copies", [1, 20])
def test_nested_fields_fill_columns_by_their_paths(tmp_path: Path, copies: int) -> None:
    values: list[Any] = [
        {"id": 1, "to": {"city": "Bern", "deep": {"n": 1 << 60}, "all": [1, 2]}},
        b' {"id": 2, "to": {"city": null, "v": 12345678901234567.25}} ',
        {"id": 3, "to": "no object"},
        {"id": 4, "v": "1.5", "to": {"v": "2.5"}},
        {"id": 5, "to": {"deep": {"n": "x"}}},
        b'{"id": 6, "to": {"city": "a"}',
        b"{}",
    ]
    rule: dict[str, object] = {"mode": "append", "columns": PATHS}
    pipeline = PlainPipeline(tmp_path, "json", rule)
    batch = plain_batch([(None, value) for value in values * copies])

    pipeline.run(batch)

    found = [
        (1, "Bern", 1 << 60, [1, 2], None), (2, None, None, None, Decimal("12345678901234567.25")),
        (3, None, None, None, None), (4, None, None, None, Decimal("2.50")), (None, None, None, None, None),
    ]  # fmt: skip
    assert pipeline.rows("id", "city", "n", "all", "v") == sorted(found * copies, key=repr)
    assert [offset % len(values) for offset in sorted(pipeline.bad)] == [4, 5] * copies
    lines = [json.loads(t) for p in Path(pipeline.quarantine.path).rglob("*.jsonl") for t in p.read_text().splitlines()]
    assert {line["offset"]: line["payload"] for line in lines}[4] == json.dumps(values[4])
    pipeline.assert_all_accounted_for([batch])


ZIP: dict[str, object] = {"types": {"zip": "INT"}, "paths": {"zip": "home.zip"}}


@pytest.mark.parametrize("given", [{"primary_key": ["zip"]}, {"primary_key": ["zip", "id"], "partition_by": ["zip"]}])
def test_a_nested_field_can_be_a_key(tmp_path: Path, given: dict[str, object]) -> None:
    pipeline = PlainPipeline(tmp_path, "json", {**given, "columns": ZIP})

    values = [{"id": 2, "home": {}}, *({"id": 1, "v": v, "home": {"zip": 3011}} for v in "ab"), {"id": 3}]
    pipeline.run(*(plain_batch([(None, value)], n) for n, value in enumerate(values)))

    assert pipeline.rows("zip", "id", "v") == [(3011, 1, "b")]
    assert pipeline.bad == dict.fromkeys((0, 3), "column zip INT NOT NULL: NULL in a column that is NOT NULL")


DECIMAL = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
MOMENT = {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "default": 0}
HOME = {"type": "struct", "fields": [{"field": "city", "type": "string", "default": "Bern"}]}
USER = {"type": "struct", "fields": [
    {"field": "paid", **DECIMAL}, {"field": "at", **MOMENT}, {"field": "home", **HOME},
    {"field": "text", "type": "string"},
    {"field": "n", "type": "map", "keys": {"type": "string"}, "values": {"type": "int64"}},
]}  # fmt: skip
CONNECT = {"type": "struct", "fields": [
    {"field": "id", "type": "int32"}, {"field": "user", **USER}, {"field": "city", "type": "int32"},
]}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("copies", [1, 20])
def test_paths_lead_into_payloads_and_their_schema_tells_the_form_of_values(tmp_path: Path, copies: int) -> None:
    paths = {"paid": "user.paid", "at": "user.at", "city": "user.home.city", "k": "user.n.k", "t": "user.text.a.b"}
    types = {"paid": "DECIMAL(10, 2)", "at": "TIMESTAMP(3)", "city": "STRING", "k": "BIGINT", "t": "STRING"}
    user = {"paid": "BOE=", "at": 1714557600123, "home": {"city": None}, "n": {"k": 1 << 60}, "text": '{"a":{"b":5}}'}
    whole = {"id": 1, "user": user, "city": 7}
    values: list[Any] = [
        {"schema": CONNECT, "payload": whole},
        {"payload": {**whole, "id": 2, "user": None}, "schema": CONNECT},
        {"schema": CONNECT, "payload": None},
        {"schema": CONNECT, "payload": 5},
        {"schema": {"type": "int32"}, "payload": whole},
        {"schema": None, "payload": {"id": 3, "user": {"home": {"city": "Genf"}}}},
        {"payload": {"id": 4, "user": {"home": {"city": "Basel"}}}},
        {"schema": {**CONNECT, "fields": CONNECT["fields"][:1]}, "payload": {"id": 5}},
    ]
    rule: dict[str, object] = {"mode": "append", "columns": {"types": types, "paths": paths, "drop": ["user"]}}
    pipeline = PlainPipeline(tmp_path, "json", rule)
    batch = plain_batch([(None, value) for value in values * copies])

    pipeline.run(batch)

    nothing = (None,) * 5
    found = [
        (1, Decimal("12.49"), datetime(2024, 5, 1, 10, 0, 0, 123000), None, 1 << 60, "5"), (2, *nothing),
        (3, None, None, "Genf", None, None), (4, None, None, "Basel", None, None), (5, *nothing),
    ]  # fmt: skip
    assert pipeline.rows("id", *paths) == sorted(found * copies, key=repr)
    assert ({"id": pipeline.types["id"], **types}, pipeline.skipped()) == (pipeline.types, {"tombstones": copies})
    assert [offset % len(values) for offset in sorted(pipeline.bad)] == [3, 4] * copies
    pipeline.assert_all_accounted_for([batch])


def test_a_path_from_the_record_leads_into_a_payload_that_is_all_of_it(tmp_path: Path) -> None:
    """A payload alone counts as the row; other records of the topic may have further fields beside theirs."""
    columns = {"types": {"n": "STRING", "a": "STRING"}, "paths": {"n": "payload.user.name", "a": "payload.a"}}
    struct = {"type": "struct", "fields": [{"field": "a", "type": "string"}]}
    values: list[Any] = [
        {"payload": {"user": {"name": "x"}, "a": "1"}},
        {"payload": {"user": {"name": "y"}, "a": "2"}, "at": 5},
        {"schema": struct, "payload": {"a": "3"}},
        {"payload": {"payload": {"a": "4"}, "a": "5"}},
    ]
    pipeline = PlainPipeline(tmp_path, "json", {"mode": "append", "columns": columns})

    pipeline.run(plain_batch([(None, value) for value in values]))

    assert pipeline.rows("n", "a") == [("x", "1"), ("y", "2"), (None, "3"), (None, "4")]
    assert pipeline.bad == {}
