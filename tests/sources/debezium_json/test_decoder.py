"""What the decoder makes of single events: kinds of rows, keys, policies, observations and quarantine."""

from __future__ import annotations

import base64
import json
import pickle
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.types import parse_type
from sources.changes import (
    Decoded,
    ObservedColumn,
    SourceTable,
)
from sources.debezium_json.decoder import DebeziumJsonDecoder
from sources.debezium_json.policies import DebeziumPolicies
from tests.support.envelope_records import (
    SOURCE,
    TOPIC,
    TWO_COLUMNS,
    Json,
    decode,
    event,
    kinds_and,
    raw,
    records,
    target,
)


def test_operations_become_row_kinds() -> None:
    old, new = {"id": 1, "v": "a"}, {"id": 1, "v": "b"}
    batch = records([event("r", None, old), event("c", None, old), event("u", None, new), event("d", new, None)])

    decoded = decode(batch, TWO_COLUMNS)

    assert kinds_and(decoded, "id", "v") == [
        ("+I", 1, "a", 100),
        ("+I", 1, "a", 101),
        ("+U", 1, "b", 102),
        ("-D", 1, "b", 103),
    ]
    assert decoded.changes[0].partition == 2
    assert decoded.changes[0].rows.schema.field("id").type == pa.int32()


def test_update_before_is_given_only_if_asked_for_and_complete() -> None:
    goal = replace(TWO_COLUMNS, emit_update_before=True)
    full = event("u", {"id": 1, "v": "a"}, {"id": 1, "v": "b"})
    hidden = event("u", {"id": 1, "v": "__debezium_unavailable_value"}, {"id": 1, "v": "c"})

    assert [k for k, *_ in kinds_and(decode(records([full, hidden, event("u", None, {"id": 2})]), goal))] == [
        "-U",
        "+U",
        "+U",
        "+U",
    ]
    assert [k for k, *_ in kinds_and(decode(records([full]), TWO_COLUMNS))] == ["+U"]


def test_an_update_of_the_primary_key_deletes_the_old_row() -> None:
    goal = target("a b", a="INT", b="STRING", v="INT")
    batch = records([event("u", {"a": 1, "b": "x", "v": 1}, {"a": 1, "b": "y", "v": 2})])

    assert kinds_and(decode(batch, goal), "b", "v") == [("-D", "x", 1, 100), ("+I", "y", 2, 100)]


@pytest.mark.parametrize("before", [None, {"v": "made up"}, {"id": None, "v": None}])
def test_a_delete_without_a_row_takes_the_message_key(before: Json | None) -> None:
    decoded = decode(records([event("c", None, {"id": 7}), event("d", before)], [{"id": 7}, {"id": 7}]), TWO_COLUMNS)

    assert kinds_and(decoded, "id")[1] == ("-D", 7, 101)


def test_a_delete_without_any_key_goes_to_quarantine() -> None:
    decoded = decode(records([event("d", None), event("d", None)], [None, {"other": 1}]), TWO_COLUMNS)

    reason = "op d: neither before nor the message key has the key (id); let the source send whole old rows"
    assert [q.reason.partition(" (PostgreSQL")[0] for q in decoded.quarantine] == [reason] * 2


def test_messages_without_rows_are_counted() -> None:
    heartbeat = records([{"ts_ms": 1}], topic="__debezium-heartbeat.shop")
    transaction = records([{"status": "BEGIN", "id": "7", "event_count": None, "data_collections": None}])
    history = records([{"source": {}, "databaseName": "shop", "ddl": "CREATE TABLE t", "tableChanges": []}])
    message = records([{"op": "m", "source": {"table": ""}, "message": {"prefix": "p", "content": "aGk="}}])

    assert decode(records([None]), TWO_COLUMNS).counts.tombstones == 1
    assert decode(heartbeat, TWO_COLUMNS).counts.control == 1
    assert decode(transaction, TWO_COLUMNS).counts.control == 1
    assert decode(history, TWO_COLUMNS).counts.control == 1
    assert decode(message, TWO_COLUMNS).counts.messages == 1
    assert decode(message, TWO_COLUMNS).refusals == ()


