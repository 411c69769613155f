"""`/metrics`, `/healthz` and `/readyz` over HTTP."""

from __future__ import annotations

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipelines.http.exposition import CONTENT_TYPE, exposition
from pipelines.http.health import Health, alive, ready
from pipelines.views.run_state import RunState
from pipelines.views.table_views import RunView


def metrics_app(state: RunState) -> Starlette:
    """The application; nothing that it answers changes anything."""
    text = exposition(state.view)

    def metrics(_: Request) -> Response:
        return Response(text(), media_type=CONTENT_TYPE)

    def probe(check: Callable[[RunView, float], Health]) -> Callable[[Request], Response]:
        def answer(_: Request) -> Response:
            found = check(state.view(), state.silent_s)
            body = {"status": "ok" if found.is_fine else "failing", "reasons": found.reasons, "notes": found.notes}
            return JSONResponse(body, 200 if found.is_fine else 503)

        return answer

    return Starlette(
        routes=[Route("/metrics", metrics), Route("/healthz", probe(alive)), Route("/readyz", probe(ready))]
    )
