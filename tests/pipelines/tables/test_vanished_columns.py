"""Columns that events do not have any more are told once: nothing else shows that a source table was recreated."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_table.ids import Offset
from pipelines.tables.record_notes import VanishedColumns
from sources.changes import RECORD_SCHEMA, NewestRow, SourceTable
from sources.column_sources import ColumnSources
from tests.support.keyed_events import Event, batch_of, created
from tests.support.local_batches import pipeline_tables, run_batches

FULL = {"id": 1, "k2": "a", "n": 1, "note": "x"}


def warnings_after(directory: Path, caplog: pytest.LogCaptureFixture, *events: Event, **rule: object) -> list[str]:
    """What one pipeline says about missing columns, each event being a batch."""
    tables = pipeline_tables(directory, [{"match": {"table": "t"}, "into": "lake.t", **rule}])
    with caplog.at_level(logging.WARNING):
        run_batches(tables, [batch_of(offset, [event]) for offset, event in enumerate(events)], directory)
    return [r.getMessage() for r in caplog.records if "its events" in r.getMessage()]


def test_columns_that_vanish_are_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    events = [created({"id": 1}, k2="a", n=1), *(created({"id": key}, n=key) for key in (2, 3))]

    (told,) = warnings_after(tmp_path, caplog, *events)

    assert "shop.public.t: its events no longer have column k2, which table lake.t has" in told
    assert "recreated" in told and "another `into`" in told


def test_a_column_that_is_null_has_not_vanished(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    events: list[Event] = [created({"id": 1}, k2="a"), created({"id": 2}, k2=None), ({"id": 1}, "d", {"id": 1}, None)]

    assert warnings_after(tmp_path, caplog, *events) == []


def test_columns_of_other_sources_have_not_vanished(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    events = [created({"id": 1}, k2="a", n=1), created({"id": 2}, n=2)]

    assert warnings_after(tmp_path, caplog, *events, merge_sources="same_rows") == []


def test_columns_of_other_tables_in_one_log_of_events_have_not_vanished(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rule: dict[str, object] = {"match": {"table": ".*"}, "into": "lake.log", "mode": "append", "on_change": "log"}
    tables = pipeline_tables(tmp_path, [rule], bucket="-1")
    batches = []
    for offset, (table, column) in enumerate([("a", "x"), ("b", "y"), ("a", "x")]):
        (row,) = batch_of(offset, [created({"id": 1}, **{column: 1})]).to_pylist()
        value = row["value"].replace(b'"table": "t"', f'"table": "{table}"'.encode())
        batches.append(pa.RecordBatch.from_pylist([{**row, "value": value}], schema=RECORD_SCHEMA))
    with caplog.at_level(logging.WARNING):
        run_batches(tables, batches, tmp_path)

    assert len(tables.sinks["lake.log"].sources) == 2
    assert "have no column" not in caplog.text


def test_an_embedded_schema_without_the_column_tells_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tables = pipeline_tables(tmp_path, [{"match": {"table": "t"}, "into": "lake.t"}])
    run_batches(tables, [batch_of(0, [({"id": 1}, "c", None, {**FULL, "extra": 1})])], tmp_path)

    with caplog.at_level(logging.WARNING):
        run_batches(tables, [batch_of(1, [({"id": 1}, "c", None, FULL)], with_schema=True)], tmp_path, 1)

    assert "its events no longer have column extra" in caplog.text


WITHOUT = created({"id": 1}, n=1)
WITH = created({"id": 2}, n=2, k2="b")
Placed = tuple[int, int, int, Event]
"""Partition, offset, second of the record's timestamp, event."""


def records(*placed: Placed) -> pa.RecordBatch:
    rows = []
    for partition, offset, second, event in placed:
        (row,) = batch_of(offset, [event]).to_pylist()
        rows.append({**row, "partition": partition, "timestamp": datetime.fromtimestamp(second, UTC)})
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param([[(0, 0, 1, WITHOUT)], [(0, 1, 3, WITH), (1, 0, 2, WITHOUT)]], id="one batch"),
        pytest.param([[(0, 0, 1, WITHOUT)], [(1, 0, 2, WITHOUT), (0, 1, 3, WITH)]], id="the other order"),
        pytest.param([[(0, 0, 1, WITHOUT)], [(0, 1, 3, WITH)], [(1, 0, 2, WITHOUT)]], id="a partition behind"),
        pytest.param([[(0, 0, 1, WITHOUT)], [(0, 1, 2, WITHOUT), (0, 2, 3, WITH)]], id="in one partition"),
    ],
)
def test_a_column_that_was_just_added_has_not_vanished(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, batches: Sequence[Sequence[Placed]]
) -> None:
    tables = pipeline_tables(tmp_path, [{"match": {"table": "t"}, "into": "lake.t"}])

    run_batches(tables, [records(*batch) for batch in batches], tmp_path)

    assert "k2" in tables.sinks["lake.t"].table.schema.column_names
    assert "have no column" not in caplog.text


def test_a_column_that_every_partition_lost_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tables = pipeline_tables(tmp_path, [{"match": {"table": "t"}, "into": "lake.t"}])
    before = records((0, 0, 1, WITH), (1, 0, 2, WITH))

    run_batches(tables, [before, records((0, 1, 3, WITHOUT), (1, 1, 4, WITHOUT))], tmp_path)

    assert caplog.text.count("its events no longer have column k2") == 1


@pytest.mark.parametrize("at_first", [0, 1])
def test_stretches_of_a_partition_count_by_their_newest(at_first: int) -> None:
    source = SourceTable("t", "shop", "public", "t")
    rows = [NewestRow(source, 0, Offset(5), 1, ("k2",)), NewestRow(source, 0, Offset(9), 2, ())]

    found = VanishedColumns().lacking([rows[at_first], rows[1 - at_first]], lambda _: ColumnSources())
    assert found == {source: []}