def test_policies_for_truncates_and_messages() -> None:
    truncate, message = records([event("t")]), records([{"op": "m", "source": {}}])

    (refusal,) = decode(truncate, TWO_COLUMNS).refusals
    assert (refusal.source, refusal.partition, refusal.offset) == (SOURCE, 2, 100)
    assert "truncate: apply" in refusal.reason
    (refusal,) = decode(truncate, replace(TWO_COLUMNS, may_truncate=False)).refusals
    assert "Set `schema_changes: {truncate: skip}` in its rule to keep the rows" in refusal.reason
    skipped, applied = (decode(truncate, replace(TWO_COLUMNS, on_truncate=word)) for word in ("skip", "apply"))
    assert not (skipped.refusals or applied.refusals or skipped.truncations)
    assert [(found.source, found.partition, found.offset) for found in applied.truncations] == [(SOURCE, 2, 100)]
    assert decode(truncate, None).refusals == ()
    assert len(decode(message, TWO_COLUMNS, DebeziumPolicies(on_message="fail")).refusals) == 1


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"{", "value is not JSON"),
        (b'{"a": "\x01"}', "value is not JSON: Invalid control character at character 7"),
        (b'{"a', "value is not JSON: Unterminated string starting at character 1"),
        (b"\xff\xfe{}", "value is not UTF-8"),
        (b"[1]", "not a JSON object"),
        (b"{}", "it is an object without fields"),
        (event("x"), "op is 'x'"),
        (event("c"), "op c without a row in after"),
        (event("c", None, {"id": 1 << 31, "v": "x"}), "column id INT NOT NULL: number 2147483648 is out of the range"),
        (event("c", None, {"id": None, "v": "x"}), "NULL in a column that is NOT NULL"),
        (event("c", None, {"id": "x"}), 'column id INT NOT NULL: string "x" does not fit INT'),
        (raw(event("c", None, {"id": 3, "v": "x"}))[:-1], "value is not JSON"),  # type: ignore[index]
        (raw(event("c", None, {"id": 3, "v": "x"})) * 2, "value is not JSON: Extra data"),  # type: ignore[operator]
    ],
)
@pytest.mark.parametrize("neighbours", [0, 30])
def test_a_bad_record_goes_to_quarantine_alone(value: Any, reason: str, neighbours: int) -> None:
    good = [event("c", None, {"id": i, "v": "ok"}) for i in range(neighbours)]

    decoded = decode(records([*good, value, *good]), TWO_COLUMNS)

    (row,) = decoded.quarantine
    assert reason in row.reason
    assert (row.offset, row.value, row.headers) == (100 + neighbours, raw(value), (("h", b"1"),))
    assert sum(c.rows.num_rows for c in decoded.changes) == 2 * neighbours


def test_an_unknown_table_is_observed_with_its_columns_and_key() -> None:
    batch = records(
        [event("c", None, {"id": 1, "v": None, "w": 1.5}), event("c", None, {"id": 2})], [{"id": 1}, {"id": 2}]
    )

    decoded = DebeziumJsonDecoder().decode(batch, {})

    (seen,) = decoded.observations
    assert (seen.source, seen.key_columns, seen.partition, seen.offset) == (SOURCE, ("id",), 2, 100)
    assert seen.columns == (
        ObservedColumn("id", parse_type("BIGINT")),
        ObservedColumn("v", None),
        ObservedColumn("w", parse_type("DOUBLE")),
    )
    assert decoded.changes == ()


def test_a_skipped_table_is_counted() -> None:
    decoded = decode(records([event("c", None, {"id": 1})] * 20), None)

    assert (decoded.counts.skipped_tables, decoded.skipped) == (20, ((SOURCE, 20),))
    assert (decoded.changes, decoded.observations) == ((), ())


