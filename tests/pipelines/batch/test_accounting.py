"""Every record of a batch ends in a table, in quarantine or in a counted skip, also right after a start."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from paimon_table.errors import BrokenInvariant, SchemaChangeRefused
from paimon_table.table import Table
from pipelines.batch.batch_checks import check_accounted
from pipelines.batch.decode_report import DecodeReport
from pipelines.tables.tables import PipelineTables
from sources.changes import DecodeCounts
from sources.positions import ReadOffsets
from tests.support.item_batches import TOPIC, event, filled, records, run
from tests.support.local_batches import ALL_TABLES, pipeline_tables, processed, reported_batches, task_settings


def ids(tables: PipelineTables, table: str = "items") -> set[int]:
    found = Table.open(f"{tables.config.catalog.warehouse}/lake.db/{table}")
    return {row["id"] for row in found.to_arrow().to_pylist()}


def test_a_delete_by_key_alone_is_applied_right_after_a_start(tmp_path: Path) -> None:
    tables = filled(tmp_path)

    reasons, (report,) = run(tables, tmp_path, records(event("d", 1), first_offset=3))

    assert ids(tables) == {2, 3}
    assert (reasons, report.counts.skipped) == ([], {})


def test_malformed_records_of_a_table_not_seen_yet_go_to_quarantine(tmp_path: Path) -> None:
    tables = filled(tmp_path)
    broken = json.dumps(event("c", 5, {"id": 5})[1]).replace('"id": 5', '"id": 0.2\x11').encode()
    bad = records(({"id": 4}, event("c", 4)[1]), ({"id": 5}, broken), first_offset=3)

    reasons, (report,) = run(tables, tmp_path, bad)

    assert [reason.split(" at ")[0] for reason in reasons] == [
        "op c without a row in after",
        "value is not JSON: Expecting ',' delimiter",
    ]
    assert (report.counts.quarantined, report.counts.skipped) == (2, {})


def test_malformed_records_of_a_table_that_is_not_made_yet_go_to_quarantine(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, ALL_TABLES)

    reasons, (report,) = run(tables, tmp_path, records(event("c", 1), event("u", 2, after=[1])))

    assert reasons == ["op c without a row in after", "op u without a row in after"]
    assert (report.record_count, report.counts.quarantined) == (2, 2)


def test_a_delete_of_a_table_that_is_not_made_yet_is_a_counted_skip(tmp_path: Path) -> None:
    """There is nothing that it could delete; the table is made by the first event that shows its columns."""
    tables = pipeline_tables(tmp_path, ALL_TABLES)
    deletes = records(event("d", 1), event("d", 2))
    later = records(event("d", 1), event("c", 2, {"id": 2}), event("d", 3), first_offset=2)

    reasons, reports = run(tables, tmp_path, deletes, later)

    assert [report.counts.skipped for report in reports] == [{"deletes without a table": 2}, {}]
    assert (reasons, ids(tables)) == ([], {2})


def test_a_table_made_for_another_source_table_takes_the_deletes_that_waited_for_it(tmp_path: Path) -> None:
    rules: list[dict[str, object]] = [
        {"match": {"table": "items|old_items"}, "into": "lake.items", "merge_sources": "same_rows"}
    ]
    tables = pipeline_tables(tmp_path, rules)
    first = records(event("d", 1, table="old_items"))
    both = records(event("c", 1, {"id": 1}), event("c", 2, {"id": 2}), first_offset=1)
    last = records(event("d", 1, table="old_items"), first_offset=3)

    reasons, reports = run(tables, tmp_path, first, both, last)

    assert [report.counts.skipped for report in reports] == [{"deletes without a table": 1}, {}, {}]
    assert (reasons, ids(tables)) == ([], {2})


def test_every_kind_of_skip_is_counted(tmp_path: Path) -> None:
    tables = filled(tmp_path, [{"match": {"table": "items"}, "into": "lake.items", "schema_changes": "lenient"}])
    other = event("c", 1, {"id": 1}, table="other")
    transaction = {"status": "BEGIN", "id": "1", "event_count": None, "data_collections": None}
    batch = records(
        event("u", 1, {"id": 1}),
        ({"id": 1}, None),
        other,
        (None, transaction),
        (None, {"op": "m"}),
        event("t", 1),
        (None, b"{"),
        first_offset=3,
    )

    _, reports = reported_batches(tables, [batch], tmp_path, 1)

    assert reports[0].counts.skipped == {
        "tombstones": 1,
        "control records": 1,
        "of skipped tables": 1,
        "messages": 1,
        "truncates": 1,
    }
    assert (reports[0].record_count, reports[0].counts.quarantined) == (7, 1)


def test_records_that_a_lost_checkpoint_finds_stored_are_counted(tmp_path: Path) -> None:
    tables = filled(tmp_path)
    again = PipelineTables(tables.config, "tidemark-shop-new")
    moved = event("u", 4, {"id": 4}, before={"id": 3})
    batch = records(*(event("c", key, {"id": key}) for key in (1, 2, 3)), moved)

    _, (report,) = run(again, tmp_path, batch)

    assert report.counts.skipped == {"already stored": 3}
    assert ids(again) == {1, 2, 4}


def test_a_truncate_of_a_skipped_table_does_not_stop_a_process_that_has_just_started(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, [{"match": {"table": "items"}, "into": "lake.items"}])

    (report,) = processed(tables, [records(event("t", 1, table="other"))], task_settings(tmp_path))

    assert report.counts.skipped == {"of skipped tables": 1}


def test_a_truncate_of_a_table_with_a_rule_still_stops(tmp_path: Path) -> None:
    tables = filled(tmp_path)

    with pytest.raises(SchemaChangeRefused, match="the source table was truncated"):
        processed(tables, [records(event("t", 1), first_offset=3)], task_settings(tmp_path), 1)


def test_names_that_cannot_be_tables_go_to_quarantine(tmp_path: Path) -> None:
    names = ["a/b", "..", "a\x00b", "a\nb", "ü" * 150]
    tables = filled(tmp_path, [{"match": {"schema": "public"}, "into": "lake.{table}"}])
    batch = records(*(event("c", 7, {"id": 7}, table=name) for name in names), event("c", 8, {"id": 8}), first_offset=3)

    reasons, (report,) = run(tables, tmp_path, batch)

    assert len(reasons) == len(names)
    refusals = ("slash", "is not a name", "invisible character", "300 bytes")
    assert all(any(text in reason for text in refusals) for reason in reasons)
    assert ids(tables) == {1, 2, 3, 8}
    assert report.counts.quarantined == len(names)


def test_a_placeholder_that_a_topic_does_not_tell_rejects_its_records_alone(tmp_path: Path) -> None:
    tables = filled(tmp_path, [{"match": {"topic": ".*"}, "into": "lake.{schema}_{table}"}])
    key, value = event("c", 5, {"id": 5})
    del value["source"]["schema"]

    reasons, _ = run(tables, tmp_path, records((key, value), event("c", 6, {"id": 6}), first_offset=3))

    assert len(reasons) == 1
    assert "uses {schema}: neither the records of topic shop.public.items nor its name show the schema" in reasons[0]
    assert ids(tables, "public_items") == {1, 2, 3, 6}


def test_a_table_of_a_topic_with_tables_that_cannot_be_made_rejects_its_records(tmp_path: Path) -> None:
    """The rule has made a table of this topic, so it is the record that is to blame."""
    tables = filled(tmp_path)
    source = event("c", 1, {"id": 1}, table="itens")[1]
    batch = records((None, source), event("c", 8, {"id": 8}), first_offset=3)

    reasons, _ = run(tables, tmp_path, batch)
    later, _ = run(tables, tmp_path, records(event("c", 9, {"id": 9}, table="itens"), first_offset=5))

    assert len(reasons) == 1
    assert "its messages have no key" in reasons[0]
    assert later == reasons
    assert ids(tables, "itens") == {9}


def test_a_record_of_which_nothing_becomes_stops_the_batch() -> None:
    report = DecodeReport(read={(TOPIC, 0): ReadOffsets(2, 12, 10)}, record_count=10)
    report.counts = DecodeCounts(with_rows=5, quarantined=2, tombstones=2)

    with pytest.raises(BrokenInvariant, match=r"batch 7: of 10 records, 5 .* 2 .* 2 .* leaves 1; .*partition 0 up to"):
        check_accounted(7, [report])

    report.counts = replace(report.counts, messages=1)
    check_accounted(7, [report])


def test_a_batch_that_loses_a_record_commits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sources.debezium_json import table_decoding

    tables = filled(tmp_path)
    monkeypatch.setattr(table_decoding, "read_events", lambda *_: [])

    with pytest.raises(BrokenInvariant, match="of 1 records, 0 gave rows"):
        run(tables, tmp_path, records(event("u", 1, {"id": 1}), first_offset=3))

    monkeypatch.undo()
    assert tables.sinks["lake.items"].table.snapshots.latest_id() == 1
