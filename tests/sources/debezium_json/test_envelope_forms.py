"""Envelopes as other writers than Debezium's own converters and connectors form them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sources.changes import SourceTable
from sources.debezium_json.decoder import DebeziumJsonDecoder
from sources.debezium_json.event_sorting import EventSorter
from sources.debezium_json.message_keys import MessageKeys
from sources.debezium_json.policies import DebeziumPolicies
from sources.debezium_json.source_times import source_times
from sources.debezium_json.texts import SourceNames, Texts
from sources.json_changes.outcome import Outcome
from tests.support.envelope_records import (
    TWO_COLUMNS,
    Json,
    decode,
    event,
    kinds_and,
    raw,
    records,
)

COCKROACH = {"origin": "cockroachdb", "database_name": "shop1", "schema_name": "public", "table_name": "orders"}


def enriched(op: str, after: Json | None, before: Json | None = None, **source: Any) -> Json:
    named = {**COCKROACH, "ts_ns": 1_735_689_600_123_456_789, **source}
    return {"after": after, "before": before, "op": op, "source": named, "ts_ns": 1}


@pytest.mark.parametrize("copies", [1, 20])
@pytest.mark.parametrize("is_key_wrapped", [False, True])
@pytest.mark.parametrize("is_value_wrapped", [False, True])
def test_key_and_value_are_unwrapped_each_for_itself(is_key_wrapped: bool, is_value_wrapped: bool, copies: int) -> None:
    def wrapped(part: Json, is_wrapped: bool) -> Json:
        return {"payload": part} if is_wrapped else part

    events = [event("c", None, {"id": 1, "v": "a"}), event("d", None)] * copies
    values = [wrapped(e, is_value_wrapped) for e in events] + [{"payload": None}]
    keys = [wrapped({"id": 1}, is_key_wrapped)] * len(values)

    decoded = decode(records(values, keys), TWO_COLUMNS)

    assert [row[:3] for row in kinds_and(decoded, "id", "v")] == [("+I", 1, "a"), ("-D", 1, None)] * copies
    assert (decoded.counts.tombstones, decoded.quarantine) == (1, ())


def test_a_message_key_with_the_lone_column_payload_is_no_wrapper() -> None:
    keys = [{"payload": 1}, {"payload": {"id": 1}}, {"payload": "x"}, {"payload": {"payload": 1, "id": 2}}]

    found = MessageKeys(records([None] * 4, keys).column("key"))

    assert [found.fields[code] for code in found.codes(np.arange(4)).tolist()] == [
        ("payload",),
        ("id",),
        ("payload",),
        ("payload", "id"),
    ]


@pytest.mark.parametrize("copies", [1, 40])
def test_cockroachdb_names_its_source_tables_in_its_own_words(copies: int) -> None:
    values = [enriched("c", {"id": 1}, table_name=f"t{number}") for number in (1, 2)] * copies

    seen = DebeziumJsonDecoder().decode(records(values, topic="any"), {}).observations

    assert {o.source for o in seen} == {SourceTable("any", "shop1", "public", name) for name in ("t1", "t2")}


@pytest.mark.parametrize("copies", [1, 40])
@pytest.mark.parametrize("source", [{"db": ""}, {"db": None, "schema": ""}, {}])
def test_the_keyspace_is_the_database_of_vitess_and_cassandra(source: Json, copies: int) -> None:
    value = {"before": None, "after": {"id": 1}, "source": {**source, "keyspace": "shop", "table": "t"}, "op": "c"}

    (seen,) = DebeziumJsonDecoder().decode(records([value] * copies, topic="any"), {}).observations

    assert seen.source == SourceTable("any", "shop", None, "t")


@pytest.mark.parametrize("copies", [1, 40])
def test_names_with_digits_are_told_apart_in_split_envelopes(copies: int) -> None:
    """Debezium's order of fields, where the texts are cut before the source block."""
    values = [
        {"before": None, "after": {"id": 1}, "source": {**COCKROACH, "table_name": f"t{number}"}, "op": "c"}
        for number in (1, 2)
    ]

    decoded = DebeziumJsonDecoder().decode(records(values * copies, topic="any"), {})

    assert {o.source.table for o in decoded.observations} == {"t1", "t2"}


def test_debeziums_own_names_win() -> None:
    value = enriched("c", {"id": 1}, db="shop", table="orders", schema=None)

    (seen,) = DebeziumJsonDecoder().decode(records([value], topic="any"), {}).observations

    assert seen.source == SourceTable("any", "shop", "public", "orders")


@pytest.mark.parametrize(("unit", "time"), [("ts_us", 1_735_689_600_123_456), ("ts_ns", 1_735_689_600_123_456_789)])
def test_the_time_of_a_change_comes_in_any_unit(unit: str, time: int) -> None:
    value = {**event("c", None, {"id": 1}), "source": {"table": "orders", unit: time}}
    batch = records([value])
    sorter = EventSorter(SourceNames("t"), DebeziumPolicies(), Outcome(batch))

    sorter.sort(Texts(pa.array([raw(value)], pa.binary()), np.arange(1)))
    ((events,),) = sorter.events.values()

    assert source_times(events).to_pylist() == [1_735_689_600_123]


def test_rows_of_cockroachdb_are_decoded() -> None:
    source = SourceTable("any", "shop1", "public", "orders")
    values = [enriched("c", {"id": 1, "v": "a"}), enriched("d", None, {"id": 1, "v": "a"})]

    decoded = DebeziumJsonDecoder().decode(records(values, topic="any"), {source: TWO_COLUMNS})

    assert [row[:2] for row in kinds_and(decoded, "id")] == [("+I", 1), ("-D", 1)]
