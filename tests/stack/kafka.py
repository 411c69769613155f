"""A Kafka broker: one KRaft node as a local process, or a container where a Docker daemon answers."""

import atexit
import base64
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.stack.class_archive import kafka_options
from tests.stack.containers import docker_available, kafka_container
from tests.stack.jars import class_path
from tests.stack.paths import SHORT_LIVED, java_command
from tests.stack.process import ServerProcess, free_port, port_is_open
from tests.stack.topics import Topics
from tests.support.waiting import seconds

START_TIMEOUT_S = 120
JVM_OPTIONS = ("-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", *SHORT_LIVED)


class KafkaBroker:
    """A local broker with plain listeners on 127.0.0.1; it keeps ports and data over restarts."""

    def __init__(
        self,
        directory: Path,
        listeners: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] = (),
    ) -> None:
        """``listeners`` are more listeners, by name their HOST:PORT; ``settings`` win over those for tests."""
        self.port = free_port()
        self.bootstrap_servers = f"127.0.0.1:{self.port}"
        self.topics = Topics(self.bootstrap_servers)
        self._data_dir = directory / "data"
        self._properties = directory / "server.properties"
        self._log_config = directory / "log4j2.properties"
        directory.mkdir(parents=True, exist_ok=True)
        self._properties.write_text(
            _server_properties(self.port, free_port(), self._data_dir, listeners or {}, settings or {})
        )
        self._log_config.write_text(LOG_CONFIG)
        java = _java("kafka.Kafka", f"-Dlog4j2.configurationFile={self._log_config}", *jvm_options)
        command = [*java, str(self._properties)]
        self._process = ServerProcess("Kafka", command, directory / "kafka.log")

    def start(self) -> None:
        """Start the broker, on new data the first time, and return once it accepts connections."""
        if not self._data_dir.exists():
            shutil.copytree(_formatted(), self._data_dir)
            properties = self._data_dir / "meta.properties"
            properties.write_text(re.sub("cluster.id=.*", f"cluster.id={_new_id()}", properties.read_text()))
        self._process.start(lambda: port_is_open(self.port), START_TIMEOUT_S)

    def stop(self, timeout_s: float = 30) -> None:
        self._process.stop(timeout_s)

    def kill(self) -> None:
        self._process.kill()


def _java(main_class: str, *options: str) -> list[str]:
    return [java_command(), *JVM_OPTIONS, *kafka_options(), *options, "-cp", class_path("kafka"), main_class]


@cache
def _formatted() -> Path:
    """The data directory of a new broker, made once a process: Kafka's tool takes half as long as a broker's start."""
    directory = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    (properties := directory / "server.properties").write_text(_server_properties(1, 2, directory / "data", {}, {}))
    command = [*_java("kafka.tools.StorageTool"), "format", "-t", _new_id(), "-c", str(properties)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds(START_TIMEOUT_S), check=False)
    if done.returncode != 0:
        raise RuntimeError(f"cannot format Kafka's data directory: {done.stdout}{done.stderr}")
    return directory / "data"


def _new_id() -> str:
    return base64.urlsafe_b64encode(b"\x01" + os.urandom(15)).rstrip(b"=").decode()


def _server_properties(
    port: int, controller_port: int, data_dir: Path, listeners: Mapping[str, str], more: Mapping[str, str]
) -> str:
    """Settings of one node for tests: every replica count 1, few internal partitions, no waiting for group members."""
    addresses = {"PLAINTEXT": f"127.0.0.1:{port}", "CONTROLLER": f"127.0.0.1:{controller_port}", **listeners}
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(f"{name}://{address}" for name, address in addresses.items()),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": data_dir,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 1,
        "log.cleaner.dedupe.buffer.size": 8388608,
        "group.initial.rebalance.delay.ms": 0,
        **more,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


LOG_CONFIG = """\
status=error
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %c{1}: %m%n
rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
"""


@contextmanager
def running_kafka(directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[Topics]:
    """Run a broker for the length of the block, in a container if possible, and give access to its topics.

    With ``settings`` of its own it is a local process.
    """
    if settings is None and docker_available():
        with kafka_container() as container:
            yield Topics(container.get_bootstrap_server())
        return
    broker = KafkaBroker(directory, settings=settings)
    broker.start()
    try:
        yield broker.topics
    finally:
        broker.stop()
