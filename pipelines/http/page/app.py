"""The web page over HTTP: files, the state as events, details on demand, actions with the token.

Everybody who reaches the page sees names and numbers. Values of rows, which reasons may contain too, bad records and
actions need the token. Events work without it, because browsers cannot send one with them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from paimon_table.errors import TidemarkError, public_text
from pipelines.config.config import PipelineConfig
from pipelines.http.document import document, without_values
from pipelines.http.page import details
from pipelines.http.page.actions import RETRY, Actions
from pipelines.http.page.guard import Guard, Guarded
from pipelines.views.run_state import RunState
from pipelines.views.table_counts import OpenTable
from pipelines.views.table_views import EventKind

log = logging.getLogger(__name__)

EVERY_S = 2.0
MOST_LISTENERS = 20
_LARGEST_REQUEST = 4096
_FILES = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/draw.js": ("draw.js", "text/javascript"),
    "/page.js": ("page.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/favicon.ico": ("icon.svg", "image/svg+xml"),  # browsers request it from other pages too
}


class _Refused(Exception):
    """A request that cannot be answered, with status code and reason."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(slots=True, eq=False)
class _Listener:
    """One stream of events."""

    peer: str
    """The address of the request."""
    is_over: asyncio.Event = field(default_factory=asyncio.Event)


