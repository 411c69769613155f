"""Pausing and resuming by request, with the thread that does it played by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from paimon_table.errors import BrokenInvariant, SchemaChangeRefused
from pipelines.catchup.reading import Reading, Step
from pipelines.catchup.shown_standing import Standing, failed_words
from pipelines.catchup.side_work import SideWork, TableRequests
from pipelines.checkpoint.book import Cause
from pipelines.control.request_desk import RequestDesk
from pipelines.control.requests import Answer, Requests, State
from pipelines.control.turns import Turns
from tests.support.item_batches import event, records
from tests.support.paused_pipeline import PausedPipeline

ITEMS = {"match": {"table": "items"}, "into": "lake.items"}


class Office:
    """A pipeline with what takes its requests; time goes on as it is told to."""

    def __init__(self, root: Path) -> None:
        source = records(*(event("c", n, {"id": n}) for n in range(40)))
        self.pipeline = PausedPipeline(root, source, [ITEMS])
        self.requests = Requests.of(self.pipeline.config)
        self.now_s = 0.0
        paused = self.pipeline.paused
        self.side = SideWork(
            Turns(), paused, self.pipeline.catch_up, lambda: None, self._guarded, now_s=lambda: self.now_s
        )
        tables = TableRequests(paused, self.side, lambda: ["lake.items"], lambda name, _: self.pipeline.pause(name))
        self.side._desk = RequestDesk(self.requests, tables.handlers)

    def asked(self, command: str, table: str = "lake.items") -> Answer:
        request = self.requests.leave(command, {"table": table})
        self.round()
        answer = self.requests.answer_to(request.id)
        assert answer is not None
        return answer

    def round(self) -> bool:
        self.now_s += 2.0
        return self.side.round()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        yield


@pytest.fixture
def office(tmp_path: Path) -> Office:
    found = Office(tmp_path)
    found.pipeline.run(1)
    return found


@pytest.mark.slow
def test_a_table_is_paused_and_resumed_by_request(office: Office) -> None:
    assert office.asked("pause").text == "table lake.items is paused at its position; all others continue"
    assert office.asked("pause").text == "table lake.items is already paused: by hand"
    (standing,) = office.side.standings().values()
    assert (standing.state, standing.pause.cause) == (Standing.PAUSED, Cause.ASKED)
    assert office.side.is_at_rest
    assert list(failed_words("shop", office.side.standings())) == []
    office.pipeline.run()

    assert "is catching up" in office.asked("resume").text
    (standing,) = office.side.standings().values()
    assert str(standing) == "table lake.items is catching-up, about 23 records left: it was resumed"
    while office.round():
        pass

    assert office.side.standings() == {}
    assert sorted(office.pipeline.rows("lake.items")) == [*range(40)]
    assert office.asked("resume").text == "table lake.items is not paused"


def test_what_is_no_table_is_refused_with_the_nearest_name(office: Office) -> None:
    answer = office.asked("pause", "lake.item")
    assert (answer.state, answer.text) == (
        State.REFUSED,
        "the pipeline has no table 'lake.item'; did you mean lake.items?",
    )


def paused_and_failing(office: Office, error: Exception) -> list[str]:
    """Pause the table of items, which ``error`` keeps from being caught up; gives its name once for each try."""
    failed: list[str] = []

    def fails(name: str) -> object:
        failed.append(name)
        raise error

    office.pipeline.pause("lake.items")
    office.side._new_catch_up = _raising_at_step(office, fails)
    return failed


@pytest.mark.parametrize(
    ("error", "tries"), [(SchemaChangeRefused("column n is narrower"), 1), (OSError("no such directory"), 5)]
)
def test_what_fails_again_is_paused_again_after_tries_where_they_may_help(
    office: Office, error: Exception, tries: int, caplog: pytest.LogCaptureFixture
) -> None:
    failed = paused_and_failing(office, error)
    office.asked("resume")
    for _ in range(60):
        office.round()

    assert len(failed) == tries
    (standing,) = office.side.standings().values()
    assert (standing.state, standing.pause.cause, standing.pause.reason) == (Standing.PAUSED, Cause.FAILED, str(error))
    (words,) = failed_words("shop", office.side.standings())
    assert f"table lake.items is paused, and all others are up to date: {error}. Fix the cause" in words
    assert str(error) not in standing.summary and "table lake.items is paused: " in standing.summary
    assert "Fix that first; then `tidemark resume FILE --table lake.items`" in caplog.text


@pytest.mark.parametrize(
    ("error", "tries"), [(SchemaChangeRefused("column n is narrower"), 1), (OSError("no such directory"), 5)]
)
def test_with_stop_what_fails_again_ends_the_pipeline(office: Office, error: Exception, tries: int) -> None:
    """The table stays behind as it was: the next start goes on with it."""
    failed = paused_and_failing(office, error)
    office.side._stops_with = "lake.items".__eq__
    with pytest.raises(type(error), match=str(error)):
        office.asked("resume")
        for _ in range(60):
            office.round()
    assert len(failed) == tries
    (mark,) = office.pipeline.paused.pauses.values()
    assert (mark.table, mark.reason, mark.tries_again) == ("lake.items", "it was resumed", True)


def test_a_fault_of_ours_ends_the_pipeline(office: Office) -> None:
    def fails(_name: str) -> object:
        raise BrokenInvariant("please report this")

    office.pipeline.pause("lake.items")
    office.side._new_catch_up = _raising_at_step(office, fails)
    with pytest.raises(BrokenInvariant):
        office.asked("resume")


def _raising_at_step(office: Office, fails: Callable[[str], object]) -> Callable[[str], Reading]:
    def make(name: str) -> Reading:
        catch_up = office.pipeline.catch_up(name)

        def step() -> Step:
            fails(name)
            raise AssertionError("it did not fail")

        catch_up.step = step  # type: ignore[method-assign]
        return catch_up

    return make


def test_work_beside_the_stream_waits_for_a_batch_to_be_closed(tmp_path: Path) -> None:
    source = records(*(event("c", n, {"id": n}) for n in range(20)))
    pipeline = PausedPipeline(tmp_path, source, [ITEMS])
    pipeline.run(1)
    pipeline.stream.last_batch = 1  # whose rows are in the tables
    assert not pipeline.stream.is_settled

    closing = threading.Thread(target=pipeline.close_batch, args=(1,))
    closing.start()
    pipeline.stream.await_closing()
    closing.join()

    assert pipeline.stream.is_settled


@pytest.mark.slow
def test_work_beside_the_stream_goes_on_where_a_batch_is_never_closed(tmp_path: Path) -> None:
    pipeline = PausedPipeline(tmp_path, records(event("c", 0, {"id": 0})), [ITEMS])
    pipeline.stream.last_batch = 0

    pipeline.stream.await_closing()

    assert not pipeline.stream.is_settled


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_a_table_that_the_first_batch_may_make_is_asked_for_again(tmp_path: Path, command: str) -> None:
    office = Office(tmp_path)
    answer = office.asked(command, "lake.others")
    assert answer.state is State.REFUSED
    assert "no table 'lake.others' yet" in answer.text and "try again" in answer.text
