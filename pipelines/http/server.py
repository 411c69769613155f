"""The HTTP server of a run: it takes its port before anything else starts, and answers on a separate thread."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from paimon_table.errors import ConfigError, SinkUnavailable

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_MOST_CONNECTIONS = 64
_END_S = 3


def listening(block: str, host: str, port: int) -> socket.socket:
    """A listening socket. Its errors name ``block`` and the remedy.

    Raises SinkUnavailable for a port that is taken, which may be free at the next try; ConfigError for a wrong host or
    port.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise ConfigError(f"{block}.host: {host} is not an address of this machine ({error.strerror})") from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        refusal = SinkUnavailable if error.errno == errno.EADDRINUSE else ConfigError
        raise refusal(_refusal(block, host, port, error)) from error
    return listener


def _refusal(block: str, host: str, port: int, error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return (
                f"{block}.port: another process listens on port {port} of {host}; choose another port in the file, or"
                " stop that process"
            )
        case errno.EADDRNOTAVAIL:
            return f"{block}.host: {host} is not an address of this machine; 0.0.0.0 means all addresses"
        case errno.EACCES:
            return f"{block}.port: this user is not allowed to listen on port {port}; choose a port above 1023"
        case _:
            return f"{block}: cannot listen on port {port} of {host}: {error.strerror}"


@contextmanager
def served(app: ASGIApp, listener: socket.socket, name: str) -> Iterator[None]:
    """Answer requests at ``listener`` during the block."""
    import uvicorn

    from pipelines.http.patience import PatientProtocol

    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=PatientProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(_END_S)
        listener.close()
