"""Translates properties of Kafka's Java client into properties of librdkafka, which reads in the tasks.

Pipeline files use the names of the Java client, which users know. If librdkafka has no equivalent, ``Unmappable`` names
the property and says what to do: then Spark's reader, which has Java's client, must read instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

GROUP = "spark-kafka-source-tidemark"
"""librdkafka requires a group. Nothing joins it or commits; the prefix is Spark's, which access rights may name."""

_SAME_WORDS = """
allow.auto.create.topics check.crcs client.dns.lookup client.id client.rack connections.max.idle.ms
enable.metrics.push fetch.max.bytes fetch.min.bytes isolation.level max.partition.fetch.bytes metadata.max.age.ms
metadata.recovery.strategy reconnect.backoff.max.ms reconnect.backoff.ms retry.backoff.max.ms retry.backoff.ms
sasl.mechanism security.protocol socket.connection.setup.timeout.ms ssl.endpoint.identification.algorithm
"""
_SAME = frozenset(_SAME_WORDS.split())
_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "request.timeout.ms": "socket.timeout.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.key.password": "ssl.key.password",
}
_WITHOUT_EFFECT_WORDS = """
auto.include.jmx.reporter default.api.timeout.ms exclude.internal.topics group.instance.id heartbeat.interval.ms
max.poll.interval.ms metrics.num.samples metrics.recording.level metrics.sample.window.ms
partition.assignment.strategy retries sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
sasl.login.refresh.window.factor sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms
sasl.login.retry.backoff.ms session.timeout.ms socket.connection.setup.timeout.max.ms
"""
_WITHOUT_EFFECT = frozenset(_WITHOUT_EFFECT_WORDS.split())
"""Properties of groups, which no reader joins; of Java's metrics and login thread; and of Tidemark itself."""

_OF_STORES_WORDS = """
sasl.jaas.config sasl.login.callback.handler.class sasl.oauthbearer.token.endpoint.url ssl.keystore.certificate.chain
ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.truststore.certificates
ssl.truststore.location ssl.truststore.password ssl.truststore.type
"""
_OF_STORES = frozenset(_OF_STORES_WORDS.split())
"""The properties translated below."""

SECRET = frozenset(
    {
        "sasl.oauthbearer.client.secret",
        "sasl.password",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.password",
    }
)
"""Secret properties of librdkafka."""

_LEAST_BYTES, _MOST_BYTES = 1000, (1 << 31) - 1
"""The sizes that librdkafka allows for a record and for a response. A sent record may not be larger than a fetch."""

DEFAULTS: Mapping[str, str] = {
    "group.id": GROUP,
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
    "check.crcs": "true",
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": "10",
    "fetch.queue.backoff.ms": "5",
    "fetch.error.backoff.ms": "100",
    "fetch.max.bytes": str(16 << 20),
    "max.partition.fetch.bytes": str(2 << 20),
    "queued.max.messages.kbytes": "8192",
    "queued.min.messages": "1000000",
    "receive.message.max.bytes": str(_MOST_BYTES),
    "message.max.bytes": str(_LEAST_BYTES),
    "max.poll.interval.ms": "86400000",
    "topic.metadata.propagation.max.ms": "5000",
    "reconnect.backoff.max.ms": "1000",
    "socket.keepalive.enable": "true",
}
"""The properties of Tidemark's consumers; the pipeline file overrides them.

A consumer holds one fetch and 8 MiB fetched ahead, whatever the number of partitions: one queue serves all partitions.
A reader with a full queue asks again after 5 ms; by default librdkafka would wait a second.
"""

_PEM_LINES = re.compile(r"\\n")
_JAAS = re.compile(
    r"\s*([\w.$]+)\s+\w+((?:\s+[\w.$-]+\s*=\s*(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[\w$.:/@-]+))*)\s*;\s*"
)
_JAAS_OPTION = re.compile(r"([\w.$-]+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|([\w$.:/@-]+))")
_PLAIN_MODULES = (
    "org.apache.kafka.common.security.plain.PlainLoginModule",
    "org.apache.kafka.common.security.scram.ScramLoginModule",
)
_OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_OAUTH_HANDLERS = (
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
)
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


class Unmappable(Exception):
    """A request that librdkafka cannot fulfil: the property, and the alternative."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"'{name}' {why}")
        self.name = name


def why_not_direct(java: Mapping[str, str]) -> Unmappable | None:
    """Why these properties need Java's client; None if librdkafka supports them."""
    try:
        librdkafka_properties("", java)
    except Unmappable as found:
        return found
    return None


