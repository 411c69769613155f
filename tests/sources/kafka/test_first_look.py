"""What is seen of Kafka before there is a JVM, and what is left to Java's client."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from paimon_table.errors import ConfigError, Outage
from sources.kafka.first_look import topics_at_first_look
from sources.kafka.settings import KafkaSettings
from sources.kafka.start_offsets import check_listed
from sources.topics import TopicSelection
from tests.stack.process import free_port
from tests.stack.topics import Topics
from tests.support.waiting import seconds


def text(value: str | None) -> bytes:
    return struct.pack(">h", -1) if value is None else struct.pack(">h", len(value)) + value.encode()


def metadata(*topics: tuple[str, bool]) -> bytes:
    """An answer to Metadata in version 4: one broker, topics of one partition with one replica."""
    body = struct.pack(">iii", 1, 0, 1) + struct.pack(">i", 7) + text("broker") + struct.pack(">i", 9092) + text(None)
    body += text("cluster") + struct.pack(">ii", 7, len(topics))
    for name, is_internal in topics:
        body += struct.pack(">h", 0) + text(name) + struct.pack(">?i", is_internal, 1)
        body += struct.pack(">hii", 0, 0, 7) + struct.pack(">ii", 1, 7) * 2
    return struct.pack(">i", len(body)) + body


@contextmanager
def broker(answer: bytes) -> Iterator[str]:
    """A server that takes one question and gives ``answer``."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                if connection.recv(1000):
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(seconds(10))


def _source(servers: str, properties: Mapping[str, str] | None = None) -> KafkaSettings:
    return KafkaSettings(servers, TopicSelection(names=("orders",)), properties or {})


def test_it_tells_the_topics_but_those_of_kafka_itself() -> None:
    with broker(metadata(("orders", False), ("__consumer_offsets", True), ("items", False))) as servers:
        assert topics_at_first_look(_source(servers), wait_s=seconds(10)) == frozenset(("orders", "items"))


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", metadata(("orders", False))[:60]])
def test_an_answer_that_is_not_understood_tells_nothing(answer: bytes) -> None:
    with broker(answer) as servers:
        assert topics_at_first_look(_source(servers), wait_s=0.5) is None


def test_a_server_with_tls_is_only_connected_to() -> None:
    with broker(b"") as servers:
        assert topics_at_first_look(_source(servers, {"security.protocol": "SSL"})) is None


def test_servers_that_take_no_connection_are_told(unused_port: int) -> None:
    with pytest.raises(Outage, match=rf"Kafka at 127\.0\.0\.1:{unused_port} does not answer .*Connection refused"):
        topics_at_first_look(_source(f"127.0.0.1:{unused_port}"))
    with broker(metadata()) as servers:
        answer = topics_at_first_look(_source(f"127.0.0.1:{unused_port},{servers}"), wait_s=seconds(10))
    assert answer == frozenset()


def test_a_host_that_nobody_knows_is_told() -> None:
    with pytest.raises(Outage, match=r"no host of nowhere\.invalid:9092 is known here"):
        topics_at_first_look(_source("nowhere.invalid:9092"))


def test_a_listed_topic_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="'orderz' \\(did you mean 'orders'\\?\\)"):
        check_listed(KafkaSettings("localhost:1", TopicSelection(names=("orderz",))), {"orders"})


@pytest.fixture
def unused_port() -> int:
    return free_port()


@pytest.mark.stack
@pytest.mark.slow
def test_a_broker_answers(kafka: Topics) -> None:
    kafka.create("first.look", partitions=3)
    found = topics_at_first_look(_source(kafka.bootstrap_servers))
    internal = {"__consumer_offsets", "__transaction_state"}
    assert found is not None and found == frozenset(kafka.names()) - internal
    assert "first.look" in found
