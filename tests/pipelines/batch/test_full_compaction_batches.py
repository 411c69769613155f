"""`full-compaction.delta-commits` in batches: which ones compact, what they publish, what a replay does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.metadata.snapshot import CommitKind
from paimon_table.row_kind import VALUE_KIND, RowKind
from paimon_table.table import Table
from paimon_table.types import parse_type
from paimon_table.validation.schema_evolution import AddColumn
from pipelines.batch.batch import append_batch
from pipelines.batch.batch_commit import AppendedBatch, compact_batch, unfinished_batches
from pipelines.batch.batch_report import BatchReport
from pipelines.batch.compactions import Compactions
from pipelines.batch.local_exchange import LocalExchange
from pipelines.batch.plan import BatchRun
from pipelines.tables.tables import PipelineTables
from sinks.commit.positions import newest_position
from tests.support.changelog import replay_strictly
from tests.support.events import History, write_dump
from tests.support.local_batches import dump_batches, pipeline_tables, run_batches, task_settings
from tests.support.table_driver import TableDriver

_RULES: list[dict[str, object]] = [{"match": {"table": "orders"}, "into": "lake.orders"}]
_FULL = {"changelog-producer": "full-compaction"}


def _batches(directory: Path, history: History, records: int) -> list[pa.RecordBatch]:
    write_dump(directory / "dump", [history])
    return list(dump_batches(directory / "dump" / f"{history.topic}.jsonl", records))


def _table(tables: PipelineTables) -> Table:
    return Table.open(f"{tables.config.catalog.warehouse}/lake.db/orders")


def _levels(table: Table) -> set[int]:
    state = table.state()
    return {file.level for files in state.files.values() for file in files}


def _replayed(table: Table) -> dict[tuple[Any, ...], dict[str, Any]]:
    return replay_strictly((rows for _, rows in table.changes()), ["id"])


@pytest.mark.slow
@pytest.mark.parametrize("interval", [None, 1, 3])
def test_every_nth_batch_publishes_what_changed_since_the_last(tmp_path: Path, interval: int | None) -> None:
    options = {**_FULL, **({"full-compaction.delta-commits": str(interval)} if interval else {})}
    tables = pipeline_tables(tmp_path, _RULES, **options)
    batches = _batches(tmp_path, History("orders", seed=21, keys=40).extend(150), 15)
    published_before = 0
    for batch_id, batch in enumerate(batches):
        run_batches(tables, [batch], tmp_path, batch_id)
        table = _table(tables)
        if (batch_id + 1) % (interval or 1) == 0:
            assert _levels(table) == {table.options.max_level}
            assert len(_replayed(table)) == table.to_arrow().num_rows
        elif batch_id < 3:
            assert 0 in _levels(table)
        published = sum(rows.num_rows for _, rows in table.changes())
        assert published > published_before or (batch_id + 1) % (interval or 1) != 0
        published_before = published


def test_buckets_without_rows_are_compacted_when_it_is_due(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, _RULES, **_FULL, **{"bucket": "8", "full-compaction.delta-commits": "2"})
    (records,) = _batches(tmp_path, History("orders", seed=22).extend(80), 1000)
    run_batches(tables, [records.slice(0, records.num_rows - 1)], tmp_path, 0)
    assert _levels(_table(tables)) == {0}

    run_batches(tables, [records.slice(records.num_rows - 1)], tmp_path, 1)

    table = _table(tables)
    assert _levels(table) == {table.options.max_level}
    assert len(_replayed(table)) == table.to_arrow().num_rows


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["compaction", "nothing"])
def test_an_interrupted_full_compaction_is_made_up_for_once(tmp_path: Path, lost: str) -> None:
    options = {**_FULL, "bucket": "4", "full-compaction.delta-commits": "2"}
    batches = _batches(tmp_path, History("orders", seed=23, keys=40).extend(120), 70)[:2]
    tables = pipeline_tables(tmp_path, _RULES, **options)
    run_batches(tables, batches[:1], tmp_path, 0)
    if lost == "compaction":
        _run_until_append(tables, batches[1], tmp_path, 1)
    else:
        run_batches(tables, batches[1:], tmp_path, 1)
    before = _table(tables).snapshots.latest()
    assert before is not None

    restarted = pipeline_tables(tmp_path, _RULES, **options)
    run_batches(restarted, batches[1:], tmp_path, 1)
    run_batches(restarted, batches[1:], tmp_path, 1)

    table = _table(tables)
    latest = table.snapshots.latest()
    assert latest is not None
    assert latest.id == before.id + (1 if lost == "compaction" else 0)
    assert (latest.commit_kind, latest.commit_identifier) == (CommitKind.COMPACT, 1)
    assert _levels(table) == {table.options.max_level}
    assert len(_replayed(table)) == table.to_arrow().num_rows


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"changelog-producer": "lookup"}, {**_FULL, "full-compaction.delta-commits": "2"}])
def test_what_a_batch_left_to_compact_is_done_at_the_next_start(tmp_path: Path, options: dict[str, str]) -> None:
    """Spark took batch 1 for done before it was compacted, and never runs it again."""
    batches = _batches(tmp_path, History("orders", seed=25, keys=40).extend(200), 70)[:3]
    tables = pipeline_tables(tmp_path, _RULES, **options)
    run_batches(tables, batches[:1], tmp_path, 0)
    _run_until_append(tables, batches[1], tmp_path, 1)

    restarted = pipeline_tables(tmp_path, _RULES, **options)
    (unfinished,) = unfinished_batches(restarted, 1, lambda _: None)
    report = _compact(unfinished, restarted, tmp_path)

    table = _table(tables)
    latest = table.snapshots.latest()
    assert latest is not None
    assert (latest.commit_kind, latest.commit_identifier) == (CommitKind.COMPACT, 1)
    assert report.tables[0].changelog_row_count > 0
    before = newest_position(table.snapshots, "shop")
    assert before is not None and sum(before.offsets.values()) == 140
    assert 0 not in _levels(table)
    assert len(_replayed(table)) == table.to_arrow().num_rows
    assert unfinished_batches(pipeline_tables(tmp_path, _RULES, **options), 1, lambda _: None) == []
    run_batches(restarted, batches[2:], tmp_path, 2)
    changes = [rows for _, rows in _table(tables).changes()]
    if options["changelog-producer"] == "lookup":
        assert len(replay_strictly(changes, ["id"])) == _table(tables).to_arrow().num_rows


@pytest.mark.slow
def test_a_full_compaction_that_was_left_is_done_for_tables_without_rows_too(tmp_path: Path) -> None:
    rules: list[dict[str, object]] = [{"match": {"table": "(.*)"}, "into": "lake.{table}"}]
    options = {**_FULL, "full-compaction.delta-commits": "2"}
    orders = _batches(tmp_path, History("orders", seed=27).extend(80), 40)
    (customers,) = _batches(tmp_path, History("customers", seed=28).extend(40), 1000)
    tables = pipeline_tables(tmp_path, rules, **options)
    run_batches(tables, [pa.concat_batches([orders[0], customers])], tmp_path, 0)
    _run_until_append(tables, orders[1], tmp_path, 1)

    restarted = pipeline_tables(tmp_path, rules, **options)
    for unfinished in unfinished_batches(restarted, 1, lambda _: None):
        _compact(unfinished, restarted, tmp_path)

    for name in ("orders", "customers"):
        table = Table.open(f"{tables.config.catalog.warehouse}/lake.db/{name}")
        assert _levels(table) == {table.options.max_level}
        assert len(_replayed(table)) == table.to_arrow().num_rows
    assert unfinished_batches(pipeline_tables(tmp_path, rules, **options), 1, lambda _: None) == []


def test_a_compaction_knows_the_schema_that_another_writer_has_published_meanwhile(tmp_path: Path) -> None:
    first, second = _batches(tmp_path, History("orders", seed=29).extend(60), 35)[:2]
    tables = pipeline_tables(tmp_path, _RULES, **{"changelog-producer": "lookup", "bucket": "1"})
    run_batches(tables, [first], tmp_path, 0)
    appended = _run_until_append(tables, second, tmp_path, 1)
    other = _table(tables).evolve([AddColumn("note", parse_type("STRING"))], 0)
    names = [f.name for f in other.schema.fields]
    row = {**_table(tables).to_arrow().slice(0, 1).to_pylist()[0], "note": "kept"}
    rows = pa.Table.from_pylist([row], schema=other.schema.arrow_schema).select(names)
    driver = TableDriver(other, tmp_path / "other", write_only=True)
    driver.commit_arrow(rows.append_column(VALUE_KIND, pa.array([RowKind.UPDATE_AFTER], pa.int8())))

    _compact(appended, tables, tmp_path)

    assert 0 not in _levels(_table(tables))
    assert "kept" in _table(tables).to_arrow().column("note").to_pylist()
    assert len(_replayed(_table(tables))) == _table(tables).to_arrow().num_rows


def test_level_0_files_below_the_patience_of_a_table_are_not_left_work(tmp_path: Path) -> None:
    options = {"changelog-producer": "lookup", "lookup-compact": "gentle"}
    (records,) = _batches(tmp_path, History("orders", seed=30).extend(40), 1000)
    run_batches(pipeline_tables(tmp_path, _RULES, **options), [records], tmp_path, 0)
    assert unfinished_batches(pipeline_tables(tmp_path, _RULES, **options), 0, lambda _: None) == []


@pytest.mark.parametrize("options", [{}, {"changelog-producer": "lookup", "write-only": "true"}])
def test_nothing_is_left_to_do_where_nobody_waits_for_compactions(tmp_path: Path, options: dict[str, str]) -> None:
    (records,) = _batches(tmp_path, History("orders", seed=26).extend(40), 1000)
    tables = pipeline_tables(tmp_path, _RULES, **options)
    _run_until_append(tables, records, tmp_path, 0)
    assert unfinished_batches(pipeline_tables(tmp_path, _RULES, **options), 1, lambda _: None) == []


def _compact(appended: AppendedBatch, tables: PipelineTables, directory: Path) -> BatchReport:
    return compact_batch(appended, tables, task_settings(directory), lambda task, due: list(task(due)))


def _run_until_append(tables: PipelineTables, records: pa.RecordBatch, directory: Path, batch_id: int) -> AppendedBatch:
    """A batch whose driver dies between the APPEND and the COMPACT snapshot."""
    exchange = LocalExchange([records], is_one_job=True)
    return append_batch(BatchRun(batch_id), tables, task_settings(directory), exchange, Compactions())


def test_a_write_only_table_is_left_alone(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, _RULES, **_FULL, **{"write-only": "true"})
    run_batches(tables, _batches(tmp_path, History("orders", seed=24).extend(40), 20), tmp_path)
    assert _levels(_table(tables)) == {0}
