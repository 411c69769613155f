"""What a running pipeline does when it is asked to pause or resume a table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from paimon_table.errors import ConfigError
from paimon_table.nearest_name import nearest
from pipelines.catchup.side_work import SideWork
from pipelines.checkpoint.book import Cause
from pipelines.control.request_desk import Handler, Tell
from pipelines.control.requests import Answer, Request, State
from pipelines.tables.paused_tables import PausedTables
from sources.wording import first_of

NAMES_SHOWN = 5
PAUSE, RESUME = COMMANDS = ("pause", "resume")
"""What can be asked of one table."""


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
            return Answer(State.DONE, f"table {identifier} is paused already: {known.reason}")
        self._pause(identifier, reason)
        return Answer(State.DONE, f"table {identifier} is paused where it stands; all others go on")

    def resume(self, request: Request, _tell: Tell) -> Answer:
        """Begin to catch a table up."""
        identifier = self._table_of(request)
        if identifier not in self._paused.tables:
            return Answer(State.DONE, f"table {identifier} is not paused")
        self._side.resume(identifier)
        return Answer(State.DONE, f"table {identifier} is catching up; then it is in the stream again")

    def _table_of(self, request: Request) -> str:
        identifier = request.text("table")
        known = sorted({*self._known(), *self._paused.tables})
        if identifier not in known and self._paused.is_first_batch:
            raise ConfigError(
                f"the pipeline has no table {identifier!r} so far, as it has not ended its first batch: nothing was"
                " asked for, call again when it has"
            )
        if identifier not in known:
            close = nearest(identifier, known)
            hint = (
                f"did you mean {close}?" if close else f"it writes {', '.join(first_of(known, NAMES_SHOWN)) or 'none'}"
            )
            raise ConfigError(f"the pipeline has no table {identifier!r}; {hint}")
        return identifier
