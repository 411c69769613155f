"""The newest events of a pipeline: what is told, and how many of them."""

from __future__ import annotations

from pipelines.catchup.shown_standing import Standing
from pipelines.views.event_log import EVENTS_KEPT, EventLog
from pipelines.views.pipeline_state import PipelineState
from pipelines.views.table_counts import OutOfStream
from pipelines.views.table_views import EventKind, Phase


def told(state: PipelineState) -> list[tuple[str, str, str]]:
    return [(event.kind.value, event.table, event.public_reason) for event in state.view().events]


def test_what_happens_again_is_one_event_that_counts_and_is_new_again() -> None:
    log = EventLog()
    log.note(1.0, EventKind.RETRY, reason="commit conflict")
    log.note(2.0, EventKind.PAUSED, "lake.orders", "too narrow")
    log.note(3.0, EventKind.RETRY, reason="commit conflict", count=2)
    assert [(event.time_s, event.kind, event.count) for event in log.events] == [
        (2.0, EventKind.PAUSED, 1),
        (3.0, EventKind.RETRY, 3),
    ]


def test_the_number_of_events_is_bounded() -> None:
    log = EventLog()
    for number in range(10 * EVENTS_KEPT):
        log.note(number, EventKind.SCHEMA, reason=f"schema {number}")
    assert len(log.events) == EVENTS_KEPT
    assert log.events[-1].reason == f"schema {10 * EVENTS_KEPT - 1}"


def test_phases_of_a_pipeline_are_events() -> None:
    state = PipelineState("shop")
    state.enter(Phase.RUNNING)
    state.enter(Phase.WAITING, "Kafka says 'Jane'", "Kafka does not answer")
    state.enter(Phase.RUNNING)
    state.enter(Phase.STOPPING)
    state.enter(Phase.FAILED, "disk full", "no room")
    state.enter(Phase.ENDED)
    assert [(kind, reason) for kind, _, reason in told(state)] == [
        ("started", ""),
        ("waiting", "Kafka does not answer"),
        ("going on", ""),
        ("stopping", ""),
        ("failed", "no room"),
    ]


def test_a_table_that_is_paused_resumed_and_caught_up_is_three_events() -> None:
    state = PipelineState("shop", now=lambda: 100.0)
    state.put_table("lake.orders", Standing.RUNNING)
    for _ in range(3):
        state.put_table("lake.orders", Standing.PAUSED, OutOfStream("a 'value'", "too narrow", since_s=40.0))
    state.put_table("lake.orders", Standing.CATCHING_UP, OutOfStream("it was resumed", "it was resumed"))
    state.put_table("lake.orders", Standing.RUNNING)
    assert told(state) == [
        ("paused", "lake.orders", "too narrow"),
        ("resumed", "lake.orders", "it was resumed"),
        ("caught up", "lake.orders", ""),
    ]
    assert [event.time_s for event in state.view().events] == [40.0, 100.0, 100.0]
