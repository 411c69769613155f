"""Failures of Kafka's client in the words of a user, by their cause, with a remedy.

A failure is the chain of Java's exceptions, outermost first, as (simple class name, message). Messages never repeat
parts of ``sasl.jaas.config``: a password without its quotes would be among them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from paimon_table.errors import ConfigError, Outage, SinkUnavailable, TidemarkError

Cause = tuple[str, str]
"""Simple name of a Java exception's class, and its message."""

_OPTIONS = "source.kafka.options"


class NotAllowed(SinkUnavailable):
    """The user lacks a right on a topic, a group or the cluster."""

    public_words = "Kafka does not allow the user of the pipeline to do this"


def kafka_failure(servers: str, causes: Sequence[Cause]) -> TidemarkError:
    """The error for a failure.

    ConfigError if the pipeline file is wrong whatever Kafka says, SinkUnavailable if Kafka refuses or fails. A refused
    login, certificate or right may be fixed on either side: then a restart helps.
    """
    names = {name for name, _ in causes}
    text = " | ".join(message for _, message in causes if message)
    found = (
        _of_tls(servers, names, text)
        or _of_login(servers, names, text, causes)
        or _of_stores(causes)
        or _of_address(servers, text)
        or _of_properties(names, causes)
        or _of_groups(names)
        or _of_rights(servers, names, causes)
        or _of_shared_consumer(names)
        or _no_answer(servers, causes)
    )
    return found.without_values()


def causes_in(text: str) -> list[Cause]:
    """The chain of Kafka's and Java's exceptions in the text of a Spark failure."""
    found = re.findall(r"([A-Za-z_][\w$]*(?:\.[\w$]+)+(?:Exception|Error))(?:: ([^\n]*))?", _without_frames(text))
    return [(name.rpartition(".")[2].rpartition("$")[2], message) for name, message in found]


NOT_THERE = "OffsetsNotThere: "
"""The beginning of the failure of a task that reads directly and finds other offsets than planned."""

_OF_KAFKA = re.compile(
    r"org\.apache\.kafka\.[\w.$]*(?:Exception|Error)\b|not available in Kafka|KAFKA_DATA_LOSS"
    r"|Kafka topic\(s\) (?:have|report)|KafkaConsumer is not safe"
)


def is_of_kafka(text: str) -> bool:
    """Whether Kafka's client, or Spark's request for offsets, causes a Spark failure.

    Plans and frames name classes of the Kafka reader in every failure.
    """
    return NOT_THERE in text or _OF_KAFKA.search(_without_frames(text)) is not None


def _without_frames(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("at "))


def _of_tls(servers: str, names: set[str], text: str) -> TidemarkError | None:
    if not names & {"SslAuthenticationException", "SSLHandshakeException", "SSLException"}:
        return None
    detail = text.rpartition(" | ")[2]
    if re.search(r"fatal alert: (?!protocol_version|unrecognized_name)", text):
        return SinkUnavailable(
            f"Kafka at {servers} refuses the certificate of this pipeline, or asks for one and gets none ({detail})."
            f" Under {_OPTIONS}, ssl.keystore.* must name a valid certificate of an authority that the broker trusts"
        )
    if re.search(r"NotAfter|[Ee]xpired", text):
        return SinkUnavailable(
            f"the certificate of Kafka at {servers}, or of the authority that signed it, has expired ({detail}). Renew "
            "it on the broker, or put the new authority into the truststore"
        )
    if "NotBefore" in text or "not yet valid" in text:
        return SinkUnavailable(
            f"the certificate of Kafka at {servers} is not valid yet ({detail}): compare the clocks of this machine "
            "and of the broker"
        )
    if re.search(
        r"certification path|PKIX path building|[Nn]o trusted certificate|trustAnchors"
        r"|unable to get local issuer|self-signed certificate",
        text,
    ):
        return ConfigError(
            f"the certificate of Kafka at {servers} is not signed by an authority in the truststore ({detail}). Name "
            f"the authority's certificate under {_OPTIONS} by ssl.truststore.location or ssl.truststore.certificates"
        )
    if re.search(r"[Nn]o subject alternative|No name matching|certificate is not valid for", text):
        return ConfigError(
            f"the certificate of Kafka at {servers} is for another host ({detail}): use a name of the certificate in "
            "bootstrap_servers and in advertised.listeners of the broker"
        )
    if "Unsupported or unrecognized SSL message" in text or "wrong version number" in text:
        return ConfigError(
            f"Kafka at {servers} does not speak TLS on that port: use another port, or set security.protocol to "
            f"PLAINTEXT or SASL_PLAINTEXT under {_OPTIONS}"
        )
    return ConfigError(f"no TLS connection to Kafka at {servers} ({detail}): check ssl.* under {_OPTIONS}")


