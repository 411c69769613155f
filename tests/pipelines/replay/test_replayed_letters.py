"""Bad records that a rebuild reads again: what it has met counts from the moment that its content is the table's."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_table.history.rollback import plan_rollback, roll_back
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.replay_state import Replays
from pipelines.config.config_file import load_pipeline
from pipelines.replay.rebuild_requests import note_end
from sinks import faults
from sources.changes import RECORD_SCHEMA, QuarantineRow
from sources.record_rows import record_row
from tests.support.quarantined import bad, letters, lines_left, offsets_left, put, rows_of, table
from tests.support.rebuilt_tables import FILE, finish, job, start
from tests.support.replayed_topic import FINAL, HISTORY, TOPIC, Killed


def history_row(offset: int) -> QuarantineRow:
    """A record of the topic as the stream would have put it aside."""
    batch = pa.RecordBatch.from_pylist([HISTORY[offset]], schema=RECORD_SCHEMA)
    return record_row(batch, 0, "value '3' is no INT", None)


@pytest.mark.slow
def test_a_record_that_the_stream_has_put_aside_too_is_there_once(tmp_path: Path) -> None:
    state = finish(job(start(tmp_path)))
    for _ in range(2):
        assert note_end(load_pipeline(tmp_path / FILE), state) == 0
        assert offsets_left(tmp_path) == [8]


@pytest.mark.slow
def test_a_record_that_the_rebuild_has_read_leaves_the_quarantine(tmp_path: Path) -> None:
    topic = start(tmp_path)
    put(tmp_path, 1, [history_row(3), bad(12)])
    put(tmp_path, 0, [history_row(5)], "retry-20260101T000000-00000000")
    state = finish(job(topic))
    assert offsets_left(tmp_path) == [3, 5, 8, 12]

    config = load_pipeline(tmp_path / FILE)
    assert [note_end(config, state) for _ in range(2)] == [2, 0]
    assert offsets_left(tmp_path) == [8, 12]
    assert rows_of(tmp_path) == FINAL


@pytest.mark.slow
def test_who_takes_the_rebuild_back_has_them_again(tmp_path: Path) -> None:
    topic = start(tmp_path)
    put(tmp_path, 1, [history_row(3)])
    before = table(tmp_path).snapshots.latest_id() or 0
    note_end(load_pipeline(tmp_path / FILE), finish(job(topic)))
    assert offsets_left(tmp_path) == [8]
    context = table(tmp_path).context
    roll_back(context, plan_rollback(context, before))
    assert offsets_left(tmp_path) == [3, 8]


@pytest.mark.slow
@pytest.mark.parametrize("offset", [3, 8], ids=["good", "bad again"])
def test_a_line_that_somebody_has_mended_in_its_file_is_that_record(tmp_path: Path, offset: int) -> None:
    """The rebuild reads the record as it was."""
    topic = start(tmp_path)
    put(tmp_path, 0, [history_row(offset)], "retry-20260101T000000-00000000")
    (file,) = (tmp_path / "checkpoint-quarantine").glob("retry-*/*/*.jsonl")
    file.write_text(json.dumps({**json.loads(file.read_text()), "payload": "mended, and wrong"}) + "\n")
    note_end(load_pipeline(tmp_path / FILE), finish(job(topic)))
    assert offsets_left(tmp_path) == [8]
    assert lines_left(tmp_path)[0]["payload"] != "mended, and wrong"


@pytest.mark.slow
def test_a_rebuild_that_has_switched_ends_although_its_topic_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = start(tmp_path)
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(faults, "reached", lambda at, _: _killed() if at == "rebuild-switched" else None)
        finish(job(topic))
    Replays(Checkpoint(load_pipeline(tmp_path / FILE))).end_with([TOPIC])
    finish(job(topic))
    assert rows_of(tmp_path) == FINAL


def _killed() -> None:
    raise Killed


@pytest.mark.slow
def test_a_rebuild_that_has_not_switched_closes_nothing(tmp_path: Path) -> None:
    topic = start(tmp_path)
    put(tmp_path, 1, [history_row(3)])
    one = job(topic)
    for _ in range(3):
        one.step()
    assert any("good" in file.read_text() for file in (tmp_path / "checkpoint-quarantine" / "log").iterdir())
    assert 3 in offsets_left(tmp_path)
    assert letters(tmp_path).facts().file_count == 2
