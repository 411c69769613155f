"""Failures of Kafka's client as Spark tells them, in our words."""

from __future__ import annotations

import pytest

from paimon_table.errors import ConfigError, Outage, SinkUnavailable, TidemarkError
from sources.kafka.failures import NotAllowed, causes_in, is_of_kafka, kafka_failure

POSITION = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure: Task 0 in
stage 2.0 failed 1 times: Lost task 0.0: org.apache.kafka.common.errors.TimeoutException: Timeout of
60000ms expired before the position for partition shop.public.items-0 could be determined
Caused by: org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms expired before the position \
for partition shop.public.items-0 could be determined
\tat org.apache.kafka.clients.consumer.KafkaConsumer.position(KafkaConsumer.java:1)
"""


def test_a_timeout_within_a_spark_failure_is_named() -> None:
    assert is_of_kafka(POSITION)
    failure = kafka_failure("b:1", causes_in(POSITION))
    assert isinstance(failure, SinkUnavailable)
    assert "Kafka at b:1 does not answer" in str(failure) and "shop.public.items-0" in str(failure)
    assert "\n" not in str(failure)


@pytest.mark.parametrize(
    ("causes", "kind", "told"),
    [
        ([("TopicAuthorizationException", "Not authorized to access")], NotAllowed, "Describe and Read"),
        (
            [("KafkaException", "x"), ("LoginException", "No key to store")],
            ConfigError,
            "before it reaches Kafka (No key",
        ),
        ([("ConfigException", "Invalid value -1 for configuration x")], ConfigError, "refuses properties"),
        ([("SaslAuthenticationException", "Authentication failed")], SinkUnavailable, "refuses the login"),
        (
            [("SSLHandshakeException", "Received fatal alert: bad_certificate")],
            SinkUnavailable,
            "certificate of this pipeline",
        ),
        (
            [("SslAuthenticationException", "f"), ("CertPathValidatorException", "NotBefore: x")],
            SinkUnavailable,
            "clocks",
        ),
        ([("SSLHandshakeException", "Received fatal alert: protocol_version")], ConfigError, "no TLS connection"),
        ([], Outage, "does not answer"),
        ([("NotLeaderOrFollowerException", "not the leader")], Outage, "does not answer"),
        ([("RecordTooLargeException", "too large")], SinkUnavailable, "too large"),
        ([("ConcurrentModificationException", "KafkaConsumer is not safe")], Outage, "deleted records while"),
    ],
)
def test_causes_are_told_apart(causes: list[tuple[str, str]], kind: type[TidemarkError], told: str) -> None:
    failure = kafka_failure("b:1", causes)
    assert type(failure) is kind and told in str(failure)


def test_failures_of_others_are_left_alone() -> None:
    plan = "StreamingDataSourceV2ScanRelation org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable@1"
    frames = "\tat org.apache.kafka.common.SomeException.of(SomeException.java:1)"
    assert not is_of_kafka(f"Job aborted: java.io.IOException: No space left on device\n{frames}\n{plan}")


@pytest.mark.parametrize(
    "text",
    [
        "Partition a-0's offset was changed from 20 to 3. Some data may have been lost because they are not available"
        " in Kafka any more; either the data was aged out",
        "org.apache.kafka.clients.consumer.OffsetOutOfRangeException: Fetch position FetchPosition{offset=50} is out of"
        " range for partition a-0",
        "Some of partitions in Kafka topic(s) have been lost during running query with Trigger.AvailableNow.",
    ],
)
def test_what_spark_says_of_lost_records_is_kafkas(text: str) -> None:
    assert is_of_kafka(text)
