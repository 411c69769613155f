"""Progress lines and the summary after `run --once`."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

from paimon_table.errors import MalformedRecord
from pipelines.batch.batch_report import BatchReport, TableReport
from pipelines.batch.decode_report import kind_of_reason
from pipelines.config.config_file import load_pipeline
from pipelines.report.progress import ProgressLine, progress_line, reasons_text
from pipelines.report.run_summary import FinishedRun, summarize
from pipelines.report.run_totals import RunTotals, Totals
from pipelines.report.summary import (
    RunSummary,
    TableSample,
    TableSummary,
    beside_lines,
    headline,
    next_commands,
    print_summary,
)
from sinks.write.unsent import Became
from sources.changes import DecodeCounts
from tests.support.small_table import SmallTable

ORDERS = TableSummary("lake.orders", "/data/my lake/lake.db/orders", 12345, 4, 10, 45678)


NOTHING_LEFT_OUT = DecodeCounts()


def report(
    batch_id: int = 3,
    records: int = 50_000,
    counts: DecodeCounts = NOTHING_LEFT_OUT,
    tables: int = 2,
    started_s: float = 10.0,
) -> BatchReport:
    written = tuple(TableReport(f"lake.t{i}", 1000 + i, 1000) for i in range(tables))
    seconds = {"plan": 0.5, "write": 1.5}
    return BatchReport(batch_id, records, counts, written, seconds, {}, started_s, started_s + 2)


def printed(summary: RunSummary) -> str:
    stream = io.StringIO()
    print_summary(summary, Console(file=stream, highlight=False))
    return stream.getvalue()


def test_a_progress_line_says_what_a_batch_did() -> None:
    assert progress_line(report()) == ("batch 3: 50,000 records in 2.0 s (25,000/s) -> lake.t1 1,001, lake.t0 1,000")
    counts = DecodeCounts(quarantined=7, tombstones=1200, skipped_tables=3, exact=1500)
    assert progress_line(report(counts=counts, tables=0)).endswith(
        "; 7 quarantined; skipped: 1,200 tombstones, 3 of skipped tables; 1,500 decoded one by one"
    )
    assert progress_line(report(records=0, tables=0)) == "batch 3: 0 records in 2.0 s"
    assert progress_line(report(records=1, tables=0)) == "batch 3: 1 record in 2.0 s (0/s)"
    behind = {"lake.stock": "its rule was paused"}
    told = "batch 3: 0 records in 2.0 s; without lake.stock, which is behind"
    assert progress_line(replace(report(records=0, tables=0), paused=behind)) == told
    assert progress_line(report(counts=DecodeCounts(quarantined=7), tables=5)).endswith(
        "lake.t4 1,004, lake.t3 1,003, lake.t2 1,002, and 2 more tables; 7 quarantined"
    )


def test_the_rate_of_the_first_batch_is_not_told() -> None:
    assert progress_line(report(0), is_first=True).startswith(
        "batch 0: 50,000 records in 2.0 s, with the start of the workers -> lake.t1"
    )


def test_quarantined_records_are_told_with_directory_and_reasons() -> None:
    told = replace(
        report(counts=DecodeCounts(quarantined=7)),
        bad_kinds={
            ("t", None, "value is not JSON"): 4,
            ("t", None, "no key"): 2,
            ("t", None, "a"): 1,
            ("t", None, "b"): 0,
        },
    )
    assert progress_line(told, quarantine="/state/q").endswith(
        "; 7 quarantined in /state/q: 4 value is not JSON; 2 no key; 1 a; 0 for other reasons"
    )


def test_work_beside_the_stream_is_told_to_the_line_of_progress() -> None:
    progress = ProgressLine("shop")
    progress.begin(0)
    progress.end(report(0))
    assert progress.tick(is_busy_beside=True) == "shop: busy alongside the stream, no batch for 0 s"
    assert progress.tick() == "shop: idle, nothing new for 0 s"


def test_reasons_that_differ_in_values_are_one_kind() -> None:
    assert kind_of_reason("column 'total': 12.5e3 is no DECIMAL(10, 2)") == "column ...: ... is no DECIMAL(10, 2)"
    assert len(kind_of_reason("x" * 500)) == 400


@pytest.mark.parametrize(
    "reason",
    ["table lake.orders_2024 is not created", "topic s1.public.t2 has no key", "/data/2024/part-0001.jsonl is cut"],
)
def test_digits_of_names_and_paths_are_no_values(reason: str) -> None:
    assert kind_of_reason(f"{reason}: 17 of -4.5e3") == f"{reason}: ... of ..."


def test_a_kind_without_reasons_is_empty() -> None:
    assert reasons_text({}) == ""


def batches() -> list[BatchReport]:
    second = report(1, counts=DecodeCounts(quarantined=2, tombstones=2), started_s=11.5).after(12.0)
    return [
        report(0),
        replace(second, bad_kinds={("t", None, "no key"): 2}),
        report(2, records=0, counts=DecodeCounts(tombstones=3, exact=4), started_s=13.5).after(13.5),
    ]


def test_batches_are_added_up_and_time_that_they_share_counts_once() -> None:
    run = RunTotals()
    for done in batches():
        run.begin(done.batch_id)
        run.end(done)
    assert run.totals == Totals(
        100_000, DecodeCounts(quarantined=2, tombstones=5, exact=4), 5.5, {"no key": 2}, 50_000, 2.0
    )


def test_every_batch_has_a_line_and_one_with_bad_records_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "pipelines.report.progress")
    progress = ProgressLine("shop")
    for done in batches():
        progress.begin(done.batch_id)
        progress.end(done)
    assert [(r.levelname, r.getMessage()[:14]) for r in caplog.records] == [
        ("INFO", "shop: batch 0:"),
        ("WARNING", "shop: batch 1:"),
        ("INFO", "shop: batch 2:"),
    ]


def test_the_summary_shows_tables_samples_and_next_commands() -> None:
    rows = pa.table({"id": [1, 100], "name": ["a", None]})
    changes = pa.table({"_row_kind": ["-U", "+U"], "id": [1, 1], "name": ["x", "a"]})
    text = printed(
        RunSummary("shop", Totals(20_000, seconds=4.0), (ORDERS,), TableSample("lake.orders", rows, changes, ("note",)))
    )
    assert text.startswith("shop: 20,000 events in 4.0 s, 5,000 events/s\n")
    assert "45,678" in text
    assert "-U" in text
    assert "NULL" in text
    assert "\n  1  a" in text, "numbers stand at the right side"
    assert "columns not shown: note" in text
    assert " -m tidemark table scan '/data/my lake/lake.db/orders' --limit 10" in text


def test_rows_that_wait_for_a_compaction_are_told_with_the_command() -> None:
    waiting = replace(ORDERS, row_count=0, waiting_row_count=400)
    summary = RunSummary("shop", Totals(400, seconds=1.0), (waiting,))
    assert "lake.orders: 400 rows wait in postponed buckets" in printed(summary)
    assert "wait" not in printed(replace(summary, tables=(ORDERS,)))


def test_values_that_nobody_knows_are_told_for_each_table() -> None:
    run = RunTotals()
    for batch in range(3):
        missing = TableReport("lake.orders", 1, 1, 1, {("body", Became.NULL): 2, ("note", Became.OLDER): batch})
        run.end(replace(report(batch), tables=(missing, TableReport("lake.items", 1, 1))))
    text = printed(RunSummary("shop", run.totals, (ORDERS,)))
    assert "lake.orders: NULL was written for 6 value(s) that the source did not send" in text
    assert "lake.orders: what may be an older value was written for 3 value(s)" in text
    assert "lake.items" not in text


def test_a_run_of_one_batch_has_no_rate() -> None:
    summary = RunSummary("shop", Totals(10, seconds=4.0, first_record_count=10, first_seconds=4.0), ())
    assert headline(summary) == "shop: 10 events in 4.0 s, most of it the start of Spark's workers"


def test_what_was_read_beside_the_stream_is_told_with_its_bad_records() -> None:
    totals = RunTotals()
    bad = replace(report(records=500, counts=DecodeCounts(quarantined=3)), bad_kinds={("t", None, "no number"): 3})
    for part in (bad, report(records=20)):
        totals.beside("lake.orders", part)
    summary = RunSummary("shop", totals.totals, (ORDERS,), quarantine="/q")
    assert headline(summary) == "shop: nothing new for the stream"
    assert beside_lines(summary) == [
        "lake.orders: 520 records read alongside the stream, to catch it up; 3 quarantined in /q: 3 no number"
    ]


def test_bad_records_of_a_slice_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    bad = replace(report(records=500, counts=DecodeCounts(quarantined=3)), bad_kinds={("t", None, "no number"): 3})
    for part in (bad, report(records=20)):
        ProgressLine("shop", "/q").beside("lake.orders", part)
    assert [r.getMessage() for r in caplog.records] == [
        "shop: table lake.orders: 3 of 500 records read alongside the stream are quarantined in /q: 3 no number"
    ]


def test_a_run_without_events_says_so() -> None:
    assert headline(RunSummary("shop", Totals(), (ORDERS,))) == "shop: nothing new since the last run"
    stopped = headline(RunSummary("shop", Totals(), (), is_complete=False))
    assert stopped == "shop: stopped before the first batch; the next start reads what there is"
    assert next_commands(RunSummary("shop", Totals(), (ORDERS,)), ".venv/bin/tidemark")[2] == (
        ".venv/bin/tidemark table snapshots '/data/my lake/lake.db/orders'"
    )


def test_quarantined_records_are_told_with_their_place() -> None:
    totals = Totals(30, DecodeCounts(quarantined=2), 3.0, {"not JSON": 2}, 10, 1.0)
    summary = RunSummary("shop", totals, (), None, "/state/q")
    assert headline(summary) == (
        "shop: 30 events in 3.0 s, 10 events/s after the first batch, which took 1.0 s with start-up; 2 quarantined"
        " in /state/q: 2 not JSON"
    )


def test_skipped_records_are_told_by_kind() -> None:
    told = headline(RunSummary("shop", Totals(10, DecodeCounts(tombstones=4, messages=1, exact=2), 1.0), ()))
    assert told == ("shop: 10 events in 1.0 s, 10 events/s; skipped: 4 tombstones, 1 message; 2 decoded one by one")


def test_the_summary_reads_the_tables_that_the_pipeline_wrote(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "lake" / "shop.db" / "orders", tmp_path / "work")
    small.commit(0, [("+I", n, "x", None, None) for n in range(20)], pipeline="shop")
    small.commit(1, [("+U", 1, "y", None, None), ("-D", 2, "x", None, None)], pipeline="shop")
    SmallTable(tmp_path / "lake" / "shop.db" / "other", tmp_path / "work").commit(0, [("+I", 1, "x", None, None)])
    file = tmp_path / "shop.yaml"
    file.write_text(
        "version: 1\nname: shop\nsource: { files: { path: d }, format: debezium-json }\n"
        "checkpoint: state\ncatalog: { warehouse: lake }\notherwise: create\n"
    )
    summary = summarize(FinishedRun(load_pipeline(file), lambda: {"shop.orders": small.table}, Totals()), "shop.yaml")
    (table,) = summary.tables
    assert (table.identifier, table.row_count, table.changelog_row_count) == ("shop.orders", 19, 23)
    assert summary.sample is not None
    assert summary.sample.rows.num_rows == 5
    assert summary.sample.changes is not None
    assert {"-U", "+U"} <= set(summary.sample.changes.column("_row_kind").to_pylist())


def test_a_large_table_is_not_read_for_its_row_count() -> None:
    text = printed(RunSummary("shop", Totals(1), (replace(ORDERS, is_counted=False),)))
    assert "at most 12,345" in text


def test_a_table_that_cannot_be_read_is_said_in_the_summary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise MalformedRecord("table /data/t: the key {'id': 2} has a -D")

    table = SmallTable(tmp_path / "lake.db" / "t", tmp_path / "work").table
    monkeypatch.setattr("pipelines.report.run_summary._table_summary", refuse)
    config = load_pipeline(Path("configs/quickstart.yaml"))
    text = printed(summarize(FinishedRun(config, lambda: {"lake.t": table}, Totals()), "shop.yaml"))
    assert "lake.t was written, but cannot be read: table /data/t: the key {'id': 2} has a -D" in text


def test_the_summary_names_what_was_lost_before_it_was_read() -> None:
    out = io.StringIO()
    loss = "topic a partition 0: offsets 5 to 9 are gone (retention, or deleted records)"
    print_summary(RunSummary("shop", Totals(3), (), losses=(loss,), waited_s=35.0), Console(file=out, width=200))
    assert f"lost before it was read: {loss}" in out.getvalue()
    assert "waited 35 s for transient failures to end" in out.getvalue()


def test_what_could_not_be_read_is_told_also_where_nothing_is_new() -> None:
    text = printed(RunSummary("shop", Totals(), (), unfinished=("/d/a.gz: cut",)))
    assert text == "shop: nothing new since the last run\nnot all was read: /d/a.gz: cut\n"


def test_nothing_in_a_summary_acts_on_a_terminal() -> None:
    bad = "\x1b[2J\u202ex"
    totals = Totals(5, DecodeCounts(quarantined=5), 1.0, {f"topic {bad}": 5})
    table = replace(ORDERS, identifier=f"lake.{bad}", path=f"/data/{bad}", waiting_row_count=1)
    sample = TableSample(f"lake.{bad}", pa.table({bad: [bad]}), None, (bad,))
    said = (bad,)
    text = printed(RunSummary(bad, totals, (table,), sample, bad, {bad: bad}, said, said, unfinished=said))
    assert text.count(r"\x1b[2J\u202ex") >= 14
    assert all(line.isprintable() for line in text.split("\n"))


def test_a_run_that_found_nothing_says_why() -> None:
    none = RunSummary("shop", Totals(), ())
    assert headline(none) == "shop: nothing new since the last run"
    late = replace(none, why_nothing="source.kafka.start is latest")
    assert headline(late) == "shop: nothing was read: source.kafka.start is latest"
    assert headline(replace(late, unfinished=("no topic",))) == "shop: nothing was read"


def test_commands_for_tables_on_s3_or_of_a_server_go_by_the_pipeline_file() -> None:
    table = replace(ORDERS, path="s3://bucket/wh/lake.db/orders")
    summary = RunSummary("shop", Totals(), (table,), file="my shop.yaml")
    assert next_commands(summary, "tidemark")[0] == (
        f"tidemark table scan {table.identifier} -c 'my shop.yaml' --limit 10"
    )
    assert "-c" not in next_commands(replace(summary, tables=(ORDERS,)), "tidemark")[0]
    of_server = replace(summary, tables=(ORDERS,), is_of_server=True)
    assert next_commands(of_server, "tidemark") == next_commands(summary, "tidemark")
