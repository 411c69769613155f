"""A query in this process: what others do to its tables meanwhile, and where tasks may leave results."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from paimon_table.table import Table
from paimon_table.types import parse_type
from paimon_table.validation.schema_evolution import AddColumn
from pipelines.batch.batch_report import BatchReport
from pipelines.batch.compactions import Compactions
from pipelines.config.config import PipelineConfig
from pipelines.config.config_file import load_pipelines
from pipelines.query import PipelineQuery
from pipelines.spark.session import open_session, spool
from tests.support.changelog import replay_strictly
from tests.support.events import History, write_dump
from tests.support.pipeline_run import write_pipeline
from tests.support.waiting import seconds

pytestmark = pytest.mark.spark
MAX_S = 120


@pytest.fixture
def history(tmp_path: Path) -> History:
    history = History("orders", seed=31).extend(900)
    write_dump(tmp_path / "dumps", [history])
    return history


def _config(directory: Path, master: str) -> PipelineConfig:
    (config,) = load_pipelines([write_pipeline(directory, directory / "dumps", master=master)])
    return config


@pytest.fixture
def session(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    spark = open_session([_config(tmp_path, request.param)])
    yield spark
    spark.stop()


@pytest.mark.parametrize("session", ["local[2]"], indirect=True)
def test_a_schema_that_another_writer_publishes_between_decoding_and_writing_is_followed(
    tmp_path: Path, history: History, session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[BatchReport] = []
    waited: list[int] = []
    wait = Compactions.wait

    def add_a_column(self: Compactions) -> None:
        wait(self)
        waited.append(len(reports))
        if len(waited) == 4:
            Table.open(f"{tmp_path}/warehouse/lake.db/orders").evolve([AddColumn("note", parse_type("STRING"))], 0)

    monkeypatch.setattr(Compactions, "wait", add_a_column)
    query = PipelineQuery(session, _config(tmp_path, "local[2]"), True, reports.append)
    deadline = time.monotonic() + seconds(MAX_S)
    while query.is_running:
        assert time.monotonic() < deadline
        query.poll()
        time.sleep(0.05)
    query.raise_failure()

    assert waited[3] == waited[4] > 0, "the batch was decoded again"
    table = Table.open(f"{tmp_path}/warehouse/lake.db/orders")
    rows = table.to_arrow().to_pylist()
    assert {row.pop("note") for row in rows} == {None}
    assert {row["id"]: row for row in rows} == history.rows
    assert len(replay_strictly([rows for _, rows in table.changes()], ["id"])) == len(rows)
    assert sum(report.record_count for report in reports) == len(list(history.lines()))


@pytest.mark.parametrize("session", ["local[2, 3]"], indirect=True)
def test_tasks_that_spark_tries_again_leave_no_results_behind_its_back(session: SparkSession) -> None:
    assert spool(session) is None