@pytest.mark.parametrize("copies", [1, 20])
def test_new_and_outgrown_columns_are_observed_and_known_ones_decoded(copies: int) -> None:
    goal = target(id="INT NOT NULL", n="INT", d="INT", x="INT")
    goal = replace(goal, declared=frozenset({"d"}))
    plain = event("c", None, {"id": 1, "n": 1})
    news = event("u", None, {"id": 2, "n": 1 << 40, "d": 5, "x": None, "new": "2024-01-01", "empty": None})
    fixed = event("u", None, {"id": 3, "d": 1 << 40})

    decoded = decode(records([plain] * copies + [news, fixed]), goal)

    (seen,) = decoded.observations
    assert set(seen.columns) == {ObservedColumn("n", parse_type("BIGINT")), ObservedColumn("new", parse_type("STRING"))}
    assert sum(c.rows.num_rows for c in decoded.changes) == copies
    assert [q.offset for q in decoded.quarantine] == [100 + copies, 101 + copies]


@pytest.mark.parametrize("extra", [[None, "x"], [[None, 1]], {"k": [None, 1]}, [{"k": [None, "x"]}]], ids=str)
@pytest.mark.parametrize("copies", [1, 20])
def test_lists_that_the_table_leaves_out_do_no_harm(extra: object, copies: int) -> None:
    """Arrow infers a list that begins with null as an array which cannot be copied."""
    goal = replace(target(id="INT NOT NULL", s="STRING"), ignores_new=True)
    rows = [{"id": n, "extra": extra, "s": f"v{n}"} for n in range(copies)]
    mixed = [event("u", {**row, "s": "old"}, row) for row in rows] + [event("d", rows[0], None)]

    decoded = decode(records(mixed), goal)

    assert decoded.quarantine == ()
    found = [row for change in decoded.changes for row in change.rows.select(["id", "s"]).to_pylist()]
    assert [row for row in found if row["s"] != "old"] == [{"id": n, "s": f"v{n}"} for n in [*range(copies), 0]]


def test_values_not_sent_are_named_by_position() -> None:
    goal = target(id="INT", s="STRING", b="BYTES", a="ARRAY<STRING>", n="ARRAY<INT>", v="STRING")
    hidden = "__debezium_unavailable_value"
    row = {
        "id": 1,
        "s": hidden,
        "b": "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
        "a": [hidden],
        "n": list(hidden.encode()),
    }

    decoded = decode(records([event("u", None, {**row, "v": "here"}), event("u", None, {"id": 2})]), goal)

    rows = decoded.changes[0].rows
    assert rows.column("_UNAVAILABLE").to_pylist() == [[1, 2, 3, 4], []]
    assert rows.drop_columns(["_VALUE_KIND", "_OFFSET", "_UNAVAILABLE"]).to_pylist()[0] == {
        **dict.fromkeys("sban"),
        "id": 1,
        "v": "here",
    }


@pytest.mark.parametrize("copies", [1, 40])
def test_an_old_row_has_the_values_that_the_new_one_does_not_send(copies: int) -> None:
    hidden = {"id": 1, "v": "__debezium_unavailable_value"}
    values = [event("u", {"id": 1, "v": "old"}, hidden), event("u", {"id": 1, "v": "old"}, {"id": 1, "v": "new"})]

    decoded = decode(records(values * copies), TWO_COLUMNS)

    assert [row[:3] for row in kinds_and(decoded, "id", "v")] == [("+U", 1, "old"), ("+U", 1, "new")] * copies
    assert all(not row.get("_UNAVAILABLE") for change in decoded.changes for row in change.rows.to_pylist())


