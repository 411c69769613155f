"""Events as connectors of Debezium 3 write them: finer times, transactions, positions, incremental snapshots."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sources.debezium_json.decoder import DebeziumJsonDecoder
from tests.support.envelope_records import SOURCE, TWO_COLUMNS, Json, decode, event, kinds_and, records

MILLIS = 1_795_297_255_039
TIMES = {"ts_ms": MILLIS, "ts_us": MILLIS * 1000 + 531, "ts_ns": MILLIS * 10**6 + 531_000}
TRANSACTION = {"id": "1170:26797848", "total_order": 2, "data_collection_order": 1}
POSTGRESQL = {"sequence": '["26796728","26797640"]', "txId": 1170, "lsn": 26797640, "xmin": None, "origin": None}
MYSQL = {"server_id": 7, "gtid": "a:1-5", "file": "bin.000003", "pos": 154, "row": 0, "thread": 9, "query": None}


def event_of_3(op: str, row: Json | None, snapshot: str = "false", at: int = 0, source: Json = POSTGRESQL) -> Json:
    """An event with all that version 3 writes; ``at`` moves its times."""
    times = {name: time + at for name, time in TIMES.items()}
    images = (row, None) if op == "d" else (None, row)
    whole = event(op, *images)
    block = {**whole["source"], **times, "snapshot": snapshot, **source}
    return {**whole, "source": block, "transaction": {**TRANSACTION, "total_order": at}, **times}


@pytest.mark.parametrize("copies", [1, 30])
@pytest.mark.parametrize("source", [POSTGRESQL, MYSQL], ids=["postgresql", "mysql"])
def test_times_transactions_and_positions_leave_the_rows_alone(source: Json, copies: int) -> None:
    ops = "rcud" * copies
    values = [event_of_3(op, {"id": 1, "v": "a"}, at=at, source=source) for at, op in enumerate(ops)]

    found = decode(records(values), TWO_COLUMNS)

    kinds = {"r": "+I", "c": "+I", "u": "+U", "d": "-D"}
    assert kinds_and(found, "id", "v") == [(kinds[op], 1, "a", 100 + at) for at, op in enumerate(ops)]
    assert (found.counts.exact, found.quarantine) == (0, ())


@pytest.mark.parametrize("copies", [1, 30])
def test_rows_of_an_incremental_snapshot_stand_among_changes_in_their_order(copies: int) -> None:
    """Debezium drops a snapshot row that a change inside its window overtook; what it sends, counts as it comes."""
    window = [
        event_of_3("u", {"id": 1, "v": "live"}),
        event_of_3("r", {"id": 2, "v": "read"}, "incremental"),
        event_of_3("d", {"id": 3, "v": None}),
        event_of_3("r", {"id": 1, "v": "live"}, "incremental"),
        event_of_3("u", {"id": 2, "v": "later"}),
    ]

    found = kinds_and(decode(records(window * copies), TWO_COLUMNS), "id", "v")

    expected = [("+U", 1, "live"), ("+I", 2, "read"), ("-D", 3, None), ("+I", 1, "live"), ("+U", 2, "later")]
    assert [row[:3] for row in found] == expected * copies
    assert [row[3] for row in found] == [100 + at for at in range(5 * copies)]


@pytest.mark.parametrize("copies", [1, 30])
def test_messages_and_truncates_are_counted_beside_rows(copies: int) -> None:
    message = {**event_of_3("m", None), "message": {"prefix": "p", "content": "aGk="}}
    del message["before"], message["after"]
    values = [event_of_3("c", {"id": 1, "v": "a"}), message, event_of_3("t", None)] * copies
    skipping = replace(TWO_COLUMNS, on_truncate="skip")

    counts = DebeziumJsonDecoder().decode(records(values), {SOURCE: skipping}).counts

    assert (counts.with_rows, counts.messages, counts.truncates, counts.quarantined) == (copies, copies, copies, 0)


@pytest.mark.parametrize("kept", [("ts_us",), ("ts_ns",), ("ts_ms", "ts_us", "ts_ns")])
@pytest.mark.parametrize("copies", [1, 30])
def test_the_time_of_an_event_log_comes_from_whichever_unit_there_is(kept: tuple[str, ...], copies: int) -> None:
    value = event_of_3("c", {"id": 1, "v": "a"})
    source = {name: v for name, v in value["source"].items() if name not in TIMES or name in kept}
    log = replace(TWO_COLUMNS, primary_key=(), on_change="log")

    (change,) = decode(records([{**value, "source": source}] * copies), log).changes

    times = {round(time.timestamp() * 1000) for time in change.rows.column("event_time").to_pylist()}
    assert times == {MILLIS}
