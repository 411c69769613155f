"""What a run refuses before Spark starts, what it says on signals, and whose name its errors have."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession

from paimon_table.errors import SinkUnavailable
from pipelines import run as run_module
from pipelines.checkpoint.book import FILE
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.config.config_file import load_pipeline
from pipelines.prepared import prepared
from pipelines.query import PipelineQuery
from pipelines.report.run_log import naming
from tests.support.command import TIDEMARK
from tests.support.pipeline_run import write_pipeline
from tests.support.waiting import seconds


@pytest.mark.slow
def test_a_glob_that_matches_nothing_is_refused_without_spark(tmp_path: Path) -> None:
    file = write_pipeline(tmp_path, tmp_path / "dumps" / "*.jsonl")
    done = subprocess.run([*TIDEMARK, "run", str(file), "--once"], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "pipeline shop: source.files.path: no file matches" in done.stderr
    assert "starting Spark" not in done.stderr


@pytest.mark.slow
def test_a_checkpoint_of_another_pipeline_is_refused_without_spark(tmp_path: Path) -> None:
    (tmp_path / "dumps").mkdir()
    (tmp_path / "dumps" / "t.jsonl").touch()
    file = write_pipeline(tmp_path, tmp_path / "dumps" / "*.jsonl")
    (checkpoint,) = re.findall(r"^checkpoint: (.*)$", file.read_text(), re.MULTILINE)
    for directory in ("offsets", "commits"):
        (Path(checkpoint) / directory).mkdir(parents=True)
    (Path(checkpoint) / "metadata").write_text('{"id":"0b9fd2a4-7d4d-4f4e-a3c1-6f8a9a6bd0f1"}')
    (Path(checkpoint) / FILE).parent.mkdir()
    (Path(checkpoint) / FILE).write_text('{"pipeline": "other", "tables": {}}')
    done = subprocess.run([*TIDEMARK, "run", str(file), "--once"], capture_output=True, text=True, check=False)

    assert done.returncode == 2, done.stderr
    assert "belongs to pipeline other" in done.stderr
    assert "starting Spark" not in done.stderr


@pytest.mark.parametrize("what", ["catalog.warehouse", "the quarantine"])
def test_a_place_that_cannot_be_written_is_refused_without_spark(tmp_path: Path, what: str) -> None:
    (tmp_path / "dumps").mkdir()
    (tmp_path / "dumps" / "t.jsonl").touch()
    file = write_pipeline(tmp_path, tmp_path / "dumps" / "*.jsonl")
    config = load_pipeline(file)
    (tmp_path / "taken").touch()
    changed: dict[str, object] = {"source": config.source.model_copy(update={"quarantine": f"{tmp_path}/taken/bad"})}
    if what == "catalog.warehouse":
        changed = {"catalog": config.catalog.model_copy(update={"warehouse": f"{tmp_path}/taken/warehouse"})}

    with pytest.raises(SinkUnavailable, match=rf"{what} \(.*/taken/.*\) cannot be .*move it away"):
        prepared(config.model_copy(update=changed))


def test_the_probe_of_the_warehouse_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").touch()
    config = load_pipeline(write_pipeline(tmp_path, tmp_path / "*.jsonl"))
    prepared(config)
    prepared(config)

    assert list((tmp_path / "warehouse").iterdir()) == [] and not Path(config.quarantine).exists()


def test_a_signal_while_spark_starts_says_when_the_run_stops(caplog: pytest.LogCaptureFixture) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    stop = threading.Event()
    try:
        run_module._install_signal_handlers(stop, "as soon as Spark has started")
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.wait(seconds(5))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert "stopping as soon as Spark has started (SIGINT)" in caplog.text


def test_the_last_line_after_a_signal_says_that_the_run_has_stopped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    (tmp_path / "t.jsonl").touch()
    config = load_pipeline(write_pipeline(tmp_path, tmp_path / "*.jsonl"))
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}

    def run(*_: object) -> run_module.EndedRun:
        os.kill(os.getpid(), signal.SIGTERM)
        return run_module.EndedRun(())

    monkeypatch.setattr(run_module, "_run", run)
    try:
        run_module.run_pipelines([config], once=False)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert caplog.messages[-1] == "stopped; the next start continues from here"


def test_errors_have_the_name_of_their_pipeline_once() -> None:
    for text in ("byte 5 of bad.jsonl: no JSON", "pipeline shop: Spark ended the query"):
        with pytest.raises(SinkUnavailable, match=r"^pipeline shop: (?!pipeline)"), naming("shop"):
            raise SinkUnavailable(text)


def test_a_start_that_planned_no_batch_leaves_no_compactions_and_records_no_tables() -> None:
    """Under a new checkpoint the record would say that it wrote tables of which it has no offsets."""
    query = PipelineQuery.__new__(PipelineQuery)
    query.tables = None
    query._checkpoint = cast(Checkpoint, SimpleNamespace(is_new=True))
    query._finish_interrupted(cast(SparkSession, None), "made by a start that was killed")
    assert query.tables is None
