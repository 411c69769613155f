"""What terminal and page both say of a pipeline beside its numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipelines.catchup.shown_standing import Standing
from pipelines.http.document import advice, document, state_kind, state_words, without_values
from pipelines.views.table_views import BatchView, EventKind, EventView, Phase, PipelineView
from tests.pipelines.http.runs import pipeline, run, table

PAUSED, CATCHING_UP = table("lake.p", Standing.PAUSED), table("lake.c", Standing.CATCHING_UP)


@pytest.mark.parametrize(
    ("phase", "tables", "words", "kind"),
    [
        (Phase.RUNNING, (table(),), "running", "good"),
        (Phase.RUNNING, (table(), PAUSED), "running, 1 table paused", "bad"),
        (Phase.RUNNING, (PAUSED, PAUSED, CATCHING_UP), "running, 2 tables paused, 1 table catching up", "bad"),
        (Phase.RUNNING, (CATCHING_UP,), "running, 1 table catching up", "between"),
        (Phase.WAITING, (table(),), "waiting", "between"),
        (Phase.FAILED, (table(),), "failed", "bad"),
    ],
)
def test_the_state_of_a_pipeline_tells_of_tables_that_are_not_in_the_stream(
    phase: Phase, tables: tuple[object, ...], words: str, kind: str
) -> None:
    seen = replace(pipeline(phase=phase), tables=tables)  # type: ignore[arg-type]
    assert (state_words(seen), state_kind(seen)) == (words, kind)


def batches(**steps: float) -> PipelineView:
    return replace(pipeline(), last_batches=(BatchView(1, 0.0, 9.0, 10, 10, 1, steps),))


def test_a_step_that_takes_most_of_the_time_is_named_with_what_to_do() -> None:
    told = advice(batches(decode=1.0, wait=8.0, append=1.0))
    assert told is not None and told.startswith("wait takes 80% of the time of the last batches. If the lag grows: ")
    assert "trigger.interval" in told


def test_without_a_step_that_dominates_there_is_no_advice() -> None:
    assert advice(batches(decode=5.0, write=5.0)) is None
    assert advice(batches(decode=0.1)) is None
    assert advice(replace(pipeline(), last_batches=())) is None


def test_events_are_told_without_values_to_those_without_the_token() -> None:
    events = (EventView(1.0, EventKind.PAUSED, "lake.t", "value 'Jane'", "a value does not fit"),)
    whole = document(run(replace(pipeline(), events=events)))
    assert whole["pipelines"][0]["events"][0]["reason"] == "value 'Jane'"
    assert "Jane" not in str(without_values(whole)["pipelines"][0]["events"][0]["reason"])
    assert without_values(whole)["pipelines"][0]["events"][0]["reason"] == "a value does not fit"
