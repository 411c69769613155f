"""Bad records that the stream and a replay have both put aside are in the quarantine once when the replay is done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_table.errors import SinkUnavailable
from pipelines.bad_records.bad_lines import BadLines
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.replay_state import Replays
from pipelines.config.config_file import load_pipeline
from pipelines.quarantine.alone import alone
from pipelines.quarantine.once import keep_once, take_out_good
from sinks import faults
from sinks.quarantine import NOTES
from sources.changes import RECORD_SCHEMA, QuarantineRow
from sources.record_rows import record_row
from tests.support.quarantined import QUERY, bad, lines_left, offsets_left, put, quarantine, rows_of
from tests.support.rebuilt_tables import FILE, finish, job, start
from tests.support.replayed_topic import FINAL, HISTORY, TOPIC, Killed


def test_a_record_that_the_stream_has_put_aside_too_leaves_the_lines_of_the_rebuild(tmp_path: Path) -> None:
    topic = start(tmp_path)
    state = finish(job(topic))
    assert offsets_left(tmp_path) == [8, 8]

    config = load_pipeline(tmp_path / FILE)
    assert [keep_once(config, state).twice for _ in range(2)] == [1, 0]

    assert [line["offset"] for line in lines_left(tmp_path)] == [8]
    assert list((tmp_path / "checkpoint-quarantine" / "replay-r1").glob("batch-*/*")) == []


def test_a_record_that_only_the_replay_could_not_read_stays(tmp_path: Path) -> None:
    state = finish(job(start(tmp_path)))
    put(tmp_path, 7, [bad(3), bad(4, topic="shop.public.others")], "replay-r1")
    put(tmp_path, 0, [bad(4)])
    assert keep_once(load_pipeline(tmp_path / FILE), state).twice == 1
    assert sorted((line["topic"], line["offset"]) for line in lines_left(tmp_path)) == [
        ("shop.public.orders", 3),
        ("shop.public.orders", 4),
        ("shop.public.orders", 8),
        ("shop.public.others", 4),
    ]


def history_row(offset: int) -> QuarantineRow:
    """A record of the topic as the stream would have put it aside."""
    batch = pa.RecordBatch.from_pylist([HISTORY[offset]], schema=RECORD_SCHEMA)
    return record_row(batch, 0, "value '3' is no INT", None)


def test_a_record_that_the_rebuild_has_read_leaves_the_quarantine(tmp_path: Path) -> None:
    topic = start(tmp_path)
    put(tmp_path, 1, [history_row(3), bad(4)])
    put(tmp_path, 0, [history_row(5)], "retry-20260101T000000-00000000")
    state = finish(job(topic))
    assert offsets_left(tmp_path) == [3, 4, 5, 8, 8]

    config = load_pipeline(tmp_path / FILE)
    settled = [keep_once(config, state) for _ in range(2)]
    assert [(one.twice, one.good) for one in settled] == [(1, 2), (0, 0)]
    assert offsets_left(tmp_path) == [4, 8]
    assert rows_of(tmp_path) == FINAL


@pytest.mark.parametrize("is_good", [True, False])
def test_a_line_that_somebody_has_mended_and_that_failed_again_is_that_record(tmp_path: Path, is_good: bool) -> None:
    """The rebuild reads the record as it was: the line leaves with it, or stands for it."""
    topic = start(tmp_path)
    offset = 3 if is_good else 8
    put(tmp_path, 0, [replace(history_row(offset), value=b"mended, and wrong")], "retry-20260101T000000-00000000")
    if not is_good:
        for file in (tmp_path / "checkpoint-quarantine" / QUERY).rglob("*.jsonl"):
            file.unlink()
    state = finish(job(topic))
    keep_once(load_pipeline(tmp_path / FILE), state)
    assert offsets_left(tmp_path) == [8]
    if not is_good:
        assert lines_left(tmp_path)[0]["payload"] == "mended, and wrong"


def test_a_note_of_an_earlier_checkpoint_counts_where_the_table_has_the_record(tmp_path: Path) -> None:
    start(tmp_path)
    put(tmp_path, 1, [history_row(3), bad(12)])
    quarantine(tmp_path, "an-earlier-query").note_good(4, 0, [history_row(3), bad(12)])
    take_out_good(load_pipeline(tmp_path / FILE))
    assert offsets_left(tmp_path) == [8, 12]
    assert not [*(tmp_path / "checkpoint-quarantine").rglob(f"*{NOTES}")]


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


def test_a_rebuild_that_has_not_switched_takes_nothing_out(tmp_path: Path) -> None:
    """A start of the pipeline, or a retry, comes in between; the rebuild may be given up."""
    topic = start(tmp_path)
    put(tmp_path, 1, [history_row(3)])
    one = job(topic)
    for _ in range(3):
        one.step()
    assert [*(tmp_path / "checkpoint-quarantine" / "replay-r1").rglob(f"*{NOTES}")]
    take_out_good(load_pipeline(tmp_path / FILE))
    assert 3 in offsets_left(tmp_path)


def test_nothing_is_taken_out_beside_a_retry(tmp_path: Path) -> None:
    state = finish(job(start(tmp_path)))
    config = load_pipeline(tmp_path / FILE)
    with alone(BadLines(config)), pytest.raises(SinkUnavailable, match="another retry or drop works on"):
        keep_once(config, state)
    assert offsets_left(tmp_path) == [8, 8]
