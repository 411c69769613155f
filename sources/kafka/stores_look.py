"""Facts about certificates that librdkafka does not report: missing or replaced files, and untrusted brokers."""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import TypeAlias

from sources.kafka.failures import Cause

WAIT_S = 3.0
_FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location")
FileStates: TypeAlias = Mapping[str, tuple[int, int, int]]
REPLACED_FILES_UNUSABLE = (
    "Kafka at %s: a file of source.kafka.options was replaced, and cannot be used: %s. Connections use the "
    "previous content until it is replaced again"
)
HOST_PORT = re.compile(r"(?:[^/]*://)?\[?([^\]]+?)\]?:(\d+)")


def unreadable_file(properties: Mapping[str, str]) -> Cause | None:
    """The first file that librdkafka's properties name and that cannot be opened, as Java reports it."""
    for name in _FILES:
        path = properties.get(name)
        try:
            if path is not None:
                with open(path, "rb"):
                    pass
        except PermissionError:
            return "AccessDeniedException", str(path)
        except OSError:
            return "NoSuchFileException", str(path)
    return None


def file_states(properties: Mapping[str, str]) -> FileStates:
    """A value that changes if a file in librdkafka's properties is replaced or written: librdkafka reads files once.

    Missing files are left out.
    """
    found = {}
    for name in _FILES:
        with suppress(KeyError, OSError):
            state = os.stat(properties[name])
            found[name] = (state.st_ino, state.st_size, state.st_mtime_ns)
    return found


def distrust(servers: str, properties: Mapping[str, str]) -> Cause | None:
    """Why the certificate of the first server that answers is not trusted, in OpenSSL's words; None if it is."""
    context = ssl.create_default_context(
        cafile=properties.get("ssl.ca.location"), cadata=properties.get("ssl.ca.pem") or None
    )
    context.check_hostname = properties.get("ssl.endpoint.identification.algorithm") != "none"
    for server in servers.split(","):
        found = HOST_PORT.fullmatch(server.strip())
        if found is None:
            continue
        try:
            with (
                socket.create_connection((found[1], int(found[2])), WAIT_S) as connection,
                context.wrap_socket(connection, server_hostname=found[1]),
            ):
                return None
        except ssl.SSLCertVerificationError as error:
            return "SSLHandshakeException", error.verify_message
        except OSError:
            continue
    return None
