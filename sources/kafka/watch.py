"""Watches Kafka during a query: reports that it does not answer, and which topics exist.

Spark waits for Kafka silently. It would read a recreated topic from its old offset once the new topic has reached that
offset. One request for the list of topics with their ids, every ``INTERVAL_S``, shows both.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from py4j.protocol import Py4JError

from paimon_table.errors import TidemarkError
from sources.wording import sentences

log = logging.getLogger(__name__)

INTERVAL_S = 10.0
TOLD_AGAIN_S = 30.0
PATIENCE = {"default.api.timeout.ms": "10000", "request.timeout.ms": "5000"}
"""Timeouts of one look."""

_API_TIMEOUT_S = 60
ATTEMPTS = 3
"""Kafka's own default of ``default.api.timeout.ms``, and how often Spark asks for offsets before it gives up."""


class KafkaWatch:
    """``topic_ids`` asks for the topics of the source with their ids, ``on_answer`` gets each answer.

    ``properties`` configure Kafka's client. The thread of the looks calls ``on_end`` after the last look.
    """

    def __init__(
        self,
        pipeline: str,
        properties: Mapping[str, str],
        topic_ids: Callable[[], Mapping[str, str]],
        on_answer: Callable[[Mapping[str, str]], None],
        clock: Callable[[], float] = time.monotonic,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._pipeline = pipeline
        self._properties = properties
        self._topic_ids = topic_ids
        self._on_answer = on_answer
        self._clock = clock
        self._on_end = on_end
        self._seen: set[str] = set()
        self._gone: frozenset[str] = frozenset()
        self._silent_since_s: float | None = None
        self._told_s = 0.0
        self._ended = threading.Event()

    @property
    def silent_s(self) -> float | None:
        """How long Kafka has not answered; None while it does."""
        since_s = self._silent_since_s
        return None if since_s is None else self._clock() - since_s

    def start(self) -> None:
        """Check Kafka on a separate thread until ``stop``."""
        threading.Thread(target=self._run, name=f"kafka-watch-{self._pipeline}", daemon=True).start()

    def stop(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        try:
            while True:
                self.look()
                if self._ended.wait(INTERVAL_S):
                    break
            self._on_end()
        except (Py4JError, OSError):
            return  # the JVM has ended, which the runner reports

    def look(self) -> None:
        """Ask once."""
        asked_s = self._clock()
        try:
            ids = self._topic_ids()
        except TidemarkError as error:
            if not self._ended.is_set():
                self._note_silence(asked_s, error)
            return
        if self._silent_since_s is not None:
            log.warning("%s: Kafka answers again after %.0f s", self._pipeline, self._clock() - self._silent_since_s)
            self._silent_since_s = None
        self._tell_missing(ids)
        self._on_answer(ids)

    def _note_silence(self, asked_s: float, error: TidemarkError) -> None:
        now_s = self._clock()
        if self._silent_since_s is None:
            self._silent_since_s = asked_s
        elif now_s - self._told_s < TOLD_AGAIN_S:
            return
        self._told_s = now_s
        log.warning(
            "%s: no answer from Kafka for %.0f s: %s. The query gives up after about %s s within a"
            " batch, or %s s between two (default.api.timeout.ms under source.kafka.options). Tidemark then restarts "
            "it, for up to retry.max_elapsed",
            self._pipeline,
            now_s - self._silent_since_s,
            sentences(error, "The pipeline waits"),
            _api_timeout_s(self._properties),
            ATTEMPTS * _api_timeout_s(self._properties),
        )

    def _tell_missing(self, ids: Mapping[str, str]) -> None:
        gone = self._seen - ids.keys()
        for name in sorted(gone - self._gone):
            log.warning("%s: topic %s no longer exists, or this user may no longer see it", self._pipeline, name)
        self._gone = frozenset(gone)
        self._seen |= ids.keys()


def _api_timeout_s(properties: Mapping[str, str]) -> int:
    given = properties.get("default.api.timeout.ms", "")
    return int(given) // 1000 if given.isdigit() else _API_TIMEOUT_S