def _of_login(servers: str, names: set[str], text: str, causes: Sequence[Cause]) -> TidemarkError | None:
    if names & {"UnsupportedSaslMechanismException", "IllegalSaslStateException"}:
        return ConfigError(
            f"Kafka at {servers} does not offer this kind of login ({_innermost(causes)}): check sasl.mechanism and "
            f"security.protocol under {_OPTIONS}"
        )
    if _NO_TOKEN.search(text):
        detail = re.sub(r"^(?:[\w.$]+Exception: )+", "", _innermost(causes))
        kind = Outage if _ENDPOINT_AWAY.search(text) else SinkUnavailable
        return kind(
            f"there is no token for the login to Kafka at {servers} ({detail}): check clientId and clientSecret in"
            f" sasl.jaas.config, and sasl.oauthbearer.token.endpoint.url, under {_OPTIONS}"
        )
    if "SaslAuthenticationException" in names:
        said = _message_of(causes, "SaslAuthenticationException")
        what = "client id and scope in" if "invalid_token" in said else "user and password in"
        return SinkUnavailable(
            f"Kafka at {servers} refuses the login ({said}): check {what} sasl.jaas.config, and sasl.mechanism, under"
            f" {_OPTIONS}"
        )
    if "LoginException" in names:
        module = re.search(r"No LoginModule found for ([\w$]+(?:\.[\w$]+)+)", text)
        detail = f"there is no login module {module[1]}" if module else _innermost(causes)
        return ConfigError(
            f"the login to Kafka at {servers} fails before it reaches Kafka ({detail}): check sasl.* under {_OPTIONS}"
        )
    if "JAAS" in text:
        return ConfigError(
            f"sasl.jaas.config under {_OPTIONS} is missing or cannot be read. It must look like this, with the quotes "
            'and the semicolon: MODULE required username="..." password="...";'
        )
    return None


_NO_TOKEN = re.compile(r"Failed to acquire SASL OAUTHBEARER token|token endpoint|KafkaException: java\.net\.")
"""Of librdkafka, and of Java's client."""
_ENDPOINT_AWAY = re.compile(r"Failed to connect|Could not (?:connect|resolve)|KafkaException: java\.net\.")


def _of_stores(causes: Sequence[Cause]) -> TidemarkError | None:
    for name, message in causes:
        if name in ("NoSuchFileException", "FileNotFoundException", "AccessDeniedException"):
            what = "cannot be read" if name == "AccessDeniedException" else "is not there"
            return ConfigError(
                f"the file {message} {what}: check ssl.truststore.location and ssl.keystore.location under {_OPTIONS}"
            )
    text = " | ".join(message for _, message in causes)
    opened = _NOT_OPENED.search(text)
    if opened is not None:
        reason = text.rpartition("::")[2]
        if opened[1] == "ca":
            return ConfigError(
                f"the truststore cannot be read ({reason}): check ssl.truststore.location, or"
                f" ssl.truststore.certificates, under {_OPTIONS}; it must hold certificates as PEM"
            )
        if reason == "key values mismatch":
            return ConfigError(
                "the private key of this pipeline does not match its certificate: put a key and the certificate "
                f"made for it into ssl.keystore.* under {_OPTIONS}"
            )
        return ConfigError(
            f"the key or the certificate of this pipeline cannot be read ({reason}). Check the file and the type of"
            f" ssl.keystore.* under {_OPTIONS}, and the password (ssl.key.password; of PKCS12 ssl.keystore.password)"
        )
    store = re.search(r"Failed to load (?:SSL|PEM SSL) keystore (\S+)(?: of type (\S+))?", text)
    if store is None:
        return None
    kind = f" as {store[2]}" if store[2] else ""
    return ConfigError(
        f"the store {store[1]} cannot be opened{kind} ({_innermost(causes)}): check its password and its type "
        f"(ssl.truststore.type, ssl.keystore.type: JKS, PKCS12 or PEM) under {_OPTIONS}"
    )


