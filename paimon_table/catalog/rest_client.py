"""Requests to a server with Paimon's REST catalog API: its address, the login, and the meaning of its responses.

Implements the part of ``rest-catalog-open-api.yaml`` that a writer needs: the configuration with its merging, names in
paths, pages, the bearer token, errors. A request with an effect is sent once. After a failure of the network or a
gateway, the caller must find out whether it took effect.
"""

from __future__ import annotations

import errno
import http.client
import itertools
import json
import re
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus, urlencode

from paimon_table.errors import ConfigError, Outage, SinkUnavailable, UnsupportedFeature
from paimon_table.patience import Patience

HEADER_PREFIX = "header."
"""Options with this prefix are headers of each request."""

TABLE_DEFAULT_PREFIX = "table-default."
"""Options with this prefix are options of new tables."""

_DATA_TOKENS = "data-token.enabled"
_TIMEOUT_S = 60.0
_MOST_BYTES = 64 << 20
_PATIENCE = Patience(0.1, 5.0, retries=2)
_BUSY = (429, 503)
_UNREADABLE = None
"""The value for a body that is not a JSON object."""
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class RestSettings:
    """The address of the server, and the settings of requests."""

    uri: str
    warehouse: str
    token: Callable[[], str | None] = field(repr=False, default=lambda: None)
    """Returns the current bearer token."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options of the catalog; the server's options complete and override them."""
    timeout_s: float = _TIMEOUT_S
    sleep_s: Callable[[float], None] = time.sleep

    @staticmethod
    def is_header(option: str) -> bool:
        """Whether an option is a header of each request, not an option of the storage."""
        return option.startswith(HEADER_PREFIX)

    @staticmethod
    def is_spoiled_header(option: str) -> bool:
        """Whether an option has the prefix of headers, but its rest is not a valid header name."""
        return RestSettings.is_header(option) and not _HEADER_NAME.fullmatch(option.removeprefix(HEADER_PREFIX))


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and JSON of a response: success (2xx), missing (404) or already present (409)."""

    status: int
    body: Mapping[str, Any]

    @property
    def is_found(self) -> bool:
        return self.status not in (404, 409)

    def lacks(self, kind: str) -> bool:
        """Whether the server lacks the resource itself, and not its parent."""
        return self.status == 404 and self.body.get("resourceType") == kind


class Unanswered(Outage):
    """A request with an effect got no response: the server may have done it, or may still do it.

    A retry must check first, and until then delete nothing that the request names.
    """


class _NotSent(Exception):
    """There was no connection, so the request had no effect."""


class RestClient:
    """The client of one server. Threads may share it."""

    def __init__(self, settings: RestSettings) -> None:
        self._settings = settings
        self._uri = settings.uri.rstrip("/")
        self._lock = threading.Lock()
        self._options: Mapping[str, str] | None = None
        self._opener = urllib.request.build_opener(_NoRedirects())

    @property
    def place(self) -> str:
        """The name of the catalog in messages."""
        return f"{self._settings.warehouse} at {self._uri}"

    @property
    def options(self) -> Mapping[str, str]:
        """The options of the catalog, merged: defaults of the server, options of the file, overrides of the server."""
        with self._lock:
            if self._options is None:
                self._options = self._merged_options()
            return self._options

    def get(self, *path: str, **query: str) -> Answer:
        """Send a GET request; retries if the server is busy or a connection breaks. Raises Outage and other
        SinkUnavailable."""
        address = self._address(path, query)
        for failures in itertools.count(1):
            wait_s, asked_s = _PATIENCE.wait_s(failures), None
            try:
                status, asked_s, body = self._send("GET", address, None)
            except (_NotSent, OSError, http.client.HTTPException) as error:
                if wait_s is None or isinstance(error, _NotSent):
                    raise self._no_answer(error) from None
            else:
                if wait_s is None or status not in _BUSY:
                    return self._judged(status, body, f"GET {address}")
            self._settings.sleep_s(min(asked_s or wait_s, _PATIENCE.max_wait_s))
        raise AssertionError("unreachable")

    def pages(self, key: str, *path: str) -> Iterator[Any]:
        """The items of a list, page by page; none if the list does not exist."""
        query: dict[str, str] = {}
        while True:
            answer = self.get(*path, **query)
            if not answer.is_found:
                return
            items = answer.body.get(key) or []
            yield from items
            token = answer.body.get("nextPageToken")
            if not token or not items:
                return
            query = {"pageToken": str(token)}

    def post(self, body: Mapping[str, Any], *path: str) -> Answer:
        """Send once. Raises Unanswered if the request may have taken effect; otherwise as ``get``."""
        return self._once("POST", path, body)

    def delete(self, *path: str) -> Answer:
        """As ``post``."""
        return self._once("DELETE", path, None)

    def _once(self, method: str, path: tuple[str, ...], body: Mapping[str, Any] | None) -> Answer:
        address = self._address(path, {})
        try:
            status, _, answer = self._send(method, address, body)
        except _NotSent as error:
            raise self._no_answer(error) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._unclear(method, address, _words(error)) from None
        if _is_no_answer(status, answer):
            raise self._unclear(method, address, f"status {status}, {_message(answer)}")
        return self._judged(status, answer, f"{method} {address}")

    # ------------------------------------------------------------ one request

    def _address(self, path: tuple[str, ...], query: Mapping[str, str]) -> str:
        """``path`` below the server's prefix, with each part encoded as in Java."""
        prefix = self.options.get("prefix")
        parts = [*([] if not prefix else [prefix]), *path]
        text = "/v1/" + "/".join(quote_plus(part) for part in parts)
        return f"{text}?{urlencode(query)}" if query else text

    def _send(self, method: str, address: str, body: Mapping[str, Any] | None) -> tuple[int, float | None, Any]:
        """Status, the wait that the server requests, and the JSON; raises errors of the network."""
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        options = self._options or self._settings.options
        headers = {"Accept": "application/json", "User-Agent": "tidemark"}
        headers |= {n.removeprefix(HEADER_PREFIX): v for n, v in options.items() if n.startswith(HEADER_PREFIX)}
        if data is not None:
            headers["Content-Type"] = "application/json"
        token = self._settings.token()
        if token is not None:
            headers["Authorization"] = f"Bearer {token.strip()}"
        if not all(
            _HEADER_NAME.fullmatch(name) and text.isascii() and text.isprintable() for name, text in headers.items()
        ):
            raise ConfigError(
                "catalog.token or an option header.* has characters that a header cannot have, such as a line break: "
                "copy it again"
            )
        request = urllib.request.Request(self._uri + address, data, headers, method=method)
        try:
            with self._opener.open(request, timeout=self._settings.timeout_s) as answer:
                data = answer.read(_MOST_BYTES)
                if answer.length:
                    raise http.client.IncompleteRead(data, answer.length)
                return int(answer.status), None, _parsed(data)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _seconds(error.headers.get("Retry-After")), _parsed(error.read(_MOST_BYTES))
        except urllib.error.URLError as error:
            reason = error.reason if isinstance(error.reason, Exception) else OSError(str(error.reason))
            if _was_not_sent(reason):
                raise _NotSent(_words(reason)) from None
            raise reason from None

    def _merged_options(self) -> Mapping[str, str]:
        address = f"/v1/config?{urlencode({'warehouse': self._settings.warehouse})}"
        try:
            status, _, body = self._send("GET", address, None)
        except (_NotSent, OSError, http.client.HTTPException) as error:
            raise self._no_answer(error) from None
        answer = self._judged(status, {} if body is _UNREADABLE else body, f"GET {address}")
        known = answer.body.get("defaults"), answer.body.get("overrides")
        if not answer.is_found or not any(isinstance(options, Mapping) for options in known):
            has_words = status == 404 and "message" in answer.body
            why = (
                f"it has no warehouse {self._settings.warehouse!r}" if has_words else "it is not a Paimon REST catalog"
            )
            raise ConfigError(
                f"catalog server {self._uri} does not answer GET /v1/config as expected (status {status}): {why}; "
                "check catalog.uri and catalog.warehouse"
            )
        defaults, overrides = (dict(options) if isinstance(options, Mapping) else {} for options in known)
        merged = {**defaults, **self._settings.options, **overrides}
        options = {str(name): str(value) for name, value in merged.items() if value is not None}
        if options.get(_DATA_TOKENS, "").lower() == "true":
            raise UnsupportedFeature(
                f"catalog server {self._uri} issues storage credentials for each table ({_DATA_TOKENS}), which "
                "Tidemark does not support. Ask its administrator to set the option to false for this warehouse, and "
                "set access to the storage under catalog.options (s3.*)"
            )
        return options

    # ------------------------------------------------------------ what answers mean

    def _judged(self, status: int, body: Any, what: str) -> Answer:
        """The response for success, 404 and 409; raises an error for every other status."""
        message = _message(body)
        if _is_no_answer(status, body):
            raise Outage(f"catalog server {self._uri} does not answer ({what}: status {status}, {message})")
        if 200 <= status < 300 or status in (404, 409):
            return Answer(status, body)
        if status in (401, 403):
            why = "rejects the token" if status == 401 else "denies the token access"
            raise SinkUnavailable(
                f"catalog server {self._uri} {why} ({what}: status {status}, {message}); check catalog.token and its "
                "permissions on the server"
            )
        if 300 <= status < 400:
            raise ConfigError(f"catalog server {self._uri} redirects {what}; set catalog.uri to the target address")
        if status in (405, 406, 501):
            raise UnsupportedFeature(f"catalog server {self._uri} cannot do this ({what}: status {status}, {message})")
        raise ConfigError(f"catalog server {self._uri} refuses {what} (status {status}): {message}")

    def _no_answer(self, error: Exception) -> Outage:
        return Outage(
            f"catalog server {self._uri} does not answer ({_words(error)}); start it, or check catalog.uri"
        ).without_values()

    def _unclear(self, method: str, address: str, why: str) -> Unanswered:
        return Unanswered(
            f"catalog server {self._uri} did not confirm {method} {address} ({why}); once the server answers, Tidemark "
            "checks whether the request took effect, and repeats it if not"
        )


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, because the token is for this server alone."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _is_no_answer(status: int, body: Any) -> bool:
    """Whether a response proves nothing: it may come from a gateway, and the server may still do the request.

    A gateway responds with its own statuses, or with a page instead of JSON.
    """
    if status in (408, 429) or (status >= 500 and status != 501):
        return True
    return body is _UNREADABLE and (200 <= status < 300 or status in (404, 409))


def _parsed(data: bytes) -> Any:
    if not data.strip():
        return {}
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return _UNREADABLE
    return body if isinstance(body, dict) else _UNREADABLE


def _message(body: Any) -> str:
    """The server's message, shortened and without line breaks; nothing of a body that is not JSON."""
    if body is _UNREADABLE:
        return "the answer is not that of a REST catalog"
    text = body.get("message") if isinstance(body, Mapping) else None
    return " ".join(str(text).split())[:500] if text else "no reason given"


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdigit() else None


def _was_not_sent(error: Exception) -> bool:
    """Whether the connection failed, so that the server has not seen the request."""
    kinds = ConnectionRefusedError | socket.gaierror | ssl.SSLCertVerificationError
    return isinstance(error, kinds) or getattr(error, "errno", None) in (errno.EHOSTUNREACH, errno.ENETUNREACH)


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
