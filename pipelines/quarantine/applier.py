"""Who applies the slices of a retry: the process that runs the pipeline, between two batches, or else the command."""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict

from paimon_table.errors import ConfigError, SinkUnavailable
from pipelines.checkpoint.lock import UNKNOWN, held_checkpoints, holder_of
from pipelines.config.config import PipelineConfig
from pipelines.control.request_desk import Handler, Tell
from pipelines.control.requests import Answer, Request, Requests, State
from pipelines.prepared import own_tables
from pipelines.quarantine.applying import Applied, apply
from pipelines.quarantine.slices import Slice, Slices
from pipelines.storage import quarantine_of
from pipelines.tables.own_tables import OwnTables

log = logging.getLogger(__name__)

COMMAND = "retry-slice"
POLL_S = 0.2
TOLD_AFTER_S = 10.0
UNANSWERED_S = 60.0
"""How long to wait on object storage, where nobody knows whether a process runs."""

_NAME = re.compile(r"retry-[0-9A-Za-z-]+/slice-[0-9]{12}")

Apply = Callable[[Slice], Applied]


@contextmanager
def applier(config: PipelineConfig, tell: Callable[[str], None]) -> Iterator[Apply]:
    """Applies slices for the length of the block; ``tell`` gets words for somebody who waits."""
    with ExitStack() as stack:
        yield _Applier(config, stack, tell).apply


class _Applier:
    """Asks the running process for as long as there is one; then holds the checkpoint until ``stack`` closes."""

    def __init__(self, config: PipelineConfig, stack: ExitStack, tell: Callable[[str], None]) -> None:
        self._config = config
        self._stack = stack
        self._tell = tell
        self._own: OwnTables | None = None

    def apply(self, slice_: Slice) -> Applied:
        while self._own is None:
            if holder_of(self._config) is not None:
                applied = self._asked(slice_)
                if applied is not None:
                    return applied
            self._hold()
        return apply(self._config, self._own, slice_)

    def _hold(self) -> None:
        """Take the checkpoint, unless somebody else has been faster."""
        try:
            self._stack.enter_context(held_checkpoints([self._config]))
        except SinkUnavailable as error:
            log.info("%s", error)
            return
        self._own = own_tables(self._config)

    def _asked(self, slice_: Slice) -> Applied | None:
        """What the running process says; None when there is none any more, or perhaps never was."""
        requests = Requests.of(self._config)
        request = requests.leave(COMMAND, {"slice": slice_.name, "rules": digest_of_rules(self._config)})
        begun_s, is_told = time.monotonic(), False
        while True:
            answer = requests.answer_to(request.id)
            if answer is not None and answer.state.is_final:
                return _taken(answer)
            waited_s = time.monotonic() - begun_s
            holder = holder_of(self._config)
            if holder is None or (holder == UNKNOWN and answer is None and waited_s > UNANSWERED_S):
                requests.withdraw(request.id)
                return None
            if waited_s > TOLD_AFTER_S and not is_told:
                is_told = True
                self._tell(f"waiting for {holder}, which runs the pipeline, to end its batch")
            time.sleep(POLL_S)


def _taken(answer: Answer) -> Applied:
    match answer.state:
        case State.DONE:
            return Applied.from_details(answer.details)
        case State.REFUSED:
            raise ConfigError(answer.text)
        case _:
            raise SinkUnavailable(answer.text)


def digest_of_rules(config: PipelineConfig) -> str:
    """What decides how records are read and where they go; equal in two processes with the same pipeline file."""
    rules = (config.source.format, config.source.on_bad_record, config.defaults, config.tables, config.otherwise)
    return hashlib.sha256(repr((rules, config.quarantine, config.catalog.warehouse)).encode()).hexdigest()


def handler(config: PipelineConfig, own: OwnTables, before: Callable[[], None]) -> Handler:
    """Takes requests for slices in the process that runs the pipeline; ``before`` waits for what its batch has left."""

    def handle(request: Request, _tell: Tell) -> Answer:
        name = request.text("slice")
        if request.text("rules") != digest_of_rules(config):
            raise ConfigError(
                f"the running pipeline {config.name} has other rules than the file: let it take the file first (restart"
                " it), then retry"
            )
        if _NAME.fullmatch(name) is None:
            raise ConfigError(f"{name!r} is no slice of a retry")
        try:
            slice_ = Slices(*quarantine_of(config)).read(name)
        except FileNotFoundError as error:
            raise ConfigError(f"slice {name} is done already, or was given up") from error
        before()
        applied = apply(config, own, slice_)
        return Answer(
            State.DONE, f"{name}: {applied.with_rows:,} of {applied.records:,} records applied", asdict(applied)
        )

    return handle
