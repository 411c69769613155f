"""Bad records in quarantine as those see them who look: as many as are listed, counted beside the run."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.bad_records.dead_letters import DeadLetters
from pipelines.bad_records.log import Closed, stretches
from pipelines.config.config import PipelineConfig
from pipelines.config.config_file import load_pipeline
from pipelines.http.endpoints import endpoints
from pipelines.http.open_records import OpenRecords, counted_records
from pipelines.http.state_file import read_state, state_path
from pipelines.views.run_state import RunState
from tests.support.quarantined import bad, put, write_pipeline
from tests.support.waiting import seconds

FIT = 'column n INT: string "Jane" does not fit INT'


@pytest.fixture
def config(tmp_path: Path) -> PipelineConfig:
    put(tmp_path, 0, [bad(1), bad(2, FIT), bad(3, FIT.replace("Jane", "Joe"))])
    put(tmp_path, 1, [bad(4, topic="shop.public.items")], owner="retry-1")
    return load_pipeline(write_pipeline(tmp_path))


def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + seconds(20)
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_they_are_counted_by_table_and_kind_of_reason(config: PipelineConfig) -> None:
    kind = "column n INT: string ... does not fit INT"
    found = OpenRecords().count(config)
    assert found == {
        ("lake.orders", "it is broken"): 1,
        ("lake.orders", kind): 2,
        ("lake.items", "it is broken"): 1,
    }


def test_a_record_that_leaves_the_quarantine_is_not_counted_any_more(config: PipelineConfig) -> None:
    records, quarantined = OpenRecords(), DeadLetters(config)
    assert sum(records.count(config).values()) == 4
    first, *others = quarantined.facts().places()
    quarantined.log.append(Closed(why="dropped", places=stretches([first])))
    assert sum(records.count(config).values()) == 3
    quarantined.log.append(Closed(why="dropped", places=stretches(others)))
    assert records.count(config) == {}


def test_a_file_is_read_once(config: PipelineConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    records = OpenRecords(lambda _: read.append("file"))
    records.count(config)
    assert len(read) == 2
    put(tmp_path, 2, [bad(9)])
    assert sum(records.count(config).values()) == 5
    assert len(read) == 3


def test_a_pipeline_without_quarantine_has_none(config: PipelineConfig) -> None:
    source = config.source.model_copy(update={"on_bad_record": "fail"})
    assert OpenRecords().count(config.model_copy(update={"source": source})) == {}


def test_looks_take_what_was_counted_and_ask_the_storage_nothing(
    config: PipelineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = RunState([config])
    with counted_records([config], state):
        until(lambda: state.pipelines["shop"].view().open_bad_records == 4)
    monkeypatch.setattr(OpenRecords, "count", lambda *_: pytest.fail("a look counts"))
    assert [state.view().pipelines[0].open_bad_records for _ in range(3)] == [4, 4, 4]


def test_the_last_state_of_a_run_has_those_of_its_last_batch(config: PipelineConfig, tmp_path: Path) -> None:
    state = RunState([config])
    with endpoints([config], state):
        until(lambda: state.pipelines["shop"].view().open_bad_records == 4)
        put(tmp_path, 2, [bad(9), bad(10)])
    kept = read_state(state_path(config))
    assert kept is not None and kept["pipelines"][0]["open_bad_records"] == 6


def test_a_quarantine_that_cannot_be_read_is_told_once_and_ends_nothing(
    config: PipelineConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "/q")

    monkeypatch.setattr("pipelines.http.open_records.SOONEST_S", 0.01)
    monkeypatch.setattr("pipelines.http.open_records.OFTEN_S", 0.01)
    monkeypatch.setattr(OpenRecords, "count", fails)
    state = RunState([config])
    with caplog.at_level(logging.WARNING), counted_records([config], state):
        until(lambda: bool(caplog.records))
    assert [r.getMessage() for r in caplog.records] == [
        "shop: the records in quarantine cannot be counted: [Errno 13] Permission denied: '/q'"
    ]
    assert state.view().pipelines[0].open_bad_records is None
