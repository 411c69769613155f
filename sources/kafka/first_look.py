"""A check of Kafka before the JVM starts: whether a server takes connections, and which topics it has.

A start of Spark takes from seconds to minutes. A mistyped topic or a broker that is down shows without it. librdkafka
asks if it can connect with the properties. With TLS or a login it asks only if the tasks read with it too; otherwise
the check only connects.
"""

from __future__ import annotations

import socket

from sources.kafka.client_properties import Unmappable
from sources.kafka.direct_admin import DirectAdmin
from sources.kafka.failures import Cause, kafka_failure
from sources.kafka.settings import KafkaSettings
from sources.kafka.stores_look import HOST_PORT

WAIT_S = 5.0

_UNKNOWN_HOST: Cause = ("ConfigException", "No resolvable bootstrap urls")
"""The words of Java's client if no host name resolves."""


def topics_at_first_look(kafka: KafkaSettings) -> frozenset[str] | None:
    """The topics that Kafka lists; None if it accepts connections, and only Java's client can ask for more.

    Raises the error of ``kafka_failure`` if no server accepts a connection or answers, or if login or certificate are
    refused.
    """
    causes: list[Cause] = []
    for server in kafka.servers.split(","):
        found = HOST_PORT.fullmatch(server.strip())
        if found is None:
            return None
        try:
            socket.create_connection((found[1], int(found[2])), WAIT_S).close()
        except socket.gaierror:
            causes.append(_UNKNOWN_HOST)
        except OSError as error:
            causes.append(("ConnectException", f"{server.strip()}: {error.strerror or error}"))
        else:
            return _listed(kafka)
    raise kafka_failure(kafka.servers, [cause for cause in causes if cause != _UNKNOWN_HOST] or causes)


def _listed(kafka: KafkaSettings) -> frozenset[str] | None:
    is_plain = kafka.properties.get("security.protocol", "PLAINTEXT").upper() == "PLAINTEXT"
    if not (is_plain or kafka.is_direct):
        return None
    try:
        return frozenset(DirectAdmin(kafka).places())
    except Unmappable:
        return None
