"""Java's properties as librdkafka's: what is said the same, and what only Java's client can do."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer

from pipelines.config.kafka_properties import KNOWN
from sources.kafka.client_properties import DEFAULTS, librdkafka_properties, why_not_direct

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SASL = {"security.protocol": "SASL_PLAINTEXT"}


def _login(mechanism: str, module: str, values: str) -> dict[str, str]:
    return {**SASL, "sasl.mechanism": mechanism, "sasl.jaas.config": f"{module} required {values};"}


def _own(java: dict[str, str]) -> dict[str, str]:
    """What the properties add to those that a consumer always has; librdkafka takes all of it."""
    found = librdkafka_properties("localhost:1", java)
    consumer = {name: value for name, value in found.items() if not name.endswith(".location")}
    Consumer({**consumer, "log_level": 0}).close()
    return {name: value for name, value in found.items() if DEFAULTS.get(name) != value and name != "bootstrap.servers"}


@pytest.mark.parametrize(
    ("java", "own"),
    [
        ({}, {}),
        ({"client.rack": "eu-1", "request.timeout.ms": "4000"}, {"client.rack": "eu-1", "socket.timeout.ms": "4000"}),
        ({"send.buffer.bytes": "-1"}, {"socket.send.buffer.bytes": "0"}),
        ({"fetch.max.wait.ms": "7", "fetch.max.bytes": "1"}, {"fetch.wait.max.ms": "7", "fetch.max.bytes": "1000"}),
        ({"isolation.level": "read_uncommitted"}, {"isolation.level": "read_uncommitted"}),
        ({"session.timeout.ms": "1", "default.api.timeout.ms": "5"}, {}),
        (
            _login("PLAIN", PLAIN, r'username="me" password="a \"b\" \\ ;c=d"'),
            {**SASL, "sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": r'a "b" \ ;c=d'},
        ),
        (
            _login("SCRAM-SHA-512", SCRAM, "username='me' password='it;'"),
            {**SASL, "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "me", "sasl.password": "it;"},
        ),
        (
            _login("OAUTHBEARER", OAUTH, 'clientId="me" clientSecret="it" scope="all" extension_cluster="c"')
            | {"sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token"},
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "me",
                "sasl.oauthbearer.client.secret": "it",
                "sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token",
                "sasl.oauthbearer.scope": "all",
                "sasl.oauthbearer.extensions": "cluster=c",
                "security.protocol": "SASL_PLAINTEXT",
            },
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": "/a.pem"},
            {"security.protocol": "SSL", "ssl.ca.location": "/a.pem"},
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.type": "PEM", "ssl.keystore.location": "/me.pem"},
            {"security.protocol": "SSL", "ssl.key.location": "/me.pem", "ssl.certificate.location": "/me.pem"},
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/me.p12"}
            | {"ssl.keystore.password": "it", "ssl.endpoint.identification.algorithm": ""},
            {"security.protocol": "SSL", "ssl.keystore.location": "/me.p12", "ssl.keystore.password": "it"}
            | {"ssl.endpoint.identification.algorithm": "none"},
        ),
    ],
)  # fmt: skip
def test_properties_say_the_same_to_librdkafka(java: dict[str, str], own: dict[str, str]) -> None:
    assert _own(java) == own


@pytest.mark.parametrize(
    ("java", "name"),
    [
        ({"security.protocol": "SSL", "ssl.truststore.location": "/t.jks"}, "ssl.truststore.type"),
        (
            {"security.protocol": "SSL", "ssl.truststore.type": "PKCS12", "ssl.truststore.location": "/t.p12"},
            "ssl.truststore.type",
        ),
        ({"security.protocol": "SSL", "ssl.keystore.location": "/t.jks"}, "ssl.keystore.type"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism"),
        (SASL, "sasl.mechanism"),
        (_login("SCRAM-SHA-256", SCRAM, 'username="me" password="it" tokenauth="true"'), "sasl.jaas.config"),
        (_login("PLAIN", PLAIN, r'username="me" password="a\tb"'), "sasl.jaas.config"),
        (_login("PLAIN", "com.example.Module", 'username="me" password="it"'), "sasl.jaas.config"),
        (_login("OAUTHBEARER", OAUTH, 'unsecuredLoginStringClaim_sub="me"'), "sasl.jaas.config"),
        ({"ssl.engine.factory.class": "com.example.Engine"}, "ssl.engine.factory.class"),
        ({"metric.reporters": "com.example.Reporter"}, "metric.reporters"),
        ({"of.a.plug-in": "x"}, "of.a.plug-in"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "ssl.cipher.suites"),
    ],
)
def test_what_only_javas_client_does_is_named_without_its_value(java: dict[str, str], name: str) -> None:
    found = why_not_direct(java)
    assert found is not None and found.name == name and f"'{name}'" in str(found)
    assert not any(secret in str(found) for secret in ("me", '"it"') if f" {secret}" in str(found))


def test_every_property_that_files_may_hold_is_acted_on_or_named() -> None:
    """One by one: none is passed on that librdkafka would not know."""
    values = {"sasl.mechanism": "PLAIN", "security.protocol": "PLAINTEXT", "isolation.level": "read_committed"}
    words = {"client.dns.lookup": "use_all_dns_ips", "metadata.recovery.strategy": "none"}
    for name in sorted(KNOWN):
        java = {name: {**values, **words}.get(name, "1000" if name.endswith(("ms", "bytes")) else "true")}
        if name == "ssl.endpoint.identification.algorithm":
            java = {name: "https"}
        if why_not_direct(java) is None:
            Consumer({**librdkafka_properties("localhost:1", java), "log_level": 0}).close()
