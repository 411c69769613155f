"""Errors of librdkafka in the terms of ``kafka_failure``: the names of Java's exceptions.

librdkafka retries by itself. It reports the reasons in events, not in the call, which only times out. ``Trouble`` keeps
these events, so that the failure can name its reason.
"""

from __future__ import annotations

import logging
import re
import time

from confluent_kafka import KafkaError, KafkaException

from paimon_table.errors import TidemarkError
from sources.kafka.failures import Cause, kafka_failure

log = logging.getLogger(__name__)

_OWN = {
    KafkaError._AUTHENTICATION: "SaslAuthenticationException",
    KafkaError.SASL_AUTHENTICATION_FAILED: "SaslAuthenticationException",
    KafkaError.UNSUPPORTED_SASL_MECHANISM: "UnsupportedSaslMechanismException",
    KafkaError._SSL: "SslAuthenticationException",
    KafkaError._TRANSPORT: "DisconnectException",
    KafkaError._ALL_BROKERS_DOWN: "DisconnectException",
    KafkaError._TIMED_OUT: "TimeoutException",
    KafkaError._TIMED_OUT_QUEUE: "TimeoutException",
    KafkaError._WAIT_COORD: "TimeoutException",
    KafkaError._INVALID_ARG: "ConfigException",
    KafkaError._UNKNOWN_TOPIC: "UnknownTopicOrPartitionException",
    KafkaError._UNKNOWN_PARTITION: "UnknownTopicOrPartitionException",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "UnknownTopicOrPartitionException",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorizationException",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "GroupAuthorizationException",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationException",
    KafkaError.UNKNOWN_MEMBER_ID: "UnknownMemberIdException",
    KafkaError.NON_EMPTY_GROUP: "GroupNotEmptyException",
    KafkaError._UNSUPPORTED_FEATURE: "UnsupportedVersionException",
    KafkaError.UNSUPPORTED_VERSION: "UnsupportedVersionException",
}
_LASTING = frozenset({"SaslAuthenticationException", "UnsupportedSaslMechanismException", "SslAuthenticationException"})
"""Errors that a retry does not fix."""

_OF_CERTIFICATES = frozenset({40, 42, 43, 44, 45, 46, 48, 49, 51, 116})
"""Numbers of the alerts by which a broker refuses the client's certificate; OpenSSL has its own text for each."""
_ALERT = re.compile(r"alert ([a-z ]+): SSL alert number (\d+)")

_WHERE = re.compile(r"^(?:\[thrd:[^\]]*\]: )?(?:\w+://)?[^ ]*?(?:/(?:bootstrap|\d+))?: ")
_SINCE = re.compile(r" ?\(after \d+ms in state \w+(?:[^()]|\([^()]*\))*\)")

_REFUSED = re.compile(r"^Connect to ipv[46]#(\S+) failed: ")


def cause_of(error: KafkaError) -> Cause:
    """An error as (name of Java's exception, message without addresses and durations)."""
    if error.code() == KafkaError._RESOLVE:
        return "ConfigException", "No resolvable bootstrap urls"  # as Java reports it
    alert = _ALERT.search(error.str())
    if alert is not None and int(alert[2]) in _OF_CERTIFICATES:
        return "SslAuthenticationException", f"Received fatal alert: {alert[1].replace(' ', '_')}"  # as Java reports it
    name = _OWN.get(error.code())
    if name is None:
        words = re.sub(r"^_", "", error.name())
        name = "".join(part.capitalize() for part in words.split("_")) + "Exception"
    text = _REFUSED.sub(r"\1: ", _SINCE.sub("", _WHERE.sub("", error.str(), count=1)))
    if "unsupported SASL mechanism" in text or "Unsupported SASL mechanism" in text:
        name = "UnsupportedSaslMechanismException"
    return name, text.removeprefix("SASL authentication error: ")


def error_of(error: KafkaException) -> KafkaError:
    """The error inside of an exception."""
    found = error.args[0] if error.args else None
    return found if isinstance(found, KafkaError) else KafkaError(KafkaError._FAIL, str(error))


class Trouble:
    """The events of one client since it last made progress; its ``note`` is a client's ``error_cb``."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._causes: dict[Cause, float] = {}

    def note(self, error: KafkaError) -> None:
        self._causes[cause_of(error)] = time.monotonic()

    def clear(self) -> None:
        self._causes.clear()

    @property
    def is_lasting(self) -> bool:
        """Whether the failure is permanent, so that waiting does not help."""
        return any(name in _LASTING for name, _ in self._causes)

    @property
    def is_of_tls(self) -> bool:
        return any(name == "SslAuthenticationException" for name, _ in self._causes)

    def failure(self, last: KafkaError | None = None) -> TidemarkError:
        """The error to raise, for the reason that explains most."""
        causes = [*self._causes, *(() if last is None else (cause_of(last),))]
        return kafka_failure(self._servers, sorted(causes, key=_tells))


def _tells(cause: Cause) -> int:
    """How much a cause explains; users read the last cause of a failure."""
    name, message = cause
    if name in _LASTING:
        return 3
    if name == "TimeoutException" or "brokers are down" in message or "Local: " in message:
        return 0
    return 2 if name == "DisconnectException" else 1


def to_debug() -> logging.Logger:
    """A logger for librdkafka, which otherwise writes to standard error; messages other than events are details."""
    quiet = log.getChild("librdkafka")
    quiet.setLevel(logging.CRITICAL if not log.isEnabledFor(logging.DEBUG) else logging.DEBUG)
    return quiet
