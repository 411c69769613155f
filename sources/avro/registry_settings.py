"""The settings of a schema registry in a pipeline file, as a plain value that travels with decode tasks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

from sources.format_options import option_of_form

_URI = re.compile(r"(?!file:/)[A-Za-z][A-Za-z0-9+.-]+:/")
_LONGEST_TIMEOUT = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """One registry. Secrets are never part of its text."""

    url: tuple[str, ...] = option_of_form(
        "texts",
        (),
        "Address of a registry with Confluent's REST API (Confluent, Karapace, Redpanda; Apicurio under "
        "`/apis/ccompat/v7`), or a list of addresses. If one does not answer, Tidemark tries the next.",
    )
    file: str | None = option_of_form(
        "location",
        None,
        'Instead of `url`: a JSON file `{"schemas": {"1": ...}}`, or a directory with a file per schema, such as'
        " `1.avsc`. Every machine that decodes needs access to it.",
    )
    username: str | None = option_of_form("text", None, "User of basic authentication.")
    password: str | None = option_of_form("secret", None, "Password of the user, such as `${env:REGISTRY_PASSWORD}`.")
    token: str | None = option_of_form("secret", None, "Bearer token, such as `${env:REGISTRY_TOKEN}`.")
    ca: str | None = option_of_form(
        "location",
        None,
        "File with the certificates (PEM) of the authority that signs the registry's certificate, "
        "instead of the system's.",
    )
    certificate: str | None = option_of_form(
        "location", None, "File with Tidemark's own certificate (PEM), if the registry asks for one."
    )
    key: str | None = option_of_form(
        "location", None, "File with the key of `certificate`, if it is not in the same file."
    )
    proxy: str | None = option_of_form(
        "secret",
        None,
        "Address of an HTTP proxy, or `none`. By default the environment variables `https_proxy`, `http_proxy` "
        "and `no_proxy` decide.",
    )
    timeout: timedelta = option_of_form(  # noqa: RUF009  a field, as those above
        "duration", timedelta(seconds=10), "The time limit for one response, at most 5m."
    )

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.file or " or ".join(map(without_login, self.url))


def without_login(url: str) -> str:
    """An address without user and password."""
    scheme, mark, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{mark}{authority.rpartition('@')[2]}{slash}{path}"


def settings_problem(settings: RegistrySettings) -> tuple[str, str] | None:
    """The option at fault and the fault of the settings together; None if there is none."""
    given = [name for name in ("username", "password", "token", "ca", "certificate", "key", "proxy")
             if getattr(settings, name) is not None]  # fmt: skip
    if bool(settings.url) == (settings.file is not None):
        return "", "give exactly one of `url` and `file`"
    if settings.file is not None and _URI.match(settings.file):
        return "file", f"'{settings.file}' is not a local path; every machine that decodes needs the file at one"
    if settings.file is not None and given:
        return given[0], f"`{given[0]}` has no effect with `file`; remove it"
    for url in settings.url:
        problem = _url_problem(url)
        if problem is not None:
            return "url", problem
    if settings.token is not None and settings.username is not None:
        return "token", "give either `token` or `username` and `password`"
    if (settings.username is None) != (settings.password is None):
        return "username" if settings.username is None else "password", "give `username` and `password` together"
    if settings.key is not None and settings.certificate is None:
        return "key", "`key` has no effect without `certificate`"
    if settings.timeout > _LONGEST_TIMEOUT:
        return "timeout", "an answer may take at most 5m"
    tls = next((name for name in ("ca", "certificate") if name in given), None)
    if tls is not None and not any(url.startswith("https://") for url in settings.url):
        return tls, f"`{tls}` has no effect: no address begins with https://"
    if settings.proxy not in (None, "none") and not (settings.proxy or "").startswith(("http://", "https://")):
        return "proxy", "a proxy is given as http://HOST:PORT, or `none`"
    return None


def _url_problem(url: str) -> str | None:
    scheme, mark, rest = url.partition("://")
    authority = rest.partition("/")[0]
    if scheme not in ("http", "https") or not mark or not authority or any(c.isspace() or ord(c) < 33 for c in url):
        return f"'{without_login(url)}' is not an address of a registry; write https://HOST:PORT"
    if "@" in authority:
        return "an address holds no user and password: give `username` and `password`"
    port = authority.rpartition(":")[2] if ":" in authority.rpartition("]")[2] else ""
    if ":" in authority.rpartition("]")[2] and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        return f"'{url}': ports are 1 to 65535"
    return "an address of a registry has no `?` and no `#`" if "?" in url or "#" in url else None
