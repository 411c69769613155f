"""The newest events of a pipeline: a bounded list in which what happens again and again is one event that counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pipelines.catchup.shown_standing import Standing
from pipelines.views.table_views import EventKind, EventView, Phase

EVENTS_KEPT = 40

_OF_PHASES: Mapping[Phase, EventKind] = {
    Phase.WAITING: EventKind.WAITING,
    Phase.STOPPING: EventKind.STOPPING,
    Phase.ENDED: EventKind.STOPPED,
    Phase.FAILED: EventKind.FAILED,
}
_OF_STANDINGS: Mapping[Standing, EventKind] = {
    Standing.PAUSED: EventKind.PAUSED,
    Standing.CATCHING_UP: EventKind.RESUMED,
    Standing.RUNNING: EventKind.CAUGHT_UP,
}


class EventLog:
    """Callers hold a lock."""

    def __init__(self) -> None:
        self._events: dict[tuple[EventKind, str, str], EventView] = {}  # oldest first

    @property
    def events(self) -> tuple[EventView, ...]:
        """Oldest first."""
        return tuple(sorted(self._events.values(), key=lambda event: event.time_s))

    def note(
        self,
        time_s: float,
        kind: EventKind,
        table: str = "",
        reason: str = "",
        public_reason: str | None = None,
        count: int = 1,
    ) -> None:
        """Something has happened; ``public_reason`` is the reason without values of rows, if that is another text."""
        told = reason if public_reason is None or not reason else public_reason
        key = (kind, table, reason)
        before = self._events.pop(key, None)
        event = EventView(time_s, kind, table, reason, told, count)
        self._events[key] = event if before is None else replace(event, count=before.count + count)
        if len(self._events) > EVENTS_KEPT:
            del self._events[next(iter(self._events))]

    def entered(self, time_s: float, before: Phase, phase: Phase, reason: str, public_reason: str) -> None:
        """The pipeline is in another phase now."""
        if phase is Phase.RUNNING:
            kind = EventKind.GOING_ON if before is Phase.WAITING else EventKind.STARTED
            self.note(time_s, kind)
        elif phase in _OF_PHASES:
            self.note(time_s, _OF_PHASES[phase], "", reason, public_reason)

    def stands(self, time_s: float, table: str, standing: Standing, reason: str, public_reason: str) -> None:
        """A table takes part in another way now."""
        is_running = standing is Standing.RUNNING
        told = ("", "") if is_running else (reason, public_reason)
        self.note(time_s, _OF_STANDINGS[standing], table, *told)
