"""A session in this process: where tasks may leave results, workers that are warm, properties told once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest
from pyspark.sql import SparkSession

from pipelines.batch.spooled_writes import SpooledWrites
from pipelines.config.config import PipelineConfig
from pipelines.config.config_file import load_pipelines
from pipelines.spark.session import open_session, spool
from pipelines.spark.warm_workers import warm_workers
from tests.support.pipeline_run import write_pipeline
from tests.support.waiting import seconds

pytestmark = pytest.mark.spark


def _config(directory: Path, master: str) -> PipelineConfig:
    (config,) = load_pipelines([write_pipeline(directory, directory / "dumps", master=master)])
    return config


@pytest.fixture
def session(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    spark = open_session([_config(tmp_path, request.param)])
    yield spark
    spark.stop()


@pytest.mark.parametrize("session", ["local[2, 3]"], indirect=True)
def test_tasks_that_spark_tries_again_leave_no_results_behind_its_back(session: SparkSession) -> None:
    assert spool(session) is None


@pytest.mark.parametrize("session", ["local[2]"], indirect=True)
def test_both_spools_of_the_writes_go_with_them(session: SparkSession) -> None:
    shared = spool(session)
    assert shared is not None
    before = set(Path(shared.directory).parent.glob("spool-*")) - {Path(shared.directory)}

    writes = SpooledWrites(session.sparkContext, 2, shared)
    assert len(set(Path(shared.directory).parent.glob("spool-*")) - before) == 2
    writes.remove()

    assert set(Path(shared.directory).parent.glob("spool-*")) == before


@pytest.mark.parametrize("session", ["local[2]"], indirect=True)
def test_workers_come_up_without_a_batch_under_the_properties_of_the_start(session: SparkSession) -> None:
    assert session.conf.get("spark.sql.session.timeZone") == "UTC"
    assert session.sparkContext.getConf().get("spark.python.daemon.module") == "pipelines.worker_daemon"

    warm_workers(session)

    tracker, until_s = session.sparkContext.statusTracker(), monotonic() + seconds(60)
    states: list[str] = []
    while "SUCCEEDED" not in states and monotonic() < until_s:
        jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(None)]
        states = [job.status for job in jobs if job is not None]
        sleep(0.1)
    assert states == ["SUCCEEDED"]
