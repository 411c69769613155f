"""Work of a command in pieces, between the batches of a pipeline: by the running pipeline, or else by this process.

A run has priority over commands (``checkpoint.lock``). This process holds the checkpoint only until a run wants it.
Then it releases the checkpoint between two pieces of work and continues as a guest, by requests. When the run ends, it
takes over again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Generic, Self, TypeVar

from paimon_table.errors import SinkUnavailable
from pipelines.checkpoint.lock import UNKNOWN, held_checkpoints, is_wanted, runner_of
from pipelines.config.config import PipelineConfig

log = logging.getLogger(__name__)

POLL_S = 0.2
"""Seconds between two checks whether the run that wants the checkpoint has it."""

RESTART_S = 10.0
"""The most seconds in which an ended run may return before this process takes over."""

Piece = TypeVar("Piece")
Done = TypeVar("Done")


class Guest(Generic[Piece, Done]):
    """Has pieces of work done, each once; a context manager that releases the checkpoint at its end."""

    def __init__(
        self,
        config: PipelineConfig,
        doing: str,
        ask: Callable[[Piece], Done | None],
        local: Callable[[], AbstractContextManager[Callable[[Piece], Done]]],
        tell: Callable[[str], None],
        *,
        yields: bool = True,
    ) -> None:
        """``doing`` says why the checkpoint is held.

        ``ask`` has the running pipeline do a piece of the work; None: no process runs it. ``local`` returns the
        function that does pieces in this process, which then holds the checkpoint. A piece may be done twice.
        ``yields``: whether a run may take over in between.
        """
        self._config = config
        self._doing = doing
        self._ask = ask
        self._local = local
        self._tell = tell
        self._yields = yields
        self._held = ExitStack()
        self._here: Callable[[Piece], Done] | None = None
        self._was_guest = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def do(self, piece: Piece) -> Done:
        """Do a piece of work here, or have the run do it.

        Raises SinkUnavailable while another command has the checkpoint.
        """
        while True:
            if self._here is not None and self._yields and is_wanted(self._config):
                self._tell(f"pipeline {self._config.name} starts: it takes over the checkpoint and finishes the work")
                self.release()
            if self._here is not None:
                return self._here(piece)
            runner = runner_of(self._config)
            if runner is not None:
                self._was_guest = runner != UNKNOWN
                done = self._ask(piece)
                if done is not None:
                    return done
            self._take()

    def release(self) -> None:
        """Release the checkpoint, if this process holds it; the next piece takes it again."""
        self._here = None
        self._held.close()

    def _take(self) -> None:
        """Hold the checkpoint, unless a run wants it or was faster."""
        restarts_until_s = time.monotonic() + RESTART_S
        while is_wanted(self._config) or (self._was_guest and time.monotonic() < restarts_until_s):
            if runner_of(self._config) is not None:
                return
            time.sleep(POLL_S)
        with ExitStack() as stack:
            try:
                stack.enter_context(held_checkpoints([self._config], self._doing, yields=self._yields))
            except SinkUnavailable as error:
                if runner_of(self._config) is None and not is_wanted(self._config):
                    raise
                log.info("%s", error)
                return
            if self._was_guest:
                self._tell(
                    f"the process that ran pipeline {self._config.name} has ended; this command continues the work "
                    f"itself"
                )
            self._here = stack.enter_context(self._local())
            self._held = stack.pop_all()
