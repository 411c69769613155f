"""What librdkafka says, in the terms of Java's client."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from sources.kafka.client_errors import Trouble, cause_of
from sources.kafka.failures import Cause

WHERE = "ssl://127.0.0.1:9094/bootstrap: "


@pytest.mark.parametrize(
    ("code", "text", "cause", "lasts"),
    [
        (
            KafkaError._TRANSPORT,
            "Receive failed: error:0A000412:SSL routines::ssl/tls alert bad certificate: SSL alert number 42",
            ("SslAuthenticationException", "Received fatal alert: bad_certificate"),
            True,
        ),
        (
            KafkaError._SSL,
            "SSL handshake failed: error:0A000418:SSL routines::tlsv1 alert unknown ca: SSL alert number 48",
            ("SslAuthenticationException", "Received fatal alert: unknown_ca"),
            True,
        ),
        (
            KafkaError._TRANSPORT,
            "Receive failed: error:0A000438:SSL routines::tlsv1 alert internal error: SSL alert number 80",
            (
                "DisconnectException",
                "Receive failed: error:0A000438:SSL routines::tlsv1 alert internal error: SSL alert number 80",
            ),
            False,
        ),
        (KafkaError._RESOLVE, "no such host", ("ConfigException", "No resolvable bootstrap urls"), False),
    ],
)
def test_an_alert_about_the_certificate_is_no_failed_transport(code: int, text: str, cause: Cause, lasts: bool) -> None:
    error = KafkaError(code, WHERE + text)
    trouble = Trouble("127.0.0.1:9094")
    trouble.note(error)
    assert cause_of(error) == cause and trouble.is_lasting is lasts


@pytest.mark.parametrize(
    "since",
    ["", " (after 1ms in state CONNECT)", " (after 0ms in state CONNECT, 1 identical error(s) suppressed)"],
)
def test_a_refused_connection_has_one_text_however_often_it_was_tried(since: str) -> None:
    error = KafkaError(
        KafkaError._TRANSPORT, f"{WHERE}Connect to ipv4#127.0.0.1:9094 failed: Connection refused{since}"
    )
    assert cause_of(error) == ("DisconnectException", "127.0.0.1:9094: Connection refused")
