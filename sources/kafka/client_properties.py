"""Properties of Java's Kafka client as those of librdkafka, for a look at Kafka without a JVM.

A pipeline file has Java's names. What says how to connect is translated, or refused where librdkafka has nothing like
it; what only tunes Java's client says nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from paimon_table.errors import ConfigError

_SAME = (
    "client.id",
    "client.rack",
    "isolation.level",
    "sasl.mechanism",
    "security.protocol",
    "ssl.key.password",
    "ssl.keystore.password",
    "ssl.cipher.suites",
)
_RENAMED = {
    "sasl.kerberos.service.name": "sasl.kerberos.service.name",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
_LOGIN = re.compile(r"(?:^|\.)(?:PlainLoginModule|ScramLoginModule)\s+required\b")
_ENTRY = re.compile(r"""\b(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;]+))""")
_NOTHING_ELSE = "`tidemark run` takes it; a look at the topics without Java does not"


def librdkafka_properties(servers: str, properties: Mapping[str, str]) -> dict[str, str]:
    """What librdkafka connects by. ConfigError where it cannot connect as the properties say."""
    found = {name: properties[name] for name in _SAME if name in properties}
    found |= {ours: properties[name] for name, ours in _RENAMED.items() if name in properties}
    found |= _login(properties) | _stores(properties)
    if "ssl.endpoint.identification.algorithm" in properties:
        found["ssl.endpoint.identification.algorithm"] = (
            properties["ssl.endpoint.identification.algorithm"].strip().lower() or "none"
        )
    return {**found, "bootstrap.servers": servers}


def _login(properties: Mapping[str, str]) -> dict[str, str]:
    mechanism = properties.get("sasl.mechanism", "").upper()
    if not properties.get("security.protocol", "").upper().startswith("SASL"):
        return {}
    if mechanism != "PLAIN" and not mechanism.startswith("SCRAM"):
        raise ConfigError(f"source.kafka.options: sasl.mechanism {mechanism or 'GSSAPI'}: {_NOTHING_ELSE}")
    config = properties.get("sasl.jaas.config", "")
    entries = {name: quoted or plain for name, quoted, plain in _ENTRY.findall(config)}
    if _LOGIN.search(config) is None or not {"username", "password"} <= entries.keys():
        raise ConfigError(
            "source.kafka.options: sasl.jaas.config: no user name and password of PlainLoginModule or ScramLoginModule;"
            f" {_NOTHING_ELSE}"
        )
    plain = {name: re.sub(r"\\(.)", r"\1", text) for name, text in entries.items()}
    return {f"sasl.{name}": plain[name] for name in ("username", "password")}


def _stores(properties: Mapping[str, str]) -> dict[str, str]:
    found = {}
    trust = properties.get("ssl.truststore.location")
    if trust is not None:
        _check_kind("ssl.truststore", properties, ("PEM",))
        found["ssl.ca.location"] = trust
    keys = properties.get("ssl.keystore.location")
    if keys is not None:
        kind = _check_kind("ssl.keystore", properties, ("PEM", "PKCS12"))
        names = ("ssl.keystore.location",) if kind == "PKCS12" else ("ssl.certificate.location", "ssl.key.location")
        found |= dict.fromkeys(names, keys)
    return found


def _check_kind(store: str, properties: Mapping[str, str], known: tuple[str, ...]) -> str:
    kind = properties.get(f"{store}.type", "JKS").upper()
    if kind not in known:
        raise ConfigError(
            f"source.kafka.options: {store}.type {kind}: {_NOTHING_ELSE}; a store of type {' or '.join(known)} serves"
            " both"
        )
    return kind
