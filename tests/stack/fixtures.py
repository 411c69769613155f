"""Session fixtures: one broker, one database server and one Connect worker serve the whole test run.

Tests keep apart by names: a topic prefix and a database of their own each.
"""

import platform
import sys
from collections.abc import Iterator

import pytest

from tests.stack.connect import Connect, running_connect
from tests.stack.kafka import running_kafka
from tests.stack.mariadb import MariaDB, running_mariadb
from tests.stack.postgres import Postgres, running_postgres
from tests.stack.topics import Topics


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    """A broker; `kafka.bootstrap_servers` is its address."""
    with running_kafka(tmp_path_factory.mktemp("kafka")) as topics:
        yield topics


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A PostgreSQL server with logical decoding."""
    with running_postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture(scope="session")
def connect(tmp_path_factory: pytest.TempPathFactory, kafka: Topics) -> Iterator[Connect]:
    """A Kafka Connect worker with Debezium, writing to the broker of `kafka`."""
    with running_connect(tmp_path_factory.mktemp("connect"), kafka.bootstrap_servers) as worker:
        yield worker


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDB]:
    """A MariaDB server with a binary log, in another time zone than that of tests."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("the MariaDB of the tests is one for Linux on x86-64")
    with running_mariadb(tmp_path_factory.mktemp("mariadb"), {"default-time-zone": "-05:00"}) as server:
        yield server
