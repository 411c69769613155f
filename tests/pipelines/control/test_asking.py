"""A command asks the process that holds the checkpoint; without one the request waits for the next start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from paimon_table.errors import SinkUnavailable
from pipelines.checkpoint import lock
from pipelines.checkpoint.lock import held_checkpoints, holder_of
from pipelines.control.asking import ask
from pipelines.control.request_desk import RequestDesk
from pipelines.control.requests import Answer, Requests, State
from tests.support.local_batches import ALL_TABLES, pipeline_tables


def test_a_request_waits_for_the_next_start_where_nobody_runs_the_pipeline(tmp_path: Path) -> None:
    config = pipeline_tables(tmp_path, ALL_TABLES).config
    assert holder_of(config) is None

    request, answer = ask(config, "resume", {"table": "lake.orders"})

    assert answer is None
    assert Requests.of(config).waiting() == [request]


def test_a_command_waits_for_the_last_answer_of_the_process_that_runs(tmp_path: Path) -> None:
    config = pipeline_tables(tmp_path, ALL_TABLES).config
    requests = Requests.of(config)
    desk = RequestDesk(requests, {"resume": lambda _, _tell: Answer(State.WORKING, "catching up")})
    naps: Iterator[Callable[[], object]] = iter([lambda: None, desk.take, lambda: None, lambda: _finish(requests)])

    with held_checkpoints([config]):
        assert str(holder_of(config)).startswith("process ")
        _, answer = ask(config, "resume", {}, wait_s=0.7, sleep=lambda _: _done(next(naps)()))

    assert answer == Answer(State.DONE, "in the stream")


def test_a_command_gives_up_where_nobody_takes_its_request(tmp_path: Path) -> None:
    config = pipeline_tables(tmp_path, ALL_TABLES).config
    with held_checkpoints([config]):
        request, answer = ask(config, "resume", {}, wait_s=1.0, sleep=lambda _: None)
    assert answer is None
    assert Requests.of(config).waiting() == [request]


def test_a_command_does_not_wait_for_a_process_that_has_ended(tmp_path: Path) -> None:
    config = pipeline_tables(tmp_path, ALL_TABLES).config
    process = ExitStack()
    process.enter_context(held_checkpoints([config]))
    naps: list[float] = []

    def ends(nap_s: float) -> None:
        naps.append(nap_s)
        process.close()

    request, answer = ask(config, "resume", {}, sleep=ends)

    assert (len(naps), answer) == (1, None)
    assert Requests.of(config).waiting() == [request]


def test_looking_at_a_lock_stops_no_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = pipeline_tables(tmp_path, ALL_TABLES).config
    monkeypatch.setattr(lock, "TRY_WAIT_S", 0.01)
    with held_checkpoints([config]):
        with pytest.raises(SinkUnavailable, match="is in use by process"), held_checkpoints([config]):
            pass
        assert holder_of(config) is not None
    assert holder_of(config) is None


def _done(_result: object) -> None:
    """What a nap brought is of no interest."""


def _finish(requests: Requests) -> None:
    (waiting,) = requests.waiting()
    requests.answer(waiting.id, Answer(State.DONE, "in the stream"))
