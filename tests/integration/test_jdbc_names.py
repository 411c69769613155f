"""The database of a JDBC catalog on real servers: many writers at once, broken connections, refused logins."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from paimon_table.catalog.filesystem import FilesystemCatalog
from paimon_table.catalog.jdbc_catalog import JdbcCatalog
from paimon_table.catalog.jdbc_database import JdbcDatabase
from paimon_table.catalog.jdbc_dialects import JdbcSettings
from paimon_table.catalog.table_name import TableName
from paimon_table.errors import CommitConflict, ConfigError
from paimon_table.storage.file_io import LocalFileIO
from tests.stack.mariadb import MariaDB
from tests.stack.postgres import Postgres
from tests.support.builders import committer, data_file, message, orders_schema

pytestmark = pytest.mark.stack

ORDERS = TableName("lake", "orders")
Break = Callable[[], None]


@pytest.fixture(params=["postgres", "mariadb"])
def server(request: pytest.FixtureRequest) -> tuple[JdbcSettings, Break]:
    """A new database, and a function that breaks all connections to it."""
    running = request.getfixturevalue(request.param)
    name = f"names_{uuid.uuid4().hex}"
    if request.param == "postgres":
        running.create_database(name)

        def break_all() -> None:
            with running.connect() as connection:
                connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
    else:
        running.execute(f"CREATE DATABASE {name}")

        def break_all() -> None:
            found = running.execute(f"SELECT id FROM information_schema.processlist WHERE db = '{name}'")
            running.execute("".join(f"KILL {number};" for number in found.split()))

    kind = {"postgres": "postgresql", "mariadb": "mysql"}[request.param]
    uri = f"jdbc:{kind}://{running.host}:{running.port}/{name}"
    return JdbcSettings(uri, running.user, running.password), break_all


def _catalog(settings: JdbcSettings, root: Path, key: str = "jdbc") -> JdbcCatalog:
    files = FilesystemCatalog(LocalFileIO(), str(root / "lake"))
    return JdbcCatalog(JdbcDatabase(settings), files, key, locks=True)


def test_writers_at_the_same_time_create_a_table_once_and_lose_no_commit(
    server: tuple[JdbcSettings, Break], tmp_path: Path
) -> None:
    catalogs = [_catalog(server[0], tmp_path) for _ in range(4)]

    def write(number: int) -> None:
        table = catalogs[number].create(ORDERS, orders_schema())
        commit = committer(table, f"user-{number}")
        for identifier in range(5):
            while True:
                try:
                    commit.commit(identifier, [message(new_files=[data_file(f"{number}-{identifier}")])], {})
                    break
                except CommitConflict:
                    continue

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    table = _catalog(server[0], tmp_path).load(ORDERS)
    files = [file.file_name for of_bucket in table.state().files.values() for file in of_bucket]
    assert sorted(files) == sorted(f"{number}-{identifier}" for number in range(4) for identifier in range(5))
    assert catalogs[0].database.rows("SELECT lock_id FROM paimon_distributed_locks") == []


def test_catalogs_of_other_keys_do_not_see_a_table(server: tuple[JdbcSettings, Break], tmp_path: Path) -> None:
    _catalog(server[0], tmp_path).create(ORDERS, orders_schema())
    other = _catalog(server[0], tmp_path, key="other")
    assert (other.names(), other.find(ORDERS), other.files(ORDERS).created_ms()) == ([], None, None)


def test_a_broken_connection_is_made_again(server: tuple[JdbcSettings, Break], tmp_path: Path) -> None:
    settings, break_all = server
    catalog = _catalog(settings, tmp_path)
    catalog.create(ORDERS, orders_schema())
    break_all()
    assert catalog.names() == [ORDERS]


def test_the_lock_of_a_writer_that_died_ends(server: tuple[JdbcSettings, Break], tmp_path: Path) -> None:
    waits: list[float] = []
    catalog, other = _catalog(server[0], tmp_path), _catalog(server[0], tmp_path)
    catalog.create(ORDERS, orders_schema())

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:  # the server's clock passes the time of the lock
            other.database.change("UPDATE paimon_distributed_locks SET expire_time_seconds = -1")

    waiting = JdbcCatalog(catalog.database, catalog.files_of_tables, "jdbc", locks=True, sleep_s=sleep)
    with other.locked(ORDERS), waiting.locked(ORDERS):
        pass
    assert waits == [0.1, 0.2, 0.4]


def test_a_refused_login_is_a_mistake_and_not_an_outage(server: tuple[JdbcSettings, Break], tmp_path: Path) -> None:
    settings = server[0]
    with pytest.raises(ConfigError, match="refuses the request"):
        _catalog(JdbcSettings(settings.uri, "nobody-of-this-name", "x"), tmp_path).names()
    with pytest.raises(ConfigError, match="refuses the request"):
        _catalog(JdbcSettings(f"{settings.uri}_none", settings.user, settings.password), tmp_path).names()


def test_a_server_is_asked_for_the_tls_that_the_address_names(mariadb: MariaDB, tmp_path: Path) -> None:
    """The server of the tests has a certificate that it signed itself."""

    def database(mode: str) -> JdbcDatabase:
        uri = f"jdbc:mysql://{mariadb.host}:{mariadb.port}/mysql?{mode}"
        return JdbcDatabase(JdbcSettings(uri, mariadb.user, mariadb.password))

    ciphers = {
        mode: database(mode).rows("SHOW STATUS LIKE 'Ssl_cipher'")[0][1]
        for mode in ("sslMode=REQUIRED", "useSSL=false")
    }
    assert [bool(cipher) for cipher in ciphers.values()] == [True, False]
    for mode in ("sslMode=VERIFY_CA", "sslMode=VERIFY_IDENTITY"):
        with pytest.raises(ConfigError, match="certificate verify failed"):
            database(mode).rows("SELECT 1")


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kathmandu", "UTC"])
def test_a_lock_in_another_time_zone_holds_as_long_as_it_says(postgres: Postgres, tmp_path: Path, zone: str) -> None:
    """Java's driver fills its time in the zone of its JVM."""
    name = f"names_{uuid.uuid4().hex}"
    postgres.create_database(name)
    uri = f"jdbc:postgresql://{postgres.host}:{postgres.port}/{name}"
    catalog = _catalog(JdbcSettings(uri, postgres.user, postgres.password), tmp_path)
    catalog.create(ORDERS, orders_schema())
    for age_s, is_held in ((0, True), (400, True), (500, False)):
        with postgres.connect(name) as other:
            other.execute(f"SET TimeZone = '{zone}'")
            other.execute(
                "INSERT INTO paimon_distributed_locks (lock_id, acquired_at, expire_time_seconds)"
                f" VALUES ('jdbc.lake.orders', LOCALTIMESTAMP - INTERVAL '{age_s} s', 480)"
            )
        assert catalog.tries_lock("jdbc.lake.orders") is not is_held
        catalog.database.change("DELETE FROM paimon_distributed_locks")


def test_names_that_the_database_does_not_distinguish_are_refused(mariadb: MariaDB, tmp_path: Path) -> None:
    name = f"names_{uuid.uuid4().hex}"
    mariadb.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    settings = JdbcSettings(f"jdbc:mysql://{mariadb.host}:{mariadb.port}/{name}", mariadb.user, mariadb.password)
    catalog = _catalog(settings, tmp_path)
    catalog.create(TableName("lake", "Orders"), orders_schema())
    with pytest.raises(ConfigError, match=r"does not distinguish table lake\.orders from its table lake\.Orders"):
        catalog.create(ORDERS, orders_schema())
