"""The side of a command: leave a request for the process that runs a pipeline, and wait for what becomes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from pipelines.checkpoint.lock import holder_of
from pipelines.config.config import PipelineConfig
from pipelines.control.requests import Answer, Request, Requests

POLL_S = 0.2
TAKEN_WITHIN_S = 30.0
"""How long a command waits for a pipeline to take its request: as long as an ordinary batch."""


def ask(
    config: PipelineConfig,
    command: str,
    arguments: Mapping[str, Any],
    *,
    on_answer: Callable[[Answer], None] | None = None,
    wait_s: float = TAKEN_WITHIN_S,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Request, Answer | None]:
    """Leave a request; gives its last answer within ``wait_s``, or its final one however long that takes once taken.

    None: nobody has taken it. It stays, and the next start takes it (``holder_of`` says whether a process runs). Where
    checkpoints have no lock (object storage) there is always a wait. ``on_answer`` hears of each answer on the way.
    """
    requests = Requests.of(config)
    is_running = holder_of(config) is not None
    request = requests.leave(command, arguments)
    if not is_running:
        return request, requests.answer_to(request.id)
    answer: Answer | None = None
    waited_s = 0.0
    while waited_s < wait_s or answer is not None:
        found = requests.answer_to(request.id)
        if found is not None and found != answer:
            answer = found
            if on_answer is not None:
                on_answer(found)
        if answer is not None and (answer.state.is_final or holder_of(config) is None):
            break
        sleep(POLL_S)
        waited_s += POLL_S
    return request, answer
