"""Control records are known by their shape in any topic, and rows that look like them stay rows."""

from __future__ import annotations

from typing import Any

import pytest

from sources.changes import Decoded
from sources.debezium_json.decoder import DebeziumJsonDecoder
from tests.support.envelope_records import Json, event, records

SERVER = {"serverName": "srv"}
TRANSACTION = {"id": "7", "event_count": 1, "data_collections": [], "ts_ms": 1}
CHANGED: Json = {"source": {"connector": "sqlserver"}, "ts_ms": 1, "databaseName": "shop", "schemaName": "dbo"}
NOTIFICATION = {"id": "c4", "aggregate_type": "Initial Snapshot", "type": "STARTED", "additional_data": {}}


def decoded(value: Any, key: Any = None, topic: str = "any.topic", copies: int = 1) -> Decoded:
    return DebeziumJsonDecoder().decode(records([value] * copies, [key] * copies, topic=topic), {})


@pytest.mark.parametrize("copies", [1, 20])
@pytest.mark.parametrize("wrapper", [{}, {"payload": None}, {"schema": None, "payload": None}])
@pytest.mark.parametrize(
    ("kind", "value", "key"),
    [
        ("heartbeat", {"ts_ms": 1}, SERVER),
        ("transaction record", {**TRANSACTION, "status": "BEGIN"}, {"id": "7"}),
        ("transaction record", {**TRANSACTION, "status": "END"}, None),
        ("schema change", {**CHANGED, "ddl": None, "tableChanges": [{"type": "CREATE"}]}, {"databaseName": "shop"}),
        ("schema change", {"source": {"server": "s"}, "position": {}, "databaseName": "", "ddl": "SET x"}, None),
        ("notification", NOTIFICATION, {"id": "c4"}),
        ("notification", {**NOTIFICATION, "additional_data": None, "timestamp": 1}, None),
        ("signal", {"type": "execute-snapshot", "data": {"data-collections": ["a"]}}, "srv"),
        ("resolved message", {"resolved": "1735689600000000000.0000000000"}, None),
        ("resolved message", {"__crdb__": {"resolved": "1735689600000000000.0000000000"}}, None),
    ],
)
def test_control_records_are_counted_by_kind(kind: str, value: Json, key: Any, wrapper: Json, copies: int) -> None:
    def wrapped(part: Any) -> Any:
        return {**wrapper, "payload": part} if wrapper else part

    found = decoded(wrapped(value), None if key is None else wrapped(key), copies=copies)

    assert (found.counts.control, found.counts.accounted, found.observations) == (copies, copies, ())
    assert [(c.topic, c.kind, c.partition, c.offset) for c in found.control] == [("any.topic", kind, 2, 100)]


@pytest.mark.parametrize("key", [b"Struct{serverName=srv}", b"\x00\x00\x00\x00\x01\x06srv", SERVER])
def test_a_heartbeat_may_have_a_key_of_another_converter(key: Any) -> None:
    assert decoded({"ts_ms": 1, "ts_us": 1000, "ts_ns": 1_000_000}, key).counts.control == 1


@pytest.mark.parametrize("key", [None, {"id": 1}])
def test_a_heartbeat_topic_stands_in_for_the_key(key: Json | None) -> None:
    assert decoded({"ts_ms": 1}, key, "__debezium-heartbeat.srv").counts.control == 1
    assert decoded({"ts_ms": 1}, key, "my-heartbeats").counts.control == (1 if key is None else 0)


def test_a_log_signal_needs_a_topic_of_signals() -> None:
    assert decoded({"id": "1", "type": "log", "data": {"message": "m"}}, "srv", "srv-signal").counts.control == 1


@pytest.mark.parametrize("topic", ["t", "__debezium-heartbeat.srv"])
@pytest.mark.parametrize(
    "row", [{"ts_ms": 1}, {"resolved": "1735689600000000000.0000000000"}, {"id": "a", "type": "log", "data": "{}"}]
)
def test_an_envelope_is_a_row_whatever_is_in_it(row: Json, topic: str) -> None:
    (seen,) = decoded(event("c", None, row), SERVER, topic).observations

    assert [column.name for column in seen.columns] == [*row]


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ({"ts_ms": 1}, {"ts_ms": 1}),
        ({"ts_ms": 1}, None),
        ({"ts_ms": 1, "id": 1}, SERVER),
        ({"id": "a", "status": "BEGIN", "ts_ms": 1}, {"id": "a"}),
        ({"id": "a", "type": "log", "data": "{}"}, {"id": "a"}),
        ({"id": "a", "type": "log", "data": {"level": "info"}}, {"id": "a"}),
        ({"id": "a", "type": "log", "data": {"level": "info"}}, "web-1"),
        ({"id": "a", "type": "execute-snapshot", "data": {}}, "a"),
        ({"id": "a", "status": "END", "event_count": 5, "ts_ms": 4}, {"id": "a"}),
        ({**NOTIFICATION, "additional_data": "{}", "timestamp": 5}, {"id": "c4"}),
        ({**NOTIFICATION, "aggregate_type": "order", "additional_data": None}, {"id": "c4"}),
        ({"id": 1, "databaseName": "x", "ddl": "ALTER", "source": {}}, {"id": 1}),
        ({"resolved": True}, None),
        ({"resolved": "1735689600000000000.0000000000"}, {"id": 1}),
        ({"databaseName": "a", "ddl": "b"}, {"id": 1}),
    ],
)
def test_rows_without_envelope_are_no_control_records(value: Json, key: Json | None) -> None:
    (row,) = decoded(value, key).quarantine

    assert "no field op" in row.reason
