"""Asks a registry of schemas over HTTP, in Confluent's REST API.

    GET /schemas/ids/7           {"schema": "...", "schemaType": "AVRO", "references": [...]}
    GET /schemas/guids/GUID      the same
    ...?format=serialized        of Protocol Buffers the descriptor in base64, in place of the text
    404 with error_code 404xx    the registry does not know the name

Apicurio has ids that its Confluent-compatible API does not know (``globalId``): the client asks for them in Apicurio's
own API. A failure may be transient: the client tries the other addresses, then an Outage makes the batch wait.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from paimon_table.errors import ConfigError, MalformedRecord, Outage, TidemarkError
from sources.avro.framing import RefKind, SchemaRef
from sources.avro.registry_settings import RegistrySettings, without_login

_ACCEPTED = "application/vnd.schemaregistry.v1+json, application/json"
_MOST_TOLD = 200
_MOST_BYTES = 16 << 20
_BLOCK_BYTES = 1 << 16
_MOST_REFERENCES = 200
_NO_SUCH_PATH = "NotFoundException"
"""Apicurio's error code for unknown ids."""
_APICURIO = re.compile(r"/apis/ccompat/v\d+$")


@dataclass(frozen=True, slots=True)
class Found:
    """The text of a schema, its type, and the names and texts of the schemas that it refers to, innermost first."""

    text: str
    kind: str = "AVRO"
    references: tuple[tuple[str, str], ...] = ()


class _Failed(Exception):
    """One address did not answer as a registry does; another address may."""


