"""How a run starts its queries, with queries that only look like Spark's."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from paimon_table.errors import SinkUnavailable
from pipelines import run as run_module
from pipelines.config.config_file import load_pipelines
from pipelines.query import PipelineQuery
from pipelines.report.run_log import naming
from sources.dumps.reader import DumpFilesReader
from sources.dumps.settings import DumpSettings
from tests.support.command import TIDEMARK
from tests.support.pipeline_run import write_pipeline

BUSY = RuntimeError("Python worker failed to connect back.")


class Spark:
    """What Spark's query shows; ``exception`` ends it."""

    def __init__(self, message: str = "Initializing sources") -> None:
        self.status = {"message": message, "isTriggerActive": False}
        self.error: Exception | None = None

    @property
    def isActive(self) -> bool:
        return self.error is None

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.error = RuntimeError("stopped")


def bare_query(begin: Callable[[], Spark]) -> Any:
    """A query without its checks; ``begin`` gives what a start gives."""
    query = PipelineQuery.__new__(PipelineQuery)
    config = SimpleNamespace(name="shop", checkpoint="checkpoint")
    reader = DumpFilesReader(DumpSettings("dumps"), cast(Any, SimpleNamespace()))
    values = {
        "config": config, "failure": None, "_stopping": threading.Event(), "_reader": reader, "_session": None,
        "_lost_s": 0.0, "_pause_s": 1.0, "_due_s": None,
        "_compactions": SimpleNamespace(is_busy=False, raise_failure=lambda: None),
        "_start": lambda _spark: begin(),
    }  # fmt: skip
    for name, value in values.items():
        setattr(query, name, value)
    query._begin()
    return query


def test_a_lost_start_is_made_again_after_growing_pauses(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [100.0]
    monkeypatch.setattr("pipelines.query.time.monotonic", lambda: now[0])
    starts: list[float] = []

    def begin() -> Spark:
        starts.append(now[0])
        return Spark()

    query = bare_query(begin)
    assert query.is_starting
    for _ in range(80):
        if query._query.isActive and len(starts) < 4:
            query._query.error = BUSY
        assert query.is_running and not query.has_failed
        query.try_again()
        now[0] += 0.5

    assert starts == [100.0, 101.0, 103.5, 108.0], "half a second passes before a loss is seen"
    pauses = re.findall(r"trying again in (\d+) s", caplog.text)
    assert pauses == ["1", "2", "4"]
    assert "and start again" not in caplog.text


def test_starts_end_after_their_patience_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("pipelines.query.time.monotonic", lambda: now[0])
    query = bare_query(Spark)
    while query.is_running:
        assert now[0] < 5_000
        now[0] += 10.0
        query._query.error = BUSY
        query.try_again()

    assert query.has_failed
    query.request_stop()  # as all queries of a failed run are asked to
    with pytest.raises(SinkUnavailable, match=r"^pipeline shop: .*run fewer pipelines on it .* and start again$"):
        query.raise_failure()


def test_a_request_to_stop_ends_the_wait_for_another_start() -> None:
    query = bare_query(Spark)
    query._query.error = BUSY
    query.try_again()
    assert query.is_running

    query.request_stop()

    assert not query.is_running
    query.raise_failure()


def test_the_next_query_starts_when_the_one_before_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configs = []
    for name in ("one", "two", "three"):
        directory = tmp_path / name
        (directory / "dumps").mkdir(parents=True)
        file = write_pipeline(directory, directory / "dumps")
        file.write_text(file.read_text().replace("name: shop", f"name: {name}"))
        configs += load_pipelines([file])
    starting: list[int] = []

    class Query:
        def __init__(self, *_arguments: object) -> None:
            starting.append(sum(q.is_starting for q in made))
            made.append(self)
            self.polls, self.has_failed = 0, False

        opened: ClassVar[dict[str, Any]] = {}
        is_starting = property(lambda self: self.polls < 3)
        is_running = property(lambda self: self.polls < 5)

        def try_again(self) -> bool:
            return False

        def poll(self) -> None:
            self.polls += 1

        def raise_failure(self) -> None:
            return

    made: list[Any] = []
    monkeypatch.setattr(run_module, "PipelineQuery", Query)
    monkeypatch.setattr(run_module, "_started", lambda *_: SimpleNamespace(stop=lambda: None))
    monkeypatch.setattr(run_module, "jvm_has_ended", lambda *_: False)
    monkeypatch.setattr(run_module, "_install_signal_handlers", lambda *_: None)
    monkeypatch.setattr(run_module, "held_checkpoints", lambda _configs: nullcontext())

    assert [run.config for run in run_module.run_pipelines(configs, once=True)] == configs
    assert starting == [0, 0, 0]


def test_a_glob_that_matches_nothing_is_refused_without_spark(tmp_path: Path) -> None:
    file = write_pipeline(tmp_path, tmp_path / "dumps" / "*.jsonl")
    done = subprocess.run([*TIDEMARK, "run", str(file), "--once"], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "pipeline shop: source.files.path: no file matches" in done.stderr
    assert "starting Spark" not in done.stderr


def test_a_signal_while_spark_starts_says_when_the_run_stops(caplog: pytest.LogCaptureFixture) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    stop = threading.Event()
    try:
        run_module._install_signal_handlers(stop, "as soon as Spark has started")
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.wait(5)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert "stopping as soon as Spark has started (SIGINT)" in caplog.text


def test_errors_have_the_name_of_their_pipeline_once() -> None:
    for text in ("byte 5 of bad.jsonl: no JSON", "pipeline shop: Spark ended the query"):
        with pytest.raises(SinkUnavailable, match=r"^pipeline shop: (?!pipeline)"), naming("shop"):
            raise SinkUnavailable(text)
