"""What single records of the tools do to a table."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from paimon_table.errors import SchemaChangeRefused
from paimon_table.row_kind import VALUE_KIND, RowKind
from sources.formats import FORMATS
from tests.support.feed_records import TYPES, Json, Run, batch_of, canal, dms, golden_gate, maxwell

KEYED: Json = {"match": {"table": "(?i)orders"}, "into": "lake.orders", "primary_key": ["id"]}
LOG: Json = {"match": {"table": "orders"}, "into": "lake.orders", "mode": "append", "on_change": "log"} | {
    "options": {"bucket": "-1"}
}
ROW: Json = {"id": "1", "qty": "2", "note": "a"}


# ---------------------------------------------------------------- Canal


def test_unsigned_and_narrow_numbers_are_read_by_their_mysql_type(tmp_path: Path) -> None:
    types = {
        "id": "int(0)", "create_time": "bigint(0) unsigned", "one": "tinyint(1)", "one_unsigned": "tinyint(1) unsigned",
    }  # fmt: skip
    row = {"id": "1", "create_time": "18446744073709551615", "one": "-1", "one_unsigned": "255"}

    run = Run(tmp_path, "canal-json", [batch_of(canal("INSERT", row, types=types))])

    assert run.rows("shop.orders") == [{"id": 1, "create_time": 2**64 - 1, "one": -1, "one_unsigned": 255}]
    assert run.types("shop.orders")["create_time"] == "DECIMAL(20, 0)"


def test_a_table_without_primary_key_has_the_key_of_its_rule(tmp_path: Path) -> None:
    update = canal("UPDATE", ROW | {"qty": "3"}, old=[{"qty": "2"}], pkNames=None)

    run = Run(tmp_path, "canal-json", [batch_of(canal("INSERT", ROW, pkNames=None), update)], KEYED)

    assert run.rows("lake.orders") == [{"id": 1, "qty": 3, "note": "a"}]


def test_a_table_without_any_key_is_a_log_of_events(tmp_path: Path) -> None:
    update = canal("UPDATE", ROW | {"qty": "3"}, old=[{"qty": "2"}], pkNames=None)

    run = Run(tmp_path, "canal-json", [batch_of(canal("INSERT", ROW, pkNames=None), update)])

    shown = [(r["event_kind"], r["event_op"], r["qty"]) for r in run.rows("shop.orders", "event_offset")]
    assert shown == [("+I", "INSERT", 2), ("+U", "UPDATE", 3)]


def test_a_log_with_old_rows_tells_null_from_unchanged(tmp_path: Path) -> None:
    message = canal("UPDATE", ROW, ROW | {"id": "2"}, old=[{"qty": None}, {"note": "b"}])

    run = Run(tmp_path, "canal-json", [batch_of(message)], LOG | {"before": "full"})

    rows = run.table("lake.orders").to_arrow().to_pylist()
    shown = [(r["event_kind"], r["id"], r["qty"], r["note"]) for r in rows]
    assert shown == [("-U", 1, None, "a"), ("+U", 1, 2, "a"), ("-U", 2, 2, "b"), ("+U", 2, 2, "a")]


def test_a_lone_row_needs_no_list_and_a_delete_may_have_it_in_old(tmp_path: Path) -> None:
    """SeaTunnel writes a row without a list, Flink CDC deleted rows in ``old``."""
    other = ROW | {"id": "2"}
    deletes = [canal("DELETE", data=ROW), canal("DELETE", data=None, old=[other])]

    run = Run(tmp_path, "canal-json", [batch_of(canal("INSERT", ROW, other, ROW | {"id": "3"}), *deletes)])

    assert ([row["id"] for row in run.rows("shop.orders")], run.reasons) == ([3], {})


def test_a_message_with_one_bad_row_is_in_quarantine_whole(tmp_path: Path) -> None:
    bad = canal("INSERT", ROW | {"id": "5"}, ROW | {"id": "6", "qty": "many"})

    run = Run(tmp_path, "canal-json", [batch_of(canal("INSERT", ROW), bad)])

    assert [row["id"] for row in run.rows("shop.orders")] == [1]
    assert run.reasons == {1: 'column qty INT: string "many" does not fit INT'}
    assert run.report.counts.accounted == 2


@pytest.mark.parametrize("named", [{"id", "qty"}, {*TYPES}], ids=["named nowhere", "named in sqlType"])
def test_an_update_keeps_columns_that_its_message_does_not_have(tmp_path: Path, named: set[str]) -> None:
    narrow = {"id": TYPES["id"], "qty": TYPES["qty"]}
    more = {"sqlType": dict.fromkeys(named, 12)}
    update = canal("UPDATE", {"id": "1", "qty": "9"}, old=[{"qty": "2"}], types=narrow, **more)
    moved = canal("UPDATE", {"id": "7", "qty": "9"}, old=[{"id": "1"}], types=narrow, **more)

    run = Run(tmp_path, "canal-json", [batch_of(canal("INSERT", ROW)), batch_of(update, moved, first_offset=1)])

    assert run.rows("shop.orders") == [{"id": 7, "qty": 9, "note": "a"}]


@pytest.mark.parametrize("batches", [1, 4])
@pytest.mark.parametrize("form", ["enum('a','b')", "set('a','b')"])
def test_a_column_without_its_type_is_read_as_before_or_not_at_all(tmp_path: Path, form: str, batches: int) -> None:
    types = {"id": "int", "state": form, "raw": "blob", "made": "timestamp(0)"}
    row = {"state": "2", "raw": "AQI=", "made": "2024-05-01 10:00:00"}
    messages = [
        canal("INSERT", row | {"id": "1"}, types=types),
        canal("INSERT", row | {"id": "2", "state": "b"}, types={"id": "int"}),
        canal("INSERT", row | {"id": "3", "state": "b"}, mysqlType=None),
        canal("INSERT", row | {"id": "4"}, types={"id": "int"}),
        canal("INSERT", row | {"id": "5"}, mysqlType=None),
    ]
    size = 5 if batches == 1 else 1
    parts = [batch_of(*messages[at : at + size], first_offset=at) for at in range(0, 5, size)]

    run = Run(tmp_path, "canal-json", parts, options={"time_zone": "Asia/Shanghai"})

    assert [(r["id"], r["state"], r["raw"]) for r in run.rows("shop.orders")] == [(n, "b", b"AQI=") for n in (1, 2, 3)]
    assert {str(r["made"]) for r in run.rows("shop.orders")} == {"2024-05-01 02:00:00+00:00"}
    assert {*run.reasons} == {3, 4}
    assert all("column state: mysqlType does not name its type" in reason for reason in run.reasons.values())


def test_a_column_that_began_without_types_keeps_the_numbers_of_words(tmp_path: Path) -> None:
    row = {"id": "1", "state": "2"}
    typed = canal("INSERT", row | {"id": "2"}, types={"id": "int", "state": "enum('a','b')"})

    batches = [batch_of(canal("INSERT", row, mysqlType=None)), batch_of(typed, first_offset=1)]
    run = Run(tmp_path, "canal-json", batches)

    assert [r["state"] for r in run.rows("shop.orders")] == ["2", "2"]


def test_columns_that_updates_need_not_have_are_not_called_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    narrow = {"id": TYPES["id"], "qty": TYPES["qty"]}
    update = canal("UPDATE", {"id": "1", "qty": "9"}, old=[{"qty": "2"}], types=narrow)

    Run(tmp_path / "a", "canal-json", [batch_of(canal("INSERT", ROW)), batch_of(update, first_offset=1)])
    assert "any more" not in caplog.text

    insert = canal("INSERT", {"id": "2", "qty": "9"}, types=narrow)
    Run(tmp_path / "b", "canal-json", [batch_of(canal("INSERT", ROW)), batch_of(insert, update, first_offset=1)])
    assert "no longer have column note" in caplog.text


@pytest.mark.parametrize("first", [None, "0000-00-00 00:00:00"], ids=["null", "zero"])
@pytest.mark.parametrize("form", ["datetime", "timestamp"])
@pytest.mark.parametrize("is_added", [False, True], ids=["new table", "added"])
def test_a_moment_without_width_keeps_later_fractions(
    tmp_path: Path, form: str, first: str | None, is_added: bool
) -> None:
    types = TYPES | {"made": form}
    before = [batch_of(canal("INSERT", ROW | {"id": "3"}))] if is_added else []
    values = [first, "2024-05-01 10:00:00.123456"]
    rows = [canal("INSERT", ROW | {"id": str(n), "made": v}, types=types) for n, v in enumerate(values, 1)]
    batches = [*before, *(batch_of(row, first_offset=n) for n, row in enumerate(rows, 1))]

    run = Run(tmp_path, "canal-json", batches)

    assert run.reasons == {}
    assert [str(row["made"]) for row in run.rows("shop.orders")][:2] == ["None", "2024-05-01 10:00:00.123456"]
    assert run.types("shop.orders")["made"] == "TIMESTAMP(6)"


@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize(
    ("form", "old", "new"),
    [
        ("decimal(10,2)", "1.50", "2.25"),
        ("decimal(20,0)", "18446744073709551615", "7"),
        ("date", "2024-05-01", "1969-05-02"),
        ("datetime(6)", "2024-05-01 10:00:00.000001", "2024-05-01 10:00:00.000002"),
        ("timestamp(3)", "2024-05-01 10:00:00.001", "2024-05-01 10:00:00.002"),
        ("double", "0.1", "-0.25"),
        ("varbinary(4)", "\xff\x00", "a"),
        ("varchar(4)", "é", '"'),
    ],
)
def test_kept_columns_go_with_a_key_of_any_type(tmp_path: Path, form: str, old: str, new: str, batches: int) -> None:
    types = {"id": form, "note": "varchar(20)"}
    narrow = {"id": form}
    moved = canal("UPDATE", {"id": new}, old=[{"id": old}], types=narrow)
    back = canal("UPDATE", {"id": old}, old=[{"id": new}], types=narrow)
    messages = [canal("INSERT", {"id": old, "note": "a"}, types=types), moved, back]

    size = len(messages) // batches
    parts = [batch_of(*messages[at : at + size], first_offset=at) for at in range(0, len(messages), size)]
    run = Run(tmp_path, "canal-json", parts, options={"time_zone": "UTC"})

    assert [row["note"] for row in run.rows("shop.orders")] == ["a"]


@pytest.mark.parametrize("types", [None, {}], ids=["null", "none"])
def test_a_message_without_types_is_read_by_those_of_the_table(tmp_path: Path, types: Any) -> None:
    later = canal("INSERT", ROW | {"id": "2"}, mysqlType=types)

    run = Run(tmp_path, "canal-json", [batch_of(canal("INSERT", ROW)), batch_of(later, first_offset=1)])

    assert [row["qty"] for row in run.rows("shop.orders")] == [2, 2]


def test_the_topic_names_the_table_where_a_message_does_not(tmp_path: Path) -> None:
    message = {"data": [{"k": "5", "v0": "five"}], "type": "INSERT"}
    rule: Json = {"match": {"topic": "shop"}, "into": "lake.orders", "primary_key": ["k"]}

    run = Run(tmp_path, "canal-json", [batch_of(message)], rule)

    assert run.rows("lake.orders", "k") == [{"k": "5", "v0": "five"}]


def test_a_value_counts_although_its_type_is_not_named(tmp_path: Path) -> None:
    narrow = {"id": TYPES["id"], "note": TYPES["note"]}
    updates = [
        canal("UPDATE", ROW | {"qty": "3"}, old=[{"qty": "2"}], types=narrow),
        canal("UPDATE", ROW | {"id": "2", "qty": None}, old=[{"qty": "2"}], types=narrow),
    ]

    run = Run(
        tmp_path,
        "canal-json",
        [batch_of(canal("INSERT", ROW, ROW | {"id": "2"})), batch_of(*updates, first_offset=1)],
    )

    assert [row["qty"] for row in run.rows("shop.orders")] == [3, None]


def test_a_truncate_stops_its_table_unless_it_is_skipped(tmp_path: Path) -> None:
    truncate = canal("TRUNCATE", isDdl=True, sql="TRUNCATE TABLE orders", pkNames=None, mysqlType=None)
    records = [batch_of(canal("INSERT", ROW)), batch_of(truncate, first_offset=1)]

    skipped = Run(tmp_path / "skip", "canal-json", records, {**KEYED, "schema_changes": {"truncate": "skip"}})
    with pytest.raises(SchemaChangeRefused, match=r"truncated \(op TRUNCATE\)\. .*truncate: apply"):
        Run(tmp_path / "fail", "canal-json", records, KEYED)

    assert skipped.reports[1].counts.truncates == 1
    assert [row["id"] for row in skipped.rows("lake.orders")] == [1]


def test_a_record_under_a_key_that_no_row_has_is_in_quarantine(tmp_path: Path) -> None:
    odd = canal("INSERT", ROW | {"id": "2"}, pkNames=["id", "ie"])

    run = Run(tmp_path, "canal-json", [batch_of(canal("INSERT", ROW)), batch_of(odd, first_offset=1)])

    assert [row["id"] for row in run.rows("shop.orders")] == [1]
    assert "its key in the records (id, ie) names a column that the row does not have" in run.reasons[1]


def test_a_new_key_in_small_letters_stops_before_it_is_a_column(tmp_path: Path) -> None:
    first, later = maxwell("insert", {"ID": 1}), maxwell("insert", {"ID": 1, "K": 2})
    keys: list[Json | None] = [{"database": "shop", "table": "orders", "pk.id": 1}]
    batches = [batch_of(first, keys=keys), batch_of(later, first_offset=1, keys=[{**(keys[0] or {}), "pk.k": 2}])]

    with pytest.raises(SchemaChangeRefused, match=r"its key in the records is now \(ID, K\)"):
        Run(tmp_path, "maxwell-json", batches)


@pytest.mark.parametrize("rule", [KEYED, None], ids=["a rule", "no rule"])
def test_a_truncate_of_a_table_that_nobody_has_seen_is_counted(tmp_path: Path, rule: dict[str, Any] | None) -> None:
    truncate = canal("TRUNCATE", isDdl=True, sql="TRUNCATE TABLE orders", pkNames=None, mysqlType=None)
    records = [batch_of(truncate), batch_of(canal("INSERT", ROW), first_offset=1)]

    run = Run(tmp_path, "canal-json", records, *([rule] if rule else []))

    assert [report.counts.accounted for report in run.reports] == [1, 1]
    assert [row["id"] for row in run.rows("lake.orders" if rule else "shop.orders")] == [1]


@pytest.mark.parametrize(
    ("form", "text"), [("latin1", "\x00ÿ"), ("hex", "00ff"), ("base64", "AP8=")], ids=["latin1", "hex", "base64"]
)
def test_bytes_are_written_in_several_ways(tmp_path: Path, form: str, text: str) -> None:
    row = canal("INSERT", {"id": "1", "data": text}, types={"id": "int(11)", "data": "varbinary(9)"})

    run = Run(tmp_path, "canal-json", [batch_of(row)], options={"binary_format": form})

    assert run.rows("shop.orders") == [{"id": 1, "data": b"\x00\xff"}]


def test_the_full_load_of_a_transmission_service_is_a_snapshot(tmp_path: Path) -> None:
    types = {"id": "int", "made": "timestamp"}
    rows = [
        canal("INIT", {"id": "1", "made": "2021-05-17 07:22:42 +00:00"}, types=types, es=0, sqlType={}, pkNames=["id"]),
        canal("INIT_DDL", isDdl=True, mysqlType=None),
    ]

    run = Run(tmp_path, "canal-json", [batch_of(*rows)], options={"time_zone": "UTC"})

    assert run.rows("shop.orders") == [{"id": 1, "made": datetime(2021, 5, 17, 7, 22, 42, tzinfo=UTC)}]
    assert run.report.counts.control == 1


@pytest.mark.slow
def test_the_time_zone_of_the_machine_changes_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.support.feed_records import Run, batch_of, canal\n"
        "types = {'id': 'int', 'at': 'datetime', 'made': 'timestamp'}\n"
        "row = {'id': '1', 'at': '2016-10-15 02:15:15', 'made': '2016-10-15 02:15:15'}\n"
        "messages = [canal(op, row | {'id': str(n)}, types=types) for n, op in enumerate(['INIT', 'INSERT'])]\n"
        "run = Run(Path(sys.argv[1]), 'canal-json', [batch_of(*messages)], options={'time_zone': 'Asia/Shanghai'})\n"
        "table = run.table('shop.orders').to_arrow()\n"
        "print(sorted(zip(map(str, table['at']), map(str, table['made'].cast('int64')))))\n"
    )
    shown = []
    for zone in ("UTC", "Asia/Kathmandu"):
        run = [sys.executable, "-c", code, str(tmp_path / zone.replace("/", "_"))]
        done = subprocess.run(run, env={**os.environ, "TZ": zone}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        shown.append(done.stdout.splitlines()[-1])
    assert shown[0] == shown[1] == str([("2016-10-15 02:15:15", str(1_476_468_915_000))] * 2)


def test_another_primary_key_stops_the_table(tmp_path: Path) -> None:
    records = [batch_of(canal("INSERT", ROW)), batch_of(canal("INSERT", ROW, pkNames=["id", "qty"]), first_offset=1)]

    with pytest.raises(SchemaChangeRefused, match=r"is now \(id, qty\), the primary key of table shop\.orders is"):
        Run(tmp_path, "canal-json", records)


# ---------------------------------------------------------------- Maxwell


def test_a_column_that_is_in_old_alone_became_null(tmp_path: Path) -> None:
    first = maxwell("insert", {"id": 1, "a": "x", "b": "aaaa"}, primary_key_columns=["id"])
    second = maxwell("update", {"id": 1}, {"b": "aaaa"}, primary_key_columns=["id"])

    run = Run(tmp_path, "maxwell-json", [batch_of(first), batch_of(second, first_offset=1)])

    assert run.rows("shop.orders") == [{"id": 1, "a": "x", "b": None}]


@pytest.mark.parametrize(
    "key",
    [{"database": "shop", "table": "orders", "pk.id": 1}, b'["shop","orders",[{"id":1}]]'],
    ids=["hash", "array"],
)
def test_message_keys_name_the_primary_key_of_maxwell(tmp_path: Path, key: Any) -> None:
    records = batch_of(maxwell("insert", {"ID": 1, "a": "x"}), keys=[key])

    assert Run(tmp_path, "maxwell-json", [records]).table("shop.orders").schema.primary_keys == ("ID",)


def test_declared_types_read_the_texts_of_maxwell(tmp_path: Path) -> None:
    types = {"made": "TIMESTAMP_LTZ(6)", "at": "TIMESTAMP(6)", "day": "DATE", "price": "DECIMAL(10, 2)", "bin": "BYTES"}
    row = {
        "id": 1, "made": "2024-05-01 10:00:00.5", "at": "2024-05-01 10:00:00.5", "day": "0000-00-00", "price": 12.50,
        "bin": "AP8=",
    }  # fmt: skip
    rule = KEYED | {"columns": {"types": types}}

    run = Run(tmp_path, "maxwell-json", [batch_of(maxwell("insert", row))], rule, options={"time_zone": "+02:00"})

    (found,) = run.rows("lake.orders")
    assert found["made"] == datetime(2024, 5, 1, 8, 0, 0, 500000, tzinfo=UTC)
    assert (found["at"], found["day"]) == (datetime(2024, 5, 1, 10, 0, 0, 500000), None)
    assert (found["price"], found["bin"]) == (Decimal("12.50"), b"\x00\xff")


# ---------------------------------------------------------------- all


NONE_OF_THEM: list[tuple[str, Any, str]] = [
    ("canal-json", maxwell("insert", {"id": 1}), "type is 'insert'"),
    (
        "canal-json",
        golden_gate("I", None, {"ID": 1}),
        "looks like Oracle GoldenGate JSON; set source.format to ogg-json",
    ),
    ("maxwell-json", dms("insert", {"id": 1}), "looks like AWS DMS JSON; set source.format to dms-json"),
    ("ogg-json", canal("INSERT", ROW), "looks like Canal JSON; set source.format to canal-json"),
    ("dms-json", {"op": "c", "source": {}, "after": {}}, "an envelope of Debezium: set source.format to debezium-json"),
    ("dms-json", {"id": 1}, "value is not a record of AWS DMS; fields: 'id'"),
    ("ogg-json", [1], "value is not a record of GoldenGate: it is not a JSON object"),
    ("maxwell-json", b"\x00\x00\x00\x00\x07\x02ab", "let Maxwell write JSON"),
    ("maxwell-json", b"\xff\xfe{\x00", "UTF-16"),
    ("ogg-json", golden_gate("I", None, None, ID=1), "format=json in the handler"),
    ("canal-json", canal("INSERT", data=None), "op INSERT without a row in data"),
    ("canal-json", canal("UPDATE", ROW, old=[{}, {}]), "old does not have one entry for each row"),
    ("maxwell-json", maxwell("update", {}, encrypted={"iv": "x", "bytes": "y"}), "the row is encrypted"),
    ("dms-json", dms("merge", {"id": 1}), "operation is 'merge'"),
]


@pytest.mark.parametrize(("form", "value", "words"), NONE_OF_THEM)
def test_the_reason_says_what_is_wrong_with_a_record(tmp_path: Path, form: str, value: Any, words: str) -> None:
    raw = str(value).encode() if isinstance(value, list) else value

    run = Run(tmp_path, form, [batch_of(raw)], KEYED | {"columns": {"types": {"id": "INT"}}})

    assert words in run.reasons[0], run.reasons


@pytest.mark.parametrize("form", ["canal-json", "maxwell-json", "ogg-json", "dms-json"])
def test_decoders_travel_to_executors(form: str) -> None:
    decoder = FORMATS[form].decoder({})
    again = pickle.loads(pickle.dumps(decoder))
    records = batch_of(canal("INSERT", ROW))
    assert again.decode(records, {}).counts == decoder.decode(records, {}).counts


def test_old_rows_take_back_what_they_added(tmp_path: Path) -> None:
    options = {"merge-engine": "aggregation", "fields.qty.aggregate-function": "sum"}
    first = maxwell("insert", {"id": 1, "qty": 5}, primary_key_columns=["id"])
    second = maxwell("update", {"id": 1, "qty": 7}, {"qty": 5}, primary_key_columns=["id"])

    run = Run(tmp_path, "maxwell-json", [batch_of(first, second)], table_options=options)

    assert run.rows("shop.orders") == [{"id": 1, "qty": 7}]


@pytest.mark.parametrize(
    ("options", "note"), [({}, "a"), ({"missing_columns": "set_null"}, None)], ids=["compressed", "omitNullValues"]
)
@pytest.mark.parametrize("name", ["NOTE", 'note with "quotes"'])
def test_a_column_that_an_update_of_goldengate_lacks_is_what_the_option_says(
    tmp_path: Path, options: dict[str, str], note: str | None, name: str
) -> None:
    old = {"ID": 1, name: "a", "N": 1}
    events = [golden_gate("I", None, old), golden_gate("U", old, {"ID": 1, "N": 2})]

    run = Run(tmp_path, "ogg-json", [batch_of(*events)], options=options)

    assert run.rows("SHOP.ORDERS", "ID") == [{"ID": 1, name: note, "N": 2}]


def test_records_of_goldengate_without_table_are_of_the_table_of_their_topic(tmp_path: Path) -> None:
    """Flink SQL writes them."""
    events: list[Json] = [
        {"before": None, "after": {"id": 1, "v": "a"}, "op_type": "I"},
        {"before": None, "after": {"id": 2, "v": "b"}, "op_type": "I"},
        {"before": {"id": 1, "v": "a"}, "after": None, "op_type": "D"},
    ]

    run = Run(tmp_path, "ogg-json", [batch_of(*events)], {**KEYED, "match": {"topic": "shop"}})

    assert run.rows("lake.orders") == [{"id": 2, "v": "b"}]


@pytest.mark.parametrize("name", ["NOTE", 'note with "quotes"'])
def test_what_an_update_of_goldengate_leaves_out_has_the_value_before(tmp_path: Path, name: str) -> None:
    """The table has no row that could keep it: the condition has just come true."""
    old = {"ID": 1, "N": 0, name: "a", "M": None}
    rule = {"match": {"table": "ORDERS"}, "into": "lake.orders", "where": "N > 0", "columns": {"types": {"M": "INT"}}}
    events = [golden_gate("I", None, old), golden_gate("U", old, {"ID": 1, "N": 5})]
    events.append(golden_gate("U", old | {"N": 5}, {"ID": 1, name: "b"}))

    for count, note in ((2, "a"), (3, "b")):
        run = Run(tmp_path / note, "ogg-json", [batch_of(*events[:count])], rule)
        assert (run.rows("lake.orders", "ID"), run.reasons) == ([{"ID": 1, "N": 5, name: note, "M": None}], {})


@pytest.mark.parametrize("retract", [{}, {"fields.N.ignore-retract": "true"}], ids=["", "ignore-retract"])
@pytest.mark.parametrize("name", ["NOTE", 'note with "quotes"'])
def test_what_an_update_of_goldengate_leaves_out_counts_once_in_a_sum(
    tmp_path: Path, name: str, retract: dict[str, str]
) -> None:
    old = {"ID": 1, "N": 5, name: "a"}
    rule = {"match": {"table": "ORDERS"}, "into": "lake.orders", "columns": {"types": {"N": "BIGINT"}}}
    options = {"merge-engine": "aggregation", "fields.N.aggregate-function": "sum", **retract}
    events = [golden_gate("I", None, old), golden_gate("U", old, {"ID": 1, name: "b"})]

    run = Run(tmp_path, "ogg-json", [batch_of(*events)], rule, table_options=options)

    assert (run.rows("lake.orders", "ID"), run.reasons) == ([{"ID": 1, "N": 5, name: "b"}], {})


def test_changes_of_a_key_delete_the_old_row(tmp_path: Path) -> None:
    records = batch_of(
        golden_gate("I", None, {"ID": 1, "V": "a"}), golden_gate("U", {"ID": 1, "V": "a"}, {"ID": 2, "V": "a"})
    )

    run = Run(tmp_path, "ogg-json", [records], table_options={"changelog-producer": "input"})

    changes = [row for _, rows in run.table("SHOP.ORDERS").changes() for row in rows.to_pylist()]
    assert [(RowKind(row[VALUE_KIND]).short, row["ID"]) for row in changes] == [("+I", 1), ("-D", 1), ("+I", 2)]


# ---------------------------------------------------------------- DMS


@pytest.mark.parametrize("op", ["load", "insert"])
def test_a_column_with_the_prefix_of_earlier_values_is_a_column_of_new_rows(tmp_path: Path, op: str) -> None:
    rows = [{"id": 1, "code": "a", "BI_code": "b"}, {"id": 2, "code": "c", "BI_code": "d"}]
    update = dms("update", {"id": 2, "code": "c", "BI_code": "e"})

    run = Run(
        tmp_path, "dms-json", [batch_of(*(dms(op, row) for row in rows)), batch_of(update, first_offset=2)], KEYED
    )

    assert [(row["code"], row["BI_code"]) for row in run.rows("lake.orders")] == [("a", "b"), ("c", "e")]


def test_earlier_values_in_a_new_row_are_null_and_no_columns(tmp_path: Path) -> None:
    row = {"id": 1, "code": "a", "BI_id": None, "BI_code": None}

    run = Run(tmp_path, "dms-json", [batch_of(dms("insert", row))], KEYED)

    assert run.rows("lake.orders") == [{"id": 1, "code": "a"}]


@pytest.mark.parametrize(
    ("options", "old"),
    [
        ({}, {"before-image": {"id": 1}}),
        ({"before_image": "before"}, {"before": {"id": 1}}),
        ({}, {"data": {"BI_id": 1}}),
        ({"before_prefix": "old_"}, {"data": {"old_id": 1}}),
        ({"before_prefix": "none", "before_suffix": "_old"}, {"data": {"id_old": 1}}),
        ({"before_suffix": "_old"}, {"data": {"BI_id_old": 1}}),
    ],
)
def test_the_place_of_earlier_values_has_the_name_that_options_say(
    tmp_path: Path, options: dict[str, str], old: Json
) -> None:
    row = {"id": 2, "code": "a"} | old.get("data", {})
    records = batch_of(dms("insert", {"id": 1, "code": "a"}), dms("update", row) | old | {"data": row})

    run = Run(tmp_path, "dms-json", [records], KEYED, options=options)

    assert run.rows("lake.orders") == [{"id": 2, "code": "a"}]
