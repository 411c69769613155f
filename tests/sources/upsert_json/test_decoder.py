"""Rows keyed by their message: what each record does, whatever its writer puts beside the row."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import pytest

from sources.changes import SourceTable
from sources.decode_target import Behind, KeyRule, Rejection
from sources.format_options import options_of
from sources.upsert_json.decoder import UpsertJsonDecoder
from sources.upsert_json.policies import UpsertPolicies
from tests.support.envelope_records import event, target
from tests.support.row_records import SOURCE, TARGET, TOPIC, decoded, rows_of, stored

K1, K2 = {"id": 1}, {"id": 2}
ROW = {"id": 1, "v": "a"}


def schema(**fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "struct",
        "optional": False,
        "fields": [{"optional": True, **spec, "field": name} for name, spec in fields.items()],
    }


@pytest.mark.parametrize("copies", [1, 20])
def test_a_value_is_the_row_and_no_value_deletes_it(copies: int) -> None:
    found = decoded(rows_of(*[(K1, ROW), (K2, {"id": 2, "v": None}), (K1, None), (K2, b"null")] * copies))

    expected = [("+I", 1, "a"), ("+I", 2, None), ("-D", 1, None), ("-D", 2, None)] * copies
    assert stored(found) == [(*row, offset) for offset, row in enumerate(expected, 100)]
    assert (found.counts.with_rows, found.counts.accounted) == (4 * copies, 4 * copies)


@pytest.mark.parametrize("copies", [1, 20])
def test_operations_and_marks_of_deletes_are_no_columns(copies: int) -> None:
    values = [
        {**ROW, "__op": "r", "__deleted": "false", "__lsn": 5, "__source_ts_ms": 7},
        {**ROW, "__op": "u", "__deleted": "false", "__lsn": 6, "__source_ts_ms": 8},
        {**ROW, "__op": "c", "__deleted": "false", "__lsn": None, "__source_ts_ms": None},
        {**ROW, "__op": "d", "__deleted": "true", "__lsn": 7, "__source_ts_ms": 9},
        {**ROW, "__deleted": "true"},
        {**ROW, "__op": "d"},
    ]

    found = decoded(rows_of(*[(K1, value) for value in values] * copies))

    assert [row[0] for row in stored(found)] == ["+I", "+U", "+I", "-D", "-D", "-D"] * copies
    assert ({c.name for seen in found.observations for c in seen.columns}, found.quarantine) == ({"v"}, ())


@pytest.mark.parametrize("copies", [1, 20])
def test_a_snapshot_without_operations_stands_beside_changes_that_have_them(copies: int) -> None:
    found = decoded(rows_of(*[(K1, ROW), (K1, {**ROW, "__op": "u"}), (K1, {**ROW, "__op": None})] * copies))

    assert [row[0] for row in stored(found)] == ["+I", "+U", "+I"] * copies


@pytest.mark.parametrize("mark", [True, "true", "TRUE"])
def test_a_mark_of_a_delete_may_be_text_or_not(mark: object) -> None:
    assert stored(decoded(rows_of((K1, {**ROW, "__deleted": mark})))) == [("-D", 1, "a", 100)]
    assert stored(decoded(rows_of(*[(K1, {**ROW, "__deleted": mark})] * 20)))[0] == ("-D", 1, "a", 100)


@pytest.mark.parametrize("mark", [1, 0, "no", ""])
@pytest.mark.parametrize("copies", [1, 20])
def test_a_mark_of_a_delete_that_says_neither_is_no_row(mark: object, copies: int) -> None:
    found = decoded(rows_of(*[(K1, {**ROW, "__op": "u", "__deleted": mark})] * copies))

    assert {row.reason for row in found.quarantine} == {
        f"value is not a row: __deleted is {str(mark)!r}, and not true or false"
    }
    assert (len(found.quarantine), found.changes) == (copies, ())


def test_columns_of_a_new_table_are_those_of_the_row() -> None:
    value = {**ROW, "__x": 1, "__op": "c", "__table": "orders", "__source_snapshot": "true", "__transaction_id": "7"}

    (seen,) = decoded(rows_of((K1, value)), {}).observations

    assert ([column.name for column in seen.columns], seen.key_columns) == (["id", "v", "__x"], ("id",))


@pytest.mark.parametrize(
    "field",
    ["shard", "vgtid", "keyspace", "value_capture_type", "transaction_tag", "commit_ts", "cluster", "begin_lsn"],
)
def test_fields_of_rarer_connectors_are_no_columns(field: str) -> None:
    """Vitess, Spanner, TiCDC, Cassandra and Informix."""
    value = {**ROW, f"__{field}": "a", f"__source_{field}": "a"}

    (seen,) = decoded(rows_of((K1, value)), {}).observations

    assert [column.name for column in seen.columns] == ["id", "v"]


def test_metadata_may_be_kept_as_columns() -> None:
    (seen,) = decoded(rows_of((K1, {**ROW, "__deleted": "false", "__lsn": 5})), {}, metadata="keep").observations

    assert [column.name for column in seen.columns] == ["id", "v", "__lsn"]
    goal = target(id="INT NOT NULL", __lsn="BIGINT")
    assert stored(decoded(rows_of((K1, {**ROW, "__lsn": 5})), goal, metadata="keep"), "id", "__lsn") == [
        ("+I", 1, 5, 100)
    ]


@pytest.mark.parametrize(
    ("policies", "fields"),
    [
        ({"add_fields_prefix": "cdc."}, {"cdc.op": "u", "cdc.table": "items", "cdc.source_ts_ms": 1}),
        ({"add_fields": "op:operation,source.table:t, lsn"}, {"__operation": "u", "__t": "items", "__lsn": 4}),
        ({"add_fields_prefix": "none", "add_fields": "op,table,lsn"}, {"op": "u", "table": "items", "lsn": 4}),
    ],
)
def test_fields_are_named_as_the_connector_names_them(policies: dict[str, str], fields: dict[str, Any]) -> None:
    items = SourceTable(TOPIC, None, "public", "items")

    found = decoded(rows_of((K1, {**ROW, **fields})), {items: TARGET}, **policies)

    assert stored(found) == [("+U", 1, "a", 100)]
    assert {c.name for seen in found.observations for c in seen.columns} == {"v"}


@pytest.mark.parametrize("fields", ["op:a:b", "op,,table", "op:", "a.b.c", "source.", " "])
def test_a_list_of_fields_that_no_connector_takes_is_refused(fields: str) -> None:
    (check,) = (option.check for option in options_of(UpsertPolicies) if option.name == "add_fields")

    assert check is not None
    assert " is not a field; repeat the connector's add.fields" in (check(fields) or "")
    assert check("op, source.ts_ms,lsn:at") is None


def test_without_a_prefix_columns_stay_columns() -> None:
    row = {"id": 1, "op": "closed", "table": "four", "ts_ms": 5}

    (seen,) = decoded(rows_of((K1, row)), {}, add_fields_prefix="none").observations

    assert [column.name for column in seen.columns] == [*row]


@pytest.mark.parametrize("value", ["u", '"u"', '{"schema":{"type":"string"},"payload":"u"}'])
@pytest.mark.parametrize("name", ["__op", "__debezium-operation", "op"])
def test_the_operation_may_be_in_a_header(name: str, value: str) -> None:
    rows = rows_of((K1, ROW, {name: value}), (K1, ROW), (K1, {**ROW, "__op": "c"}, {name: value}))
    found = decoded(rows, add_headers_prefix="none" if name == "op" else "__")

    assert [row[0] for row in stored(found)] == ["+U", "+I", "+I"]


@pytest.mark.parametrize("value", [b'{"id":1,"v":"5"}', b' {"id":1,"v":"5"}', b'{"id":1,"v":5}'])
def test_a_delete_that_a_header_tells_has_the_row(value: bytes) -> None:
    """Arrow reads the first text, the others are read by themselves."""
    found = decoded(rows_of((K1, value, {"__op": "d"}), (K1, {"id": 2, "v": "x"}, {"__op": "d"})))

    assert stored(found) == [("-D", 1, "5", 100), ("-D", 2, "x", 101)]


@pytest.mark.parametrize(
    ("topic", "fields", "source"),
    [
        ("srv.public.orders", {}, (None, "public", "orders")),
        (
            "srv.public.orders",
            {"__table": "orders", "__schema": "public", "__db": "shop"},
            ("shop", "public", "orders"),
        ),
        ("srv.public.Odd_Name", {"__table": "Odd Name"}, (None, "public", "Odd Name")),
        ("srv.public.a.b", {"__table": "a.b", "__db": "shop"}, ("shop", "public", "a.b")),
        ("srv.inventory.orders", {"__table": "orders", "__db": "inventory"}, ("inventory", None, "orders")),
        ("srv.shop.dbo.orders", {"__table": "orders"}, ("shop", "dbo", "orders")),
        ("all", {"__source_table": "t1", "__source_schema": "s", "__source_db": "d"}, ("d", "s", "t1")),
        ("orders", {"__table": None}, (None, None, "orders")),
    ],
)
def test_names_of_tables_come_from_metadata_before_the_topic(
    topic: str, fields: dict[str, Any], source: tuple[str | None, str | None, str]
) -> None:
    headers = {name: text for name, text in fields.items() if text}
    for batch in (rows_of((K1, {**ROW, **fields}), topic=topic), rows_of((K1, ROW, headers), topic=topic)):
        (seen,) = decoded(batch, {}).observations
        assert (seen.source.database, seen.source.schema, seen.source.table) == source


def test_rows_of_several_tables_in_one_topic_are_told_apart() -> None:
    first, second = (SourceTable(TOPIC, None, "public", name) for name in ("a", "b"))
    rows = [(K1, {**ROW, "__table": name}) for name in "abba" * 10]

    found = decoded(rows_of(*rows), {first: TARGET, second: TARGET})

    assert {c.source.table: c.rows.column("_OFFSET").to_pylist()[:2] for c in found.changes} == {
        "a": [100, 103],
        "b": [101, 102],
    }


def test_a_delete_finds_the_table_of_its_topic() -> None:
    odd, other = (SourceTable(TOPIC, None, "public", name) for name in ("Odd Name", "other"))
    deletes = rows_of((K1, None), (K2, None, {"__table": "other"}))

    assert stored(decoded(deletes.slice(0, 1), {odd: TARGET})) == [("-D", 1, None, 100)]
    empty = Rejection("no row yet", is_unmade=True, is_empty=True)
    assert stored(decoded(deletes.slice(0, 1), {odd: TARGET, other: empty})) == [("-D", 1, None, 100)]
    found = decoded(deletes, {odd: TARGET, other: TARGET})
    assert [(c.source.table, c.rows.column("id").to_pylist()) for c in found.changes] == [("other", [2])]
    assert "which of the tables of the topic (Odd Name, other)" in found.quarantine[0].reason
    assert "add.headers=table" in found.quarantine[0].reason


def test_records_that_say_less_or_more_of_their_table_are_of_the_same_one() -> None:
    """As when the connector adds a field midway."""
    known = SourceTable(TOPIC, None, "public", "orders")
    more = {**ROW, "__db": "shop", "__schema": "public", "__table": "orders"}
    batch = rows_of((K1, ROW), (K1, more), (K2, None, {"__db": "shop", "__table": "orders"}))

    assert [(change.source, len(change.rows)) for change in decoded(batch, {known: TARGET}).changes] == [(known, 3)]
    both = {known: TARGET, SourceTable(TOPIC, "shop", "public", "orders"): TARGET}
    assert [(change.source, len(change.rows)) for change in decoded(batch, both).changes] == [(known, 3)]
    of_rules = {source: replace(TARGET, keys=KeyRule(f"lake.{n}", True)) for n, source in enumerate(both)}
    assert [len(change.rows) for change in decoded(batch, of_rules).changes] == [1, 2]


@pytest.mark.parametrize("goal", [None, Rejection("its columns clash")], ids=["skipped", "rejected"])
def test_a_delete_may_be_of_a_table_that_is_not_stored(goal: Any) -> None:
    first, second = (SourceTable(TOPIC, None, "public", name) for name in ("a", "b"))

    found = decoded(rows_of((K1, None)), {first: TARGET, second: goal})

    assert (found.changes, len(found.quarantine)) == ((), 1)
    assert "which of the tables of the topic (a, b)" in found.quarantine[0].reason


@pytest.mark.parametrize("is_known", [False, True])
def test_new_rows_that_say_less_or_more_are_of_one_table_in_order_of_arrival(is_known: bool) -> None:
    less, more = SourceTable(TOPIC, None, "public", "orders"), SourceTable(TOPIC, "shop", "public", "orders")
    rows = [
        (K1, ROW),
        (K1, {**ROW, "v": "b", "__db": "shop", "__table": "orders"}),
        (K1, {**ROW, "v": "c"}),
        (K1, None),
    ]

    if not is_known:
        found = decoded(rows_of(*rows), {})
        assert ({seen.source for seen in found.observations}, found.quarantine) == ({more}, ())
        return
    found = decoded(rows_of(*rows), {more: TARGET, less: Rejection("a second source of the table")})
    assert ([c.source for c in found.changes], found.quarantine) == ([more], ())
    assert [row[1:] for row in stored(found)] == [(1, "a", 100), (1, "b", 101), (1, "c", 102), (1, None, 103)]


def test_rows_that_name_no_database_are_of_none_where_there_are_several() -> None:
    rows = [
        (K1, {**ROW, "__db": "one", "__table": "orders"}),
        (K1, {**ROW, "__db": "two", "__table": "orders"}),
        (K1, ROW),
        (K1, None),
    ]

    found = decoded(rows_of(*rows), {})

    assert {seen.source.database for seen in found.observations} == {"one", "two", None}
    assert [row.offset for row in found.quarantine] == [103]


def test_a_delete_of_either_source_of_one_table_deletes_there() -> None:
    goal = replace(TARGET, keys=KeyRule("lake.all", True))
    first, second = (SourceTable(TOPIC, None, "public", name) for name in ("a", "b"))

    found = decoded(rows_of((K1, None)), {first: goal, second: goal})

    assert ([row[:2] for row in stored(found)], found.quarantine) == ([("-D", 1)], ())


def test_schemas_may_be_switched_on_and_off_midway() -> None:
    decimal = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    of_row = schema(id={"type": "int32"}, v=decimal)
    goal = target(id="INT NOT NULL", v="DECIMAL(10, 2)")

    def value(row: dict[str, Any], *, has_schema: bool) -> dict[str, Any]:
        return {"schema": of_row, "payload": row} if has_schema else row

    rows = [(K1, value({"id": 1, "v": "MDk="}, has_schema=number % 3 > 0)) for number in range(30)]
    deletes = [({"schema": schema(id={"type": "int32"}), "payload": K1}, None), (K1, None)]

    found = decoded(rows_of(*rows, *deletes), goal)

    kinds = [(kind, None if v is None else str(v)) for kind, _, v, _ in stored(found)]
    assert kinds == [("+I", "123.45")] * 30 + [("-D", None)] * 2
    assert [row[-1] for row in stored(found)] == [*range(100, 132)]


def test_a_null_beside_a_mark_may_be_skipped() -> None:
    found = decoded(rows_of((K1, {**ROW, "__deleted": "true"}), (K1, None), (K2, b"null")), on_tombstone="skip")

    assert (stored(found), found.counts.tombstones) == ([("-D", 1, "a", 100)], 2)


def test_a_null_without_a_key_is_a_tombstone() -> None:
    found = decoded(rows_of((None, None), (None, b"null")))

    assert (found.changes, found.counts.tombstones, found.quarantine) == ((), 2, ())


# ---------------------------------------------------------------- keys


@pytest.mark.parametrize(
    ("key", "column", "stored_key"),
    [
        (b"7", "BIGINT NOT NULL", 7),
        (b'"7"', "BIGINT NOT NULL", 7),
        (b"abc", "STRING NOT NULL", "abc"),
        (b'"abc"', "STRING NOT NULL", "abc"),
        (b"1e5", "STRING NOT NULL", "1e5"),
        (b"007", "STRING NOT NULL", "007"),
        (b'{"schema":{"type":"int64","optional":false},"payload":7}', "BIGINT NOT NULL", 7),
        (b'{"schema":{"type":"string","optional":false},"payload":"x"}', "STRING NOT NULL", "x"),
        (b'{"payload":{"id":7}}', "BIGINT NOT NULL", 7),
        (b'{"schema":{"type":"int32","optional":false},"payload":7}', "STRING NOT NULL", "7"),
        (b"null", "STRING NOT NULL", "null"),
    ],
)
def test_a_key_without_names_is_that_of_a_table_with_one_key_column(key: bytes, column: str, stored_key: Any) -> None:
    found = decoded(rows_of((key, None)), target(id=column, v="STRING"))

    assert (stored(found), found.quarantine) == ([("-D", stored_key, None, 100)], ())


@pytest.mark.parametrize(
    "key",
    [
        *(
            b"\xff",
            b'{"payload":{"id":"\xff"}}',
            b'{"id":"\xff"}',
            b'{"schema":\xff',
            b'{"id":"\\ud800"}',
            b'{"id"',
            b'"a',
        ),
        b'{"schema":{"type":"string","optional":true},"payload":null}',
    ],
)
@pytest.mark.parametrize("column", ["STRING NOT NULL", "INT NOT NULL"])
@pytest.mark.parametrize("value", [None, b"null"])
def test_a_key_that_cannot_be_read_deletes_nothing(key: bytes, column: str, value: bytes | None) -> None:
    found = decoded(rows_of((K1, None), (key, value), ("x", None)), target(id=column, v="STRING"))

    assert 101 in [row.offset for row in found.quarantine]
    assert 101 not in [row[-1] for row in stored(found)]
    assert found.counts.accounted == 3


@pytest.mark.parametrize("value", [None, b"null"])
def test_a_key_that_is_the_text_of_a_struct_deletes_nothing(value: bytes | None) -> None:
    """StringConverter as key.converter."""
    key = b"Struct{id=a}"
    found = decoded(rows_of((key, {"id": "a", "v": "x"}), (key, value)), target(id="STRING NOT NULL", v="STRING"))

    assert stored(found) == [("+I", "a", "x", 100)]
    assert [row.offset for row in found.quarantine] == [101]
    assert "let the connector use JsonConverter as key.converter" in found.quarantine[0].reason


def test_a_key_column_may_be_named_payload() -> None:
    found = decoded(rows_of(({"payload": 5}, None)), target("payload", payload="INT NOT NULL"))

    assert stored(found, "payload") == [("-D", 5, 100)]


def test_a_delete_is_read_by_the_schema_of_its_key() -> None:
    decimal = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    key = {"schema": schema(id=decimal), "payload": {"id": "MDk="}}
    value = {"schema": schema(id=decimal, v={"type": "string"}), "payload": {"id": "MDk=", "v": "a"}}
    goal = target(id="DECIMAL(10, 2) NOT NULL", v="STRING")

    found = decoded(rows_of((key, value), (key, None), (key, {**value, "payload": None})), goal)

    kinds = [(kind, str(number)) for kind, number, _ in stored(found, "id")]
    assert kinds == [("+I", "123.45"), ("-D", "123.45"), ("-D", "123.45")]
    assert found.newest[0].absent == ()


@pytest.mark.parametrize("t", ["TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", "BIGINT"])
def test_a_time_in_the_message_key_alone_is_read_by_the_schema_of_the_key(t: str) -> None:
    time = {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"}
    key = {"schema": schema(id=time), "payload": {"id": 5000}}
    value = {"schema": schema(v={"type": "string"}), "payload": {"v": "a"}}

    found = decoded(rows_of((key, value), (key, None)), target(id=f"{t} NOT NULL", v="STRING"))

    times = [number if isinstance(number, int) else number.second for _, number, _ in stored(found, "id")]
    assert times == ([5000, 5000] if t == "BIGINT" else [5, 5]), found.quarantine


@pytest.mark.parametrize("t", ["DECIMAL(10, 2)", "STRING"])
def test_a_column_in_the_message_key_alone_is_read_by_the_schema_of_the_key(t: str) -> None:
    decimal = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    key = {"schema": schema(id=decimal), "payload": {"id": "MDk="}}
    value = {"schema": schema(v={"type": "string"}), "payload": {"v": "a"}}
    goal = target(id=f"{t} NOT NULL", v="STRING")

    found = decoded(rows_of((key, value), (key, {"v": "b"}), (key, None)), goal)
    (seen,) = decoded(rows_of((key, value)), {}).observations

    assert [(kind, str(number)) for kind, number, _ in stored(found, "id")] == [
        ("+I", "123.45"), ("+I", "123.45"), ("-D", "123.45"),
    ]  # fmt: skip
    assert [(column.name, str(column.type)) for column in seen.key_only] == [("id", "DECIMAL(38, 2)")]


@pytest.mark.parametrize("key", [b"{}", b'{"other":1}', b"[1]", b"7"])
def test_a_delete_whose_key_lacks_a_column_goes_to_quarantine(key: bytes) -> None:
    two = target("id v", id="INT NOT NULL", v="STRING NOT NULL")

    assert (
        "the message key lacks part of the primary key (id, v)"
        in decoded(rows_of((key, None)), two).quarantine[0].reason
    )


@pytest.mark.parametrize("copies", [1, 20])
def test_a_column_may_be_in_the_message_key_alone(copies: int) -> None:
    rows = [(K1, {"v": "a"}), (K1, None), ({"w": 5, "id": 3}, {"v": "b", "__op": "u"}), (K2, {"v": "id"})]

    found = decoded(rows_of(*rows * copies))

    expected = [("+I", 1, "a"), ("-D", 1, None), ("+U", 3, "b"), ("+I", 2, "id")] * copies
    assert stored(found) == [(*row, offset) for offset, row in enumerate(expected, 100)]
    assert found.counts.exact == 0


def test_a_row_that_only_arrow_reads_and_that_lacks_its_key_goes_to_quarantine() -> None:
    deep: Any = 1
    for _ in range(120):
        deep = [deep]

    found = decoded(rows_of(*[(K1, {"v": "a", "x": deep}), (K2, {"v": "id"})] * 10))

    assert [row.offset for row in found.quarantine] == [*range(100, 120, 2)]
    assert [row[1] for row in stored(found)] == [2] * 10


@pytest.mark.parametrize(
    ("key", "value", "stored_id"),
    [
        ({"schema": schema(id={"type": "int32"}), "payload": K1}, {"v": "a"}, 1),
        ({"payload": K1}, {"v": "a"}, 1),
        (b'{"\\u0069d":1}', {"v": "a"}, 1),
        ({"id": "7"}, {"v": "a"}, 7),
        ({"id": [1]}, {"v": "a"}, None),
        (K1, {"id": None, "v": "a"}, None),
        (K1, {"v": '"id"'}, 1),
        (b"{", {"v": "a"}, None),
        (None, {"v": "a"}, None),
        ({"other": 1}, {"v": "a"}, None),
    ],
)
@pytest.mark.parametrize("copies", [1, 20])
def test_odd_keys_fill_a_column_just_as_well(key: Any, value: Any, stored_id: int | None, copies: int) -> None:
    """Those that do not, send the record to quarantine, and a NULL in the row stays one."""
    found = decoded(rows_of(*[(key, value), (K2, {"v": "b"})] * copies))

    ids = [row[1] for row in stored(found)]
    assert ids == ([2] if stored_id is None else [stored_id, 2]) * copies
    assert len(found.quarantine) == (copies if stored_id is None else 0)


# ---------------------------------------------------------------- what is not sent


def test_a_null_stays_null_and_an_absent_field_has_its_default() -> None:
    of_row = schema(id={"type": "int32"}, v={"type": "string", "default": "d"}, w={"type": "string"})
    goal = target(id="INT NOT NULL", v="STRING", w="STRING")

    def value(**row: Any) -> dict[str, Any]:
        return {"schema": of_row, "payload": {"id": 1, **row}}

    spaced = json.dumps(value(v=None)).replace('"v":', '"v" :').encode()
    found = decoded(rows_of((K1, value(v=None, w=None)), (K1, value()), (K1, value(v="x")), (K1, spaced)), goal)

    assert [row[2] for row in stored(found, "id", "v", "w")] == [None, "d", "x", None]
    assert {row[3] for row in stored(found, "id", "v", "w")} == {None}


@pytest.mark.parametrize("hidden", ["__debezium_unavailable_value", {"key": "__debezium_unavailable_value"}])
def test_an_unavailable_value_keeps_the_earlier_one(hidden: object) -> None:
    (change,) = decoded(rows_of((K1, {"id": 1, "v": hidden, "__op": "u"}))).changes

    assert change.rows.column("_UNAVAILABLE").to_pylist() == [[1]]


# ---------------------------------------------------------------- no rows


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "value is empty"),
        (b"{broken", "value is not JSON"),
        (b"\xff", "not UTF-8"),
        ([1], "it is not a JSON object"),
        ([{"id": 1}, {"id": 2}], "it is not a JSON object"),
        (7, "it is not a JSON object"),
        (b'"{\\"id\\":1}"', "a JSON text inside a string"),
        ({"schema": {"type": "string"}, "payload": '{"id":1}'}, "table.expand.json.payload=true"),
        ({**ROW, "__op": "t"}, "op is 't'"),
        ({**ROW, "__op": 5}, "op is '5'"),
        (event("c", None, ROW), "an envelope of Debezium, which the format debezium-json reads"),
        ({"schema": event("d", ROW), "payload": event("d", ROW)}, "embedded schema"),
        (b"\x00\x00\x00\x00\x07abc", "schema 7 of a schema registry"),
    ],
)
@pytest.mark.parametrize("copies", [1, 20])
def test_what_is_no_row_goes_to_quarantine_with_the_reason(value: Any, reason: str, copies: int) -> None:
    found = decoded(rows_of(*[(K1, value)] * copies))

    assert [reason in row.reason for row in found.quarantine] == [True] * copies, found.quarantine[0].reason
    assert found.counts.accounted == copies


@pytest.mark.parametrize("goal", [None, Behind(), Rejection("no table"), Rejection("no table", is_unmade=True)])
def test_every_record_of_a_table_without_target_is_counted(goal: Any) -> None:
    found = decoded(rows_of((K1, ROW), (K1, {**ROW, "__deleted": "true"}), (K1, None)), goal)

    assert (found.counts.accounted, found.changes) == (3, ())


def test_deletes_of_an_unknown_table_tell_nothing_of_its_columns() -> None:
    (seen,) = decoded(rows_of(({"schema": schema(id={"type": "int32"}), "payload": K1}, None)), {}).observations

    assert (seen.columns, seen.key_columns) == ((), ("id",))


def test_rows_whose_key_in_the_table_nobody_knows_go_to_quarantine() -> None:
    goal = target("id v", id="INT NOT NULL", v="STRING NOT NULL")
    goal = replace(goal, keys=KeyRule("lake.t", True, ("id",)))

    found = decoded(rows_of((K1, ROW), (K1, {**ROW, "__op": "u"}), (K1, {**ROW, "__op": "r"})), goal)

    assert [row.offset for row in found.quarantine] == [100, 101]
    assert "format debezium-json" in found.quarantine[0].reason
    assert [row[0] for row in stored(found)] == ["+I"]


@pytest.mark.parametrize("on_change", ["log", "skip"])
def test_tables_without_key_take_rows_as_events(on_change: Any) -> None:
    goal = replace(target("", id="INT", v="STRING"), on_change=on_change)
    rows = [{**ROW, "__op": "c", "__source_ts_ms": 5}, {**ROW, "__op": "u", "__ts_ms": 6}, ROW]

    found = decoded(rows_of(*((K1, row) for row in rows), (K1, None)), goal)

    if on_change == "skip":
        assert ([row[-1] for row in stored(found)], found.counts.changes) == ([100, 102], 2)
        return
    (change,) = found.changes
    logged = [
        (row["event_kind"], row["event_op"], row["event_time"] and row["event_time"].microsecond // 1000)
        for row in change.rows.to_pylist()
    ]
    assert logged == [("+I", "c", 5), ("+U", "u", 6), ("+I", None, None), ("-D", "d", None)]


def test_the_decoder_travels() -> None:
    decoder = pickle.loads(pickle.dumps(UpsertJsonDecoder(UpsertPolicies(on_tombstone="skip"))))

    assert decoder.decode(rows_of((K1, None)), {SOURCE: TARGET}).counts.tombstones == 1
