"""Pipelines whose tables have dynamic buckets: contents, values that were not sent, other numbers of tasks, replays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow.parquet import read_table

from paimon_table.bucket_assignment.held_hashes import held_hashes
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.index_file import IndexChange
from paimon_table.table import Table
from pipelines.tables.tables import PipelineTables
from tests.support.changelog import replay_strictly
from tests.support.events import History, records_of
from tests.support.local_batches import ALL_TABLES, dump_batches, pipeline_tables, processed, run_batches, task_settings
from tests.support.replay import CAPTURES, final_rows
from tests.support.source_content import assert_equals_source, open_table

DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "40"}


def keys_by_bucket(table: Table) -> dict[int, set[int]]:
    """The keys in the files of every bucket, deleted ones included."""
    found: dict[int, set[int]] = {}
    for bucket, files in table.state().files.items():
        for file in files:
            ids = read_table(table.context.data_file(bucket, file)).column("id").to_pylist()
            found.setdefault(bucket.bucket, set()).update(ids)
    return found


def assert_every_key_has_one_bucket(table: Table) -> None:
    buckets = list(keys_by_bucket(table).values())
    assert sum(map(len, buckets)) == len(set().union(*buckets))


@pytest.mark.slow
@pytest.mark.parametrize("records", [10_000, 150])
def test_captured_shop_equals_its_source(tmp_path: Path, records: int) -> None:
    tables = pipeline_tables(tmp_path, ALL_TABLES, **{"changelog-producer": "lookup", **DYNAMIC})

    run_batches(tables, dump_batches(CAPTURES / "shop_schema.jsonl.gz", records), tmp_path)

    for name, key in (("customers", ["id"]), ("orders", ["id"]), ("order_items", ["order_id", "line_no"])):
        table = open_table(tables, name)
        assert_equals_source(table, "shop", name, key, set())
        changes = replay_strictly((rows for _, rows in table.changes()), key)
        assert len(changes) == len(table.to_arrow())


@pytest.mark.slow
def test_unchanged_toast_values_are_filled_from_the_bucket_of_the_key(tmp_path: Path) -> None:
    rule: list[dict[str, object]] = [{"match": {"table": "varied"}, "into": "lake.varied"}]
    tables = pipeline_tables(tmp_path, rule, **DYNAMIC | {"dynamic-bucket.target-row-num": "3"})

    run_batches(tables, dump_batches(CAPTURES / "types_schema.jsonl.gz", 3), tmp_path)

    table = open_table(tables, "varied")
    types = {"id": table.schema.field("id").type, "ltoast": table.schema.field("ltoast").type}
    expected = {row["id"]: row["ltoast"] for row in final_rows("types", "varied", types)}
    assert {row["id"]: row["ltoast"] for row in table.to_arrow().to_pylist()} == expected
    assert_every_key_has_one_bucket(table)


@pytest.mark.slow
@pytest.mark.parametrize("is_one_job", [False, True])
def test_another_number_of_tasks_moves_no_key(tmp_path: Path, is_one_job: bool) -> None:
    history = History("orders", seed=7)
    tables = pipeline_tables(tmp_path, ALL_TABLES, **DYNAMIC)
    for batch_id, slots in enumerate((2, 3, 1, 5)):
        start = len(history.events)
        history.extend(150)
        records = records_of(history).slice(start)
        held_hashes.cache_clear()  # the workers are new ones
        settings = task_settings(tmp_path, slots=slots)
        processed(tables, [records], settings, batch_id, is_one_job=is_one_job)

    table = open_table(tables, "orders")
    assert {row["id"]: row for row in table.to_arrow().to_pylist()} == history.rows
    assert_every_key_has_one_bucket(table)


def test_a_batch_that_runs_again_keeps_its_buckets(tmp_path: Path) -> None:
    history = History("orders", seed=8).extend(200)
    tables = pipeline_tables(tmp_path, ALL_TABLES, **DYNAMIC)
    run_batches(tables, [records_of(history)], tmp_path)
    table = open_table(tables, "orders")
    before, index = keys_by_bucket(table), table.state().index

    again = PipelineTables(tables.config, "tidemark-shop-test")
    run_batches(again, [records_of(history)], tmp_path)

    assert (keys_by_bucket(table), table.state().index) == (before, index)


@pytest.mark.slow
def test_a_new_checkpoint_finds_the_keys_where_they_are(tmp_path: Path) -> None:
    history = History("orders", seed=9).extend(300)
    tables = pipeline_tables(tmp_path, ALL_TABLES, **DYNAMIC)
    run_batches(tables, [records_of(history).slice(0, 200)], tmp_path)

    config = tables.config.model_copy(update={"on_lost_checkpoint": "resume"})
    renewed = PipelineTables(config, "tidemark-shop-other")
    run_batches(renewed, [records_of(history)], tmp_path)

    table = open_table(tables, "orders")
    assert {row["id"]: row for row in table.to_arrow().to_pylist()} == history.rows
    assert_every_key_has_one_bucket(table)


@pytest.mark.slow
def test_lanes_of_another_writer_are_planned_anew(tmp_path: Path) -> None:
    """Between the decode step and the write step somebody else writes the partition, with other assigners."""
    history = History("orders", seed=10).extend(100)
    tables = pipeline_tables(tmp_path, ALL_TABLES, **DYNAMIC)
    run_batches(tables, [records_of(history)], tmp_path)
    sink = tables.sinks["lake.orders"]
    entry = sink.state.index[0]
    io, paths = sink.table.io, sink.table.paths
    io.write(paths.index_file("index-of-somebody"), io.read(paths.index_file(entry.file.file_name)))
    foreign = replace(entry.file, file_name="index-of-somebody")

    refresh = sink.refresh

    def refresh_behind_others() -> None:
        if sink.table.snapshots.latest_id() == 1:
            commit = sink.table.new_commit("somebody")
            commit.refresh()
            change = IndexChange((entry.file,), (foreign,))
            commit.commit(1, [CommitMessage(bucket=entry.bucket, total_buckets=-1, append_index=change)], {})
        refresh()

    sink.refresh = refresh_behind_others  # type: ignore[method-assign]
    start = len(history.events)
    history.extend(100)
    processed(tables, [records_of(history).slice(start)], task_settings(tmp_path), 1)

    table = open_table(tables, "orders")
    assert {row["id"]: row for row in table.to_arrow().to_pylist()} == history.rows
    assert_every_key_has_one_bucket(table)
