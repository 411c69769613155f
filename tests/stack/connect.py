"""Kafka Connect, standalone, with a connector of Debezium; its REST interface adds and removes connectors."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.stack.class_archive import kafka_options
from tests.stack.jars import class_path, resolve
from tests.stack.kafka import JVM_OPTIONS, LOG_CONFIG
from tests.stack.paths import StackUnavailable, java_command
from tests.stack.postgres import Postgres
from tests.stack.process import ServerProcess, free_port
from tests.support.waiting import seconds

START_TIMEOUT_S = 120
STREAMING_TIMEOUT_S = 120
JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"


class Connect:
    """A local Connect worker; it keeps its port and its source offsets over restarts, connectors it forgets."""

    def __init__(
        self,
        directory: Path,
        bootstrap_servers: str,
        plugin: str = "debezium-postgres",
        java_options: Sequence[str] = (),
        plugins: Sequence[Path] = (),
    ) -> None:
        """``plugin`` is the jar set of the connectors, ``plugins`` are more entries of ``plugin.path``."""
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        properties = directory / "worker.properties"
        properties.write_text(
            _worker_properties(self.port, bootstrap_servers, directory / "offsets", [resolve(plugin), *plugins])
        )
        log_config = directory / "log4j2.properties"
        log_config.write_text(LOG_CONFIG)
        options = (*JVM_OPTIONS, *kafka_options(), *java_options, f"-Dlog4j2.configurationFile={log_config}")
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        command = [java_command(), *options, "-cp", class_path("kafka"), main, str(properties)]
        self._process = ServerProcess("Kafka Connect", command, directory / "connect.log")

    def start(self) -> None:
        """Start the worker without connectors and return once its REST interface answers."""
        self._process.start(self._answers, START_TIMEOUT_S)

    def stop(self) -> None:
        self._process.stop()

    def kill(self) -> None:
        self._process.kill()

    def capture(self, name: str, postgres: Postgres, database: str, overrides: Mapping[str, str] | None = None) -> None:
        """Start a Debezium connector and return once it streams (after its snapshot).

        `name` is the topic prefix, the slot and the publication too; `overrides` are connector properties.
        """
        config = {**debezium_properties(name, postgres, database), **(overrides or {})}
        self._request("PUT", f"/connectors/{name}/config", config)
        self._process.wait_until(
            lambda: self._is_running(name) and postgres.slot_is_active(config["slot.name"]),
            STREAMING_TIMEOUT_S,
            f"{name} streaming",
        )

    def run(self, name: str, config: Mapping[str, str]) -> None:
        """Start a connector and return once its task runs."""
        self._request("PUT", f"/connectors/{name}/config", config)
        self._process.wait_until(lambda: self._is_running(name), STREAMING_TIMEOUT_S, f"{name} running")

    def release(self, name: str) -> None:
        """Stop and forget a connector; its slot stays in the database."""
        self._request("DELETE", f"/connectors/{name}")

    def _is_running(self, name: str) -> bool:
        try:
            status = self._request("GET", f"/connectors/{name}/status")
        except urllib.error.HTTPError as error:
            if error.code in (404, 409):
                return False
            raise
        for part in (status["connector"], *status["tasks"]):
            if part["state"] == "FAILED":
                raise StackUnavailable(f"connector {name} failed: {part['trace']}{self._process.log_tail()}")
        return bool(status["tasks"]) and all(task["state"] == "RUNNING" for task in status["tasks"])

    def _answers(self) -> bool:
        try:
            self._request("GET", "/connectors")
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False
        return True

    def _request(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method=method)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=seconds(30)) as answer:
            text = answer.read()
        return json.loads(text) if text else None


def debezium_properties(name: str, postgres: Postgres, database: str) -> dict[str, str]:
    """Return a connector's configuration: JSON without schemas, tombstones, all tables of the schema public."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "plugin.name": "pgoutput",
        "database.hostname": postgres.host,
        "database.port": str(postgres.port),
        "database.user": postgres.user,
        "database.password": postgres.password,
        "database.dbname": database,
        "topic.prefix": name,
        "slot.name": name,
        "publication.name": name,
        "publication.autocreate.mode": "all_tables",
        "schema.include.list": "public",
        "poll.interval.ms": "100",
        "tombstones.on.delete": "true",
        "key.converter": JSON_CONVERTER,
        "key.converter.schemas.enable": "false",
        "value.converter": JSON_CONVERTER,
        "value.converter.schemas.enable": "false",
    }


def _worker_properties(port: int, bootstrap_servers: str, offsets_file: Path, plugins: Sequence[Path]) -> str:
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "key.converter": JSON_CONVERTER,
        "value.converter": JSON_CONVERTER,
        "offset.storage.file.filename": offsets_file,
        "offset.flush.interval.ms": 1000,
        "plugin.path": ",".join(map(str, plugins)),
        "plugin.discovery": "service_load",
        "listeners": f"http://127.0.0.1:{port}",
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


@contextmanager
def running_connect(
    directory: Path,
    bootstrap_servers: str,
    plugin: str = "debezium-postgres",
    java_options: Sequence[str] = (),
    plugins: Sequence[Path] = (),
) -> Iterator[Connect]:
    """Run a worker for the length of the block."""
    worker = Connect(directory, bootstrap_servers, plugin, java_options, plugins)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop()
