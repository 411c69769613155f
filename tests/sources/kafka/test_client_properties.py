"""Properties of Java's client as librdkafka takes them."""

from __future__ import annotations

import pytest

from paimon_table.errors import ConfigError
from sources.kafka.client_properties import librdkafka_properties


def test_a_plain_cluster_needs_its_servers_alone() -> None:
    found = librdkafka_properties("a:1,b:2", {"fetch.max.wait.ms": "10", "isolation.level": "read_committed"})
    assert found == {"bootstrap.servers": "a:1,b:2", "isolation.level": "read_committed"}


def test_logins_and_stores_are_translated() -> None:
    login = 'x.scram.ScramLoginModule required username="a\\"b" password=plain;'
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": login,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "/own.pem",
        "ssl.endpoint.identification.algorithm": "",
    }
    assert librdkafka_properties("a:1", properties) == {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": 'a"b',
        "sasl.password": "plain",
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/own.pem",
        "ssl.key.location": "/own.pem",
        "ssl.endpoint.identification.algorithm": "none",
    }


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"ssl.truststore.location": "/a.jks"}, "ssl.truststore.type JKS"),
        ({"ssl.keystore.location": "/a.jks", "ssl.keystore.type": "JKS"}, "of type PEM or PKCS12 serves both"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "sasl.mechanism GSSAPI"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "no user name and password"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "x"}, "no user name"),
    ],
)
def test_what_only_java_takes_is_refused_by_name(properties: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError) as error:
        librdkafka_properties("a:1", properties)
    assert told in str(error.value)
    assert "`tidemark run` takes it" in str(error.value)
