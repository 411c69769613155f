"""The database of a JDBC catalog: a few connections, statements, and errors by what the caller can do about them.

Each statement is a transaction, as in Java's catalog.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from paimon_table.catalog.jdbc_dialects import JdbcSettings, parsed
from paimon_table.errors import ConfigError, Outage, SinkUnavailable

_MOST_CONNECTIONS = 4
"""To a server; a file has one writer at a time."""

Row = tuple[Any, ...]


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
            self._dialect, self._place, self._parameters = parsed(settings.uri)
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
    def lock_age(self) -> str:
        """SQL for the seconds since ``acquired_at``, by the clock of the database."""
        return self._dialect.lock_age

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
        except (RuntimeError, ValueError) as error:  # as if pymysql lacks a package for the login
            raise ConfigError(f"catalog {self.place} cannot be reached: {error}") from error

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
