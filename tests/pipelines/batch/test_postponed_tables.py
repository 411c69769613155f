"""A pipeline into a table with postponed buckets: rows arrive once, in order, whatever happens between batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.errors import UnsupportedFeature
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.postponed import compact_postponed
from paimon_table.table import Table
from paimon_table.write.bucket_writer import WriterEnvironment
from pipelines.tables.tables import PipelineTables
from tests.support.changelog import replay_strictly
from tests.support.events import History
from tests.support.history_tables import batches, content, opened
from tests.support.local_batches import ALL_TABLES, dump_batches, pipeline_tables, processed, task_settings
from tests.support.replay import CAPTURES


def compact(tmp_path: Path) -> Table:
    compact_postponed(opened(tmp_path), Job(WriterEnvironment(str(tmp_path / "job"))), lambda _: True)
    return opened(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("is_one_job", [False, True], ids=["two jobs", "one job"])
def test_rows_come_out_in_the_order_of_their_events(tmp_path: Path, is_one_job: bool) -> None:
    history = History("orders", seed=8, keys=40).extend(300)
    parts = batches(history)
    options = {"bucket": "-2", "changelog-producer": "lookup", "postpone.default-bucket-num": "3"}
    tables = pipeline_tables(tmp_path, ALL_TABLES, **options)

    processed(tables, parts[:3], task_settings(tmp_path), is_one_job=is_one_job)
    assert content(tmp_path) == {}
    compact(tmp_path)
    processed(tables, parts[2:4], task_settings(tmp_path, slots=3), 2, is_one_job=is_one_job)
    again = PipelineTables(tables.config, "tidemark-shop-test")
    processed(again, parts[3:], task_settings(tmp_path, slots=1), 3, is_one_job=is_one_job)
    table = compact(tmp_path)

    assert content(tmp_path) == history.rows
    replay_strictly((rows for _, rows in table.changes()), ["id"])
    assert set(table.state().total_buckets.values()) == {3}


@pytest.mark.slow
def test_a_new_checkpoint_goes_on_in_order(tmp_path: Path) -> None:
    history = History("orders", seed=8, keys=40).extend(240)
    parts = batches(history)
    tables = pipeline_tables(tmp_path, ALL_TABLES, bucket="-2")
    processed(tables, parts[:2], task_settings(tmp_path))
    processed(PipelineTables(tables.config, "tidemark-shop-another"), parts, task_settings(tmp_path))
    compact(tmp_path)
    assert content(tmp_path) == history.rows


@pytest.mark.slow
def test_values_that_were_not_sent_are_refused_with_the_remedy(tmp_path: Path) -> None:
    rule: list[dict[str, object]] = [{"match": {"table": "varied"}, "into": "lake.varied"}]
    tables = pipeline_tables(tmp_path, rule, bucket="-2")
    with pytest.raises(UnsupportedFeature, match=r"lake.varied.*postponed buckets.*REPLICA IDENTITY FULL"):
        processed(tables, dump_batches(CAPTURES / "types_schema.jsonl.gz", 3), task_settings(tmp_path))
