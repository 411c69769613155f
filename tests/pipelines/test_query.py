"""A session in this process: where tasks may leave results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.config.config import PipelineConfig
from pipelines.config.config_file import load_pipelines
from pipelines.spark.session import open_session, spool
from tests.support.pipeline_run import write_pipeline

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
