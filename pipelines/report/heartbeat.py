"""When to report that nothing happens, or that a batch takes long: often at first, then at most every five minutes."""

from __future__ import annotations

FIRST_IDLE_S = 60.0
FIRST_WORKING_S = 10.0
LONGEST_S = 300.0


class Heartbeat:
    """Lines that one pipeline logs unasked. Times are readings of one monotonic clock, in seconds."""

    def __init__(self, now_s: float) -> None:
        self._since_s = now_s
        self._batch_id: int | None = None
        self._had_batches = False
        self._next_s = FIRST_WORKING_S

    def moved(self, now_s: float, batch_id: int | None) -> None:
        """Something happened: batch ``batch_id`` began, or with None the last one that ran is done."""
        self._since_s, self._batch_id, self._had_batches = now_s, batch_id, True
        self._next_s = FIRST_IDLE_S if batch_id is None else FIRST_WORKING_S

    def due(self, now_s: float, is_busy_beside: bool = False, is_source_silent: bool = False) -> str | None:
        """The line to print now, if one is due; none between batches while the source is silent, which it reports."""
        waited_s = now_s - self._since_s
        is_idle = self._batch_id is None and self._had_batches
        if waited_s < self._next_s or (is_idle and is_source_silent and not is_busy_beside):
            return None
        self._next_s = waited_s + (LONGEST_S if is_idle else min(waited_s, LONGEST_S))
        return self.now(now_s, is_busy_beside, is_source_silent)

    def now(self, now_s: float, is_busy_beside: bool = False, is_source_silent: bool = False) -> str:
        """The current work; ``is_busy_beside``: batches wait for other work of the pipeline."""
        waited = duration_words(now_s - self._since_s)
        if not self._had_batches:
            return f"no batch yet, {waited} since the start"
        if self._batch_id is None:
            said = "the source does not answer, no batch" if is_source_silent else "idle, nothing new"
            said = "busy alongside the stream, no batch" if is_busy_beside else said
            return f"{said} for {waited}"
        return f"still working on batch {self._batch_id}, {waited}"


def duration_words(seconds: float) -> str:
    """``45 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(int(seconds // 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
