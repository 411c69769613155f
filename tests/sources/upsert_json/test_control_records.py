"""Control records beside rows are known by their shape in any topic, and rows that look like them stay rows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.row_records import SOURCE, TARGET, decoded, rows_of, stored

SERVER = {"serverName": "srv"}
TRANSACTION = {"status": "BEGIN", "id": "7:1", "event_count": None, "data_collections": None, "ts_ms": 1}
CHANGE = {"source": {"connector": "mysql"}, "ts_ms": 1, "databaseName": "shop", "schemaName": None}
NOTIFICATION = {"id": "c4", "aggregate_type": "Initial Snapshot", "type": "STARTED", "additional_data": {}}
RESOLVED = {"resolved": "1735689600000000000.0000000000"}
KINDS: list[tuple[str, Any, Any]] = [
    ("heartbeat", SERVER, {"ts_ms": 1}),
    ("heartbeat", b"Struct{serverName=srv}", {"ts_ms": 1}),
    ("heartbeat", SERVER, {"ts_ms": 1, "ts_us": 1000, "ts_ns": 1_000_000}),
    ("transaction record", {"id": "7:1"}, TRANSACTION),
    ("transaction record", None, {**TRANSACTION, "status": "END", "event_count": 2, "data_collections": []}),
    ("schema change", {"databaseName": "shop"}, {**CHANGE, "ddl": "CREATE TABLE t(id INT)", "tableChanges": []}),
    ("notification", {"id": "c4"}, {**NOTIFICATION, "timestamp": 1}),
    ("signal", "srv", {"id": "1", "type": "execute-snapshot", "data": {"data-collections": ["a"]}}),
    ("resolved message", None, RESOLVED),
]


@pytest.mark.parametrize("copies", [1, 20])
@pytest.mark.parametrize("schema", [True, False])
@pytest.mark.parametrize(("kind", "key", "value"), KINDS)
def test_control_records_are_counted_by_kind(kind: str, key: Any, value: Any, schema: bool, copies: int) -> None:
    def wrapped(part: Any) -> Any:
        is_bare = not schema or part is None or isinstance(part, bytes)
        return part if is_bare else {"schema": {"type": "struct", "fields": []}, "payload": part}

    rows = [({"id": 1}, {"id": 1, "v": "a"}), (wrapped(key), wrapped(value))] * copies

    found = decoded(rows_of(*rows))

    assert (found.counts.control, found.counts.with_rows, found.quarantine) == (copies, copies, ())
    assert [(c.kind, c.offset) for c in found.control] == [(kind, 101)]


@pytest.mark.parametrize("copies", [1, 20])
def test_logical_messages_are_counted(copies: int) -> None:
    """The transform hands them on as they are."""
    message = {"op": "m", "ts_ms": 1, "source": {"db": "shop"}, "message": {"prefix": "p", "content": "aGk="}}

    found = decoded(rows_of(*[({"prefix": "p"}, message)] * copies, topic="srv.message"), {})

    assert (found.counts.messages, found.counts.accounted, found.observations) == (copies, copies, ())


@pytest.mark.parametrize(("key", "value"), [case[1:] for case in KINDS if case[0] != "schema change"])
def test_a_row_with_metadata_is_none(key: Any, value: Any) -> None:
    for row in ((key, {**value, "__op": "c"}), (key, value, {"__op": "c"}), (key, value, {"__table": "orders"})):
        found = decoded(rows_of(row), {})

        assert (found.counts.control, [s.source for s in found.observations]) == (0, [SOURCE])


@pytest.mark.parametrize("copies", [1, 20])
@pytest.mark.parametrize(
    "row",
    [
        {"id": "e1", "type": "log", "data": {"level": "info"}},
        {"id": "e1", "type": "set-offsets", "data": {}},
        {**NOTIFICATION, "id": "e1", "additional_data": "{}", "timestamp": 5},
        {"id": "e1", "status": "END", "event_count": 5, "ts_ms": 4},
        {"id": "e1", "databaseName": "x", "ddl": "ALTER", "source": {"a": 1}},
    ],
)
def test_rows_of_applications_that_look_similar_are_rows(row: dict[str, Any], copies: int) -> None:
    found = decoded(rows_of(*[({"id": "e1"}, row)] * copies), {})

    assert (found.counts.control, [s.source for s in found.observations]) == (0, [SOURCE])


def test_rows_with_times_alone_are_rows_where_the_key_is_one() -> None:
    (seen,) = decoded(rows_of(({"ts_ms": 1}, {"ts_ms": 1})), {}).observations

    assert [column.name for column in seen.columns] == ["ts_ms"]
    assert stored(decoded(rows_of(({"id": 1}, {"id": 1, "v": '"event_count" "data_collections"'}))))[0][2]
    assert TARGET.primary_key == ("id",)
