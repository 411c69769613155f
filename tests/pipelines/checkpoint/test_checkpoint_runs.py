"""Queries in this process over checkpoints in every state that an operator may leave them in, and a re-drive."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from paimon_table.errors import ConfigError, CorruptFile, SinkUnavailable
from paimon_table.table import Table
from pipelines.checkpoint.book import FILE
from pipelines.config.config import PipelineConfig
from pipelines.config.config_file import load_pipelines
from pipelines.prepared import prepared
from pipelines.query import PipelineQuery
from pipelines.report.run_totals import RunTotals
from pipelines.spark.session import open_session
from tests.support.events import History, write_dump
from tests.support.pipeline_run import write_pipeline
from tests.support.waiting import seconds

pytestmark = pytest.mark.spark
MAX_S = 240


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    spark = open_session([pipeline(tmp_path_factory.mktemp("session"))])
    yield spark
    spark.stop()


def pipeline(directory: Path, name: str = "shop", dumps: str = "dumps") -> PipelineConfig:
    (config,) = load_pipelines([write_pipeline(directory, directory / dumps)])
    if name == "shop":
        return config
    return config.model_copy(update={"name": name, "checkpoint": f"{directory}/checkpoint-{name}"})


def until(condition: Callable[[], bool], query: PipelineQuery) -> None:
    deadline = time.monotonic() + seconds(MAX_S)
    while not condition():
        assert time.monotonic() < deadline
        query.poll()
        time.sleep(0.05)


def drain(session: SparkSession, config: PipelineConfig) -> None:
    query = PipelineQuery(session, prepared(config), True)
    until(lambda: not query.is_running, query)
    query.raise_failure()


def add_line(dumps: Path, offset: int, payload: str) -> None:
    record = {"topic": "shop.public.orders", "partition": 0, "offset": offset, "ts": 0, "key": '{"id":904}'}
    with (dumps / "shop.public.orders.jsonl").open("a") as file:
        file.write(json.dumps({**record, "payload": payload}) + "\n")


def rows_of(directory: Path) -> dict[int, dict[str, object]]:
    table = Table.open(f"{directory}/warehouse/lake.db/orders")
    return {row["id"]: row for row in table.to_arrow().to_pylist()}


def test_a_bad_record_is_mended_in_the_quarantine_and_read_again(session: SparkSession, tmp_path: Path) -> None:
    history = History("orders", seed=3).extend(60)
    write_dump(tmp_path / "dumps", [history])
    drain(session, pipeline(tmp_path))
    source = '"source":{"db":"shop","schema":"public","table":"orders"}'
    after = '{"id":904,"name":"mended","amount":"zwei","step":1}'
    add_line(tmp_path / "dumps", 100_000, f'{{"op":"c","before":null,"after":{after},{source}}}')
    drain(session, pipeline(tmp_path))

    (bad,) = (tmp_path / "checkpoint-quarantine").rglob("*.jsonl")
    assert bad.stat().st_mode & 0o777 == 0o600
    assert {path.stat().st_mode & 0o777 for path in bad.parents if "quarantine" in str(path)} == {0o700}
    assert rows_of(tmp_path) == history.rows

    (tmp_path / "mended").mkdir()
    (tmp_path / "mended" / "bad.jsonl").write_text(bad.read_text().replace(r"\"zwei\"", "2"))
    drain(session, pipeline(tmp_path, "redrive", "mended"))

    assert rows_of(tmp_path) == {**history.rows, 904: {"id": 904, "name": "mended", "amount": 2, "step": 1}}


def test_checkpoints_that_do_not_fit_are_refused_and_fitting_ones_go_on(session: SparkSession, tmp_path: Path) -> None:
    history = History("orders", seed=4).extend(60)
    write_dump(tmp_path / "dumps", [history])
    config = pipeline(tmp_path)
    drain(session, config)
    assert list(json.loads((tmp_path / "checkpoint" / FILE).read_text())["tables"]) == ["lake.orders"]

    newest = max((tmp_path / "checkpoint/offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    kept = newest.rename(tmp_path / "kept")
    with pytest.raises(CorruptFile, match=f"its file offsets/{newest.name} is missing"):
        drain(session, config)
    kept.rename(newest)

    with pytest.raises(ConfigError, match="belongs to pipeline shop, not to other"):
        drain(session, config.model_copy(update={"name": "other"}))

    (tmp_path / "warehouse").rename(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=r"does not have table lake\.orders, which it wrote"):
        drain(session, config)
    shutil.rmtree(tmp_path / "warehouse", ignore_errors=True)
    (tmp_path / "elsewhere").rename(tmp_path / "warehouse")

    write_dump(tmp_path / "dumps", [history.extend(20)])
    drain(session, config)
    assert rows_of(tmp_path) == history.rows


def test_a_second_run_that_spark_notices_is_told_in_words(session: SparkSession, tmp_path: Path) -> None:
    history = History("orders", seed=5).extend(60)
    write_dump(tmp_path / "dumps", [history])
    run = RunTotals()
    query = PipelineQuery(session, prepared(pipeline(tmp_path)), False, [run])
    until(lambda: run.totals.record_count > 0 and (tmp_path / "checkpoint/commits/0").exists(), query)

    offsets = tmp_path / "checkpoint/offsets"
    (offsets / "1").write_text((offsets / "0").read_text())
    write_dump(tmp_path / "dumps", [history.extend(20)])
    until(lambda: not query.is_running, query)

    with pytest.raises(SinkUnavailable, match=r"another run uses checkpoint .*/checkpoint: "):
        query.raise_failure()


def test_nothing_is_left_in_the_working_directory(session: SparkSession) -> None:
    made = Path(session._jsparkSession.artifactManager().artifactPath().toString())
    assert made.is_absolute()
    assert not made.parent.exists()
