"""The databases of JDBC catalogs: their addresses as Java writes them, how to connect, and what their errors mean.

PostgreSQL and MySQL are reached through ``psycopg`` and ``pymysql``, SQLite through Python's own library.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

_CONNECT_S = 10
_ANSWER_S = 60
_MOST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class JdbcSettings:
    """The address ``jdbc:...`` and the login."""

    uri: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @staticmethod
    def address_problem(uri: str) -> str | None:
        """Why an address cannot be used; None if it can."""
        try:
            parsed(uri)
        except ValueError as error:
            return str(error)
        return None


@dataclass(frozen=True, slots=True)
class Place:
    """Where the database is; ``hosts`` and ``ports`` are empty for a file."""

    database: str
    hosts: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Dialect:
    """One kind of database. ``connect`` gets the driver, the settings and the parameters of the address."""

    driver: str
    install: str
    """The distribution of the driver; empty for Python's own."""
    placeholder: str
    default_port: int
    parameters: Mapping[str, frozenset[str]]
    """Known parameters of an address, and the values of those that have no others."""
    lock_age: str
    """SQL for the seconds since the column ``acquired_at``."""
    connect: Callable[[Any, JdbcSettings, Place, Mapping[str, str]], Any]
    refusals: frozenset[int | str]
    """Codes, or parts of texts, of errors that stay until somebody changes the request or the database."""
    missing_table: int | str
    """The same for a statement about a table that does not exist."""


def _postgresql(driver: Any, told: JdbcSettings, place: Place, parameters: Mapping[str, str]) -> Any:
    connection = driver.connect(
        host=",".join(place.hosts),
        port=",".join(map(str, place.ports)),
        dbname=place.database,
        user=told.user,
        password=told.password,
        autocommit=True,
        connect_timeout=_CONNECT_S,
        tcp_user_timeout=_ANSWER_S * 1000,
        application_name="tidemark",
        prepare_threshold=None,  # behind a pooler, another session may get the next statement
        **{name: value for name, value in parameters.items() if name.startswith("ssl")},
    )
    session = {"statement_timeout": str(_ANSWER_S * 1000), "TimeZone": _local_zone()}
    if "currentSchema" in parameters:
        session["search_path"] = parameters["currentSchema"]
    for name, value in session.items():
        connection.execute("SELECT set_config(%s, %s, false)", (name, value))
    return connection


def _local_zone() -> str:
    """The time zone of this machine, in which Java's driver fills ``acquired_at`` too."""
    named = os.environ.get("TZ", "").removeprefix(":") or str(Path("/etc/localtime").resolve())
    is_file_elsewhere = named.startswith("/") and "zoneinfo/" not in named
    return "UTC" if is_file_elsewhere else named.rpartition("zoneinfo/")[2]


def _mysql(driver: Any, told: JdbcSettings, place: Place, parameters: Mapping[str, str]) -> Any:
    mode = _tls_mode(parameters)
    return driver.connect(
        host=place.hosts[0],
        port=place.ports[0],
        database=place.database,
        user=told.user,
        password=(told.password or "").encode(),
        autocommit=True,
        charset="utf8mb4",
        connect_timeout=_CONNECT_S,
        read_timeout=_ANSWER_S,
        write_timeout=_ANSWER_S,
        ssl=_tls(mode),
        ssl_disabled=mode == "DISABLED",
    )


def _tls_mode(parameters: Mapping[str, str]) -> str:
    """The mode of TLS, as Java's driver decides it: ``sslMode`` wins over the older parameters."""
    if "sslMode" in parameters:
        return parameters["sslMode"].upper()
    if parameters.get("useSSL", "").lower() == "false":
        return "DISABLED"
    return "REQUIRED" if parameters.get("requireSSL", "").lower() == "true" else "PREFERRED"


def _tls(mode: str) -> ssl.SSLContext | None:
    """For a mode; None lets the driver ask the server."""
    if mode in ("DISABLED", "PREFERRED"):
        return None
    context = ssl.create_default_context()
    context.check_hostname = mode == "VERIFY_IDENTITY"
    if mode == "REQUIRED":
        context.verify_mode = ssl.CERT_NONE
    return context


def _sqlite(driver: Any, told: JdbcSettings, place: Place, parameters: Mapping[str, str]) -> Any:
    return driver.connect(place.database, timeout=_ANSWER_S, isolation_level=None, check_same_thread=False)


_ANY: frozenset[str] = frozenset()
_BOOLEAN = frozenset({"true", "false"})

