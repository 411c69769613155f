"""A local broker whose listeners use TLS: one for each kind of login, and some with certificates that are wrong."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.stack.certificates import Authority
from tests.stack.kafka import KafkaBroker
from tests.stack.process import free_port
from tests.stack.token_server import AUDIENCE, TokenServer, running_token_server
from tests.stack.topics import Topics
from tests.support.waiting import seconds

USER = "tide"
PASSWORD = "pass word; with 'signs'"
HERE = "IP:127.0.0.1"
_MODULES = "org.apache.kafka.common.security"
PLAIN_MODULE = f"{_MODULES}.plain.PlainLoginModule"
SCRAM_MODULE = f"{_MODULES}.scram.ScramLoginModule"
OAUTH_MODULE = f"{_MODULES}.oauthbearer.OAuthBearerLoginModule"
OAUTH_HANDLER = f"{_MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"


@dataclass(frozen=True, slots=True)
class SecureKafka:
    """Addresses of the listeners of one broker; ``topics`` fills them without TLS."""

    topics: Topics
    authority: Authority
    tokens: TokenServer
    with_login: str
    """PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512."""
    with_token: str
    mutual: str
    """Wants a certificate of the client."""
    expired: str
    of_another_host: str


def jaas(user: str = USER, password: str = PASSWORD, module: str = PLAIN_MODULE) -> str:
    """``sasl.jaas.config`` of a client."""
    return f'{module} required username="{user}" password="{password}";'


@contextmanager
def running_secure_kafka(directory: Path) -> Iterator[SecureKafka]:
    """Run the broker for the length of the block, always as a local process."""
    authority = Authority.made_in(directory / "certificates")
    stores = {
        **{name: authority.certify(name.lower(), HERE, 30) for name in ("LOGIN", "TOKEN", "MUTUAL")},
        "EXPIRED": authority.certify("expired", HERE, -1),
        "ELSEWHERE": authority.certify("elsewhere", "DNS:elsewhere.invalid", 30),
    }
    listeners = {name: f"127.0.0.1:{free_port()}" for name in stores}
    with running_token_server(directory / "tokens") as tokens:
        keys = tokens.keys.as_uri()
        settings = {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_SSL,TOKEN:SASL_SSL,"
            "MUTUAL:SSL,EXPIRED:SSL,ELSEWHERE:SSL",
            "listener.name.login.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.login.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";',
            "listener.name.login.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            "listener.name.login.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            "listener.name.token.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.token.oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required;",
            "listener.name.token.oauthbearer.sasl.server.callback.handler.class": f"{_MODULES}.oauthbearer."
            "OAuthBearerValidatorCallbackHandler",
            "listener.name.token.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": keys,
            "listener.name.token.oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.mutual.ssl.truststore.type": "PEM",
            "listener.name.mutual.ssl.truststore.location": str(authority.pem),
        }
        for name, store in stores.items():
            settings[f"listener.name.{name.lower()}.ssl.keystore.type"] = "PEM"
            settings[f"listener.name.{name.lower()}.ssl.keystore.location"] = str(store)
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}"
        broker = KafkaBroker(directory, listeners, settings, jvm_options=(allowed,))
        broker.start()
        try:
            _add_scram_user(broker.bootstrap_servers)
            addresses = (listeners[name] for name in ("LOGIN", "TOKEN", "MUTUAL", "EXPIRED", "ELSEWHERE"))
            yield SecureKafka(broker.topics, authority, tokens, *addresses)
        finally:
            broker.stop()


def _add_scram_user(servers: str) -> None:
    """One request for each mechanism: Kafka takes a user once in a request."""
    admin = AdminClient({"bootstrap.servers": servers})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        asked = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
        admin.alter_user_scram_credentials([asked])[USER].result(seconds(30))