class RegistryClient:
    """One registry, which may have several addresses."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._urls = [url.rstrip("/") for url in settings.url]
        self._timeout_s = settings.timeout.total_seconds()
        self._headers = {"Accept": _ACCEPTED, "User-Agent": "tidemark"}
        login = _authorization(settings)
        self._login = {} if login is None else {"Authorization": login}
        self._opener = urllib.request.build_opener(*_handlers(settings))

    def find(self, ref: SchemaRef, form: str) -> Found:
        """The text of a schema in a form of the registry; "" is the registry's own form.

        Raises MalformedRecord if the registry does not know the schema, Outage if no address answers, ConfigError if
        the registry refuses the settings.
        """
        if ref.kind is RefKind.GLOBAL_ID and _APICURIO.search(self._urls[0]):
            # In its own form, a schema may include the schemas that it refers to.
            whole = "" if form else "?dereference=true"
            return Found(self._ask(ref, f"/ids/globalIds/{ref.value}{whole}", is_native=True), "")
        word = "guids" if ref.kind is RefKind.GUID else "ids"
        asked = f"?format={form}" if form else ""
        answer = _object(self._ask(ref, f"/schemas/{word}/{ref.value}{asked}"))
        references = tuple(self._referenced(ref, answer, asked, []))
        return Found(str(answer.get("schema")), str(answer.get("schemaType") or "AVRO"), references)

    def _referenced(
        self, ref: SchemaRef, answer: Mapping[str, Any], asked: str, seen: list[str]
    ) -> Iterator[tuple[str, str]]:
        """The schemas that one refers to, each after those that it refers to itself."""
        for reference in answer.get("references") or ():
            if not isinstance(reference, Mapping):
                continue
            path = f"/subjects/{quote(str(reference.get('subject')), safe='')}/versions/{reference.get('version')}"
            if path in seen:
                continue
            seen.append(path)
            if len(seen) > _MOST_REFERENCES:
                raise MalformedRecord(f"{ref} refers to more than {_MOST_REFERENCES} others")
            inner = _object(self._ask(ref, path + asked))
            yield from self._referenced(ref, inner, asked, seen)
            yield str(reference.get("name")), str(inner.get("schema"))

    def _ask(self, ref: SchemaRef, path: str, *, is_native: bool = False) -> str:
        """The answer of the first address that gives one."""
        failures: list[str] = []
        for index, url in enumerate(self._urls):
            base = _APICURIO.sub("/apis/registry/v2", url) if is_native else url
            try:
                text = self._answer(ref, base, path)
                if not is_native and "schema" not in _object(text):
                    raise _Failed("the answer is not one of a registry")
            except _Failed as error:
                failures.append(f"{without_login(url)}: {error}")
                continue
            # From now on, the address that answered is the first choice.
            self._urls.insert(0, self._urls.pop(index))
            return text
        told = "; ".join(failures)
        raise Outage(
            f"no schema registry answers ({told}): Tidemark retries {ref}; if this lasts, check `registry.url`"
        )

    def _answer(self, ref: SchemaRef, base: str, path: str) -> str:
        request = urllib.request.Request(base + path, headers=self._headers)
        for name, value in self._login.items():
            request.add_unredirected_header(name, value)
        deadline = time.monotonic() + self._timeout_s
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                return _body(answer, deadline)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(ref, base, error, deadline) from None
        except urllib.error.URLError as error:
            raise _of_connection(base, error.reason) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _of_connection(base, error) from None

    def _refusal(
        self, ref: SchemaRef, base: str, error: urllib.error.HTTPError, deadline: float
    ) -> TidemarkError | _Failed:
        place, code = without_login(base), error.code
        try:
            body = _body(error, deadline)
        except (OSError, http.client.HTTPException, _Failed):
            body = ""
        if code == 404 and _is_unknown(body, is_native=ref.kind is RefKind.GLOBAL_ID):
            return MalformedRecord(f"{ref} does not exist in registry {place}")
        if code == 404 and ref.kind is RefKind.GUID:
            return ConfigError(
                f"registry {place} cannot look up the GUIDs in the headers of the records: use one "
                "that can, or let the producer write ids"
            )
        if code == 404:
            return ConfigError(
                f"{place} is not a schema registry (404 for {ref}, without its error_code): check registry.url;"
                " Apicurio needs /apis/ccompat/v7 after its address"
            ).without_values()
        if code in (401, 403):
            return ConfigError(
                f"registry {place} refuses the login ({code}): check username and password, or token, under registry"
            ).without_values()
        if code in (400, 422):
            return MalformedRecord(f"registry {place} refuses {ref} ({code}{_told(body)})")
        if code == 407:
            return ConfigError("the proxy of the registry refuses the login (407): check registry.proxy")
        return _Failed(f"status {code}")


def _authorization(settings: RegistrySettings) -> str | None:
    if settings.token is not None:
        return f"Bearer {settings.token}"
    if settings.username is None:
        return None
    login = f"{settings.username}:{settings.password}".encode()
    return f"Basic {base64.b64encode(login).decode('ascii')}"


def _handlers(settings: RegistrySettings) -> list[urllib.request.BaseHandler]:
    handlers: list[urllib.request.BaseHandler] = [urllib.request.HTTPSHandler(context=_tls(settings))]
    if settings.proxy is not None:
        proxies = {} if settings.proxy == "none" else dict.fromkeys(("http", "https"), settings.proxy)
        handlers.append(urllib.request.ProxyHandler(proxies))
    return handlers


def _tls(settings: RegistrySettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"registry.ca {settings.ca} cannot be used: {error.strerror or error}") from error
    if settings.certificate is not None:
        try:
            context.load_cert_chain(settings.certificate, settings.key)
        except (OSError, ssl.SSLError) as error:
            place = settings.certificate
            raise ConfigError(f"registry.certificate {place} cannot be used: {error.strerror or error}") from error
    return context


def _body(answer: Any, deadline: float) -> str:
    """The text of an answer, which must end before the deadline."""
    blocks: list[bytes] = []
    size = 0
    while block := answer.read1(_BLOCK_BYTES):
        blocks.append(block)
        size += len(block)
        if size > _MOST_BYTES:
            raise _Failed(f"its answer has more than {_MOST_BYTES >> 20} MB")
        if time.monotonic() > deadline:
            raise _Failed("its answer takes too long")
    try:
        return b"".join(blocks).decode("utf-8")
    except UnicodeDecodeError:
        raise _Failed("its answer is not UTF-8") from None


def _object(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise _Failed("its answer is not JSON") from None
    if not isinstance(found, Mapping):
        raise _Failed("its answer is not a JSON object")
    return found


def _told(body: str) -> str:
    """The registry's words about a refusal; they may be about the schema, not about its name."""
    try:
        message = _object(body).get("message")
    except _Failed:
        return ""
    return f": {' '.join(message.split())[:_MOST_TOLD]}" if isinstance(message, str) else ""


def _is_unknown(body: str, is_native: bool) -> bool:
    """Whether a 404 is about the name, not the address: only Apicurio's own API sends a plain 404 for names."""
    try:
        answer = _object(body)
    except _Failed:
        return False
    code = answer.get("error_code", answer.get("status"))
    if is_native and answer.get("name") == _NO_SUCH_PATH:
        return False
    return isinstance(code, int) and (40400 < code < 40500 or (is_native and code == 404))


def _of_connection(base: str, reason: object) -> TidemarkError | _Failed:
    """The meaning of a failed connection: a user must fix certificates, all other failures may be transient."""
    if isinstance(reason, ssl.SSLCertVerificationError):
        return ConfigError(
            f"the certificate of registry {without_login(base)} is not trusted ({reason.verify_message}): name the"
            " authority's certificate as registry.ca, or use the host name in the certificate"
        ).without_values()
    if isinstance(reason, TimeoutError):
        return _Failed("no answer in time")
    return _Failed(getattr(reason, "strerror", None) or str(reason) or type(reason).__name__)
