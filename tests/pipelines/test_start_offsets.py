"""Where a new checkpoint starts, and how the Python client gets the access of the Java client."""

from __future__ import annotations

from typing import Any

import pytest

from paimon_table.errors import ConfigError, SinkUnavailable
from pipelines.source_config import KafkaSource
from pipelines.start_offsets import client_settings, end_offsets, starting_options
from tests.stack.topics import TopicRecord, Topics


def source(servers: str, start: Any = "earliest", topic: str = "starts") -> KafkaSource:
    return KafkaSource.model_validate({"bootstrap_servers": servers, "topics": [topic], "start": start})


def test_words_and_times_are_left_to_spark() -> None:
    assert starting_options(source("unused:1", "latest"), {}) == {"startingOffsets": "latest"}
    options = starting_options(source("unused:1", {"timestamp": "2024-01-01T00:00:00Z"}), {})
    assert options["startingTimestamp"] == "1704067200000"


def test_the_access_of_the_java_client_is_taken_over() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="it\'s";'
    settings = client_settings({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas})

    assert settings["security_protocol"] == "SASL_SSL"
    assert settings["sasl_plain_username"] == "me"
    assert settings["sasl_plain_password"] == "it's"


@pytest.mark.stack
def test_reading_resumes_at_the_positions_of_the_tables(kafka: Topics) -> None:
    kafka.create("starts", partitions=2)
    kafka.produce("starts", [TopicRecord(b"k", b"v", partition=0) for _ in range(5)])
    reader = source(kafka.bootstrap_servers)

    assert end_offsets(reader) == {("starts", 0): 5, ("starts", 1): 0}
    assert starting_options(reader, {("starts", 0): 3}) == {"startingOffsets": '{"starts": {"0": 3, "1": -2}}'}
    with pytest.raises(ConfigError, match="the topic was made anew"):
        starting_options(reader, {("starts", 0): 6})


def test_a_broker_that_does_not_answer_is_named() -> None:
    with pytest.raises(SinkUnavailable, match=r"Kafka at 127\.0\.0\.1:1 does not answer"):
        end_offsets(source("127.0.0.1:1"))
