"""The servers of a run: where they listen, what they answer, and what they refuse before anything starts."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

from paimon_table.errors import ConfigError, MalformedRecord
from pipelines.config.config import PipelineConfig
from pipelines.config.config_file import load_pipeline, load_pipelines
from pipelines.http import patience
from pipelines.http.endpoints import endpoints
from pipelines.http.server import listening, served
from pipelines.views.run_state import RunState
from pipelines.views.table_views import Phase
from tests.pipelines.http.files import pipeline_file
from tests.stack.process import free_port
from tests.support.command import tidemark_process, undated
from tests.support.local_batches import pipeline_tables, processed, task_settings
from tests.support.source_items import items
from tests.support.waiting import seconds

ROOT = Path(__file__).resolve().parents[3]


def config(directory: Path, **blocks: Any) -> PipelineConfig:
    return load_pipeline(pipeline_file(directory, **blocks))


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=seconds(10)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@contextmanager
def looked_at(directory: Path) -> Iterator[tuple[str, RunState]]:
    port = free_port()
    configs = [config(directory, metrics={"port": port})]
    state = RunState(configs)
    with endpoints(configs, state):
        yield f"http://127.0.0.1:{port}", state


@pytest.mark.slow
def test_metrics_and_probes_answer_from_the_first_moment_on(tmp_path: Path) -> None:
    with looked_at(tmp_path) as (url, state):
        code, text = get(f"{url}/metrics")
        assert (code, 'tidemark_pipeline_phase{phase="starting",pipeline="shop"} 1.0' in text) == (200, True)
        assert get(f"{url}/healthz") == (200, '{"status":"ok","reasons":[],"notes":[]}')
        assert get(f"{url}/readyz")[0] == 503
        assert "pipeline shop is starting" in get(f"{url}/readyz")[1]
        state.enter(Phase.RUNNING)
        assert get(f"{url}/readyz")[0] == 200
        state.pipelines["shop"].enter(Phase.FAILED, "disk full of 4711", "disk full")
        assert get(f"{url}/healthz") == (
            503,
            '{"status":"failing","reasons":["pipeline shop failed: disk full"],"notes":[]}',
        )
        assert get(f"{url}/")[0] == 404
    with pytest.raises(urllib.error.URLError):
        get(f"{url}/metrics")


def test_nobody_listens_where_the_file_says_nothing(tmp_path: Path) -> None:
    configs = [config(tmp_path)]
    before = {thread.name for thread in threading.enumerate()}
    with endpoints(configs, RunState(configs)):
        assert {thread.name for thread in threading.enumerate()} - before == {"tidemark-state", "tidemark-bad-records"}


@pytest.mark.slow
def test_servers_are_loaded_only_where_a_file_asks_for_them() -> None:
    code = "import sys, pipelines.http.endpoints, pipelines.http.status; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert {"starlette", "uvicorn", "prometheus_client", "pyspark"} & {*done.stdout.split()} == set()


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"port": 0}, "metrics.port"),
        ({"port": 70000}, "metrics.port"),
        ({"prot": 9464}, "did you mean 'port'"),
        ({"host": ""}, "metrics.host: expected a text"),
        ("yes", "metrics"),
    ],
)
def test_a_block_that_cannot_be_meant_is_refused_with_its_place(tmp_path: Path, block: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=r"shop\.yaml:1:\d+: ") as refusal:
        config(tmp_path, metrics=block)
    assert text in str(refusal.value)


@pytest.mark.slow
def test_a_port_that_is_taken_is_refused_before_spark_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = tidemark_process("run", pipeline_file(tmp_path, metrics={"port": port}), "--once")
    assert done.returncode == 1, "the port may be free at the next try"
    assert undated(done.stderr) == (
        f"pipeline shop: metrics.port: another process listens on port {port} of 127.0.0.1; choose another port in the"
        " file, or stop that process\n"
    )
    assert "metrics.port" in done.stderr and "Spark" not in done.stderr


def test_a_host_that_is_not_here_is_refused(tmp_path: Path) -> None:
    configs = [config(tmp_path, metrics={"host": "192.0.2.1", "port": free_port()})]
    with pytest.raises(
        ConfigError, match=r"pipeline shop: metrics\.host: 192\.0\.2\.1 is not an address of this machine"
    ):
        endpoints(configs, RunState(configs)).__enter__()


def test_files_that_run_together_may_say_it_once_or_alike(tmp_path: Path) -> None:
    first, second = pipeline_file(tmp_path, "a", metrics={"port": 9000}), pipeline_file(tmp_path, "b")
    assert len(load_pipelines([first, second])) == 2
    pipeline_file(tmp_path, "b", metrics={"port": 9000})
    assert len(load_pipelines([first, second])) == 2
    pipeline_file(tmp_path, "b", metrics={"port": 9001})
    with pytest.raises(ConfigError, match=r"b\.yaml: `metrics` differs from .*a\.yaml"):
        load_pipelines([first, second])


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: "], ids=["nothing", "part"])
def test_who_does_not_end_a_request_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(patience, "REQUEST_S", 0.1)
    port = free_port()
    configs = [config(tmp_path, metrics={"port": port})]
    with endpoints(configs, RunState(configs)), ExitStack() as stack:
        slow = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=seconds(60))) for _ in range(80)
        ]
        for one in slow:
            with suppress(ConnectionError):  # the first ones may have been closed by now
                one.sendall(sent)
                while one.recv(4096):
                    pass
        monkeypatch.setattr(patience, "REQUEST_S", 60.0)
        assert get(f"http://127.0.0.1:{port}/healthz")[0] == 200


@pytest.mark.slow
def test_who_reads_no_answer_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "REQUEST_S", 0.1)
    is_left = threading.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 1_000_000
                await asyncio.sleep(0.01)
        finally:
            is_left.set()

    app = Starlette(routes=[Route("/", lambda _: StreamingResponse(endless()))])
    listener = listening("ui", "127.0.0.1", 0)
    with served(app, listener, "test"), socket.create_connection(listener.getsockname()) as reader:
        reader.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert is_left.wait(seconds(30))


def test_a_bad_record_that_stops_a_pipeline_is_told_without_its_values(tmp_path: Path) -> None:
    rule: dict[str, object] = {
        "match": {"table": "items"},
        "into": "lake.items",
        "columns": {"types": {"qty": "BOOLEAN"}},
    }
    state = RunState([config(tmp_path)])
    with pytest.raises(MalformedRecord, match="4711") as stop, endpoints([config(tmp_path)], state):
        processed(pipeline_tables(tmp_path, [rule]), [items("shop", 0, 4711)], task_settings(tmp_path))
    (shop,) = state.view().pipelines
    assert "4711" in shop.reason
    assert "4711" not in shop.public_reason
    assert shop.public_reason.startswith(
        "shop.public.items partition 0 offset 0: the record cannot be stored; for more"
    )
    assert str(stop.value).startswith("shop.public.items partition 0 offset 0: ")
