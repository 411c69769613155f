"""A local broker whose listeners use TLS: with a login, with an expired certificate, with one for another host."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.stack.certificates import Authority
from tests.stack.kafka import KafkaBroker
from tests.stack.process import free_port
from tests.stack.topics import Topics

USER = "tide"
PASSWORD = "pass word; with 'signs'"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
HERE = "IP:127.0.0.1"


@dataclass(frozen=True, slots=True)
class SecureKafka:
    """Addresses of the listeners of one broker; ``topics`` fills them without TLS."""

    topics: Topics
    authority: Authority
    with_login: str
    expired: str
    of_another_host: str


def jaas(user: str = USER, password: str = PASSWORD) -> str:
    """``sasl.jaas.config`` of a client."""
    return f'{PLAIN_MODULE} required username="{user}" password="{password}";'


@contextmanager
def running_secure_kafka(directory: Path) -> Iterator[SecureKafka]:
    """Run the broker for the length of the block, always as a local process."""
    authority = Authority.made_in(directory / "certificates")
    ports = {name: free_port() for name in ("LOGIN", "EXPIRED", "ELSEWHERE")}
    stores = {
        "LOGIN": authority.certify("login", HERE, 30),
        "EXPIRED": authority.certify("expired", HERE, -1),
        "ELSEWHERE": authority.certify("elsewhere", "DNS:elsewhere.invalid", 30),
    }
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_SSL,EXPIRED:SSL,"
        "ELSEWHERE:SSL",
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";',
    }
    for name, store in stores.items():
        settings[f"listener.name.{name.lower()}.ssl.keystore.type"] = "PEM"
        settings[f"listener.name.{name.lower()}.ssl.keystore.location"] = str(store)
    listeners = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    broker = KafkaBroker(directory, listeners, settings)
    broker.start()
    try:
        yield SecureKafka(broker.topics, authority, listeners["LOGIN"], listeners["EXPIRED"], listeners["ELSEWHERE"])
    finally:
        broker.stop()
