"""What is told of records that give a table less than a row: once, or now and then, however many there are."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from paimon_table.ids import Offset
from pipelines.tables.record_notes import EVERY_MS, ControlNotes, UnsentWarnings
from pipelines.tables.tables import PipelineTables
from sinks.write.unsent import Became
from sources.changes import ControlRecord
from tests.support.item_batches import event, records, run
from tests.support.local_batches import shop_config


def test_a_flood_is_told_now_and_then_and_nothing_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    warnings = UnsentWarnings()
    for batch, now_ms in enumerate([0, 1, EVERY_MS - 1, EVERY_MS, EVERY_MS + 1]):
        warnings.note(batch, "lake.orders", {("body", Became.NULL): 2}, now_ms)
    warnings.note(4, "lake.items", {("body", Became.OLDER): 1}, EVERY_MS + 1)
    told = [r.getMessage().partition(" value(s)")[0] for r in caplog.records]
    assert told == [
        "batch 0: table lake.orders: NULL was written for 2",
        "batch 3: table lake.orders: NULL was written for 6",
        "batch 4: table lake.items: what may be an older value was written for 1",
    ]


def test_batches_without_such_values_say_nothing(caplog: pytest.LogCaptureFixture) -> None:
    warnings = UnsentWarnings()
    for batch in range(3):
        warnings.note(batch, "lake.orders", {}, batch * EVERY_MS)
    assert not caplog.records


def test_control_records_are_told_once_per_topic_and_kind(caplog: pytest.LogCaptureFixture) -> None:
    notes = ControlNotes()
    beat, change = (ControlRecord("hb", kind, 0, Offset(7)) for kind in ("heartbeat", "schema change"))

    with caplog.at_level(logging.INFO):
        notes.note([beat])
        notes.note([beat, change, replace(beat, topic="other")])

    told = [r.getMessage() for r in caplog.records]
    assert len(told) == 3
    assert told[0].startswith("hb partition 0 offset 7: a heartbeat, which is not a row of a table")


def test_control_records_make_no_table(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = shop_config(tmp_path, [], {"bucket": "1"}, otherwise="create")
    tables = PipelineTables(config, "tidemark-shop-test")
    beat = ({"serverName": "srv"}, {"ts_ms": 1})
    begin = ({"id": "7"}, {"status": "BEGIN", "id": "7", "event_count": None, "data_collections": None})

    with caplog.at_level(logging.INFO):
        reasons, (report,) = run(tables, tmp_path, records(beat, begin, begin, event("c", 1, {"id": 1})))

    assert (reasons, report.counts.skipped) == ([], {"control records": 3})
    assert [*tables.sinks] == ["shop.items"]
    told = [r.getMessage().split(",")[0] for r in caplog.records if "counts them as control" in r.getMessage()]
    place = "shop.public.items partition 0 offset"
    assert told == [f"{place} 0: a heartbeat", f"{place} 1: a transaction record"]
