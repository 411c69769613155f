"""The database of a JDBC catalog: its address as Java writes it, one connection, and the meaning of its errors.

PostgreSQL and MySQL are reached through ``psycopg`` and ``pymysql``, SQLite through Python's own library. Each
statement is a transaction, as in Java's catalog.
"""

from __future__ import annotations

import importlib
import re
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn
from urllib.parse import parse_qsl, unquote

from paimon_table.errors import ConfigError, Outage, SinkUnavailable

_CONNECT_S = 10
_ANSWER_S = 60
_MOST_CONNECTIONS = 4
"""To a server; a file has one writer at a time."""

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Dialect:
    """One kind of database. ``connect`` gets the driver, the settings and the parameters of the address."""

    driver: str
    install: str
    """The distribution of the driver; empty for Python's own."""
    placeholder: str
    default_port: int
    parameters: Mapping[str, str | None]
    """Known parameters of an address, with the driver's name for each; None for those without a meaning here."""
    now_minus_then: str
    """The seconds since the column ``acquired_at``."""
    connect: Callable[[Any, JdbcSettings, _Place, Mapping[str, str]], Any]
    refusals: frozenset[int | str]
    """Codes, or parts of the text, of connections that are refused until somebody changes the request."""
    missing_table: int | str
    """The same for a statement about a table that does not exist."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the database is; ``hosts`` and ``ports`` are empty for a file."""

    database: str
    hosts: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()


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
            _parsed(uri)
        except ValueError as error:
            return str(error)
        return None


def _postgresql(driver: Any, told: JdbcSettings, place: _Place, parameters: Mapping[str, str]) -> Any:
    schema = {"options": f"-c search_path={parameters['search_path']}"} if "search_path" in parameters else {}
    return driver.connect(
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
        **schema,
        **{name: value for name, value in parameters.items() if name != "search_path"},
    )


def _mysql(driver: Any, told: JdbcSettings, place: _Place, parameters: Mapping[str, str]) -> Any:
    return driver.connect(
        host=place.hosts[0],
        port=place.ports[0],
        database=place.database,
        user=told.user,
        password=told.password or "",
        autocommit=True,
        charset="utf8mb4",
        connect_timeout=_CONNECT_S,
        read_timeout=_ANSWER_S,
        write_timeout=_ANSWER_S,
        ssl=_tls(parameters.get("ssl", "preferred")),
        ssl_disabled=parameters.get("ssl", "").lower() in ("disabled", "false"),
    )


def _tls(mode: str) -> ssl.SSLContext | None:
    """For a value of ``sslMode``, ``useSSL`` or ``requireSSL``; None lets the driver ask the server."""
    match mode.lower():
        case "disabled" | "preferred" | "false":
            return None
        case "required" | "true":
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        case "verify_ca":
            context = ssl.create_default_context()
            context.check_hostname = False
        case "verify_identity":
            context = ssl.create_default_context()
        case _:
            raise ValueError(
                f"'{mode}' is no mode of TLS; known: DISABLED, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY"
            )
    return context


def _sqlite(driver: Any, told: JdbcSettings, place: _Place, parameters: Mapping[str, str]) -> Any:
    return driver.connect(place.database, timeout=_ANSWER_S, isolation_level=None, check_same_thread=False)


_DIALECTS = {
    "postgresql": _Dialect(
        "psycopg",
        "psycopg[binary]",
        "%s",
        5432,
        {
            "sslmode": "sslmode",
            "sslrootcert": "sslrootcert",
            "sslcert": "sslcert",
            "sslkey": "sslkey",
            "currentSchema": "search_path",
            "ApplicationName": None,
            "connectTimeout": None,
            "socketTimeout": None,
            "tcpKeepAlive": None,
        },
        "EXTRACT(EPOCH FROM (LOCALTIMESTAMP - acquired_at))",
        _postgresql,
        frozenset({"authentication failed", "does not exist", "no pg_hba.conf entry", "permission denied"}),
        "42P01",
    ),
    "mysql": _Dialect(
        "pymysql",
        "PyMySQL",
        "%s",
        3306,
        {
            "useSSL": "ssl",
            "requireSSL": "ssl",
            "sslMode": "ssl",
            "useUnicode": None,
            "characterEncoding": None,
            "serverTimezone": None,
            "allowPublicKeyRetrieval": None,
            "connectTimeout": None,
            "socketTimeout": None,
        },
        "TIMESTAMPDIFF(SECOND, acquired_at, NOW())",
        _mysql,
        frozenset({1044, 1045, 1049, 1142}),
        1146,
    ),
    "sqlite": _Dialect(
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
}

_ADDRESS = re.compile(r"jdbc:(?P<kind>[a-z0-9]+):(?P<rest>.*)", re.DOTALL)
_SERVERS = re.compile(r"//(?P<servers>[^/?]+)/(?P<database>[^/?]+)(?:\?(?P<query>.*))?")
_SERVER = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:@\[\]]+)(?::(?P<port>\d{1,5}))?")


