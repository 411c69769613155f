"""Message keys that are not the table's primary key: changed in the source, missing, or only a part of it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.errors import SchemaChangeRefused
from paimon_table.table import Table
from sources.changes import RECORD_SCHEMA
from tests.support.keyed_events import Event, Row, batch_of, created
from tests.support.local_batches import pipeline_tables, run_batches


def run(directory: Path, *batches: Sequence[Event], with_schema: bool = False, **rule: object) -> list[str]:
    """Each batch as a run of its own; returns the reasons of the quarantine."""
    offset, reasons = 0, []
    for number, events in enumerate(batches):
        tables = pipeline_tables(directory, [{"match": {"table": "t"}, "into": "lake.t", **rule}])
        quarantine = run_batches(tables, [batch_of(offset, events, with_schema)], directory, number)
        offset += len(events)
        reasons = list(reasons_in(Path(quarantine.path)))
    return reasons


def reasons_in(quarantine: Path) -> Iterator[str]:
    for file in sorted(quarantine.rglob("*.jsonl")):
        yield from (json.loads(line)["reason"] for line in file.open())


def rows_in(directory: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = Table.open(str(directory / "warehouse" / "lake.db" / "t")).to_arrow().to_pylist()
    return sorted(rows, key=lambda row: (row["id"], row.get("k2") or ""))


FIRST = created({"id": 1}, k2="a", n=1)
CHANGED = created({"id": 1, "k2": "b"}, n=2)


@pytest.mark.parametrize("batches", [[[FIRST], [CHANGED]], [[FIRST, CHANGED]]])
@pytest.mark.parametrize("rule", [{}, {"primary_key": ["id"]}])
def test_a_changed_primary_key_of_the_source_stops_with_both_keys(
    tmp_path: Path, batches: list[list[Event]], rule: dict[str, Any]
) -> None:
    place = (
        r"shop\.public\.t partition 0 offset 1: .*now \(id, k2\), the primary key of table lake\.t is \(id\).*`into`"
    )

    with pytest.raises(SchemaChangeRefused, match=place):
        run(tmp_path, *batches, **rule)


def test_a_key_that_becomes_narrower_stops_too(tmp_path: Path) -> None:
    with pytest.raises(SchemaChangeRefused, match=r"now \(id\), .* is \(id, k2\).*set primary_key: \[id, k2\]"):
        run(tmp_path, [CHANGED], [FIRST])


def test_a_new_column_in_the_message_key_stops_before_it_is_a_column(tmp_path: Path) -> None:
    with pytest.raises(SchemaChangeRefused, match=r"now \(id, k3\)"):
        run(tmp_path, [created({"id": 1}, n=1), created({"id": 1, "k3": 2}, n=2)])


def test_a_table_of_another_key_is_not_written_by_the_message_key(tmp_path: Path) -> None:
    run(tmp_path, [CHANGED])

    with pytest.raises(SchemaChangeRefused, match=r"now \(id\), the primary key of table lake\.t is \(id, k2\)"):
        run(tmp_path, [FIRST])


def test_the_order_of_key_fields_does_not_matter(tmp_path: Path) -> None:
    run(tmp_path, [CHANGED], [created({"k2": "b", "id": 1}, n=3)])

    assert rows_in(tmp_path) == [{"id": 1, "k2": "b", "n": 3}]


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (None, "no message key"),
        (b"Struct{id=1}", "not a JSON object"),
        ({"ie": 1}, "(ie) names a column that the row does"),
    ],
)
def test_a_single_record_with_another_key_goes_to_quarantine(
    tmp_path: Path, key: Row | bytes | None, words: str
) -> None:
    odd: Event = (key, "c", None, {"id": 2, "k2": "b", "n": 2})

    reasons = run(tmp_path, [FIRST], [odd, created({"id": 3}, k2="c", n=3)])

    assert [row["id"] for row in rows_in(tmp_path)] == [1, 3]
    assert len(reasons) == 1 and words in reasons[0]


def test_a_stated_key_takes_records_without_a_readable_message_key(tmp_path: Path) -> None:
    odd: list[Event] = [(key, "c", None, {"id": n, "n": n}) for n, key in enumerate((None, b"x", b"7", b"{}"))]

    assert run(tmp_path, odd, primary_key=["id"]) == []
    assert len(rows_in(tmp_path)) == 4


def test_a_stated_key_beside_the_message_key_stays_possible(tmp_path: Path) -> None:
    events = [created({"order": n}, id=n % 2, n=n) for n in range(4)]
    summed = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}

    assert run(tmp_path, events[:2], events[2:], primary_key=["id"], options=summed) == []
    assert [row["n"] for row in rows_in(tmp_path)] == [2, 4]


LATER = [created({"id": 1}, s="a"), created({"id": 1, "s": "b"}), created({"s": "c"}, id=2)]


@pytest.mark.parametrize("odd", [None, b"x", {"ie": 1}])
@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_the_first_message_key_may_come_late(tmp_path: Path, odd: Row | bytes | None, cut: int) -> None:
    events = [(odd, "c", None, {"id": 1, "s": "x"}), *LATER]

    with pytest.raises(SchemaChangeRefused, match=r"offset 2: its message key was \(id\) and is now \(id, s\)"):
        run(tmp_path, events[:cut], *([event] for event in events[cut:]), primary_key=["id"])


@pytest.mark.slow
def test_many_records_without_a_key_before_the_first(tmp_path: Path) -> None:
    events: list[Event] = [(None, "c", None, {"id": n, "s": "x"}) for n in range(200)]

    assert run(tmp_path, events, [LATER[0]], [LATER[0]], primary_key=["id"]) == []
    with pytest.raises(SchemaChangeRefused, match=r"was \(id\)"):
        run(tmp_path / "at once", [*events, *LATER], primary_key=["id"])


# ---------------------------------------------------------------- primary keys beyond the message key

OLD = {"id": 1, "k2": "a", "n": 1, "note": None}
MADE_UP = {"id": 1, "k2": "", "n": 0, "note": None}


def beyond(directory: Path, *events: Event, with_schema: bool = False, **rule: object) -> list[str]:
    first: Event = ({"id": 1}, "c", None, OLD)
    types = {"types": {"note": "STRING"}}
    return run(directory, [first, *events], with_schema=with_schema, primary_key=["id", "k2"], columns=types, **rule)


@pytest.mark.parametrize("rule", [{}, {"before": "full"}, {"partition_by": ["k2"]}])
def test_an_update_without_its_old_row_goes_to_quarantine(tmp_path: Path, rule: dict[str, Any]) -> None:
    reasons = beyond(tmp_path, ({"id": 1}, "u", None, {**OLD, "k2": "b"}), **rule)

    assert rows_in(tmp_path) == [OLD]
    assert len(reasons) == 1 and "op u without the old row: k2" in reasons[0] and "REPLICA IDENTITY FULL" in reasons[0]


@pytest.mark.parametrize("before", [MADE_UP, {**MADE_UP, "k2": "eu"}, {**OLD, "k2": None}, None])
@pytest.mark.parametrize("with_schema", [False, True])
def test_a_delete_with_a_made_up_old_row_goes_to_quarantine(
    tmp_path: Path, before: Row | None, with_schema: bool
) -> None:
    reasons = beyond(tmp_path, ({"id": 1}, "d", before, None), with_schema=with_schema)

    assert rows_in(tmp_path) == [OLD]
    assert len(reasons) == 1 and "REPLICA IDENTITY FULL" in reasons[0]


def test_whole_old_rows_are_applied_where_the_rule_says_so(tmp_path: Path) -> None:
    moved = {**OLD, "k2": "b"}

    events: list[Event] = [({"id": 1}, "u", OLD, moved), ({"id": 1}, "d", moved, None)]
    assert beyond(tmp_path, *events, before="full") == []

    assert rows_in(tmp_path) == []


def test_a_value_in_a_nullable_column_shows_that_an_old_row_is_whole(tmp_path: Path) -> None:
    row = {"id": 1, "k2": "a", "n": 0, "note": "x"}

    assert beyond(tmp_path, ({"id": 1}, "d", row, None), with_schema=True) == []

    assert rows_in(tmp_path) == []


@pytest.mark.parametrize("rule", [{}, {"before": "full"}])
def test_a_default_in_a_nullable_column_does_not_show_it(tmp_path: Path, rule: dict[str, object]) -> None:
    row = {**OLD, "note": "new"}
    old = row if rule else {**MADE_UP, "note": "new"}
    events: list[Event] = [({"id": 1}, "c", None, row), ({"id": 1}, "d", old, None)]
    tables = pipeline_tables(
        tmp_path, [{"match": {"table": "t"}, "into": "lake.t", "primary_key": ["id", "k2"], **rule}]
    )

    quarantine = run_batches(tables, [batch_of(0, events, with_schema=True, default="new")], tmp_path)

    assert rows_in(tmp_path) == ([] if rule else [row])
    assert len(list(reasons_in(Path(quarantine.path)))) == (0 if rule else 1)


def test_updates_with_their_old_row_move_it(tmp_path: Path) -> None:
    assert beyond(tmp_path, ({"id": 1}, "u", OLD, {**OLD, "k2": "b"})) == []

    assert [row["k2"] for row in rows_in(tmp_path)] == ["b"]


def test_each_rule_speaks_for_its_own_source_table(tmp_path: Path) -> None:
    shared: dict[str, object] = {"into": "lake.t", "primary_key": ["id", "k2"], "merge_sources": "same_rows"}
    rules: list[dict[str, object]] = [
        {**shared, "match": {"topic": "a"}, "before": "full"},
        {**shared, "match": {"topic": "b"}},
    ]
    events: list[Event] = [created({"id": 1}, k2="x", n=1), ({"id": 1}, "d", {"id": 1, "k2": "x", "n": 1}, None)]
    of_a, of_b = (
        pa.RecordBatch.from_pylist([{**r, "topic": t} for r in batch_of(0, events).to_pylist()], schema=RECORD_SCHEMA)
        for t in "ab"
    )

    quarantine = run_batches(pipeline_tables(tmp_path, rules), [of_a, of_b], tmp_path)

    assert [row["k2"] for row in rows_in(tmp_path)] == ["x"]
    assert len(list(reasons_in(Path(quarantine.path)))) == 1


def test_skipped_source_tables_of_one_topic_are_told_by_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tables = pipeline_tables(tmp_path, [{"match": {"table": "other"}, "into": "lake.t"}])
    records = batch_of(0, [FIRST, created({"id": 2}, k2="b", n=2)]).to_pylist()
    records[1]["value"] = records[1]["value"].replace(b'"table": "t"', b'"table": "u"')

    with caplog.at_level(logging.INFO):
        run_batches(tables, [pa.RecordBatch.from_pylist(records, schema=RECORD_SCHEMA)], tmp_path)

    told = [r.getMessage() for r in caplog.records if "no rule matches" in r.getMessage()]
    assert told == [
        f"source table shop.public.{name} (topic shop.public.t): no rule matches, its records are skipped"
        for name in ("t", "u")
    ]


@pytest.mark.parametrize("engine", ["aggregation", "deduplicate"])
def test_rows_that_are_to_become_one_are_no_reason_to_warn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, engine: str
) -> None:
    options = {"bucket": "1", "merge-engine": engine}
    options |= {"fields.n.aggregate-function": "sum"} if engine == "aggregation" else {}

    run(tmp_path, [FIRST], primary_key=["k2"], before="full", options=options)

    told = [r.getMessage() for r in caplog.records if "of the message key" in r.getMessage()]
    assert len(told) == (engine != "aggregation")
