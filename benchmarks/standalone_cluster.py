"""A standalone cluster of Spark on loopback: a master and workers of one core each, as processes of this one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from pathlib import Path

from tests.stack.process import ServerProcess, free_port, port_is_open

ON_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""The settings by which executors find a driver in client mode."""

_START_TIMEOUT_S = 120


@contextmanager
def standalone_cluster(directory: Path, workers: int) -> Iterator[str]:
    """The URL of the master, once its workers are there too."""
    directory.mkdir(parents=True)
    spark_class, port = str(Path(str(files("pyspark"))) / "bin" / "spark-class"), free_port()
    url, place = f"spark://127.0.0.1:{port}", ["--host", "127.0.0.1", "--webui-port", "0"]
    environment = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}

    def server(name: str, *arguments: str) -> ServerProcess:
        command = [spark_class, f"org.apache.spark.deploy.{name}", *place, *arguments]
        return ServerProcess(name, command, directory / f"{name.rpartition('.')[2]}-{len(started)}.log", environment)

    started: list[ServerProcess] = []
    with ExitStack() as stack:
        master = server("master.Master", "--port", str(port))
        stack.callback(master.stop)
        master.start(lambda: port_is_open(port), _START_TIMEOUT_S)
        for number in range(workers):
            own = ["--cores", "1", "--memory", "1500m", "--work-dir", str(directory / f"work-{number}"), url]
            worker = server("worker.Worker", *own)
            started.append(worker)
            stack.callback(worker.stop)
            worker.start(lambda log=worker.log_file: "Successfully registered" in log.read_text(), _START_TIMEOUT_S)
        yield url
