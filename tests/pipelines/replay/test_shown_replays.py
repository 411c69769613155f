"""What is shown of replays and rebuilds of a running pipeline."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.replay_state import DIRECTORY
from pipelines.config.config_file import load_pipeline
from pipelines.prepared import own_tables
from pipelines.replay.replay_slices import ShownReplays
from pipelines.views.pipeline_state import PipelineState
from pipelines.views.table_views import Beside
from tests.support.quarantined import run_batch, table
from tests.support.rebuilt_tables import FILE, finish, job, start
from tests.support.replayed_topic import delete


def shown_of(root: Path, state: PipelineState) -> ShownReplays:
    config = load_pipeline(root / FILE)
    return ShownReplays(Checkpoint(config), own_tables(config).catalog, state)


@pytest.mark.slow
def test_a_rebuild_is_shown_until_its_switch_and_then_the_table_as_it_became(tmp_path: Path) -> None:
    topic, state = start(tmp_path), PipelineState("shop")
    shown = shown_of(tmp_path, state)
    rebuild = job(topic)
    shown.refresh({"r1": 10})
    assert shown.unfinished == {"lake.orders": Beside("rebuild", 0, 10, "the first record")}

    finish(rebuild)
    shown.refresh({"r1": 0})
    assert shown.unfinished == {}
    (view,) = state.view().tables
    assert view.snapshot_id == table(tmp_path).snapshots.latest_id()

    # the stream goes on: what is done is not looked at for ever
    run_batch(tmp_path, tmp_path / FILE, 2, delete(20, 3))
    shown.refresh()
    (later,) = state.view().tables
    assert later.snapshot_id == view.snapshot_id


def test_replays_that_cannot_be_read_end_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    start(tmp_path)
    state = PipelineState("shop")
    shown = shown_of(tmp_path, state)
    directory = tmp_path / "checkpoint" / DIRECTORY
    directory.mkdir(parents=True)
    (directory / "r1.json").write_text("{")
    with caplog.at_level(logging.WARNING):
        shown.refresh()
    assert "replays cannot be shown" in caplog.text
    assert shown.unfinished == {}