@pytest.mark.parametrize("copies", [1, 40])
@pytest.mark.parametrize(
    "hidden",
    [
        {"key": "__debezium_unavailable_value"},
        '{"key":"__debezium_unavailable_value"}',
        '{"key": "__debezium_unavailable_value"}',
    ],
)
def test_a_json_value_not_sent_may_be_an_object(hidden: object, copies: int) -> None:
    sent = [{"key": "x"}, {"key": ["__debezium_unavailable_value"]}, {"k": "__debezium_unavailable_value"}, {}]
    values = [event("u", None, {"id": 1, "v": value}) for value in (hidden, *sent)]

    decoded = decode(records(values * copies), TWO_COLUMNS)

    rows = decoded.changes[0].rows
    assert rows.column("_UNAVAILABLE").to_pylist() == [[1], [], [], [], []] * copies
    assert (rows.column("v").null_count, decoded.quarantine) == (copies, ())


NUMERIC = "org.apache.kafka.connect.data.Decimal"


@pytest.mark.parametrize("copies", [1, 40])
@pytest.mark.parametrize("element", ["text", "bytes", "struct"])
def test_an_array_of_decimals_not_sent_has_a_decimal_for_each_byte(element: str, copies: int) -> None:
    texts = [base64.b64encode(bytes([byte])).decode() for byte in b"__debezium_unavailable_value"]
    hidden = [{"scale": 0, "value": text} for text in texts] if element == "struct" else texts
    values = [event("u", None, {"id": 1, "v": value}) for value in (hidden, hidden[:-1], [*hidden[:-1], None])]

    decoded = decode(records(values * copies), target(id="INT", v="ARRAY<STRING>" if element == "text" else "STRING"))

    assert decoded.changes[0].rows.column("_UNAVAILABLE").to_pylist() == [[1], [], []] * copies


@pytest.mark.parametrize("copies", [1, 40])
def test_a_value_not_sent_says_nothing_about_the_type_of_its_column(copies: int) -> None:
    values = [event("u", None, {"id": 1, "v": v}) for v in ([0.5], "__debezium_unavailable_value")] * copies

    (seen,) = DebeziumJsonDecoder().decode(records(values), {}).observations

    assert [str(c.type) for c in seen.columns] == ["BIGINT", "ARRAY<DOUBLE>"]


def test_many_tables_in_one_topic_are_told_apart() -> None:
    names = ["orders", "orders_2023", "orders_2024", 'odd "name"']
    values = [event("c", None, {"id": i, "v": names[i % 4]}, names[i % 4]) for i in range(80)]
    targets = {SourceTable(TOPIC, "shop", "public", name): TWO_COLUMNS for name in names}

    decoded = DebeziumJsonDecoder().decode(records(values), targets)

    assert {c.source.table: set(c.rows.column("v").to_pylist()) for c in decoded.changes} == {n: {n} for n in names}
    assert all(
        c.rows.column("_OFFSET").to_pylist() == sorted(c.rows.column("_OFFSET").to_pylist()) for c in decoded.changes
    )


def test_without_a_source_block_the_topic_names_the_table() -> None:
    value = {"before": None, "after": {"id": 1}, "op": "c"}

    (seen,) = DebeziumJsonDecoder().decode(records([value], topic="p.shop.public.t"), {}).observations

    assert seen.source == SourceTable("p.shop.public.t", "shop", "public", "t")


@pytest.mark.parametrize("order", [("schema", "payload"), ("payload", "schema")])
def test_embedded_schemas_are_used_in_any_layout(order: tuple[str, str]) -> None:
    fields = [
        {"type": "int32", "optional": False, "field": "id"},
        {"type": "int64", "optional": True, "name": "io.debezium.time.MicroTime", "field": "v"},
    ]
    row = {"type": "struct", "fields": fields, "optional": True, "field": "after"}
    schema = {"type": "struct", "fields": [{**row, "field": "before"}, row, {"type": "string", "field": "op"}]}
    parts = {"schema": schema, "payload": event("c", None, {"id": 1, "v": 1_000_000})}
    batch = records([{name: parts[name] for name in order}])

    assert kinds_and(decode(batch, TWO_COLUMNS), "id", "v") == [("+I", 1, "00:00:01", 100)]
    (seen,) = DebeziumJsonDecoder().decode(batch, {}).observations
    assert seen.columns[1] == ObservedColumn("v", parse_type("STRING"))


