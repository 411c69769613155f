"""What probes hear, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipelines.catchup.shown_standing import Standing
from pipelines.http.metrics_app import SILENT_SOURCE_S, STUCK_S, alive, ready
from pipelines.views.table_views import Phase
from tests.pipelines.http.runs import pipeline, run, table


def test_a_pipeline_that_runs_is_alive_and_ready_with_a_note_on_the_table_that_is_paused() -> None:
    assert alive(run(), 0.1).is_fine
    found = ready(run(), 0.1)
    assert found.is_fine
    assert found.notes == ("table lake.items of pipeline shop is paused: column id: BIGINT is narrower than TEXT",)


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.STOPPING, Phase.ENDED])
def test_a_pipeline_that_does_not_run_is_alive_and_not_ready(phase: Phase) -> None:
    found = run(pipeline(), pipeline("erp", phase))
    assert alive(found, 0.1).is_fine
    assert ready(found, 0.1).reasons == (f"pipeline erp is {phase}",)


def test_a_failure_is_neither() -> None:
    found = run(pipeline(phase=Phase.FAILED, reason="disk full"))
    assert alive(found, 0.1).reasons == ("pipeline shop failed: disk full",)
    assert ready(found, 0.1).reasons == ("pipeline shop failed: disk full",)


def test_a_main_thread_that_is_stuck_is_not_alive() -> None:
    assert alive(run(), STUCK_S).is_fine
    assert alive(run(), STUCK_S + 1).reasons == ("the main thread has made no progress for 301 s",)


def test_a_source_that_is_silent_for_long_is_not_ready() -> None:
    brief = replace(pipeline(), source_silent_s=SILENT_SOURCE_S)
    long = replace(pipeline(), source_silent_s=SILENT_SOURCE_S + 1)
    assert ready(run(brief), 0.1).is_fine
    assert "the source of pipeline shop has been silent for 60 s" in ready(run(brief), 0.1).notes
    assert ready(run(long), 0.1).reasons == ("the source of pipeline shop has been silent for 61 s",)
    assert alive(run(long), 0.1).is_fine


def test_a_table_whose_records_are_bad_is_not_ready() -> None:
    paused = replace(table("lake.items", Standing.PAUSED, "nearly all records are bad"), has_bad_records=True)
    found = run(replace(pipeline(), tables=(table(), paused)))
    assert ready(found, 0.1).reasons == ("table lake.items of pipeline shop is paused: nearly all records are bad",)
    assert alive(found, 0.1).is_fine
