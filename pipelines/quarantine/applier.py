"""Who applies the slices of a retry: the process that runs the pipeline, between two batches, or else the command."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict

from paimon_table.errors import ConfigError, SinkUnavailable
from pipelines.checkpoint.lock import held_checkpoints, holder_of
from pipelines.config.config import PipelineConfig
from pipelines.control.asking import done_or_raised, wait_for
from pipelines.control.request_desk import Handler, Tell
from pipelines.control.requests import Answer, Request, State
from pipelines.control.same_rules import check_rules, digest_of_rules
from pipelines.prepared import own_tables
from pipelines.quarantine.applying import Applied, apply
from pipelines.quarantine.slices import Slice, Slices
from pipelines.storage import quarantine_of
from pipelines.tables.own_tables import OwnTables

log = logging.getLogger(__name__)

COMMAND = "retry-slice"
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
        arguments = {"slice": slice_.name, "rules": digest_of_rules(self._config)}
        answer = wait_for(self._config, COMMAND, arguments, self._tell)
        return None if answer is None else Applied.from_details(done_or_raised(answer))


def handler(config: PipelineConfig, own: OwnTables, before: Callable[[], None]) -> Handler:
    """Takes requests for slices in the process that runs the pipeline; ``before`` waits for what its batch has left."""

    def handle(request: Request, _tell: Tell) -> Answer:
        name = request.text("slice")
        check_rules(config, request)
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
