"""A table of which nearly all records are bad stops: that is a mistake in the file, and no batch of poison records."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.checkpoint.book import Cause
from pipelines.tables.table_failure import TooManyBadRecords
from sources.dumps.dump_records import record_batches_from_dump
from tests.support.item_batches import event, records
from tests.support.paused_pipeline import PausedPipeline

ITEMS = {"match": {"table": "items"}, "into": "lake.items"}
GARBAGE = ({"id": 9}, {"id": 9, "name": "secret"})
"""A row without an envelope."""


def good(count: int) -> list[tuple[object, object]]:
    return [event("c", key, {"id": key}) for key in range(count)]


def ran(directory: Path, *events: tuple[object, object], batch_size: int = 10, **rule: object) -> PausedPipeline:
    pipeline = PausedPipeline(
        directory, records(*events), [{**ITEMS, **rule}], batch_size=batch_size, has_quarantine=True
    )
    pipeline.run()
    return pipeline


def quarantined(directory: Path) -> int:
    files = [file for file in directory.rglob("*.jsonl") if "quarantine" in str(file)]
    return sum(len(file.read_text().splitlines()) for file in files)


@pytest.mark.parametrize(("bad", "is_paused"), [(2, False), (3, True), (40, True)])
def test_a_table_without_rows_pauses_when_three_of_three_are_bad(tmp_path: Path, bad: int, is_paused: bool) -> None:
    pipeline = ran(tmp_path, *[GARBAGE] * bad)

    assert ("lake.items" in pipeline.behind) is is_paused
    assert quarantined(tmp_path) == (0 if is_paused else bad)
    if is_paused:
        mark = pipeline.paused.pauses["lake.items"]
        assert mark.cause is Cause.BAD_RECORDS and mark.topics == ("shop.public.items",)
        assert "JSON with the fields id, name, which look like rows without an envelope" in mark.reason
        assert "secret" not in mark.reason


def test_bad_records_that_trickle_in_pause_it_all_the_same(tmp_path: Path) -> None:
    pipeline = ran(tmp_path, *[GARBAGE] * 5, batch_size=1)

    assert "lake.items" in pipeline.behind and quarantined(tmp_path) == 2


def test_a_few_poison_records_never_pause_a_table_with_rows(tmp_path: Path) -> None:
    pipeline = ran(tmp_path, *good(20), *[GARBAGE] * 60)

    assert not pipeline.behind and quarantined(tmp_path) == 60


def test_a_table_with_rows_pauses_when_its_records_turn_bad(tmp_path: Path) -> None:
    pipeline = ran(tmp_path, *good(20), *[GARBAGE] * 300, batch_size=60)

    assert "90 of the newest" not in json.dumps(pipeline.behind)
    assert "lake.items" in pipeline.behind and quarantined(tmp_path) < 200


def test_null_puts_them_all_into_quarantine(tmp_path: Path) -> None:
    pipeline = ran(tmp_path, *[GARBAGE] * 40, max_bad_records=None)

    assert not pipeline.behind and quarantined(tmp_path) == 40


@pytest.mark.slow
def test_after_the_rule_is_mended_no_record_is_missing(tmp_path: Path) -> None:
    events = [event("c", key, {"id": key, "amount": 1000}) for key in range(40)]
    ran(tmp_path, *events, columns={"types": {"amount": "TINYINT"}})
    assert quarantined(tmp_path) == 0

    rule = {**ITEMS, "columns": {"types": {"amount": "INT"}}}
    mended = PausedPipeline(tmp_path, records(*events), [rule], has_quarantine=True)
    mended.caught_up()

    assert mended.rows("lake.items").keys() == {*range(40)} and quarantined(tmp_path) == 0


def test_a_topic_that_leads_to_no_table_ends_a_pipeline_without_others(tmp_path: Path) -> None:
    canal = ({"id": 1}, {"data": [{}], "isDdl": False, "sqlType": {}, "type": "INSERT"})
    pipeline = PausedPipeline(
        tmp_path,
        records(canal, canal, canal),
        [{**ITEMS, "match": {"database": "shop", "table": "rows"}}],
        has_quarantine=True,
    )
    with pytest.raises(
        TooManyBadRecords, match=r"topic shop\.public\.items, which no rule writes to a table.*Canal JSON"
    ):
        pipeline.run()
    assert quarantined(tmp_path) == 0


def test_a_dump_of_lines_that_are_no_records_is_told_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"id": 1}\n' * 5)
    (lines,) = record_batches_from_dump(str(tmp_path / "rows.jsonl"))
    pipeline = PausedPipeline(tmp_path, lines, [ITEMS], has_quarantine=True)

    with pytest.raises(TooManyBadRecords) as told:
        pipeline.run()

    assert str(told.value).startswith(f"{tmp_path}/rows.jsonl: nearly no line is a record: 5 of the newest 5")
    assert "5 records: byte ...: unknown field ...; " in str(told.value) and str(told.value).count("rows.jsonl") == 1
    assert "the first begins at byte 0. " in str(told.value) and "dump the topic again with `kcat -J`" in str(
        told.value
    )
    assert "malformed" not in str(told.value) and "connector" not in str(told.value)


def test_beside_other_tables_such_a_topic_is_told(tmp_path: Path) -> None:
    rows = records(*good(20), *[GARBAGE] * 5).to_pylist()
    for row in rows[20:]:
        row["topic"] = "misc"
    source = pa.RecordBatch.from_pylist(rows, schema=records().schema)
    pipeline = PausedPipeline(tmp_path, source, [ITEMS], has_quarantine=True)
    pipeline.run()

    assert not pipeline.behind and quarantined(tmp_path) == 5
    said = pipeline.tables.unreadable["misc"]
    assert "topic misc, which no rule writes to a table" in said
    assert said.endswith(
        "Tidemark put them into quarantine: write a rule for the topic, exclude it or change the connector"
    )


@pytest.mark.parametrize("batch_size", [100, 400])
def test_control_records_are_good_records_of_their_topic(tmp_path: Path, batch_size: int) -> None:
    heartbeats = [({"serverName": "shop"}, {"ts_ms": number}) for number in range(300)]
    rows = [{**row, "topic": "misc"} for row in records(*heartbeats, *[GARBAGE] * 5).to_pylist()]
    source = pa.RecordBatch.from_pylist(rows, schema=records().schema)
    pipeline = PausedPipeline(tmp_path, source, [ITEMS], batch_size=batch_size, has_quarantine=True)
    pipeline.run()

    assert pipeline.tables.unreadable == {} and quarantined(tmp_path) == 5


@pytest.mark.slow
def test_a_good_record_now_and_then_does_not_hide_that_nearly_all_are_bad(tmp_path: Path) -> None:
    events = [event("c", n, {"id": n}) if n % 20 == 19 else GARBAGE for n in range(20, 320)]
    pipeline = ran(tmp_path, *good(20), *events, batch_size=20)

    assert "lake.items" in pipeline.behind and 80 <= quarantined(tmp_path) <= 200
