"""The worker daemon: what the workers read, and what they import."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import IO, Any

import pytest

from pipelines.worker_daemon import promptly, without_archives


@pytest.fixture
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a TCP connection, as between Spark and a worker."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = socket.create_connection(server.getsockname())
        there, _ = server.accept()
    with here, there:
        yield here, there


def test_a_worker_reads_everything_in_order_with_what_was_buffered_before(
    connection: tuple[socket.socket, socket.socket],
) -> None:
    spark, worker = connection
    data = bytes(range(256)) * 4096
    sender = threading.Thread(target=lambda: (spark.sendall(b"secret" + data), spark.shutdown(socket.SHUT_WR)))
    sender.start()
    infile = worker.makefile("rb")
    assert infile.read(6) == b"secret"
    received: list[bytes] = []

    def main(source: IO[bytes], sink: Any) -> None:
        received.append(source.read(10))
        target = bytearray(100_000)
        received.append(bytes(target[: source.readinto(target)]))  # type: ignore[attr-defined]
        received.append(source.read())
        sink.append("answered")

    answers: list[str] = []
    promptly(main)(infile, answers)
    sender.join()
    assert b"".join(received) == data
    assert answers == ["answered"]


def test_the_socket_of_a_worker_sends_small_answers_at_once(connection: tuple[socket.socket, socket.socket]) -> None:
    _, worker = connection
    promptly(lambda source, sink: None)(worker.makefile("rb"), None)
    assert worker.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_another_kind_of_connection_is_read_as_it_is() -> None:
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        infile = other.makefile("rb")
        seen: list[Any] = []
        promptly(lambda source, sink: seen.append(source))(infile, None)
        assert seen == [infile]


def test_archives_leave_the_path_where_spark_is_installed_beside_them() -> None:
    import pyspark

    installed = str(pyspark.__path__[0]).rsplit("/", 1)[0]
    archives = ["/spark/pyspark.zip", "/spark/spark-core.jar"]
    assert without_archives([installed, *archives]) == [installed]
