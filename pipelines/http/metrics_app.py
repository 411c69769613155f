"""`/metrics`, in the text form of Prometheus, `/healthz` and `/readyz` over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric as Family
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipelines.http.health import Health, alive, ready
from pipelines.http.metrics import DURATIONS, DURATIONS_TEXT, METRICS, PIPELINE
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


CONTENT_TYPE = CONTENT_TYPE_LATEST
_LONGEST_LABEL = 300


class RunCollector:
    """Prometheus' collector over what there is to see."""

    def __init__(self, view: Callable[[], RunView]) -> None:
        self._view = view

    def describe(self) -> Iterable[Family]:
        """Nothing: registering must not ask for a view."""
        return ()

    def collect(self) -> Iterable[Family]:
        """All metrics of one view."""
        run = self._view()
        for metric in METRICS:
            family: CounterMetricFamily | GaugeMetricFamily
            if metric.kind == "counter":
                family = CounterMetricFamily(metric.name, metric.text, labels=metric.labels)
            else:
                family = GaugeMetricFamily(metric.name, metric.text, labels=metric.labels)
            for labels, value in metric.samples(run):
                family.add_metric([label_text(label) for label in labels], value)
            yield family
        yield _durations(run)


def exposition(view: Callable[[], RunView]) -> Callable[[], bytes]:
    """A function that gives the whole text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(RunCollector(view))
    return lambda: generate_latest(registry)


def label_text(text: str) -> str:
    """Any text as the value of a label: what UTF-8 has no bytes for becomes a question mark, long texts are cut."""
    text = text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 3] + "..."
    return text.encode("utf-8", "replace").decode("utf-8")


def _durations(run: RunView) -> Family:
    family = HistogramMetricFamily(DURATIONS, DURATIONS_TEXT, labels=PIPELINE)
    for pipeline in run.pipelines:
        seen = pipeline.durations
        buckets = [(f"{bound:g}" if bound % 1 else f"{bound:.1f}", float(n)) for bound, n in seen.at_most.items()]
        family.add_metric([label_text(pipeline.name)], [*buckets, ("+Inf", float(seen.count))], seen.sum_s)
    return family
