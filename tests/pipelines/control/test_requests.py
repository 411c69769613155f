"""Requests to a running pipeline: left, taken once, answered, and taken again by the next process."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.errors import ConfigError, CorruptFile, SinkUnavailable
from paimon_table.storage.file_io import LocalFileIO
from paimon_table.storage.memory_io import MemoryFileIO
from pipelines.control.request_desk import NotYet, RequestDesk, Tell
from pipelines.control.requests import DIRECTORY, KEPT_MS, Answer, Request, Requests, State


def _done(request: Request, _tell: object) -> Answer:
    return Answer(State.DONE, f"{request.command} {request.text('table')}")


def test_a_request_is_taken_once_and_answered(tmp_path: Path) -> None:
    requests = Requests(LocalFileIO(), str(tmp_path))
    first = requests.leave("resume", {"table": "lake.orders"})
    second = requests.leave("resume", {"table": "lake.items"})
    assert [request.id for request in requests.waiting()] == [first.id, second.id]
    assert requests.answer_to(first.id) is None

    desk = RequestDesk(requests, {"resume": _done})

    assert desk.has_more
    assert desk.take() == 2
    assert desk.take() == 0
    assert requests.waiting() == []
    assert requests.answer_to(first.id) == Answer(State.DONE, "resume lake.orders")


def test_requests_of_one_millisecond_are_taken_in_the_order_in_which_they_were_left(tmp_path: Path) -> None:
    requests = Requests(LocalFileIO(), str(tmp_path), lambda: 1_700_000_000_000)
    left = [requests.leave("resume", {}).id for _ in range(6)]
    assert [request.id for request in requests.waiting()] == left


def test_what_was_not_finished_is_handed_to_the_next_process_again(tmp_path: Path) -> None:
    requests = Requests(LocalFileIO(), str(tmp_path))
    left = requests.leave("replay", {})
    working = RequestDesk(requests, {"replay": lambda _, tell: tell(Answer(State.WORKING, "1 %", {"share": 0.01}))})
    assert working.take() == 1
    assert working.take() == 0
    assert requests.answer_to(left.id) == Answer(State.WORKING, "1 %", {"share": 0.01})

    RequestDesk(requests, {"replay": _done}).take()

    assert requests.answer_to(left.id) == Answer(State.DONE, "replay ")


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (ConfigError("no such table"), State.REFUSED),
        (SinkUnavailable("storage is down"), State.FAILED),
        (ZeroDivisionError("oops"), State.FAILED),
    ],
)
def test_what_a_handler_raises_is_the_answer(tmp_path: Path, error: Exception, state: State) -> None:
    requests = Requests(LocalFileIO(), str(tmp_path))
    left = requests.leave("pause", {})

    def fails(_request: object, _tell: object) -> Answer:
        raise error

    RequestDesk(requests, {"pause": fails}).take()

    answer = requests.answer_to(left.id)
    assert answer is not None
    assert answer.state is state
    assert str(error) in answer.text


def test_unknown_commands_and_files_that_are_no_requests_are_refused(tmp_path: Path) -> None:
    requests = Requests(LocalFileIO(), str(tmp_path))
    unknown = requests.leave("resum", {})
    broken = requests.leave("resume", {})
    (tmp_path / DIRECTORY / f"{broken.id}.json").write_text("{")
    (tmp_path / DIRECTORY / "notes.txt").write_text("no request")

    RequestDesk(requests, {"resume": _done}).take()

    refused = requests.answer_to(unknown.id)
    assert refused is not None
    assert (refused.state, refused.text) == (
        State.REFUSED,
        "the running pipeline does not know 'resum'; did you mean resume?",
    )
    unreadable = requests.answer_to(broken.id)
    assert unreadable is not None
    assert unreadable.state is State.REFUSED


def test_a_request_that_is_withdrawn_is_not_taken_and_old_ones_are_tidied(tmp_path: Path) -> None:
    now = [1_700_000_000_000]
    requests = Requests(LocalFileIO(), str(tmp_path), lambda: now[0])
    requests.withdraw(requests.leave("resume", {}).id)
    assert requests.waiting() == []
    answered, waiting = requests.leave("resume", {}), requests.leave("replay", {})
    desk = RequestDesk(requests, {"resume": _done, "replay": lambda _, _tell: None})
    desk.take()

    now[0] += KEPT_MS + 1
    requests.tidy()

    assert requests.answer_to(answered.id) is None
    assert [request.id for request in requests.waiting()] == [waiting.id]
    assert len(list((tmp_path / DIRECTORY).iterdir())) == 1


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "[" * 100_000,
        '{"command": "resume", "arguments": {}, "left_at_ms": Infinity, "left_by": "x"}',
        "9" * 5000,
    ],
    ids=["null", "nested", "infinite", "long"],
)
def test_hostile_files_stop_nobody(tmp_path: Path, text: str) -> None:
    requests = Requests(LocalFileIO(), str(tmp_path))
    hostile, good = requests.leave("resume", {}), requests.leave("resume", {})
    answered = requests.leave("resume", {})
    (tmp_path / DIRECTORY / f"{hostile.id}.json").write_text(text)
    (tmp_path / DIRECTORY / f"{answered.id}.answer.json").write_text(text)
    with pytest.raises(CorruptFile, match=r"is not an answer .* remove the file"):
        requests.answer_to(answered.id)

    assert RequestDesk(requests, {"resume": _done}).take() == 2

    answers = [requests.answer_to(one.id) for one in (hostile, good, answered)]
    assert [answer and answer.state for answer in answers] == [State.REFUSED, State.DONE, State.DONE]


class _OfAnotherUser(MemoryFileIO):
    """A disk on which this user may not do one thing."""

    denied = ""

    def _check(self, what: str) -> None:
        if self.denied == what:
            raise PermissionError(13, "Permission denied")

    def list_names(self, directory: str) -> list[str]:
        self._check("list")
        return MemoryFileIO.list_names(self, directory)

    def read(self, path: str) -> bytes:
        self._check("read")
        return MemoryFileIO.read(self, path)

    def write(self, path: str, data: bytes, durable: bool = True) -> None:
        self._check("write")
        MemoryFileIO.write(self, path, data, durable)


@pytest.mark.parametrize("denied", ["list", "read", "write"])
def test_requests_of_another_user_end_no_pipeline(denied: str, caplog: pytest.LogCaptureFixture) -> None:
    io = _OfAnotherUser()
    requests = Requests(io, "/checkpoint")
    requests.leave("resume", {})
    io.denied = denied
    desk = RequestDesk(requests, {"resume": _done})

    taken = [desk.take(), desk.take()]

    assert taken == ([1, 0] if denied == "write" else [0, 0])
    assert [record.levelname for record in caplog.records].count("WARNING") == 1
    assert "make the user of the pipeline its owner" in caplog.text


def test_what_cannot_be_done_yet_waits_until_it_is_asked_for_again(tmp_path: Path) -> None:
    requests = Requests(LocalFileIO(), str(tmp_path))
    has_begun: list[bool] = []

    def pause(_request: Request, _tell: Tell) -> Answer:
        if not has_begun:
            raise NotYet("nothing was read")
        return Answer(State.DONE, "paused")

    desk = RequestDesk(requests, {"pause": pause})
    asked = requests.leave("pause", {})
    desk.take()
    assert (desk.has_more, requests.waiting(), requests.answer_to(asked.id)) == (False, [asked], None)
    has_begun.append(True)
    desk.take(["pause"])
    assert requests.answer_to(asked.id) == Answer(State.DONE, "paused")