_NOT_OPENED = re.compile(r"\bssl\.(ca|key|certificate|keystore)\.(?:location|pem)\b.*error:")
"""Matches messages of librdkafka, whose names for key and trust stores differ from the names in pipeline files."""


def _of_address(servers: str, text: str) -> TidemarkError | None:
    if "No resolvable bootstrap urls" in text or "UnknownHostException" in text:
        return Outage(
            f"this machine cannot resolve any host of {servers}: check bootstrap_servers and the name service"
        )
    if "Invalid url in bootstrap.servers" in text:
        return ConfigError(f"bootstrap_servers {servers} is not a list of HOST:PORT")
    return None


def _of_properties(names: set[str], causes: Sequence[Cause]) -> TidemarkError | None:
    if names & {"ConfigException", "InvalidConfigurationException", "IllegalArgumentException"}:
        return ConfigError(f"Kafka's client refuses properties under {_OPTIONS}: {_innermost(causes)}")
    return None


def _of_groups(names: set[str]) -> TidemarkError | None:
    if names & {"UnknownMemberIdException", "GroupNotEmptyException"}:
        return ConfigError(
            "other consumers are members of the group: choose a group_id that no other consumer uses (source.kafka)"
        )
    return None


def _of_rights(servers: str, names: set[str], causes: Sequence[Cause]) -> TidemarkError | None:
    if any(name.endswith("AuthorizationException") for name in names):
        return NotAllowed(
            f"Kafka at {servers} does not allow this user to do this ({_innermost(causes)}). The user needs "
            "Describe and Read "
            "on the topics, and Read on groups that begin with spark-kafka-source and on group_id"
        )
    if "UnsupportedVersionException" in names:
        return SinkUnavailable(f"Kafka at {servers} is too old ({_innermost(causes)}): version 2.1 or later is needed")
    return None


def _no_answer(servers: str, causes: Sequence[Cause]) -> TidemarkError:
    kind = Outage if not causes or any(_PASSING.search(name) for name, _ in causes) else SinkUnavailable
    return kind(
        f"Kafka at {servers} does not answer ({_innermost(causes)}). Check that it runs, bootstrap_servers and the "
        "network, and security.protocol (if only one side uses TLS, there is no answer)"
    )


_PASSING = re.compile(
    r"Timeout|Disconnect|Network|NotAvailable|NotLeader|LeaderEpoch|NotEnoughReplicas|NotCoordinator|CoordinatorLoad"
    r"|UnknownServer|UnknownTopicOrPartition|KafkaStorage|Throttl|Retriable|Metadata"
    r"|^(?:Socket|Connect|EOF|ClosedChannel)Exception$"
)
"""Exceptions of brokers that restart, elect leaders, or cannot be reached at the moment."""


def _of_shared_consumer(names: set[str]) -> TidemarkError | None:
    """Spark returns a consumer and continues with it if records disappeared while several tasks read a partition."""
    if "ConcurrentModificationException" not in names:
        return None
    return Outage("Kafka deleted records while several tasks read them, and Spark gave up the batch")


def _innermost(causes: Sequence[Cause]) -> str:
    told = [message or name for name, message in causes]
    return told[-1].splitlines()[0].rstrip(".;: ") if told else "no reason given"


def _message_of(causes: Sequence[Cause], wanted: str) -> str:
    return next((m for name, m in reversed(causes) if name == wanted and m), wanted).rstrip(".;: ")
