"""A look at Kafka before there is a JVM: whether a server takes connections, and which topics it has.

A start of Spark takes from seconds to minutes, and it takes no Spark to find a mistyped topic or a broker that is down.
It asks for Metadata in version 4, which brokers take since 1.0. With TLS or a login librdkafka asks, where the tasks
read with it; else the look only connects. An answer that it does not understand shows nothing: checks follow later.
"""

from __future__ import annotations

import logging
import re
import socket
import struct
from dataclasses import dataclass

from sources.kafka.direct_admin import DirectAdmin
from sources.kafka.failures import Cause, kafka_failure
from sources.kafka.settings import KafkaSettings

log = logging.getLogger(__name__)

WAIT_S = 5.0
MOST_BYTES = 64 << 20

_METADATA, _VERSION, _ALL_TOPICS = 3, 4, -1
_UNKNOWN_HOST: Cause = ("ConfigException", "No resolvable bootstrap urls")
"""What Java's client says where no host is known."""

_HOST_PORT = re.compile(r"(?:[^/]*://)?\[?([^\]]+?)\]?:(\d+)")


def topics_at_first_look(kafka: KafkaSettings, wait_s: float = WAIT_S) -> frozenset[str] | None:
    """The topics that Kafka lists; None if it accepts connections, and only Java's client can ask for more.

    Raises the error of ``kafka_failure`` if no server accepts a connection, or if the login or certificate is refused.
    """
    causes: list[Cause] = []
    is_plain = kafka.properties.get("security.protocol", "PLAINTEXT").upper() == "PLAINTEXT"
    for server in kafka.servers.split(","):
        found = _HOST_PORT.fullmatch(server.strip())
        if found is None:
            return None
        try:
            with socket.create_connection((found[1], int(found[2])), wait_s) as connection:
                if is_plain:
                    return _asked(connection, wait_s)
            return frozenset(DirectAdmin(kafka).places()) if kafka.is_direct else None
        except socket.gaierror:
            causes.append(_UNKNOWN_HOST)
        except OSError as error:
            causes.append(("ConnectException", f"{server.strip()}: {error.strerror or error}"))
    raise kafka_failure(kafka.servers, [cause for cause in causes if cause != _UNKNOWN_HOST] or causes)


def _asked(connection: socket.socket, wait_s: float) -> frozenset[str] | None:
    try:
        connection.settimeout(wait_s)
        client = b"tidemark"
        body = struct.pack(f">hhih{len(client)}si?", _METADATA, _VERSION, 1, len(client), client, _ALL_TOPICS, False)
        connection.sendall(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", _exactly(connection, 4))
        return _Answer(_exactly(connection, size)).topics() if 0 < size <= MOST_BYTES else None
    except (OSError, EOFError, struct.error, UnicodeDecodeError) as error:
        log.debug("the first check of Kafka gave no result: %s", error)
        return None


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts, left = [], size
    while left:
        part = connection.recv(min(left, 1 << 16))
        if not part:
            raise EOFError("the connection was closed")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


@dataclass(slots=True)
class _Answer:
    """The answer to Metadata in version 4, read from its begin."""

    data: bytes
    at: int = 0

    def topics(self) -> frozenset[str]:
        """The names of all topics except Kafka's own."""
        self._numbers(">ii")  # correlation id, throttle time
        for _ in range(self._count()):
            self._numbers(">i")
            self._text()
            self._numbers(">i")
            self._text()
        self._text()
        self._numbers(">i")
        found = set()
        for _ in range(self._count()):
            self._numbers(">h")
            name = self._text()
            (is_internal,) = self._numbers(">?")
            for _ in range(self._count()):
                self._numbers(">hii")
                for _ in range(2):  # replicas, and those in sync
                    self._numbers(f">{self._count()}i")
            if name is not None and not is_internal:
                found.add(name)
        return frozenset(found)

    def _numbers(self, form: str) -> tuple[int, ...]:
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values

    def _count(self) -> int:
        (count,) = self._numbers(">i")
        return max(count, 0)

    def _text(self) -> str | None:
        (size,) = self._numbers(">h")
        if size < 0:
            return None
        (text,) = struct.unpack_from(f">{size}s", self.data, self.at)
        self.at += size
        return str(text, "utf-8")
