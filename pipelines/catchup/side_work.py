"""Work alongside the stream, on a separate thread: it takes requests and catches tables up between batches.

Batches and this work take turns (``Turns``): after a batch comes one slice, or the waiting requests. While the stream
is idle, this work continues without a pause.
"""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager

from paimon_table.errors import ConfigError
from paimon_table.nearest_name import nearest
from paimon_table.patience import Patience
from pipelines.catchup.reading import Reading, Step
from pipelines.catchup.shown_standing import Standing, TableStanding
from pipelines.checkpoint.book import Cause, Pause
from pipelines.control.request_desk import Handler, RequestDesk, Tell
from pipelines.control.requests import Answer, Request, State
from pipelines.control.turns import Turns
from pipelines.tables.paused_tables import PausedTables
from pipelines.tables.table_failure import TableFailure, is_of_table, may_succeed_later, way_on
from sources.wording import counted, first_of, sentences

log = logging.getLogger(__name__)

LOOK_S = 1.0
"""Time between two checks of the checkpoint for requests."""

IDLE_S = 0.2
"""How often to look while there is nothing to do, and for requests right after one: commands request one slice at a
time.
"""

RETRIES = Patience(2.0, 30.0, retries=4)
"""With source and storage of a table that is caught up, before it is paused again."""


class _Trial:
    """A table that is being caught up."""

    def __init__(self, catch_up: Reading) -> None:
        self.catch_up = catch_up
        self.failures = 0
        self.not_before_s = 0.0
        self.records_left: int | None = None
        self.is_beyond = False
        """Whether the stream must go on first, see ``Step.BEYOND``."""


