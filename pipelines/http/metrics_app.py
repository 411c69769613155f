"""`/metrics`, in the text form of Prometheus, `/healthz` and `/readyz` over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric as Family
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipelines.catchup.shown_standing import Standing
from pipelines.http.metrics import DURATIONS, DURATIONS_TEXT, METRICS, PIPELINE
from pipelines.views.run_state import RunState
from pipelines.views.table_views import Phase, RunView

STUCK_S = 300.0
"""How long the main thread may be silent. It waits for Kafka and for storage, but within shorter limits."""

SILENT_SOURCE_S = 60.0
"""A shorter silence is only a note."""


def metrics_app(state: RunState) -> Starlette:
    """The application; its answers change nothing."""
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
    """Prometheus' collector over the present view."""

    def __init__(self, view: Callable[[], RunView]) -> None:
        self._view = view

    def describe(self) -> Iterable[Family]:
        """Empty: registering must not ask for a view."""
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
    """Any text as the value of a label: characters without UTF-8 bytes become question marks, long texts are cut."""
    text = text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 3] + "..."
    return text.encode("utf-8", "replace").decode("utf-8")


def _durations(run: RunView) -> Family:
    family = HistogramMetricFamily(DURATIONS, DURATIONS_TEXT, labels=PIPELINE)
    for pipeline in run.pipelines:
        seen = pipeline.durations
        buckets = [(f"{bound:g}" if bound % 1 else f"{bound:.1f}", float(n)) for bound, n in seen.at_most.items()]
        family.add_metric([label_text(pipeline.name)], [*buckets, ("+Inf", float(seen.count))], seen.sum_s)
    return family


@dataclass(frozen=True, slots=True)
class Health:
    """The answer to a probe: success without ``reasons``; ``notes`` fail no probe."""

    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_fine(self) -> bool:
        return not self.reasons


def alive(run: RunView, silent_s: float) -> Health:
    """Whether the process should continue; ``silent_s``: how long its main thread has been silent."""
    failed = [f"pipeline {p.name} failed: {p.public_reason}" for p in run.pipelines if p.phase is Phase.FAILED]
    stuck = [f"the main thread has made no progress for {silent_s:.0f} s"] if silent_s > STUCK_S else []
    return Health((*failed, *stuck))


def ready(run: RunView, silent_s: float) -> Health:
    """Whether every pipeline reads and writes.

    A paused table is only a note, because the others continue. A table that is paused for bad records is not even that:
    its fault is a mistake in the file or the connector.
    """
    reasons = list(alive(run, silent_s).reasons)
    notes: list[str] = []
    for pipeline in run.pipelines:
        if pipeline.phase in (Phase.STARTING, Phase.STOPPING, Phase.ENDED):
            reasons.append(f"pipeline {pipeline.name} is {pipeline.phase}")
        if pipeline.phase is Phase.WAITING:
            reasons.append(f"pipeline {pipeline.name} waits: {pipeline.public_reason}")
        if pipeline.source_silent_s is not None:
            told = f"the source of pipeline {pipeline.name} has been silent for {pipeline.source_silent_s:.0f} s"
            (reasons if pipeline.source_silent_s > SILENT_SOURCE_S else notes).append(told)
        for table in pipeline.tables:
            if table.standing is not Standing.RUNNING:
                why = f": {table.public_reason}" if table.reason else ""
                told = f"table {table.name} of pipeline {pipeline.name} is {table.standing}{why}"
                (reasons if table.has_bad_records else notes).append(told)
    return Health(tuple(reasons), tuple(notes))