def librdkafka_properties(servers: str, java: Mapping[str, str]) -> dict[str, str]:
    """The equivalent configuration of a consumer, or of an admin client. Raises ``Unmappable``. Includes passwords."""
    found = {"bootstrap.servers": servers, **DEFAULTS}
    protocol = java.get("security.protocol", "PLAINTEXT").upper()
    for name, value in java.items():
        if name in _SAME:
            found[name] = value
        elif name in _RENAMED:
            # -1 leaves the size of a buffer to the system, which librdkafka calls 0.
            found[_RENAMED[name]] = "0" if value.strip() == "-1" else value
        elif name not in _WITHOUT_EFFECT and name not in _OF_STORES:
            raise Unmappable(name, "is a property that only Java's client acts on")
    if found.get("ssl.endpoint.identification.algorithm") == "":
        found["ssl.endpoint.identification.algorithm"] = "none"
    if protocol.endswith("SSL"):
        found |= _of_tls(java)
    if protocol.startswith("SASL"):
        found |= _of_login(java)
    found["fetch.max.bytes"] = str(min(max(int(found["fetch.max.bytes"]), _LEAST_BYTES), _MOST_BYTES - 512))
    return found


def _of_tls(java: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    trust = java.get("ssl.truststore.type", "JKS").upper()
    if "ssl.truststore.certificates" in java:
        found["ssl.ca.pem"] = _pem(java["ssl.truststore.certificates"])
    elif "ssl.truststore.location" in java:
        if trust != "PEM":
            raise Unmappable(
                "ssl.truststore.type",
                f"is {trust}, which only Java's client reads: export the certificates as PEM (keytool -list -rfc),"
                " and set ssl.truststore.type to PEM",
            )
        found["ssl.ca.location"] = java["ssl.truststore.location"]
    keys = java.get("ssl.keystore.type", "JKS").upper()
    if "ssl.keystore.key" in java:
        found["ssl.key.pem"] = _pem(java["ssl.keystore.key"])
        found["ssl.certificate.pem"] = _pem(java.get("ssl.keystore.certificate.chain", ""))
    elif "ssl.keystore.location" in java:
        location = java["ssl.keystore.location"]
        if keys == "PEM":
            found["ssl.key.location"] = found["ssl.certificate.location"] = location
        elif keys == "PKCS12":
            found["ssl.keystore.location"] = location
            found["ssl.keystore.password"] = java.get("ssl.keystore.password", "")
        else:
            raise Unmappable(
                "ssl.keystore.type",
                f"is {keys}, which only Java's client reads: convert the store to PKCS12 (keytool -importkeystore),"
                " and set ssl.keystore.type to PKCS12",
            )
    return found


def _pem(text: str) -> str:
    r"""Java reads ``\n`` as the end of a line."""
    return _PEM_LINES.sub("\n", text)


def _of_login(java: Mapping[str, str]) -> dict[str, str]:
    mechanism = java.get("sasl.mechanism", "GSSAPI")
    if mechanism not in _MECHANISMS:
        raise Unmappable("sasl.mechanism", f"is {mechanism}, which only Java's client supports")
    handler = java.get("sasl.login.callback.handler.class")
    if handler is not None and not (mechanism == "OAUTHBEARER" and handler in _OAUTH_HANDLERS):
        raise Unmappable("sasl.login.callback.handler.class", "names a Java class")
    form = _JAAS.fullmatch(java.get("sasl.jaas.config", ""))
    if form is None:
        raise Unmappable("sasl.jaas.config", "is missing, or cannot be read")
    given = {name: _unquoted(double, single, word) for name, double, single, word in _JAAS_OPTION.findall(form[2])}
    if mechanism == "OAUTHBEARER":
        return _of_oauth(java, form[1], given)
    if form[1] not in _PLAIN_MODULES or not {"username", "password"} >= given.keys() or len(given) != 2:
        raise Unmappable("sasl.jaas.config", "has more than the user and password of a known login module")
    return {"sasl.username": given["username"], "sasl.password": given["password"]}


def _of_oauth(java: Mapping[str, str], module: str, given: Mapping[str, str]) -> dict[str, str]:
    endpoint = java.get("sasl.oauthbearer.token.endpoint.url")
    wanted = {"clientId", "clientSecret", "scope"}
    extensions = {name.removeprefix("extension_"): v for name, v in given.items() if name.startswith("extension_")}
    unknown = [name for name in given if name not in wanted and not name.startswith("extension_")]
    if module != _OAUTH_MODULE or endpoint is None or unknown or not {"clientId", "clientSecret"} <= given.keys():
        raise Unmappable("sasl.jaas.config", "is not a client id and a client secret for a token endpoint")
    if endpoint.startswith("file:"):
        raise Unmappable("sasl.oauthbearer.token.endpoint.url", "is a file, which only Java's client reads")
    found = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": given["clientId"],
        "sasl.oauthbearer.client.secret": given["clientSecret"],
        "sasl.oauthbearer.token.endpoint.url": endpoint,
    }
    if "scope" in given:
        found["sasl.oauthbearer.scope"] = given["scope"]
    if extensions:
        found["sasl.oauthbearer.extensions"] = ",".join(f"{name}={value}" for name, value in extensions.items())
    return found


def _unquoted(double: str, single: str, word: str) -> str:
    if re.search(r"\\[^\"'\\]", re.sub(r"\\\\", "", double + single)):
        raise Unmappable("sasl.jaas.config", "has escapes other than those of quotes and backslashes")
    return re.sub(r"\\(.)", r"\1", double or single) or word
