"""Access rules of the page: only under its own names, only from its own pages, and with the token where required.

Another site open in the browser cannot use the page: its requests have its own ``Origin``. If it has pointed its name
at this machine (DNS rebinding), they have that name.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ALWAYS = ("localhost", "127.0.0.1", "[::1]")

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Guard:
    """The names of the page, and its token."""

    hosts: frozenset[str]
    token: str = field(repr=False)

    @staticmethod
    def of(host: str, hosts: Collection[str], token: str) -> Guard:
        """``host`` is the address to listen on, ``hosts`` are further names."""
        own = f"[{host}]" if ":" in host else host
        return Guard(frozenset(name.lower() for name in (*ALWAYS, own, *hosts)), token)

    def refusal(self, method: str, headers: Headers) -> tuple[int, str] | None:
        """Why a request is refused, whatever its path."""
        host, *more = headers.getlist("host") or [""]
        if more or host_name(host) not in self.hosts:
            return 421, "the page does not accept this host name; add it to ui.hosts in the pipeline file"
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return 403, "requests from other sites are refused"
        # Links from other sites open the page; their forms are refused.
        is_link = method in ("GET", "HEAD") and headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not is_link:
            return 403, "requests from other sites are refused"
        return None

    def has_token(self, headers: Headers) -> bool:
        """Whether the request carries the token."""
        kind, _, given = headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self.token.encode())


def host_name(host: str) -> str:
    """The name in a ``Host`` header without its port; empty for anything but host and port."""
    found = _HOST.fullmatch(host)
    return "" if found is None else found[1].lower()


class Guarded:
    """The guarded application; headers of its answers restrict what browsers do with them."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *own]}
            await send(message)

        refusal = self._guard.refusal(scope["method"], Headers(scope=scope))
        answer = self._app if refusal is None else JSONResponse({"error": refusal[1]}, refusal[0])
        await answer(scope, receive, with_headers)