@pytest.mark.parametrize("order", [("schema", "payload"), ("payload", "schema")])
@pytest.mark.parametrize(
    ("old", "row", "stored"),
    [
        ({"id": 1, "name": "old"}, {"id": 1}, "d"),
        (None, {"id": 1, "s": {"name": 1}}, "d"),
        (None, {"id": 1, "s": {"after": {"name": 1}}}, "d"),
        (None, {"id": 1, "s": {"x": 1}, "name": None}, None),
        (None, {"id": 1, "name": None}, None),
    ],
)
def test_only_a_field_of_the_row_itself_keeps_the_default_away(
    order: tuple[str, str], old: Json | None, row: Json, stored: str | None
) -> None:
    fields = [
        {"type": "int32", "optional": False, "field": "id"},
        {"type": "string", "optional": True, "name": "any.Name", "default": "d", "field": "name"},
    ]
    image = {"type": "struct", "fields": fields, "optional": True, "field": "after"}
    schema = {"type": "struct", "fields": [{**image, "field": "before"}, image, {"type": "string", "field": "op"}]}
    parts = {"schema": schema, "payload": event("u", old, row)}
    batch = records([{name: parts[name] for name in order}])

    assert kinds_and(decode(batch, target(id="INT", name="STRING")), "name") == [("+U", stored, 100)]


def test_large_batches_with_every_kind_of_number_take_the_vectorised_path() -> None:
    goal = target(id="BIGINT", n="DECIMAL(10, 2)", d="DOUBLE", t="TIMESTAMP_LTZ(6)", b="BYTES", s="STRING")
    row = {"n": 12.5, "d": 1, "t": "2024-02-29T12:34:56.789012Z", "b": "AQ==", "s": None}

    decoded = decode(records([event("c", None, {"id": (1 << 53) + i, **row}) for i in range(500)]), goal)

    assert (decoded.counts.exact, decoded.counts.with_rows) == (0, 500)
    assert decoded.changes[0].rows.column("id").to_pylist() == [(1 << 53) + i for i in range(500)]


def test_the_decoder_travels_to_executors() -> None:
    decoder = pickle.loads(pickle.dumps(DebeziumJsonDecoder(DebeziumPolicies(on_message="fail"))))

    assert decoder.policies.on_message == "fail"
    assert decoder.decode(records([event("c", None, {"id": 1})]), {SOURCE: TWO_COLUMNS}).counts.with_rows == 1


def test_an_empty_batch_gives_nothing() -> None:
    assert decode(records([]), TWO_COLUMNS) == Decoded()


@pytest.mark.parametrize(
    "number", ["12345678901234567890123456789012345678.9", "1e35", "99999999999999999999999999999999999999999.99"]
)
def test_huge_numbers_never_wrap_around(number: str) -> None:
    goal = target(id="INT", n="DECIMAL(38, 30)")
    text = json.dumps(event("c", None, {"id": 1, "n": 0})).replace('"n": 0', f'"n": {number}')
    usual = [event("c", None, {"id": i, "n": 1.5}) for i in range(20)]

    decoded = decode(records([*usual, text.encode()]), goal)

    assert [str(n) for n in set(decoded.changes[0].rows.column("n").to_pylist())] == ["1.5" + "0" * 29]
    assert "does not fit DECIMAL(38, 30)" in decoded.quarantine[0].reason