_DIALECTS = {
    "postgresql": Dialect(
        "psycopg",
        "psycopg[binary]",
        "%s",
        5432,
        {
            "sslmode": frozenset({"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}),
            **dict.fromkeys(("sslrootcert", "sslcert", "sslkey", "currentSchema"), _ANY),
            **dict.fromkeys(("ApplicationName", "connectTimeout", "socketTimeout", "tcpKeepAlive"), _ANY),
        },
        "EXTRACT(EPOCH FROM (LOCALTIMESTAMP - acquired_at))",
        _postgresql,
        frozenset({
            "authentication failed", "does not exist", "pg_hba.conf", "permission denied", "no password supplied",
            "does not support SSL", "no schema has been selected", "read-only", "value too long", "certificate",
        }),
        "42P01",
    ),
    "mysql": Dialect(
        "pymysql",
        "PyMySQL",
        "%s",
        3306,
        {
            "sslMode": frozenset({"disabled", "preferred", "required", "verify_ca", "verify_identity"}),
            "useSSL": _BOOLEAN,
            "requireSSL": _BOOLEAN,
            **dict.fromkeys(("useUnicode", "characterEncoding", "serverTimezone", "allowPublicKeyRetrieval"), _ANY),
            **dict.fromkeys(("connectTimeout", "socketTimeout"), _ANY),
        },
        "TIMESTAMPDIFF(SECOND, acquired_at, NOW())",
        _mysql,
        frozenset({1044, 1045, 1049, 1142, 1267, 1406, 1836, "certificate", "cryptography"}),
        1146,
    ),
    "sqlite": Dialect(
        "sqlite3",
        "",
        "?",
        0,
        {},
        "strftime('%s', 'now') - strftime('%s', acquired_at)",
        _sqlite,
        frozenset({"unable to open database file", "readonly database", "not a database"}),
        "no such table",
    ),
}  # fmt: skip

_ADDRESS = re.compile(r"jdbc:(?P<kind>[a-z0-9]+):(?P<rest>.*)", re.DOTALL)
_SERVERS = re.compile(r"//(?P<servers>[^/?]+)/(?P<database>[^/?]+)(?:\?(?P<query>.*))?")
_SERVER = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:@\[\]]+)(?::(?P<port>\d{1,5}))?")
_FORM = "jdbc:postgresql://HOST:PORT/DATABASE, jdbc:mysql://HOST:PORT/DATABASE or jdbc:sqlite:FILE"


def parsed(uri: str) -> tuple[Dialect, Place, Mapping[str, str]]:
    """The kind of database, its place, and the parameters. Raises ValueError for an address that cannot be used."""
    found = _ADDRESS.fullmatch(uri)
    dialect = None if found is None else _DIALECTS.get(found["kind"])
    if found is None or dialect is None:
        raise ValueError(f"expected the address of a database, {_FORM}")
    if not dialect.default_port:
        if not found["rest"] or found["rest"].startswith(":") or "?" in found["rest"]:
            raise ValueError("expected the path of a file behind jdbc:sqlite:")
        return dialect, Place(found["rest"].removeprefix("file:")), {}
    parts = _SERVERS.fullmatch(found["rest"])
    servers = [] if parts is None else [_SERVER.fullmatch(one) for one in parts["servers"].split(",")]
    if parts is None or None in servers or (len(servers) > 1 and found["kind"] == "mysql"):
        raise ValueError(f"expected the address of a database, {_FORM}")
    hosts = tuple(one["host"].strip("[]") for one in servers if one is not None)
    ports = tuple(int(one["port"] or dialect.default_port) for one in servers if one is not None)
    if not all(0 < port <= _MOST_PORT for port in ports):
        raise ValueError(f"a port is a number from 1 to {_MOST_PORT}")
    return dialect, Place(unquote(parts["database"]), hosts, ports), _parameters(dialect, parts["query"] or "")


def _parameters(dialect: Dialect, query: str) -> Mapping[str, str]:
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    for name, value in parameters.items():
        if name in ("user", "password"):
            raise ValueError(f"logs would show a login in the address; set `jdbc.{name}` in `options`")
        if name not in dialect.parameters:
            known = ", ".join(sorted(dialect.parameters))
            raise ValueError(f"the parameter '{name}' is not supported; known: {known}")
        values = dialect.parameters[name]
        if values and value.lower() not in values:
            raise ValueError(f"the parameter '{name}' is '{value}'; known: {', '.join(sorted(values))}")
    return parameters