def _parsed(uri: str) -> tuple[_Dialect, _Place, Mapping[str, str]]:
    form = "jdbc:postgresql://HOST:PORT/DATABASE, jdbc:mysql://HOST:PORT/DATABASE or jdbc:sqlite:FILE"
    found = _ADDRESS.fullmatch(uri)
    dialect = None if found is None else _DIALECTS.get(found["kind"])
    if found is None or dialect is None:
        raise ValueError(f"expected the address of a database, {form}")
    if not dialect.default_port:
        if not found["rest"] or found["rest"].startswith(":") or "?" in found["rest"]:
            raise ValueError("expected the path of a file behind jdbc:sqlite:")
        return dialect, _Place(found["rest"].removeprefix("file:")), {}
    parts = _SERVERS.fullmatch(found["rest"])
    servers = [] if parts is None else [_SERVER.fullmatch(one) for one in parts["servers"].split(",")]
    if parts is None or None in servers or (len(servers) > 1 and found["kind"] == "mysql"):
        raise ValueError(f"expected the address of a database, {form}")
    hosts = tuple(one["host"].strip("[]") for one in servers if one is not None)
    ports = tuple(int(one["port"] or dialect.default_port) for one in servers if one is not None)
    parameters: dict[str, str] = {}
    for name, value in parse_qsl(parts["query"] or "", keep_blank_values=True):
        if name in ("user", "password"):
            raise ValueError(f"logs would show a login in the address; set `jdbc.{name}` in `options`")
        if name not in dialect.parameters:
            known = ", ".join(sorted(dialect.parameters))
            raise ValueError(f"the parameter '{name}' is not supported; known: {known}")
        if (meaning := dialect.parameters[name]) is not None:
            parameters[meaning] = value
    _tls(parameters.get("ssl", "preferred"))
    return dialect, _Place(unquote(parts["database"]), hosts, ports), parameters


class _Broken(Exception):
    """A connection broke; ``error`` is that of the driver."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class JdbcDatabase:
    """The database, through a few connections, which are made when they are needed and again after they broke.

    Threads may share it. Statements have ``?`` for each parameter.
    """

    def __init__(self, settings: JdbcSettings) -> None:
        """Raises ConfigError for an address that cannot be used."""
        try:
            self._dialect, self._place, self._parameters = _parsed(settings.uri)
        except ValueError as error:
            raise ConfigError(f"catalog address {settings.uri}: {error}") from None
        self._settings = settings
        self._turns = threading.BoundedSemaphore(_MOST_CONNECTIONS if self._place.hosts else 1)
        self._idle: list[Any] = []

    @property
    def place(self) -> str:
        """The name of the database in messages."""
        return self._settings.uri.partition("?")[0]

    @property
    def seconds_of_lock(self) -> str:
        """SQL for the seconds since ``acquired_at``, by the clock of the database."""
        return self._dialect.now_minus_then

    def rows(self, statement: str, *parameters: object) -> list[Row]:
        """The result of a SELECT; empty if its table does not exist."""
        return self._run(statement, parameters, lambda cursor: [tuple(row) for row in cursor.fetchall()]) or []

    def has_table(self, name: str) -> bool:
        return self._run(f"SELECT 1 FROM {name} WHERE 1 = 0", (), lambda cursor: True) is not None

    def insert(self, statement: str, *parameters: object) -> bool:
        """Whether a row was inserted; False if one with its key exists."""
        return self._run(statement, parameters, lambda cursor: True) is not None

    def change(self, statement: str, *parameters: object) -> None:
        """Run a statement that may be repeated. A table that does not exist is no error: it has no rows to change."""
        self._run(statement, parameters, lambda cursor: True)

    def _run(self, statement: str, parameters: Sequence[object], result: Callable[[Any], Any]) -> Any:
        """The result; None if a row with the key exists, or the table does not exist.

        A statement is sent again if the connection had been idle and is broken: the server never saw the statement, or
        repeating it does no harm, because an insert finds its own row.
        """
        driver = self._driver()
        text = statement.replace("?", self._dialect.placeholder)
        with self._turns:
            with suppress(IndexError, _Broken):
                return self._once(driver, self._idle.pop(), text, parameters, result)
            try:
                return self._once(driver, self._connected(driver), text, parameters, result)
            except _Broken as broken:
                self._raise(broken.error)

    def _connected(self, driver: Any) -> Any:
        try:
            return self._dialect.connect(driver, self._settings, self._place, self._parameters)
        except driver.Error as error:
            self._raise(error)

    def _once(
        self, driver: Any, connection: Any, text: str, parameters: Sequence[object], result: Callable[[Any], Any]
    ) -> Any:
        """The result over a connection, which is idle again after it. Raises _Broken, and closes it, if it broke."""
        try:
            cursor = connection.cursor()
            cursor.execute(text, tuple(parameters))
            found = result(cursor)
        except driver.Error as error:
            if isinstance(error, driver.IntegrityError) or self._says(error, {self._dialect.missing_table}):
                found = None
            elif self._is_broken(driver, error):
                with suppress(Exception):
                    connection.close()
                raise _Broken(error) from error
            else:
                self._idle.append(connection)
                self._raise(error)
        self._idle.append(connection)
        return found

    def _driver(self) -> Any:
        try:
            return importlib.import_module(self._dialect.driver)
        except ImportError:
            raise ConfigError(
                f"catalog {self.place} needs the package {self._dialect.install}: install 'tidemark-cdc[jdbc]'"
            ) from None

    @staticmethod
    def _is_broken(driver: Any, error: Exception) -> bool:
        return isinstance(error, driver.OperationalError | driver.InterfaceError)

    @staticmethod
    def _says(error: Exception, signs: set[int | str] | frozenset[int | str]) -> bool:
        """Whether an error has one of these codes, or parts of its text."""
        codes = {getattr(error, "sqlstate", None), *(arg for arg in error.args if isinstance(arg, int))}
        return bool(codes & signs) or any(isinstance(sign, str) and sign in str(error) for sign in signs)

    def _raise(self, error: Exception) -> NoReturn:
        text = " ".join(str(error.args[-1] if error.args else error).split())
        if self._says(error, self._dialect.refusals):
            raise ConfigError(f"the database of catalog {self.place} refuses the request: {text}") from error
        if self._is_broken(self._driver(), error):
            raise Outage(f"the database of catalog {self.place} does not answer: {text}") from error
        raise SinkUnavailable(f"the database of catalog {self.place} failed: {text}") from error
