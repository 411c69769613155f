"""A supervised pipeline whose queries are scripted, and its clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

from pipelines.config.config import PipelineConfig
from pipelines.query import PipelineQuery
from pipelines.supervised import SupervisedPipeline
from pipelines.views.pipeline_state import PipelineState
from sources.lag import Lag
from sources.loss import Losses
from tests.support.waiting import seconds


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Supervised:
    """A pipeline whose queries are scripted: an error stands for a query that cannot start."""

    def __init__(self, script: Sequence[Any], **retry: str) -> None:
        self.clock = Clock()
        self.script = list(script)
        self.config = {
            "version": 1,
            "name": "shop",
            "source": {"files": {"path": "/tmp/d"}, "format": "debezium-json"},
            "checkpoint": "/tmp/cp",
            "catalog": {"warehouse": "/tmp/lake"},
            "otherwise": "create",
            "retry": retry,
        }
        self.state = PipelineState("shop")
        prepared: Any = SimpleNamespace(
            config=self.changed(),
            reader=SimpleNamespace(lag=Lag(), losses=Losses(), silent_s=None, group_failure_count=0, unread_bytes=None),
        )
        self.run = SupervisedPipeline(cast(Any, None), self.changed(), prepared, False, (), self.state, self.clock)
        self.prepared = prepared
        self.run._begin = self._next
        self.run._look = lambda config: cast(Any, SimpleNamespace(config=config, reader=prepared.reader))
        self.begun: list[Any] = []
        self.configs: list[PipelineConfig] = []
        """Those with which a query was to begin."""

    def changed(self, **changes: Any) -> PipelineConfig:
        """The pipeline's file with other values."""
        return PipelineConfig.model_validate({**self.config, **changes})

    def _next(self, _pipeline: object) -> PipelineQuery:
        self.configs.append(self.run.config)
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
    """A query that ends by itself, or with ``runs_on`` when it is asked to."""

    def __init__(self, ends_with: Exception | None = None, *, runs_on: bool = False) -> None:
        self.ends_with = ends_with
        self.runs_on = runs_on
        self.is_closed = False

    @property
    def is_running(self) -> bool:
        return self.runs_on

    has_failed = False
    is_in_turn = False

    def open_tables(self) -> dict[str, Any]:
        return {}

    def standings(self) -> dict[str, Any]:
        return {}

    def beside(self) -> dict[str, Any]:
        return {}

    def poll(self) -> None: ...

    def request_stop(self) -> None:
        self.runs_on = False

    def close(self) -> None:
        self.is_closed = True

    def raise_failure(self) -> None:
        if self.ends_with is not None:
            raise self.ends_with
