"""Kafka's client properties in a pipeline file, checked without Kafka and without a JVM."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from paimon_table.errors import ConfigError
from pipelines.config.config_file import load_pipeline
from pipelines.config.kafka_checks import property_mistakes, property_warnings, server_mistakes

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = f'{PLAIN} required username="me" password="it\'s, a; secret word";'
LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS}

PEM_KEY = {"security.protocol": "SSL", "ssl.keystore.type": "PEM", "ssl.keystore.location": "/me.pem"}


def _mistakes(options: dict[str, str]) -> dict[str, str]:
    return dict(property_mistakes(options))


@pytest.mark.parametrize(
    ("options", "name", "told"),
    [
        ({**LOGIN, "sasl.mechansm": "PLAIN"}, "sasl.mechansm", "did you mean 'sasl.mechanism'?"),
        ({"security.protocl": "SSL"}, "security.protocl", "did you mean 'security.protocol'?"),
        ({"security_protocol": "SSL"}, "security_protocol", "did you mean 'security.protocol'?"),
        ({"security.protocol": "SASL_SLL"}, "security.protocol", "did you mean 'SASL_SSL'?"),
        ({"isolation.level": "read_comitted"}, "isolation.level", "did you mean 'read_committed'?"),
        ({"isolation.level": "READ_COMMITTED"}, "isolation.level", "did you mean 'read_committed'?"),
        ({**LOGIN, "sasl.mechanism": "PLIAN"}, "sasl.mechanism", "did you mean 'PLAIN'?"),
        ({**LOGIN, "ssl.truststore.type": "PKCS#12"}, "ssl.truststore.type", "did you mean 'PKCS12'?"),
        ({"failOnDataLoss": "false"}, "failOnDataLoss", "is not set here: records that are lost always stop"),
        ({"startingoffsets": "latest"}, "startingoffsets", "is not set here: use `start`"),
        ({"kafka.group.id": "x"}, "kafka.group.id", "is not set here: offsets live in the checkpoint"),
        ({"kafka.client.id": "x"}, "kafka.client.id", "without the prefix"),
        ({"acks": "all"}, "acks", "property of producers"),
        ({"request.timeout.ms": "30s"}, "request.timeout.ms", "a whole number, without a unit"),
        ({"check.crcs": "yes"}, "check.crcs", "true or false"),
        ({"ssl.truststore.location": "/a"}, "ssl.truststore.location", "no effect with security.protocol = PLAINTEXT"),
        ({"security.protocol": "SSL", "sasl.mechanism": "PLAIN"}, "sasl.mechanism", "set that to SASL_SSL"),
        ({**PEM_KEY, "ssl.keystore.certificate.chain": "x"}, "ssl.keystore.certificate.chain", "a file or text"),
        ({**PEM_KEY, "ssl.keystore.password": "x"}, "ssl.keystore.password", "password of its key is ssl.key.password"),
        ({**PEM_KEY, "ssl.keystore.type": "PKCS12"}, "ssl.keystore.location", "needs ssl.keystore.password"),
        ({**LOGIN, "ssl.keystore.key": "x"}, "ssl.keystore.key", "set ssl.keystore.type to PEM"),
        (
            {**LOGIN, "ssl.keystore.type": "PEM", "ssl.keystore.key": "x"},
            "ssl.keystore.key",
            "needs ssl.keystore.certificate.chain",
        ),
        ({**LOGIN, "ssl.key.password": "x"}, "ssl.key.password", "no effect without ssl.keystore.location"),
        ({**LOGIN, "ssl.truststore.password": "x"}, "ssl.truststore.password", "without ssl.truststore.location"),
        ({**LOGIN, "ssl.truststore.type": "PEM"}, "ssl.truststore.type", "no effect without ssl.truststore.location"),
        (
            {**LOGIN, "ssl.truststore.certificates": "x"},
            "ssl.truststore.certificates",
            "set ssl.truststore.type to PEM",
        ),
        ({**LOGIN, "sasl.mechanism": "SCRAM-SHA-256"}, "sasl.jaas.config", "for PLAIN, not SCRAM-SHA-256"),
        (
            {k: v for k, v in LOGIN.items() if k != "sasl.mechanism"},
            "sasl.jaas.config",
            "for PLAIN, and sasl.mechanism is not given",
        ),
        (
            {**LOGIN, "sasl.jaas.config": JAAS.replace("plain.", "plian.")},
            "sasl.jaas.config",
            f"did you mean '{PLAIN}'",
        ),
    ],
)
def test_properties_that_cannot_be_meant_are_refused(options: dict[str, str], name: str, told: str) -> None:
    mistakes = _mistakes(options)
    assert list(mistakes) == [name]
    assert told in mistakes[name]


@pytest.mark.slow
@pytest.mark.parametrize(
    "jaas",
    [
        JAAS.removesuffix(";"),
        JAAS.replace('"', ""),
        JAAS.replace(" required", ""),
        "secret",
        JAAS.replace("password=", "password "),
    ],
)
def test_a_jaas_text_that_cannot_be_read_is_refused_and_not_repeated(jaas: str) -> None:
    mistakes = _mistakes({**LOGIN, "sasl.jaas.config": jaas})
    assert "cannot be read" in mistakes["sasl.jaas.config"]
    assert "secret" not in mistakes["sasl.jaas.config"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        LOGIN,
        {"security.protocol": "ssl", "ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"},
        {"config.providers": "vault", "config.providers.vault.class": "my.Vault"},
        {**PEM_KEY, "ssl.key.password": "x"},
        {**PEM_KEY, "ssl.keystore.type": "PKCS12", "ssl.keystore.password": "x", "ssl.key.password": "x"},
        {"security.protocol": "SSL", "ssl.engine.factory.class": "my.Engine", "ssl.keystore.password": "x"},
        {"isolation.level": "read_uncommitted", "metadata.max.age.ms": "1000", "receive.buffer.bytes": "-1"},
        {**LOGIN, "sasl.jaas.config": JAAS.replace('"it\'s, a; secret word"', r'"quote \" and backslash \\"')},
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
            ' keyTab="/etc/tide.keytab" principal="tide@EXAMPLE.COM";',
        },
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token",
            "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.secured."
            "OAuthBearerLoginCallbackHandler",
            "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
            ' clientId="tide" clientSecret="a b";',
        },
    ],
)
def test_what_kafka_takes_is_taken_without_a_word(options: dict[str, str]) -> None:
    assert list(property_mistakes(options)) == []
    assert list(property_warnings(options)) == []


def test_what_only_a_plug_in_can_mean_is_warned_of() -> None:
    options = {**LOGIN, "my.vault.path": "a", "sasl.mechanism": "AWS_MSK_IAM", "sasl.jaas.config": "my.Login required;"}
    assert list(property_mistakes(options)) == []
    warnings = dict(property_warnings(options))
    assert set(warnings) == {"my.vault.path", "sasl.mechanism"}
    assert "only if a plug-in reads it" in warnings["my.vault.path"]


@pytest.mark.parametrize(
    ("servers", "told"),
    [
        ("localhost", ["'localhost' is not HOST:PORT; add the port: localhost:9092"]),
        ("a:9092,b", ["'b' is not HOST:PORT; add the port: b:9092"]),
        ("a:99999", ["'a:99999': ports are 1 to 65535"]),
        ("a:1 b:2", ["'a:1 b:2' is not HOST:PORT; write HOST:PORT,HOST:PORT"]),
        ("a:9092, b.example.com:9093", []),
        ("SSL://a:9092,[::1]:9092", []),
    ],
)
def test_servers_are_hosts_with_ports(servers: str, told: list[str]) -> None:
    assert list(server_mistakes(servers)) == told


PIPELINE = """\
version: 1
name: shop
source:
  kafka:
    bootstrap_servers: broker
    topics: [orders]
    options:
      sasl.mechansm: PLAIN
      my.plug.in: x
  format: debezium-json
checkpoint: cp
catalog: { warehouse: w }
otherwise: create
"""


def test_mistakes_have_their_place_in_the_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(PIPELINE)
    with caplog.at_level(logging.WARNING), pytest.raises(ConfigError) as refusal:
        load_pipeline(file)
    assert str(refusal.value).splitlines() == [
        f"{file}:5:5: source.kafka.bootstrap_servers: 'broker' is not HOST:PORT; add the port: broker:9092",
        f"{file}:8:7: source.kafka.options: unknown property 'sasl.mechansm' of Kafka's client;"
        " did you mean 'sasl.mechanism'?",
    ]
    assert f"{file}:9:7: warning: source.kafka.options: Kafka's client has no property 'my.plug.in'" in caplog.text