@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_deeply_nested_values_do_no_harm(brackets: str) -> None:
    deep = ('{"a":' if brackets == "{}" else "[") * 50_000 + "1" + brackets[1] * 50_000
    text = json.dumps(event("c", None, {"id": 1, "new": 0})).replace('"new": 0', f'"new": {deep}')
    usual = [event("c", None, {"id": i}) for i in range(20)]

    decoded = decode(records([*usual, text.encode()]), TWO_COLUMNS)

    assert (decoded.counts.with_rows, len(decoded.quarantine)) == (20, 1)


def test_times_finer_than_the_schema_says_make_finer_columns() -> None:
    zoned = {"type": "string", "name": "io.debezium.time.ZonedTimestamp"}
    fields = [{"type": "int32", "field": "id"}, *({**zoned, "field": name} for name in ("a", "b", "c"))]
    after = {"type": "struct", "fields": fields, "field": "after"}
    schema = {"type": "struct", "fields": [{**after, "field": "before"}, after, {"type": "string", "field": "op"}]}
    fine, coarse, far = "2024-05-10T19:00:01.6048051+03:00", "2024-05-10T16:00:01.604805Z", "9999-12-31T00:00:00Z"
    rows = [{"id": 1, "a": coarse, "b": far, "c": fine}, {"id": 2, "a": far, "b": fine, "c": "infinity"}]
    batch = records([{"schema": schema, "payload": event("c", None, row)} for row in rows])

    (seen,) = DebeziumJsonDecoder().decode(batch, {}).observations
    assert [str(c.type) for c in seen.columns[1:]] == [
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        "STRING",
        "TIMESTAMP(9) WITH LOCAL TIME ZONE",
    ]
    decoded = decode(batch, target(id="INT", a="TIMESTAMP_LTZ(6)", b="STRING", c="TIMESTAMP_LTZ(6)"))
    assert ["TIMESTAMP(9) WITH LOCAL TIME ZONE of a new table holds it" in q.reason for q in decoded.quarantine] == [
        True
    ]


@pytest.mark.parametrize("word", ["NaN", "NAN", "nan"])
@pytest.mark.parametrize("t", ["DOUBLE", "FLOAT", "ARRAY<DOUBLE>"])
def test_words_for_special_numbers_are_read_in_any_case(word: str, t: str) -> None:
    words = [word, "POSITIVE_INFINITY", "negative_infinity", "-Infinity", "INF", "+inf", "1.5"]
    values = [[w] for w in words] if t.startswith("ARRAY") else words
    batch = records([event("c", None, {"id": i, "v": value}) for i, value in enumerate(values)])
    found = [
        str(v) for _, v, _ in ((k[0], k[2], k[1]) for k in kinds_and(decode(batch, target(id="INT", v=t)), "id", "v"))
    ]
    assert [v.strip("[]") for v in found] == ["nan", "inf", "-inf", "-inf", "inf", "inf", "1.5"]


def test_a_byte_order_mark_in_front_of_a_record_is_no_part_of_it() -> None:
    text = b"\xef\xbb\xbf" + json.dumps(event("c", None, {"id": 1, "v": "a"})).encode()
    assert kinds_and(decode(records([text]), TWO_COLUMNS), "id", "v") == [("+I", 1, "a", 100)]


def test_types_of_as_many_records_become_text() -> None:
    def schema(t: str) -> Json:
        after = {
            "type": "struct",
            "fields": [{"type": "int32", "field": "id"}, {"type": t, "field": "v"}],
            "field": "after",
        }
        return {"type": "struct", "fields": [{**after, "field": "before"}, after, {"type": "string", "field": "op"}]}

    rows = [("int32", 5), ("string", "x")]
    batch = records([{"schema": schema(t), "payload": event("c", None, {"id": 1, "v": v})} for t, v in rows])
    for order in ([0, 1], [1, 0]):
        (seen,) = DebeziumJsonDecoder().decode(batch.take(pa.array(order)), {}).observations
        assert seen.columns[1].settled_type == parse_type("STRING")