class Page:
    """The answers to requests."""

    def __init__(self, configs: Mapping[str, PipelineConfig], state: RunState, guard: Guard) -> None:
        self._configs = configs
        self._state = state
        self._guard = guard
        self._actions = Actions(configs, state)
        self._readers = threading.Semaphore(2)
        self._listeners: list[_Listener] = []  # oldest first
        self._newest: tuple[float, dict[str, Any]] = (0.0, {})
        self._look_lock = threading.Lock()

    def app(self) -> ASGIApp:
        def file(name: str, kind: str) -> Callable[[Request], Response]:
            content = files("pipelines.http.page").joinpath(name).read_bytes()
            return lambda _: Response(content, media_type=f"{kind}; charset=utf-8")

        routes = [Route(path, file(*named)) for path, named in _FILES.items()]
        routes += [
            Route("/api/state", self._told(self._state_for)),
            Route("/api/events", self._events),
            Route("/api/table", self._told(self._table)),
            Route("/api/token", self._told(self._token_fits)),
            Route("/api/rows", self._told(lambda r: self._of_table(r, details.sample))),
            Route("/api/changes", self._told(lambda r: self._of_table(r, details.changes))),
            Route("/api/quarantine", self._told(self._quarantine)),
            Route("/api/actions", self._act, methods=["POST"]),
            Route("/api/actions", self._told(self._outcome)),
        ]
        return Guarded(Starlette(routes=routes), self._guard)

    def _told(self, answer: Callable[[Request], dict[str, Any]]) -> Callable[[Request], Response]:
        def told(request: Request) -> Response:
            try:
                return _json(answer(request))
            except _Refused as refused:
                return _json({"error": str(refused)}, refused.status)
            except (TidemarkError, OSError) as error:
                may_see_values = self._guard.has_token(request.headers)
                return _json({"error": str(error) if may_see_values else public_text(error)}, 502)
            except Exception as error:
                log.exception("the page could not answer %s", request.url.path)
                return _json({"error": f"unexpected {type(error).__name__}; the log has more"}, 500)

        return told

    def _look(self) -> dict[str, Any]:
        """The state, at most a second old."""
        with self._look_lock:
            seen_s, found = self._newest
            if time.monotonic() - seen_s > 1.0:
                found = document(self._state.view())
                for pipeline in found["pipelines"]:
                    pipeline["actions"] = self._actions.of(pipeline["name"])
                self._newest = (time.monotonic(), found)
            return found

    def _state_for(self, request: Request) -> dict[str, Any]:
        found = self._look()
        return found if self._guard.has_token(request.headers) else without_values(found)

    async def _events(self, request: Request) -> Response:
        peer = "" if request.client is None else request.client.host
        return StreamingResponse(self._stream(_Listener(peer)), media_type="text/event-stream")

    def _listen(self, new: _Listener) -> None:
        """Take a place; if all places are taken, the oldest stream of the peer with most streams gives way."""
        self._listeners.append(new)
        if len(self._listeners) > MOST_LISTENERS:
            (peer, _), *_ = Counter(one.peer for one in self._listeners).most_common(1)
            oldest = next(one for one in self._listeners if one.peer == peer)
            self._listeners.remove(oldest)
            oldest.is_over.set()

    async def _stream(self, listener: _Listener) -> AsyncIterator[bytes]:
        self._listen(listener)
        drawn_s = 0.0
        try:
            while not listener.is_over.is_set():
                began_s = time.monotonic()
                text, drawn_s = await run_in_threadpool(self._event, drawn_s)
                yield text
                pause_s = min(10.0, max(EVERY_S, 20 * (time.monotonic() - began_s)))
                with suppress(TimeoutError):
                    await asyncio.wait_for(listener.is_over.wait(), pause_s)
        finally:
            if listener in self._listeners:
                self._listeners.remove(listener)

    def _event(self, drawn_s: float) -> tuple[bytes, float]:
        """The state with the points since ``drawn_s``, and its time.

        The points overlap by a few seconds: the page knows which points it has.
        """
        found = without_values(self._look())
        pipelines = [
            {**p, "history": [point for point in p["history"] if point["time_s"] > drawn_s - 10]}
            for p in found["pipelines"]
        ]
        return b"data: " + _bytes({**found, "pipelines": pipelines}) + b"\n\n", found["time_s"]

    def _table(self, request: Request) -> dict[str, Any]:
        opened = self._opened(request)
        may_see_values = self._guard.has_token(request.headers)
        return {
            **details.buckets(opened.table, opened.state, with_values=may_see_values),
            **self._read(lambda: details.history(opened.table)),
        }

    def _of_table(self, request: Request, read: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        self._check_token(request)
        opened = self._opened(request)
        return self._read(lambda: read(opened.table))

    def _quarantine(self, request: Request) -> dict[str, Any]:
        self._check_token(request)
        config = self._config(request.query_params.get("pipeline", ""))
        return self._read(lambda: details.bad_records(config))

    def _token_fits(self, request: Request) -> dict[str, Any]:
        self._check_token(request)
        return {"fits": True}

    def _outcome(self, request: Request) -> dict[str, Any]:
        self._check_token(request)
        return asdict(self._actions.outcome(request.query_params.get("number", "")))

    async def _act(self, request: Request) -> Response:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > _LARGEST_REQUEST:
                return _json({"error": "the request is too large"}, 413)

        def begin(_: Request) -> dict[str, Any]:
            self._check_token(request)
            return self._begin(request, bytes(body))

        return await run_in_threadpool(self._told(begin), request)

    def _begin(self, request: Request, body: bytes) -> dict[str, Any]:
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            raise _Refused(415, "expected application/json")
        try:
            asked = json.loads(body)
            pipeline, action = str(asked["pipeline"]), str(asked["action"])
            table, reason = (None if asked.get(key) is None else str(asked[key]) for key in ("table", "reason"))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise _Refused(400, "expected an object with pipeline, table and action") from None
        self._config(pipeline)
        if action == RETRY:
            log.warning("%s: a retry of bad records was requested on the web page", pipeline)
            self._state.pipelines[pipeline].note(EventKind.ACTION, "a retry of bad records was requested on this page")
            return {"number": self._actions.begin_retry(pipeline, table, reason)}
        if table is None or action not in self._actions.of(pipeline):
            raise _Refused(404, "there is no such action")
        if self._state.pipelines[pipeline].open_table(table) is None and table not in {
            one.name for one in self._state.pipelines[pipeline].view(shapes=False).tables
        }:
            raise _Refused(404, "the pipeline has no such table")
        log.warning("%s: %s of table %s was requested on the web page", pipeline, action, table)
        self._state.pipelines[pipeline].note(EventKind.ACTION, f"{action} was requested on this page", table)
        return {"number": self._actions.begin(pipeline, table, action)}

    def _config(self, name: str) -> PipelineConfig:
        if name not in self._configs:
            raise _Refused(404, "there is no such pipeline")
        return self._actions.config(name)

    def _opened(self, request: Request) -> OpenTable:
        pipeline, table = (request.query_params.get(key, "") for key in ("pipeline", "table"))
        self._config(pipeline)
        opened = self._state.pipelines[pipeline].open_table(table)
        if opened is None:
            raise _Refused(404, "the pipeline has not opened this table since its start")
        return opened

    def _check_token(self, request: Request) -> None:
        if not self._guard.has_token(request.headers):
            raise _Refused(401, "enter the token of the page first")

    def _read(self, read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Read from the storage, at most two requests at a time."""
        if not self._readers.acquire(timeout=20):
            raise _Refused(503, "the storage is busy with another request; try again")
        try:
            return read()
        finally:
            self._readers.release()


def _json(content: Any, status: int = 200) -> Response:
    return Response(_bytes(content), status, media_type="application/json")


def _bytes(content: Any) -> bytes:
    """The content as ASCII JSON, halves of surrogate pairs included. The values have no numbers that JSON lacks."""
    return json.dumps(content, separators=(",", ":")).encode("ascii")
