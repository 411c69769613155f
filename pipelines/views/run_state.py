"""The process of a run for its viewers: its pipelines, and its use of the machine."""

from __future__ import annotations

import os
import platform
import socket
import time
from collections.abc import Callable, Sequence

from paimon_table.errors import WHERE_MORE
from pipelines.config.config import PipelineConfig
from pipelines.version import version
from pipelines.views.pipeline_state import PipelineState
from pipelines.views.process_memory import memory_by_kind
from pipelines.views.table_views import Phase, RunView


class RunState:
    """One per process. ``tick`` is called by the main thread again and again; the rest from any thread."""

    def __init__(self, configs: Sequence[PipelineConfig], now: Callable[[], float] = time.time) -> None:
        self.pipelines = {c.name: PipelineState(c.name, c.checkpoint, now) for c in configs}
        self._now = now
        self._started_s = self._ticked_s = now()
        self._spark = ""

    def tick(self) -> None:
        """The process is alive."""
        self._ticked_s = self._now()
        for pipeline in self.pipelines.values():
            pipeline.note_point()

    @property
    def silent_s(self) -> float:
        """Since when the main thread has not been heard of."""
        return self._now() - self._ticked_s

    def spark_started(self, spark_version: str) -> None:
        self._spark = spark_version

    def enter(self, phase: Phase, reason: str = "", public_reason: str = WHERE_MORE) -> None:
        """All pipelines are in this phase."""
        for pipeline in self.pipelines.values():
            pipeline.enter(phase, reason, public_reason)

    def end(self, failure: str = "", public_failure: str = WHERE_MORE) -> None:
        """The run is over; ``failure`` is the text of what ended it, which names the pipeline that it is of.

        ``public_failure`` holds no values of rows.
        """
        named = [name for name in self.pipelines if f"pipeline {name}" in failure]
        for name, pipeline in self.pipelines.items():
            is_failed = bool(failure) and (not named or name in named)
            if is_failed:
                pipeline.enter(Phase.FAILED, failure, public_failure)
            else:
                pipeline.enter(Phase.ENDED)

    def view(self) -> RunView:
        """The present view."""
        return RunView(
            version(),
            platform.python_version(),
            self._spark,
            socket.gethostname(),
            os.getpid(),
            self._started_s,
            self._now(),
            tuple(pipeline.view() for pipeline in self.pipelines.values()),
            memory_by_kind(),
        )
