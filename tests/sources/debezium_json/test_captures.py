"""Captured topics of a real Debezium connector, decoded whole, give the source tables' final content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from paimon_table.types import DataType, Root, parse_type
from tests.support.replay import assert_final, assert_nothing_lost, replay_capture

SHOP_TYPES = {
    "customers": {"credit": parse_type("DECIMAL(12, 2)"), "created_at": parse_type("TIMESTAMP_LTZ(6)")},
    "orders": {
        "total": parse_type("DECIMAL(10, 2)"),
        "placed_at": parse_type("TIMESTAMP_LTZ(6)"),
        "updated_at": parse_type("TIMESTAMP_LTZ(6)"),
    },
    "order_items": {"unit_price": parse_type("DECIMAL(10, 2)")},
}
VARIED_TYPES = {
    name: parse_type(text)
    for name, text in {
        "i2": "SMALLINT",
        "i4": "INT",
        "n102": "DECIMAL(10, 2)",
        "n3810": "DECIMAL(38, 10)",
        "money_c": "DECIMAL(20, 2)",
        "f4": "FLOAT",
        "by": "BYTES",
        "d": "DATE",
        "tm3": "TIME(3)",
        "ts": "TIMESTAMP(6)",
        "ts3": "TIMESTAMP(3)",
        "tstz": "TIMESTAMP_LTZ(6)",
        "an": "ARRAY<DECIMAL(6, 2)>",
    }.items()
}
ELSEWHERE = {"iv", "hs", "ttz", "pt", "bit8", "vbit"}
"""Columns of ``varied`` whose Paimon form is another text than PostgreSQL's; they have tests of their own."""


@pytest.mark.slow
@pytest.mark.parametrize("rows", [10_000, 97])
@pytest.mark.parametrize(("name", "declared"), [("shop_schema", None), ("shop_plain", SHOP_TYPES)])
def test_shop_equals_its_source(name: str, declared: Mapping[str, Mapping[str, DataType]] | None, rows: int) -> None:
    replay = replay_capture(name, declared, rows)

    assert_nothing_lost(replay)
    assert_final(replay, "shop", "customers", ["id"])
    assert_final(replay, "shop", "orders", ["id"])
    assert_final(replay, "shop", "order_items", ["order_id", "line_no"])


@pytest.mark.slow
def test_shop_without_any_types_keeps_every_text_and_number() -> None:
    replay = replay_capture("shop_plain")

    assert_nothing_lost(replay)
    assert_final(replay, "shop", "customers", ["id"], without=SHOP_TYPES["customers"])
    assert_final(replay, "shop", "orders", ["id"], without=SHOP_TYPES["orders"])


@pytest.mark.slow
@pytest.mark.parametrize("rows", [10_000, 1])
@pytest.mark.parametrize("table", ["varied", "varied_full"])
@pytest.mark.parametrize(("name", "declared"), [("types_schema", {}), ("types_plain", VARIED_TYPES)])
def test_types_equal_their_source(name: str, declared: Mapping[str, DataType], table: str, rows: int) -> None:
    replay = replay_capture(name, {"varied": declared, "varied_full": declared}, rows)

    assert_nothing_lost(replay)
    times = {"tm"} if name == "types_plain" else set()
    nested = {"ai"} if table == "varied" else set()
    assert_final(replay, "types", table, ["id"], without=ELSEWHERE | times | nested)


def test_forms_that_differ_from_postgresql_text() -> None:
    rows = replay_capture("types_schema").tables["varied_full"]

    row = rows[(1,)]
    assert row["iv"] == 37_091_106_700_000
    assert row["hs"] == '{"a":"1","b":null}'
    assert row["ttz"] == "08:11:12Z"
    assert row["pt"] == {"x": 1.5, "y": -2.5, "wkb": row["pt"]["wkb"], "srid": None}
    assert (row["bit8"], row["vbit"], row["bit1"]) == (b"\xaa", b"\x0b", True)


def test_a_time_at_the_end_of_the_day_is_text() -> None:
    assert replay_capture("types_schema").tables["varied"][(4,)]["tm"] == "24:00:00"


