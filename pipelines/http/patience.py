"""How long a server waits for a request that has begun, so that slow clients do not block others."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S = 10.0
"""A request that is incomplete, or has not begun, after this time, or twice this time at most, is dropped."""


class PatientProtocol(H11Protocol):
    """HTTP/1.1 over one connection, which is closed if the client is too slow.

    Uvicorn waits without limit for the first request, for the rest of one, and for clients that do not read the answer.
    The duration of an answer has no limit.
    """

    _was_full = False
    """Whether nothing more could be sent at the last check."""

    _awaited: tuple[object] | None = None
    """The request cycle that the server waited for at the last check, in a tuple; None: it waited for none."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(REQUEST_S, self._look)

    def _look(self) -> None:
        if self.transport.is_closing():
            return
        is_waiting = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        was_full, self._was_full = self._was_full, self.flow.write_paused
        if was_full and self._was_full:
            self.transport.abort()
            return
        before = self._awaited
        self._awaited = (self.cycle,) if is_waiting else None
        if before is not None and self._awaited is not None and before[0] is self._awaited[0]:
            self.transport.abort()
            return
        self.loop.call_later(REQUEST_S, self._look)
