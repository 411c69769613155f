"""Dump files that cannot be read to their end: cut short, or still being written. Nothing shows which."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sources.dumps.dump_file import FilePosition, Rest

log = logging.getLogger(__name__)

_CALM_S = 60.0
"""If a remainder stays at the same position in a file for this long, it is logged: the file seems to have no writer."""
_REMEDY = "replace it with the whole file, or let its writer finish it; Tidemark then reads the rest"


@dataclass(slots=True)
class _Seen:
    position: FilePosition
    rest: Rest
    since_s: float
    is_told: bool = False


class UnfinishedFiles:
    """The files with an unread remainder, as the planner meets them; each is logged once."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._seen: dict[str, _Seen] = {}

    @property
    def words(self) -> Sequence[str]:
        """The unread parts with the reasons, one per file."""
        return [_words(path, seen.position, seen.rest) for path, seen in sorted(self._seen.items())]

    def look(self, path: str, position: FilePosition, rest: Rest) -> None:
        """Record a file of which all whole lines before ``position`` were read."""
        if rest is Rest.NONE:
            self._seen.pop(path, None)
            return
        seen = self._seen.setdefault(path, _Seen(position, rest, self._now()))
        if (seen.position.bytes, seen.rest) != (position.bytes, rest):
            seen.position, seen.rest, seen.since_s = position, rest, self._now()
        elif not seen.is_told and self._now() - seen.since_s >= _CALM_S:
            seen.is_told = True
            log.warning("%s", _words(path, position, rest))


def _words(path: str, position: FilePosition, rest: Rest) -> str:
    if rest is Rest.LINE:
        return f"{path}: its last line, from byte {position.bytes:,} on, is incomplete and was not read; {_REMEDY}"
    lines = f"nothing after line {position.records:,}" if position.records else "nothing"
    return f"{path}: its compressed stream is incomplete, and {lines} could be read; {_REMEDY}"
