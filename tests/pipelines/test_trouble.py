"""Trouble that passes: how long it is waited out, and what ends a pipeline at once."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from paimon_table.errors import CommitOutcomeUnknown, ConfigError, Outage, SinkUnavailable
from paimon_table.storage.outages import storage_failure, told_failure
from pipelines.config.config import PipelineConfig
from pipelines.live.pipeline_state import PipelineState
from pipelines.live.views import Phase
from pipelines.query import PipelineQuery
from pipelines.supervised import SupervisedPipeline
from pipelines.trouble import Patience, Trouble, may_pass
from sources.lag import Lag
from sources.loss import Losses
from tests.support.waiting import seconds


def test_waits_grow_up_to_the_longest_and_the_last_try_comes_at_the_end() -> None:
    patience, trouble, now_s, waits = Patience(100.0, 20.0), Trouble("x", 0.0), 0.0, []
    while (after := trouble.failed_again("x", now_s, patience)) is not None:
        waits.append(after.next_s - now_s)
        trouble, now_s = after, after.next_s
    assert waits == [1, 2, 4, 8, 16, 20, 20, 20, 9]
    assert (trouble.tries, now_s) == (9, 100.0)


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (Outage("Kafka does not answer"), True),
        (CommitOutcomeUnknown("the link failed"), True),
        (TimeoutError("s3://lake"), True),
        (OSError(errno.ESTALE, "Stale file handle"), True),
        (OSError("When writing s3://lake/a: AWS Error SLOW_DOWN during PutObject operation"), True),
        (OSError(errno.ENOSPC, "No space left on device"), False),
        (PermissionError(errno.EACCES, "Permission denied"), False),
        (FileNotFoundError(errno.ENOENT, "gone"), False),
        (SinkUnavailable("another run uses the checkpoint"), False),
        (ConfigError("the topic is not there"), False),
        (ValueError("a fault of ours"), False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_only_what_somebody_need_not_mend_is_tried_again(error: Exception, passes: bool) -> None:
    assert may_pass(error) is passes
    if isinstance(error, OSError):
        assert isinstance(storage_failure(error), Outage) is passes


def test_what_a_task_says_of_its_storage_is_told_apart() -> None:
    assert isinstance(told_failure("ConnectionError", "s3://lake/a: An error occurred (503)"), Outage)
    assert isinstance(told_failure("OSError", "[Errno 116] Stale file handle: '/lake'"), Outage)
    full = told_failure("OSError", "[Errno 28] No space left on device")
    assert full is not None and not isinstance(full, Outage) and "make room there" in str(full)
    assert told_failure("KeyError", "x") is None


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Supervised:
    """A pipeline whose queries are scripted: an error stands for a query that cannot be begun."""

    def __init__(self, script: Sequence[Any], **retry: str) -> None:
        self.clock = Clock()
        self.script = list(script)
        config = {
            "version": 1,
            "name": "shop",
            "source": {"files": {"path": "d"}, "format": "debezium-json"},
            "checkpoint": "/tmp/cp",
            "catalog": {"warehouse": "/tmp/lake"},
            "otherwise": "create",
            "retry": retry,
        }
        self.state = PipelineState("shop")
        prepared: Any = SimpleNamespace(reader=SimpleNamespace(lag=Lag(), losses=Losses(), silent_s=None))
        self.run = SupervisedPipeline(
            cast(Any, None), PipelineConfig.model_validate(config), prepared, False, (), self.state, self.clock
        )
        self.run._begin = self._next
        self.prepared = prepared
        self.begun: list[Any] = []

    def _next(self, _pipeline: object) -> PipelineQuery:
        self.run._pipeline = self.prepared
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        self.begun.append(step)
        return cast(PipelineQuery, step)

    def play(self, until: Callable[[], bool], step_s: float = 0.5) -> None:
        for _ in range(2000):
            if until():
                return
            if self.run._beginner is not None:
                self.run._beginner.join(seconds(5))
            self.run.poll()
            self.clock.now_s += step_s
        raise AssertionError("it never came to that")


class Query(PipelineQuery):
    """A query that runs until it is told to end."""

    def __init__(self, ends_with: Exception | None = None) -> None:
        self.ends_with = ends_with
        self.is_closed = False

    is_running = False
    has_failed = False

    def open_tables(self) -> dict[str, Any]:
        return {}

    def request_stop(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True

    def raise_failure(self) -> None:
        if self.ends_with is not None:
            raise self.ends_with


def test_a_query_that_an_outage_ends_is_begun_again_until_it_goes_well(caplog: pytest.LogCaptureFixture) -> None:
    silent = Outage("Kafka at b:1 does not answer")
    one = Supervised([Query(silent), silent, silent, Query()])

    one.run.start()
    one.play(lambda: one.state.view().phase is Phase.WAITING)
    assert one.run.waits_for is not None and "next try in 1 s" in one.run.waits_for
    assert one.state.view().reason == "Kafka at b:1 does not answer"
    one.play(lambda: not one.run.is_alive or len(one.begun) == 2)

    assert [query.is_closed for query in one.begun[:1]] == [True]
    assert one.state.view().retries == {"outage": 3}
    told = [record.getMessage() for record in caplog.records]
    assert [("next try in" in text, "goes on after" in text) for text in told[:3]] == [(True, False)] * 3
    assert "next try in 4 s (number 3); the pipeline ends if it lasts 24 h 0 min" in told[2]


def test_patience_ends_with_the_reason_and_what_to_do() -> None:
    one = Supervised([Outage("Kafka at b:1 does not answer")] * 50, max_elapsed="30s")
    one.run.start()
    one.play(lambda: one.run.failure is not None)
    assert "tried again for 30 s (retry.max_elapsed); start again when it is back" in str(one.run.failure)
    assert one.state.view().phase is Phase.FAILED
    assert 30 <= one.clock.now_s < 35


def test_what_does_not_pass_ends_a_pipeline_at_once() -> None:
    one = Supervised([SinkUnavailable("the disk is full: make room there")])
    one.run.start()
    one.play(lambda: one.run.failure is not None)
    assert str(one.run.failure) == "pipeline shop: the disk is full: make room there"
    assert not one.run.is_alive


def test_a_request_to_stop_ends_the_waiting_at_once() -> None:
    one = Supervised([Outage("Kafka at b:1 does not answer")] * 50)
    one.run.start()
    one.play(lambda: one.state.view().phase is Phase.WAITING)
    one.run.request_stop()
    assert not one.run.is_alive and one.run.failure is None
