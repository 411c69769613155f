"""Bad records that the stream and a replay have both put aside are in the quarantine once when the replay is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.errors import SinkUnavailable
from pipelines.config.config_file import load_pipeline
from pipelines.quarantine.alone import alone
from pipelines.quarantine.bad_lines import BadLines
from pipelines.quarantine.once import keep_once
from tests.support.quarantined import bad, lines_left, offsets_left, put
from tests.support.rebuilt_tables import FILE, finish, job, start


def test_a_record_that_the_stream_has_put_aside_too_leaves_the_lines_of_the_rebuild(tmp_path: Path) -> None:
    topic = start(tmp_path)
    state = finish(job(topic))
    assert offsets_left(tmp_path) == [8, 8]

    config = load_pipeline(tmp_path / FILE)
    assert [keep_once(config, state) for _ in range(2)] == [1, 0]

    assert [line["offset"] for line in lines_left(tmp_path)] == [8]
    assert list((tmp_path / "checkpoint-quarantine" / "replay-r1").glob("batch-*/*")) == []


def test_a_record_that_only_the_replay_could_not_read_stays(tmp_path: Path) -> None:
    state = finish(job(start(tmp_path)))
    put(tmp_path, 7, [bad(3), bad(4, topic="shop.public.others")], "replay-r1")
    put(tmp_path, 0, [bad(4)])
    assert keep_once(load_pipeline(tmp_path / FILE), state) == 1
    assert sorted((line["topic"], line["offset"]) for line in lines_left(tmp_path)) == [
        ("shop.public.orders", 3),
        ("shop.public.orders", 4),
        ("shop.public.orders", 8),
        ("shop.public.others", 4),
    ]


def test_nothing_is_taken_out_beside_a_retry(tmp_path: Path) -> None:
    state = finish(job(start(tmp_path)))
    config = load_pipeline(tmp_path / FILE)
    with alone(BadLines(config)), pytest.raises(SinkUnavailable, match="another retry or drop works on"):
        keep_once(config, state)
    assert offsets_left(tmp_path) == [8, 8]
