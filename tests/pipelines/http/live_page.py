"""A page over a pipeline whose batches the test runs itself, in this process and without Spark."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.catchup.side_work import COMMANDS
from pipelines.config.config_file import load_pipeline
from pipelines.control.request_desk import RequestDesk, Tell
from pipelines.control.requests import Answer, Request, Requests, State
from pipelines.http.endpoints import endpoints
from pipelines.http.page.token_file import token_path
from pipelines.tables.tables import PipelineTables
from pipelines.views.pipeline_state import POINT_EVERY_S
from pipelines.views.run_state import RunState
from pipelines.views.table_views import Phase
from sinks.quarantine import Quarantine
from sources.changes import RECORD_SCHEMA
from sources.lag import Lag
from sources.loss import Losses
from tests.pipelines.http.files import pipeline_file
from tests.stack.process import free_port
from tests.support.local_batches import processed, task_settings

TAG = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
TURNED = "abc\u202egnp.exe"
HUGE = "x" * 1_000_000
NAME = "<b>bold<b> & 'quoted'"
"""The name of a table that means no good."""


class Clock:
    """A wall clock that goes on with every batch."""

    def __init__(self) -> None:
        self.now_s = time.time()

    def __call__(self) -> float:
        return self.now_s


class Source:
    def __init__(self) -> None:
        self.lag = Lag()
        self.silent_s: float | None = None
        self.group_failure_count = 0
        self.unread_bytes: int | None = None
        self.losses = Losses()


@dataclass(slots=True)
class LivePage:
    """The page and the pipeline behind it."""

    url: str
    token: str
    state: RunState
    tables: PipelineTables
    directory: Path
    clock: Clock
    source: Source = field(default_factory=Source)
    _next_batch: int = 0
    _next_offset: int = 0

    def batch(self, *rows: tuple[str, dict[str, Any] | None]) -> None:
        """A batch with the inserts of (table, row) pairs; a row None stands for a record that is no JSON."""
        records = []
        for name, row in rows:
            value = json.dumps(
                {"before": None, "after": row, "op": "c", "source": {"db": "d", "schema": "s", "table": name}}
            )
            payload = value.encode() if row is not None else f"{TAG} is no JSON".encode()
            key = json.dumps({"id": 0 if row is None else row["id"]}).encode()
            place = {
                "topic": f"shop.s.{len(name)}",
                "partition": 0,
                "offset": self._next_offset,
                "timestamp": int((self.clock.now_s - 20) * 1e6),
            }
            records.append({**place, "key": key, "value": payload, "headers": None})
            self._next_offset += 1
        quarantine = Quarantine(self.quarantine_io, f"{self.tables.config.quarantine}/query")
        batch = pa.RecordBatch.from_pylist(records, schema=RECORD_SCHEMA)
        shop = self.state.pipelines["shop"]
        shop.begin(self._next_batch)
        settings = task_settings(self.directory, quarantine)
        for report in processed(self.tables, [batch], settings, self._next_batch):
            shop.end(report)
            self.source.lag.read_to(dict(report.ends), report.newest_s)
        for kind, text in (("offsets", 'v1\n{"batchTimestampMs":0}\n{"files":{}}'), ("commits", "v1\n{}")):
            file = Path(self.tables.config.checkpoint) / kind / str(self._next_batch)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.source.lag.ends_at({place: at + 7 for place, at in self.source.lag.positions().items()}, self.clock())
        self._next_batch += 1
        self.clock.now_s += POINT_EVERY_S
        self.state.tick()

    @property
    def quarantine_io(self) -> Any:
        from pipelines.storage import quarantine_of

        return quarantine_of(self.tables.config)[0]


@contextmanager
def live_page(directory: Path, partition_by: Sequence[str] = (), **ui: object) -> Iterator[LivePage]:
    """The page without any batch so far."""
    port = free_port()
    rule = {"match": {"table": "(.*)"}, "into": "lake.{table}", "options": {"bucket": "1", "write-only": "true"}}
    if partition_by:
        rule.update(partition_by=partition_by, primary_key=["id", *partition_by])
    file = pipeline_file(directory, tables=[rule], ui={"port": port, **ui})
    config = load_pipeline(file)
    clock = Clock()
    state = RunState([config], clock)
    tables = PipelineTables(config, "tidemark-shop-test")
    with endpoints([config], state):
        token = config.ui.token if config.ui is not None and config.ui.token else token_path(config).read_text().strip()
        page = LivePage(f"http://127.0.0.1:{port}", token, state, tables, directory, clock)
        state.pipelines["shop"].config = config
        state.pipelines["shop"].look_at(page.source, lambda: tables.sinks)
        state.enter(Phase.RUNNING)
        yield page


@contextmanager
def desk(page: LivePage) -> Iterator[list[str]]:
    """A running pipeline that takes requests, as it does between two batches; gives what it was asked for."""
    taken: list[str] = []
    ended = threading.Event()

    def handle(request: Request, _: Tell) -> Answer:
        taken.append(f"{request.command} {request.text('table')}")
        return Answer(State.DONE, f"{request.command}d")

    requests = RequestDesk(Requests.of(page.tables.config), dict.fromkeys(COMMANDS, handle))

    def take() -> None:
        while not ended.wait(0.05):
            requests.take()

    thread = threading.Thread(target=take)
    thread.start()
    page.state.pipelines["shop"].commands = COMMANDS
    try:
        yield taken
    finally:
        ended.set()
        thread.join()
        page.state.pipelines["shop"].commands = ()
