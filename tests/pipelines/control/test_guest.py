"""A run comes before commands: they give it the checkpoint between two pieces of work, and go on as its guests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from paimon_table.errors import SinkUnavailable
from pipelines.checkpoint import lock
from pipelines.checkpoint.lock import held_checkpoints, holder_of, is_wanted, run_comes_first, runner_of
from pipelines.config.config import PipelineConfig
from pipelines.control import guest
from pipelines.control.guest import Guest
from tests.support.local_batches import ALL_TABLES, pipeline_tables
from tests.support.pipeline_run import wait_until
from tests.support.waiting import seconds


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "RESTART_S", 0.0)
    monkeypatch.setattr(guest, "POLL_S", 0.01)
    monkeypatch.setattr(lock, "LOOK_S", 0.01)
    monkeypatch.setattr(lock, "TRY_WAIT_S", 0.01)


def config_in(root: Path) -> PipelineConfig:
    return pipeline_tables(root, ALL_TABLES).config


class Run:
    """A run as a thread: waits for commands, holds the checkpoint until it is ended."""

    def __init__(self, config: PipelineConfig) -> None:
        self.config = config
        self.stopped, self.holds = threading.Event(), threading.Event()
        self.failure: SinkUnavailable | None = None
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        try:
            with ExitStack() as held:
                with run_comes_first([self.config], self.stopped.is_set) as is_free:
                    if is_free:
                        held.enter_context(held_checkpoints([self.config]))
                        self.holds.set()
                self.stopped.wait(seconds(60))
        except SinkUnavailable as error:
            self.failure = error

    def end(self) -> None:
        self.stopped.set()
        self._thread.join(seconds(60))


class Command:
    """A command with pieces of work; ``done`` says who did which."""

    def __init__(self, config: PipelineConfig, *, yields: bool = True) -> None:
        self.config = config
        self.done: list[str] = []
        self.told: list[str] = []
        self.guest = Guest(config, "rebuilds lake.orders", self._ask, self._local, self.told.append, yields=yields)

    def _ask(self, piece: int) -> bool | None:
        return None if runner_of(self.config) is None else self._note(f"run {piece}")

    @contextmanager
    def _local(self) -> Iterator[Callable[[int], bool]]:
        self.done.append("begin")
        yield lambda piece: self._note(f"here {piece}")
        self.done.append("end")

    def _note(self, what: str) -> bool:
        self.done.append(what)
        return True


@pytest.mark.slow
def test_a_command_gives_a_run_the_checkpoint_and_works_as_its_guest(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    command = Command(config)
    with command.guest as pieces:
        pieces.do(0)
        pieces.do(1)
        run = Run(config)
        wait_until(lambda: is_wanted(config), 30, "a run that waits")
        assert not run.holds.is_set()
        pieces.do(2)
        assert run.holds.wait(seconds(30))
        wait_until(lambda: not is_wanted(config), 30, "a run that has what it waited for")
        pieces.do(3)
        run.end()
        pieces.do(4)
    assert command.done == ["begin", "here 0", "here 1", "end", "run 2", "run 3", "begin", "here 4", "end"]
    assert [text.partition(";")[0] for text in command.told] == [
        "pipeline shop starts: it takes over the checkpoint and finishes the work",
        "the process that ran pipeline shop has ended",
    ]
    assert (run.failure, holder_of(config)) == (None, None)


@pytest.mark.slow
def test_a_run_that_is_restarted_soon_keeps_its_guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_in(tmp_path)
    command, run = Command(config), Run(config)
    assert run.holds.wait(seconds(30))
    monkeypatch.setattr(guest, "RESTART_S", 60.0)
    with command.guest as pieces:
        pieces.do(0)
        run.end()
        again: list[Run] = []

        def restarted(config: PipelineConfig) -> bool:
            if not again:
                again.append(Run(config))
            return is_wanted(config)

        monkeypatch.setattr(guest, "is_wanted", restarted)
        pieces.do(1)
        again[0].end()
    assert command.done == ["run 0", "run 1"]


def test_a_run_is_refused_by_what_does_not_yield_and_told_what_for(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    command = Command(config, yields=False)
    with command.guest as pieces:
        pieces.do(0)
        run = Run(config)
        run.end()
        pieces.do(1)
    assert command.done == ["begin", "here 0", "here 1", "end"]
    assert "is in use by process " in str(run.failure)
    assert ", which rebuilds lake.orders. Only one process at a time" in str(run.failure)


def test_of_two_runs_that_want_it_one_waits(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    with held_checkpoints([config], "rebuilds lake.orders", yields=True):
        first = Run(config)
        wait_until(lambda: is_wanted(config), 30, "a run that waits")
        second = Run(config)
        wait_until(lambda: second.failure is not None, 30, "the end of the second run")
        first.end()
    assert ", which waits for process " in str(second.failure)
    assert (first.holds.is_set(), first.failure, is_wanted(config)) == (False, None, False)


def test_a_command_is_refused_while_another_one_works(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    command = Command(config)
    with (
        held_checkpoints([config], "retries records of the quarantine", yields=True),
        command.guest as pieces,
        pytest.raises(SinkUnavailable, match="which retries records of the quarantine"),
    ):
        pieces.do(0)
    assert command.done == []


def test_a_command_is_not_taken_for_a_run(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    with held_checkpoints([config], "rebuilds lake.orders", yields=True):
        assert (runner_of(config), holder_of(config) is None) == (None, False)
    with held_checkpoints([config]):
        assert runner_of(config) is not None