@pytest.mark.parametrize("name", ["types_schema", "types_plain"])
def test_odd_names(name: str) -> None:
    replay = replay_capture(name)

    assert replay.tables["Odd Name"] == {(2, "k 2"): {"Key Col": "k 2", "ключ": 2, "a.b": 20, "select": None}}


def test_infinite_and_ancient_values() -> None:
    rows = replay_capture("types_schema").tables["edge"]
    largest, smallest = (1 << 63) - 1, -(1 << 63)

    assert [rows[(i,)]["ts"] for i in (1, 2, 3)] == [largest, largest, smallest]
    assert [rows[(i,)]["tstz"] for i in (1, 2, 3)] == [smallest, -63517824000000000, largest]
    assert [rows[(i,)]["n"] for i in (1, 2, 3)] == ["1", "0.5", "-1"]
    assert [str(rows[(i,)]["f4"]) for i in (1, 2, 3)] == ["nan", "-inf", "inf"]
    assert [str(rows[(i,)]["f8"]) for i in (1, 2, 3)] == ["inf", "nan", "-inf"]
    assert [rows[(i,)]["d"] for i in (1, 2, 3)] == [2932896, -703383, -2440550]


def test_defaults_arrive_as_the_converter_made_them() -> None:
    row = replay_capture("types_schema").tables["defaults"][(3,)]

    assert (row["ts"], str(row["n"]), row["b"]) == (1767225600000000, "1.500", True)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [10_000, 7])
def test_evolution_with_schemas_ends_equal_to_the_source(rows: int) -> None:
    replay = replay_capture("evolve_schema", rows=rows)

    assert_nothing_lost(replay)
    assert replay.types("acct")["balance"] == parse_type("DECIMAL(21, 2)")
    touched = [row for row in replay.tables["acct"].values() if row.get("title") is not None]
    assert len(touched) == 3
    assert_final(replay, "evolve", "acct", ["id"], without=["title"])
    assert_final(replay, "evolve", "acct_full", ["id"], without=["title"])
    assert_final(replay, "evolve", "late", ["id"])
    assert_final(replay, "evolve", "wiped", ["id"])
    assert replay.tables["wiped_child"] == {}


@pytest.mark.slow
def test_evolution_without_schemas_follows_declared_types() -> None:
    balance = {"balance": parse_type("DECIMAL(20, 2)")}
    replay = replay_capture("evolve_plain", {"acct": balance, "acct_full": balance}, rows=7)

    assert_nothing_lost(replay)
    assert_final(replay, "evolve", "acct", ["id"], without=["title"])
    assert_final(replay, "evolve", "acct_full", ["id"], without=["title"])
    assert_final(replay, "evolve", "late", ["id"])


@pytest.mark.slow
def test_a_table_without_a_key_gives_all_its_changes() -> None:
    changes = replay_capture("evolve_schema").bags["nopk"]

    assert [(c["kind"], c["a"], c["b"]) for c in changes] == [
        ("+I", 1, "a"),
        ("+I", 1, "a"),
        ("+I", 2, "b"),
        ("+I", 3, "c"),
        ("+U", 2, "bb"),
        ("-D", 1, "a"),
        ("-D", 1, "a"),
    ]


def test_unsent_toast_values_keep_the_earlier_value() -> None:
    replay = replay_capture("types_schema")
    hidden: list[Any] = []
    for decoded in replay.decoded:
        for change in decoded.changes:
            if change.source.table == "varied":
                hidden += change.rows.column("_UNAVAILABLE").to_pylist()
    position = list(replay.types("varied")).index("ltoast")

    assert [h for h in hidden if h] == [[position], [position]]
    assert replay.tables["varied"][(1,)]["ltoast"].startswith("new-")


def test_roots_of_created_types() -> None:
    types = replay_capture("types_schema").types("varied")

    assert types["nany"].root is Root.VARCHAR
    assert types["money_c"] == parse_type("DECIMAL(38, 2)")
    assert types["tm"].root is Root.VARCHAR
    assert types["tm3"] == parse_type("TIME(3)")