class SideWork:
    """All work of one pipeline alongside its stream."""

    def __init__(
        self,
        turns: Turns,
        paused: PausedTables,
        catch_up: Callable[[str], Reading],
        settled: Callable[[], None],
        guarded: Callable[[], AbstractContextManager[None]],
        stops_with: Callable[[str], bool] = lambda _: False,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """``settled`` waits for the remaining work of batches, ``guarded`` keeps errors that must end the pipeline.

        ``stops_with``: whether it ends when a table fails, instead of leaving that paused.
        """
        self._turns = turns
        self._paused = paused
        self._new_catch_up = catch_up
        self._settled = settled
        self._guarded = guarded
        self._stops_with = stops_with
        self._now_s = now_s
        self._desk: RequestDesk | None = None
        self._trials: dict[str, _Trial] = {}
        self._wanted = {name for name, pause in paused.pauses.items() if pause.tries_again}
        self._stopping = threading.Event()
        self._looked_s = -LOOK_S
        self._soon_until_s = -LOOK_S
        self._thread: threading.Thread | None = None
        self._has_failed = False

    def start(self, desk: RequestDesk) -> None:
        """Begin, in the context of the caller (its pipeline's name in messages)."""
        self._desk = desk
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=lambda: context.run(self._work), name="tidemark-side", daemon=True)
        self._thread.start()

    def request_stop(self) -> None:
        """Finish the running slice and stop. Returns at once."""
        self._stopping.set()

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def is_at_rest(self) -> bool:
        """Whether there is nothing to do now: no request waits, and no table is on its way back."""
        waits = {name for name, trial in self._trials.items() if trial.is_beyond}
        is_due = not waits.issuperset(self._due())
        return self._has_failed or not (is_due or (self._desk is not None and self._desk.has_more))

    def resume(self, identifier: str) -> None:
        """Catch a table up; call it in a turn."""
        self._wanted.add(identifier)
        pause = self._paused.pauses[identifier]
        if pause.cause is Cause.ASKED:  # the next start continues with it
            reason = "it was resumed"
            self._paused.pause(identifier, Cause.FAILED, reason, pause.batch, pause.topics, public_reason=reason)

    def pause(self, identifier: str) -> None:
        """Stop catching a table up; call it in a turn."""
        self._wanted.discard(identifier)
        self._trials.pop(identifier, None)

    def standings(self) -> Mapping[str, TableStanding]:
        """The tables that are not in the stream; may be called at any time, on any thread."""
        trials = dict(self._trials)
        return {name: self._standing(pause, trials.get(name)) for name, pause in self._paused.pauses.items()}

    def _standing(self, pause: Pause, trial: _Trial | None) -> TableStanding:
        is_due = pause.table in self._wanted or pause.is_due
        state = Standing.CATCHING_UP if is_due else Standing.PAUSED
        left = None if trial is None else trial.records_left
        read = 0 if trial is None else trial.catch_up.record_count
        return TableStanding(pause, state, left, read)

    def _due(self) -> list[str]:
        return [name for name, m in self._paused.pauses.items() if name in self._wanted or m.is_due]

    def _work(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._guarded():
                    has_worked = self.round()
            except Exception:  # the failure is stored, and ends the pipeline
                self._has_failed = True
                return
            if not has_worked:
                self._stopping.wait(IDLE_S)

    def round(self) -> bool:
        """Take requests and do one slice of each table that is on its way back; returns whether anything was done."""
        has_worked = self._take_requests()
        for identifier in self._due():
            if self._stopping.is_set():
                break
            has_worked |= self._do_step(identifier)
        return has_worked

    def _take_requests(self) -> bool:
        every_s = IDLE_S if self._now_s() < self._soon_until_s else LOOK_S
        if self._desk is None or self._now_s() - self._looked_s < every_s:
            return False
        self._looked_s = self._now_s()
        if not self._desk.has_more:
            return False
        with self._turns.turn(self._goes_on) as is_mine:
            if not is_mine:
                return False
            self._settled()
            has_taken = self._desk.take() > 0
            self._soon_until_s = self._now_s() + LOOK_S
            return has_taken

    def _do_step(self, identifier: str) -> bool:
        trial = self._trials.get(identifier)
        if trial is not None and self._now_s() < trial.not_before_s:
            return False
        with self._turns.turn(self._goes_on) as is_mine:
            if not is_mine:
                return False
            self._settled()
            if trial is None:
                trial = self._trials[identifier] = _Trial(self._new_catch_up(identifier))
            try:
                return self._stepped(identifier, trial)
            except Exception as error:
                failure = error.error if isinstance(error, TableFailure) else error
                if not is_of_table(failure):
                    raise
                self._note_failure(identifier, trial, failure)
                return False

    def _stepped(self, identifier: str, trial: _Trial) -> bool:
        catch_up = trial.catch_up
        if trial.records_left is None:
            trial.records_left = catch_up.records_left
            left = "" if trial.records_left is None else f", about {counted(trial.records_left, 'record')}"
            log.info("table %s: catching up with the stream%s", identifier, left)
        before = catch_up.record_count
        step = catch_up.step()
        trial.is_beyond = step is Step.BEYOND
        if step is Step.DONE:
            self._wanted.discard(identifier)
            self._trials.pop(identifier, None)
            total = f"{catch_up.record_count:,}"
            log.info("table %s has caught up (%s records) and is in the stream again", identifier, total)
        elif step is Step.SLICE:
            trial.failures = 0
            trial.records_left = catch_up.records_left
            left = "" if trial.records_left is None else f", about {trial.records_left:,} left"
            read = catch_up.record_count - before
            if read:
                log.info("table %s: caught up by %s records%s", identifier, f"{read:,}", left)
        return step not in (Step.WAITING, Step.BEYOND)

    def _note_failure(self, identifier: str, trial: _Trial, error: Exception) -> None:
        """Retry a transient failure later; otherwise pause the table at its position."""
        trial.failures += 1
        wait_s = RETRIES.wait_s(trial.failures) if may_succeed_later(error) else None
        if wait_s is not None:
            trial.not_before_s = self._now_s() + wait_s
            trial.catch_up, trial.records_left = self._new_catch_up(identifier), None  # it reads everything again
            log.warning("table %s: %s; trying again in %.0f s", identifier, error, wait_s)
            return
        if self._stops_with(identifier):
            raise error
        pause = self._paused.pauses[identifier]
        self.pause(identifier)
        self._paused.pause_failed(identifier, error, pause.batch, pause.topics)
        log.error("table %s stays paused, all others continue: %s", identifier, sentences(error, way_on(identifier)))

    def _goes_on(self) -> bool:
        return not self._stopping.is_set()


NAMES_SHOWN = 5
PAUSE, RESUME = COMMANDS = ("pause", "resume")
"""The requests that one table takes."""


class TableRequests:
    """Handlers of ``pause`` and ``resume``; called in a turn."""

    def __init__(
        self,
        paused: PausedTables,
        side: SideWork,
        known: Callable[[], Collection[str]],
        pause: Callable[[str, str], None],
    ) -> None:
        """``known`` are the tables of the pipeline, ``pause`` pauses one by hand, for a reason."""
        self._paused = paused
        self._side = side
        self._known = known
        self._pause = pause

    @property
    def handlers(self) -> Mapping[str, Handler]:
        return {PAUSE: self.pause, RESUME: self.resume}

    def pause(self, request: Request, _tell: Tell) -> Answer:
        """Pause a table from the next batch on."""
        identifier = self._table_of(request)
        known = self._paused.pauses.get(identifier)
        reason = request.text("reason") or f"paused by {request.left_by}"
        self._side.pause(identifier)
        if known is not None and known.cause is Cause.ASKED:
            return Answer(State.DONE, f"table {identifier} is already paused: {known.reason}")
        self._pause(identifier, reason)
        return Answer(State.DONE, f"table {identifier} is paused at its position; all others continue")

    def resume(self, request: Request, _tell: Tell) -> Answer:
        """Begin to catch a table up."""
        identifier = self._table_of(request)
        if identifier not in self._paused.tables:
            return Answer(State.DONE, f"table {identifier} is not paused")
        self._side.resume(identifier)
        return Answer(State.DONE, f"table {identifier} is catching up; then it rejoins the stream")

    def _table_of(self, request: Request) -> str:
        identifier = request.text("table")
        known = sorted(self._known())
        if identifier not in known and self._paused.is_first_batch:
            raise ConfigError(
                f"the pipeline has no table {identifier!r} yet, because its first batch has not ended. Nothing "
                "was changed: try again after the first batch"
            )
        if identifier not in known:
            close = nearest(identifier, known)
            hint = (
                f"did you mean {close}?" if close else f"it writes {', '.join(first_of(known, NAMES_SHOWN)) or 'none'}"
            )
            raise ConfigError(f"the pipeline has no table {identifier!r}; {hint}")
        return identifier
