"""The requests of a running pipeline: each goes to the handler registered for its command, once per process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from paimon_table.errors import Action, TidemarkError
from paimon_table.nearest_name import nearest
from pipelines.control.requests import Answer, Request, Requests, State

log = logging.getLogger(__name__)

Tell: TypeAlias = Callable[[Answer], None]
"""Leaves an answer to the request, at any time and from any thread."""

Handler: TypeAlias = Callable[[Request, Tell], Answer | None]
"""Carries out a request, or starts it: None means that answers follow through ``Tell``, with a final one at last.

It may get a request that an earlier process took and did not finish. An exception becomes the answer.
"""


JVM_GONE = (
    "the JVM of the running pipeline has ended or does not answer, possibly because it ran out of memory "
    "(spark.driver.memory): see the pipeline's log. Finished work is kept: run the command again, whether the "
    "pipeline runs or not"
)


class NotYet(Exception):
    """Raised by a handler that cannot serve a request yet: the request waits until ``take`` is called for it again."""


class RequestDesk:
    """Takes the requests to one pipeline; ``take`` is called by one thread, while no batch runs."""

    def __init__(self, requests: Requests, handlers: Mapping[str, Handler]) -> None:
        self._requests = requests
        self._handlers = handlers
        self._taken: set[str] = set()
        self._put_off: set[str] = set()

    @property
    def has_more(self) -> bool:
        """Whether a request waits that this process has not read."""
        return any(request.id not in self._taken | self._put_off for request in self._requests.waiting())

    def take(self, commands: Collection[str] | None = None) -> int:
        """Hand out all waiting requests, or only those for ``commands``; returns their number."""
        waiting = [
            request
            for request in self._requests.waiting()
            if request.id not in self._taken and (commands is None or request.command in commands)
        ]
        for request in waiting:
            try:
                answer = self._handled(request)
            except NotYet as reason:
                log.info("request %s (%s) waits: %s", request.command, request.left_by, reason)
                self._put_off.add(request.id)
                continue
            self._taken.add(request.id)
            if answer is not None:
                self._requests.answer(request.id, answer)
                level = logging.INFO if answer.state is State.DONE else logging.WARNING
                log.log(
                    level, "request %s (%s): %s: %s", request.command, request.left_by, answer.state.value, answer.text
                )
        if waiting:
            self._requests.tidy()
        return len(waiting)

    def _handled(self, request: Request) -> Answer | None:
        handler = self._handlers.get(request.command)
        if handler is None:
            close = nearest(request.command, self._handlers)
            hint = f"did you mean {close}?" if close else f"it takes {', '.join(sorted(self._handlers))}"
            return Answer(State.REFUSED, f"the running pipeline does not know {request.command!r}; {hint}")
        try:
            return handler(request, lambda answer: self._requests.answer(request.id, answer))
        except NotYet:
            raise
        except TidemarkError as error:
            return Answer(State.REFUSED if error.action is Action.FIX_REQUEST else State.FAILED, str(error))
        except Exception as error:  # a request must not end the pipeline
            if type(error).__module__.partition(".")[0] == "py4j":
                log.error("request %s: the JVM of Spark does not answer: %s", request.command, error)
                return Answer(State.FAILED, JVM_GONE)
            log.exception("request %s failed", request.command)
            return Answer(State.FAILED, f"unexpected {type(error).__name__}: {error}; the log of the pipeline has more")
