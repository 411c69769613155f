"""Topics as the tools write them, with the tables that they must give."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

from tests.support.feed_records import Run, dump

WKB = b"\x00\x00\x00\x00\x01\x01" + b"\x00" * 9 + b"\xf0?" + b"\x00" * 7 + b"@"
MADE = "2024-05-01 09:00:00"


def test_canal_writes_all_tables_of_a_database_into_one_topic(tmp_path: Path) -> None:
    run = Run(tmp_path, "canal-json", [dump("canal")])

    assert run.rows("shop.orders") == [
        {"id": 1, "qty": 20, "price": Decimal("1.10"), "coupon": None},
        {"id": 3, "qty": 5_000_000_000, "price": Decimal("3.30"), "coupon": "NEW"},
    ]
    ann, cat, bob = run.rows("shop.customers")
    assert ann == {
        "id": 1, "email": "ann@example.com", "name": "Ann", "level": "gold", "tags": "a,c", "vip": 1, "age": 200,
        "balance": Decimal("11.00"), "score": 1.5, "born": date(1990, 2, 28),
        "joined": datetime(2024, 5, 1, 10, 0, 0, 123000), "seen": datetime(2024, 5, 1, 10, 0, 5),
        "worktime": "08:30:00", "since": 2020, "flags": 513, "active": True, "avatar": b"\x00\xff\xe9", "note": None,
        "extra": '{"a": [1, 2]}', "place": WKB,
    }  # fmt: skip
    assert (cat["id"], cat["name"], cat["level"], cat["tags"], cat["note"]) == (4, "Cät", "it's", "", None)
    told = {name: value for name, value in bob.items() if value is not None}
    assert told == {"id": 2**64 - 1, "email": "bob@example.com", "name": "Bob", "worktime": "-838:59:59"}
    assert run.types("shop.customers") == {
        "id": "DECIMAL(20, 0) NOT NULL", "email": "STRING", "name": "STRING", "level": "STRING", "tags": "STRING",
        "vip": "TINYINT", "age": "SMALLINT", "balance": "DECIMAL(12, 2)", "score": "DOUBLE", "born": "DATE",
        "joined": "TIMESTAMP(3)", "seen": "TIMESTAMP(0)", "worktime": "STRING", "since": "INT", "flags": "BIGINT",
        "active": "BOOLEAN", "avatar": "BYTES", "note": "STRING", "extra": "STRING", "place": "BYTES",
    }  # fmt: skip
    assert run.report.counts.control == 5
    assert {offset: "have no key" in reason for offset, reason in run.reasons.items()} == {11: True, 12: True}


def test_ticdc_writes_types_without_width_in_any_order(tmp_path: Path) -> None:
    run = Run(tmp_path, "canal-json", [dump("ticdc")])

    first, second = run.rows("test.items")
    same = {
        "level": 1, "tags": 3, "at": datetime(2024, 5, 1, 10, 0, 0, 100), "made": datetime(2024, 5, 1, 10),
        "data": b"\x01\xfe", "bits": 65, "f": 0.10000000149011612, "y": 2024,
    }  # fmt: skip
    assert first == {"id": 1, "name": "a", "price": Decimal("13.000"), **same}
    assert second == {"id": 2**64 - 2, "name": "b", "price": None, **same}
    types = run.types("test.items")
    assert [types[name] for name in ("price", "at", "made")] == ["DECIMAL(38, 3)", "TIMESTAMP(6)", "TIMESTAMP(0)"]
    assert run.report.counts.control == 3
    assert sorted(run.reasons) == [6, 7]
    assert "onlyHandleKey" in run.reasons[6] and "claimCheckLocation" in run.reasons[7]


def test_maxwell_bootstraps_a_table_and_leaves_nulls_out(tmp_path: Path) -> None:
    run = Run(tmp_path, "maxwell-json", [dump("maxwell")])

    ann, bob, cat, dan = run.rows("test.e")
    rest = {
        "m": 4.2341, "big": 2**64 - 1, "price": 12.5, "tags": ["x", "y"], "doc": '{"name":"inner","n":[1]}',
        "bin": "AP/p", "at": "2024-05-01 10:00:00.123000", "day": "2024-05-01", "c": None,
    }  # fmt: skip
    assert ann == {"id": 1, "name": "Ann", "address2": None, **rest}
    assert bob == {"id": 2, "name": "Bobby", "address2": None, **rest}
    assert (cat["id"], cat["name"], cat["m"], dan["id"], dan["c"]) == (4, "Cat", 1.0, 5, 7)
    assert run.report.counts.control == 3
    assert [*run.reasons] == [11]


def test_golden_gate_compresses_updates(tmp_path: Path) -> None:
    run = Run(tmp_path, "ogg-json", [dump("ogg")])

    assert run.rows("SHOP.ORDERS", "ID") == [
        {"ID": 1, "NOTE": "z", "QTY": 2, "PRICE": 13.25, "MADE": MADE},
        {"ID": 20, "NOTE": "b", "QTY": 2, "PRICE": 12.5, "MADE": MADE},
        {"ID": 30, "NOTE": None, "QTY": 5, "PRICE": 12.5, "MADE": MADE},
    ]
    assert run.rows("PDB1.NOTES", "ID") == [{"ID": 4, "NOTE": "other"}]
    assert (run.report.counts.control, run.reasons) == (1, {})


def test_dms_writes_rows_from_before_updates_in_two_ways(tmp_path: Path) -> None:
    rule = {"match": {"table": "orders"}, "into": "lake.orders", "primary_key": ["id"]}

    run = Run(tmp_path, "dms-json", [dump("dms")], rule)

    nothing = {"price": None, "made": None, "paid": None, "more": None}
    assert run.rows("lake.orders") == [
        {"id": 1, "note": None, "price": 13.25, "made": "2024-05-01T09:00:00Z", "paid": True, "more": None},
        {"id": 4, "note": "d", **nothing, "more": 5},
        {"id": 30, "note": "c", **nothing},
    ]
    assert (run.report.counts.control, run.reasons) == (2, {})


def test_dms_names_no_key_so_a_table_without_one_is_a_log(tmp_path: Path) -> None:
    run = Run(tmp_path, "dms-json", [dump("dms")])

    rows = run.rows("shop.orders", "event_offset")
    assert [(row["event_kind"], row["event_op"]) for row in rows[:2]] == [("+I", "load")] * 2
    assert [row["event_kind"] for row in rows[2:]] == ["+I", "+U", "+U", "+U", "-D", "+I"]
    assert rows[2]["event_time"].isoformat() == "2024-05-01T10:00:00+00:00"
