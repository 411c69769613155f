"""A schema registry over HTTP with Confluent's REST API, which can fail in the ways that registries and networks do."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

_JSON = "application/vnd.schemaregistry.v1+json"
_UNKNOWN = (404, {"error_code": 40403, "message": "Schema not found"})


@dataclass
class RegistryServer:
    """The content and behaviour of the server; both may change while it runs."""

    schemas: dict[str, Any] = field(default_factory=dict)
    """By id or GUID: a schema, or a whole answer (a mapping with ``schema`` as text)."""
    subjects: dict[tuple[str, int], str] = field(default_factory=dict)
    """The texts of subjects by version."""
    global_ids: dict[str, Any] = field(default_factory=dict)
    """Schemas of Apicurio's own API."""
    prefix: str = ""
    failure: str | None = None
    """A status as text, ``slow``, ``wrong JSON``, ``text``, ``cut`` or ``redirect``."""
    login: str | None = None
    """The header Authorization that requests must have."""
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    """Paths asked for, and the Authorization sent with them."""
    port: int = 0
    elsewhere: str = ""
    """Where redirects lead."""

    def url(self, scheme: str = "http") -> str:
        return f"{scheme}://127.0.0.1:{self.port}{self.prefix}"

    def answer(self, path: str) -> tuple[int, Any]:
        """Status and body of a request that is let in."""
        parts = [unquote(part) for part in path.partition("?")[0].removeprefix(self.prefix).strip("/").split("/")]
        match parts:
            case ["schemas", "ids" | "guids", name] if path.startswith(self.prefix):
                found = self.schemas.get(name)
                return (
                    (404, {"error_code": 40403, "message": "Schema not found"})
                    if found is None
                    else (200, _said(found))
                )
            case ["subjects", subject, "versions", version] if (subject, int(version)) in self.subjects:
                return 200, {"subject": subject, "schema": self.subjects[subject, int(version)]}
            case ["apis", "registry", "v2", "ids", "globalIds", name]:
                found = self.global_ids.get(name)
                return (404, {"error_code": 404, "message": "No artifact"}) if found is None else (200, found)
            case _:
                return 404, "<html>nothing here</html>"


def _said(found: Any) -> Any:
    is_answer = isinstance(found, Mapping) and isinstance(found.get("schema"), str)
    return found if is_answer else {"schema": json.dumps(found)}


@contextmanager
def running_registry(server: RegistryServer, certificate: Path | None = None) -> Iterator[RegistryServer]:
    """Run the server for the length of the block; with ``certificate`` (PEM with its key) over TLS."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 20

        def do_GET(self) -> None:
            server.requests.append((self.path, self.headers["Authorization"]))
            if server.failure is not None and not server.failure.isdigit():
                self._fail(server.failure)
            elif server.failure is not None:
                self._send(int(server.failure), {"error_code": int(server.failure) * 100 + 1, "message": "down"})
            elif server.login is not None and self.headers["Authorization"] != server.login:
                self._send(401, {"error_code": 401, "message": "Unauthorized"})
            else:
                # Requests by way of a proxy have whole addresses.
                path = self.path.partition("://")[2].partition("/")[2] if "://" in self.path else self.path[1:]
                self._send(*server.answer("/" + path))

        def _fail(self, how: str) -> None:
            match how:
                case "slow":
                    self.send_response(200)
                    self.end_headers()
                    for _ in range(50):
                        self.wfile.write(b" ")
                        self.wfile.flush()
                        time.sleep(0.1)
                case "wrong JSON":
                    self._send(200, {"version": 1})
                case "text":
                    self._send(200, "<html>sign in</html>")
                case "cut":
                    self.send_response(200)
                    self.send_header("Content-Length", "1000")
                    self.end_headers()
                    self.wfile.write(b'{"schema": ')
                case "redirect":
                    self.send_response(302)
                    self.send_header("Location", server.elsewhere + self.path)
                    self.end_headers()

        def _send(self, status: int, body: Any) -> None:
            data = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(status)
            self.send_header("Content-Type", _JSON)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def handle(self) -> None:
            with suppress(ConnectionError, ssl.SSLError):  # the client has gone, on purpose
                super().handle()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    with Server(("127.0.0.1", 0), Handler) as http:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            http.socket = context.wrap_socket(http.socket, server_side=True)
        server.port = http.server_address[1]
        thread = threading.Thread(target=http.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
