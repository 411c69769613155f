"""What is seen of Kafka before there is a JVM, and what is left to Java's client."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import pytest

from paimon_table.errors import ConfigError, Outage
from sources.kafka.first_look import topics_at_first_look
from sources.kafka.sampling import KafkaSampler
from sources.kafka.settings import KafkaSettings
from sources.kafka.start_offsets import check_listed
from sources.topics import TopicSelection
from tests.stack.process import free_port
from tests.stack.topics import Topics


def _source(servers: str, properties: Mapping[str, str] | None = None) -> KafkaSettings:
    return KafkaSettings(servers, TopicSelection(names=("orders",)), properties or {})


@pytest.mark.parametrize(
    "properties", [{"security.protocol": "SSL"}, {"interceptor.classes": "com.example.Audit"}], ids=str
)
def test_a_server_that_only_java_may_ask_is_only_connected_to(properties: Mapping[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        servers = f"127.0.0.1:{listener.getsockname()[1]}"
        assert topics_at_first_look(_source(servers, properties)) is None


@pytest.mark.slow
def test_a_server_that_does_not_answer_like_kafka_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        servers = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(Outage, match=f"Kafka at {servers} does not answer"):
            topics_at_first_look(_source(servers, {"default.api.timeout.ms": "500", "request.timeout.ms": "400"}))


def test_servers_that_take_no_connection_are_told(unused_port: int) -> None:
    with pytest.raises(Outage, match=rf"Kafka at 127\.0\.0\.1:{unused_port} does not answer .*Connection refused"):
        topics_at_first_look(_source(f"127.0.0.1:{unused_port}"))


def test_a_plan_tells_a_refused_connection_as_a_run_does(unused_port: int) -> None:
    source = _source(f"127.0.0.1:{unused_port}")
    told = []
    for ask in (lambda: topics_at_first_look(source), KafkaSampler(source).topics):
        with pytest.raises(Outage) as refused:
            ask()
        told.append(str(refused.value))

    assert told[0] == told[1]


def test_a_host_that_nobody_knows_is_told() -> None:
    with pytest.raises(Outage, match=r"cannot resolve any host of nowhere\.invalid:9092"):
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
    found = topics_at_first_look(_source(f"127.0.0.1:{free_port()},{kafka.bootstrap_servers}"))
    internal = {"__consumer_offsets", "__transaction_state"}
    assert found is not None and found == frozenset(kafka.names()) - internal
    assert "first.look" in found
