"""The side of a command: leave a request for the process that runs a pipeline, and wait for its outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from paimon_table.errors import ConfigError, SinkUnavailable
from pipelines.checkpoint.lock import UNKNOWN, runner_of
from pipelines.config.config import PipelineConfig
from pipelines.control.requests import Answer, Request, Requests, State

POLL_S = 0.2
SAID_AFTER_S = 10.0
UNANSWERED_S = 60.0
"""How long to wait on object storage, which does not show whether a process runs."""

TAKEN_WITHIN_S = 30.0
"""How long a command waits for a pipeline to take its request: as long as an ordinary batch."""


def wait_for(
    config: PipelineConfig,
    command: str,
    arguments: Mapping[str, Any],
    tell: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> Answer | None:
    """Leave a request and wait for its final answer while a process runs the pipeline.

    If no process runs the pipeline, withdraws the request and returns None. ``tell`` gets words
    for the waiting user.
    """
    requests = Requests.of(config)
    request = requests.leave(command, arguments)
    waited_s, has_said = 0.0, False
    while True:
        answer = requests.answer_to(request.id)
        if answer is not None and answer.state.is_final:
            return answer
        holder = runner_of(config)
        if holder is None or (holder == UNKNOWN and answer is None and waited_s > UNANSWERED_S):
            requests.withdraw(request.id)
            return None
        if waited_s > SAID_AFTER_S and not has_said:
            has_said = True
            tell(f"waiting for {holder}, which runs the pipeline, to end its batch")
        sleep(POLL_S)
        waited_s += POLL_S


def done_or_raised(answer: Answer) -> Mapping[str, Any]:
    """The details of the answer. If the process refused the request or failed at it, raises its error."""
    match answer.state:
        case State.DONE:
            return answer.details
        case State.REFUSED:
            raise ConfigError(answer.text)
        case _:
            raise SinkUnavailable(answer.text)


def ask(
    config: PipelineConfig,
    command: str,
    arguments: Mapping[str, Any],
    *,
    wait_s: float = TAKEN_WITHIN_S,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Request, Answer | None]:
    """Leave a request; returns its last answer within ``wait_s``.

    Once a process has taken the request, waits for the final answer, however long that takes. Returns None if no
    process has taken it. The request then stays, and the next start takes it. ``runner_of`` says whether a process runs
    the pipeline: there is no wait for a process that has ended. Checkpoints without a lock (object storage) always
    cause the wait.
    """
    requests = Requests.of(config)
    is_running = runner_of(config) is not None
    request = requests.leave(command, arguments)
    if not is_running:
        return request, requests.answer_to(request.id)
    answer: Answer | None = None
    waited_s = 0.0
    while waited_s < wait_s or answer is not None:
        answer = requests.answer_to(request.id) or answer
        if (answer is not None and answer.state.is_final) or runner_of(config) is None:
            break
        sleep(POLL_S)
        waited_s += POLL_S
    return request, answer
