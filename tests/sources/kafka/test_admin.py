"""Asking a real broker: each kind of truststore and login, and what a user is told when it goes wrong."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient

from paimon_table.errors import ConfigError, Outage, SinkUnavailable, TidemarkError
from paimon_table.storage.secret import Secret
from pipelines.config.kafka_checks import misplaced, misspelt, property_mistakes
from pipelines.config.kafka_properties import KNOWN
from sources.kafka.admin import kafka_admin
from sources.kafka.client_properties import SECRET, librdkafka_properties
from sources.kafka.first_look import topics_at_first_look
from sources.kafka.offset_ranges import ranges_of, to_bytes
from sources.kafka.settings import KafkaSettings
from sources.kafka.share_fetching import KafkaShareReader
from sources.kafka.start_offsets import source_bounds
from sources.positions import Bounds
from sources.topics import TopicSelection
from tests.stack.certificates import STORE_PASSWORD, Authority
from tests.stack.jvm import kafka_client_jvm
from tests.stack.process import free_port
from tests.stack.secure_kafka import (
    OAUTH_HANDLER,
    OAUTH_MODULE,
    SCRAM_MODULE,
    SecureKafka,
    jaas,
    running_secure_kafka,
)
from tests.stack.token_server import CLIENT
from tests.stack.token_server import SECRET as CLIENT_SECRET
from tests.support.kafka_pipelines import insert_events
from tests.support.waiting import seconds

pytestmark = pytest.mark.stack
TOPIC = "secure.public.orders"
NO_ENDPOINT = "http://127.0.0.1:9/token"
SHORT = {"default.api.timeout.ms": "3000", "request.timeout.ms": "2000"}


@pytest.fixture(scope="module")
def client_jvm() -> Iterator[Any]:
    with kafka_client_jvm() as jvm:
        yield jvm


@pytest.fixture(scope="module")
def jvm(client_jvm: Any, broker: SecureKafka) -> Any:
    """Java's client asks only those addresses for tokens that a property of its JVM names."""
    urls = f"{broker.tokens.url},{broker.tokens.url_of_others},{NO_ENDPOINT}"
    client_jvm.java.lang.System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", urls)
    return client_jvm


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    with running_secure_kafka(tmp_path_factory.mktemp("secure") / "broker") as broker:
        broker.topics.create(TOPIC, partitions=2)
        broker.topics.produce(TOPIC, insert_events(TOPIC, range(5)))
        yield broker


@pytest.fixture(scope="module")
def other_authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.made_in(tmp_path_factory.mktemp("other") / "certificates")


def test_the_properties_that_files_are_checked_against_are_those_of_the_client(jvm: Any) -> None:
    """The client here is newer than the one that Spark brings: properties have come, one has gone."""
    clients = jvm.org.apache.kafka.clients
    names = {*clients.consumer.ConsumerConfig.configNames(), *clients.admin.AdminClientConfig.configNames()}
    assert KNOWN - names == {"auto.include.jmx.reporter"}
    assert not [name for name in names - KNOWN if misplaced(name) is None and misspelt(name) is not None]


STORES = {
    "ssl.keystore": ("location", "password", "key", "certificate.chain"),
    "ssl.truststore": ("location", "password", "certificates"),
}


@pytest.mark.parametrize("kind", [None, "PEM", "PKCS12"])
@pytest.mark.parametrize("store", STORES)
def test_stores_are_refused_before_a_run_where_javas_client_refuses_them(
    client_jvm: Any, other_authority: Authority, store: str, kind: str | None
) -> None:
    make = other_authority.client_store if store == "ssl.keystore" else other_authority.truststore
    key, begin, rest = other_authority.client_store("PEM").read_text().partition("-----BEGIN CERT")
    values = {"password": STORE_PASSWORD, "key": key, "certificate.chain": begin + rest, "certificates": begin + rest}
    values["location"] = str(other_authority.pem if (store, kind) == ("ssl.truststore", "PEM") else make(kind or "JKS"))
    of_kind = {"security.protocol": "SSL"} | ({f"{store}.type": kind} if kind else {})
    for names in _subsets(STORES[store]):
        options = {**of_kind, **{f"{store}.{name}": values[name] for name in names}}
        mistakes = [told for _, told in property_mistakes(options)]
        try:
            with kafka_admin(client_jvm, KafkaSettings("localhost:1", TopicSelection(names=(TOPIC,)), options)):
                assert all("has no effect" in told for told in mistakes), names
        except ConfigError:
            assert mistakes, names


def _subsets(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    return chain.from_iterable(combinations(names, count) for count in range(len(names) + 1))


@dataclass(frozen=True, slots=True)
class Client:
    """One of the two that ask: Java's in a JVM, or librdkafka here."""

    jvm: Any
    is_direct: bool

    def source(self, servers: str, options: Mapping[str, str], topic: str = TOPIC) -> KafkaSettings:
        return KafkaSettings(servers, TopicSelection(names=(topic,)), dict(options), is_direct=self.is_direct)


@pytest.fixture(params=["java", "direct"])
def client(request: pytest.FixtureRequest, jvm: Any) -> Client:
    return Client(jvm, request.param == "direct")


def _trust(broker: SecureKafka, kind: str) -> dict[str, str]:
    match kind:
        case "PEM file":
            return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(broker.authority.pem)}
        case "inline PEM":
            return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": broker.authority.pem.read_text()}
        case kind:
            store = {"ssl.truststore.type": kind, "ssl.truststore.location": str(broker.authority.truststore(kind))}
            return {**store, "ssl.truststore.password": STORE_PASSWORD}


def _login(broker: SecureKafka, mechanism: str = "PLAIN", **jaas_values: str) -> dict[str, str]:
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas(**jaas_values)}
    return {**login, **_trust(broker, "PEM file")}


def _scram(broker: SecureKafka, mechanism: str, **jaas_values: str) -> dict[str, str]:
    return _login(broker, mechanism, module=SCRAM_MODULE, **jaas_values)


def _token(broker: SecureKafka, url: str, secret: str = CLIENT_SECRET) -> dict[str, str]:
    return {
        **_login(broker, "OAUTHBEARER"),
        "sasl.jaas.config": f'{OAUTH_MODULE} required clientId="{CLIENT}" clientSecret="{secret}";',
        "sasl.login.callback.handler.class": OAUTH_HANDLER,
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.login.retry.backoff.max.ms": "500",  # how long Java's client asks again, ten seconds otherwise
    }


def _certificate(broker: SecureKafka, kind: str, signed_by: Authority | None = None) -> dict[str, str]:
    store = {
        "ssl.keystore.type": kind,
        "ssl.keystore.location": str((signed_by or broker.authority).client_store(kind)),
    }
    password = {} if kind == "PEM" else {"ssl.keystore.password": STORE_PASSWORD}
    return {"security.protocol": "SSL", **store, **password, **_trust(broker, "PEM file")}


@pytest.mark.parametrize("kind", ["PEM file", "inline PEM", "JKS", "PKCS12"])
def test_every_kind_of_truststore_and_a_password_with_blanks_work(
    client: Client, broker: SecureKafka, kind: str
) -> None:
    if client.is_direct and "PEM" not in kind:
        pytest.skip("such a store is left to Java's client")
    login = {name: value for name, value in _login(broker).items() if not name.startswith("ssl.")}
    source = client.source(broker.with_login, {**login, **_trust(broker, kind)})
    with kafka_admin(client.jvm, source) as admin:
        bounds = source_bounds(admin, source)
    assert bounds == {(TOPIC, 0): Bounds(0, 5, 5), (TOPIC, 1): Bounds(0, 0, 0)}


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_login_by_scram_works(client: Client, broker: SecureKafka, mechanism: str) -> None:
    with kafka_admin(client.jvm, client.source(broker.with_login, _scram(broker, mechanism))) as admin:
        assert TOPIC in admin.topic_ids()


def test_a_login_by_a_token_works(client: Client, broker: SecureKafka) -> None:
    with kafka_admin(client.jvm, client.source(broker.with_token, _token(broker, broker.tokens.url))) as admin:
        assert TOPIC in admin.topic_ids()


@pytest.mark.parametrize("kind", ["PEM", "PKCS12", "JKS"])
def test_every_kind_of_keystore_works(client: Client, broker: SecureKafka, kind: str) -> None:
    source = client.source(broker.mutual, _certificate(broker, kind))
    if client.is_direct and kind == "JKS":
        pytest.skip("such a store is left to Java's client")
    with kafka_admin(client.jvm, source) as admin:
        assert TOPIC in admin.topic_ids()


WRONG: Mapping[str, tuple[Callable[[SecureKafka, Authority], dict[str, str]], type[TidemarkError], str]] = {
    "password of SCRAM": (
        lambda broker, _: _scram(broker, "SCRAM-SHA-512", password="not it"),
        SinkUnavailable,
        "refuses the login (Authentication failed",
    ),
    "user of SCRAM": (
        lambda broker, _: _scram(broker, "SCRAM-SHA-256", user="nobody"),
        SinkUnavailable,
        "check user and password in sasl.jaas.config",
    ),
    "secret of the client": (
        lambda broker, _: _token(broker, broker.tokens.url, secret="not it"),
        SinkUnavailable,
        "there is no token for the login",
    ),
    "token endpoint": (
        lambda broker, _: _token(broker, NO_ENDPOINT),
        Outage,
        "and sasl.oauthbearer.token.endpoint.url, under source.kafka.options",
    ),
    "token": (
        lambda broker, _: _token(broker, broker.tokens.url_of_others),
        SinkUnavailable,
        "check client id and scope in sasl.jaas.config",
    ),
    "certificate": (
        lambda broker, other: _certificate(broker, "PEM", other),
        SinkUnavailable,
        "refuses the certificate of this pipeline",
    ),
    "no certificate": (
        lambda broker, _: {"security.protocol": "SSL", **_trust(broker, "PEM file")},
        SinkUnavailable,
        "asks for one and gets none",
    ),
    "expired certificate": (
        lambda broker, _: {
            **_certificate(broker, "PEM"),
            "ssl.keystore.location": str(broker.authority.certify("expired-client", "DNS:client", -1)),
        },
        SinkUnavailable,
        "must name a valid certificate",
    ),
    "password of the keystore": (
        lambda broker, _: {**_certificate(broker, "PKCS12"), "ssl.keystore.password": "not it"},
        ConfigError,
        "ssl.keystore",
    ),
    "keystore": (
        lambda broker, _: {**_certificate(broker, "PEM"), "ssl.keystore.location": str(broker.tokens.keys)},
        ConfigError,
        "ssl.keystore",
    ),
    "truststore": (
        lambda broker, _: {**_certificate(broker, "PEM"), "ssl.truststore.location": str(broker.tokens.keys)},
        ConfigError,
        "ssl.truststore",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_with_credentials_is_told_long_before_time_is_up(
    client: Client, broker: SecureKafka, other_authority: Authority, what: str
) -> None:
    wrong, kind, told = WRONG[what]
    options = wrong(broker, other_authority)
    servers = {"SASL_SSL": broker.with_login, "SSL": broker.mutual}[options["security.protocol"]]
    if options.get("sasl.mechanism") == "OAUTHBEARER":
        servers = broker.with_token
    began_s = time.monotonic()
    error = _refusal(client, servers, {**options, "default.api.timeout.ms": "60000"})
    assert time.monotonic() - began_s < seconds(5)
    assert type(error) is kind and told in str(error) and "not it" not in str(error)


def test_a_key_of_another_certificate_is_told(client: Client, broker: SecureKafka, tmp_path: Path) -> None:
    texts = [broker.authority.client_store("PEM", name).read_text() for name in ("one", "two")]
    (mixed := tmp_path / "mixed.pem").write_text(
        texts[0].partition("-----BEGIN CERT")[0] + "-----BEGIN CERT" + texts[1].partition("-----BEGIN CERT")[2]
    )
    options = {**_certificate(broker, "PEM"), "ssl.keystore.location": str(mixed)}
    error = _refusal(client, broker.mutual, options)
    told = "does not match its certificate" if client.is_direct else "refuses the certificate of this pipeline"
    assert told in str(error)


def test_a_first_look_logs_in_where_tasks_read_directly(broker: SecureKafka) -> None:
    client = Client(None, is_direct=True)
    known = topics_at_first_look(client.source(broker.with_login, _login(broker)))
    assert known is not None and TOPIC in known and "__consumer_offsets" not in known
    with pytest.raises(SinkUnavailable, match="refuses the login"):
        topics_at_first_look(client.source(broker.with_login, _login(broker, password="not it")))


@pytest.mark.parametrize("kind", ["PEM", "PKCS12"])
def test_replaced_files_are_read_without_a_restart(
    broker: SecureKafka, other_authority: Authority, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "client"
    shutil.copy(broker.authority.client_store(kind), store)
    options = {**_certificate(broker, kind), "ssl.keystore.location": str(store)}
    source = Client(None, is_direct=True).source(broker.mutual, options)
    said = librdkafka_properties(broker.mutual, options)
    properties = {name: Secret.of(value) if name in SECRET else value for name, value in said.items()}
    reader = KafkaShareReader(broker.mutual, properties, False, patience_s=60)
    share = to_bytes(ranges_of({(TOPIC, 0): 0}, {(TOPIC, 0): 5}))
    with kafka_admin(None, source) as admin:
        assert TOPIC in admin.topic_ids() and _count(reader, share) == 5
        _replace(store, other_authority.client_store(kind))
        for question in (admin.topic_ids, lambda: _count(reader, share)):
            with pytest.raises(SinkUnavailable, match="refuses the certificate of this pipeline"):
                question()
        _replace(store, broker.authority.client_store(kind))
        assert TOPIC in admin.topic_ids() and _count(reader, share) == 5
        store.write_text("half")
        assert TOPIC in admin.topic_ids() and _count(reader, share) == 5
    assert caplog.text.count(f"Kafka at {broker.mutual}: a file of source.kafka.options was replaced, and cannot") == 2


def _replace(file: Path, other: Path) -> None:
    """As renewals do: by a rename, so that nobody reads half of it."""
    shutil.copy(other, file.with_suffix(".new"))
    file.with_suffix(".new").rename(file)


def _count(reader: KafkaShareReader, share: bytes) -> int:
    return sum(batch.num_rows for batch in reader([share]))


def test_deleted_records_move_the_begin_of_a_partition(client: Client, broker: SecureKafka) -> None:
    servers, topic = broker.topics.bootstrap_servers, f"secure.public.deleted.{client.is_direct}"
    broker.topics.create(topic)
    broker.topics.produce(topic, insert_events(topic, range(5)))
    broker.topics.delete_records(topic, 3)
    with kafka_admin(client.jvm, client.source(servers, {})) as admin:
        assert admin.bounds([topic]) == {(topic, 0): Bounds(3, 5, 5)}


def test_an_open_transaction_ends_what_can_be_read(client: Client, broker: SecureKafka) -> None:
    servers, topic = broker.topics.bootstrap_servers, f"secure.public.open.{client.is_direct}"
    broker.topics.create(topic)
    broker.topics.produce(topic, insert_events(topic, range(2)))
    producer = KafkaProducer(bootstrap_servers=servers, transactional_id=topic, acks="all")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, value=b"{}").get(timeout=seconds(30))
    with kafka_admin(client.jvm, client.source(servers, {})) as admin:
        assert admin.bounds([topic]) == {(topic, 0): Bounds(0, 2, 3)}
    with kafka_admin(client.jvm, client.source(servers, {"isolation.level": "read_uncommitted"})) as admin:
        assert admin.bounds([topic]) == {(topic, 0): Bounds(0, 3, 3)}
    producer.abort_transaction()
    producer.close()


def _refusal(client: Client, servers: str, options: Mapping[str, str]) -> TidemarkError:
    with (
        pytest.raises(TidemarkError) as refusal,
        kafka_admin(client.jvm, client.source(servers, {**SHORT, **options})) as admin,
    ):
        admin.topic_ids()
    assert "\n" not in str(refusal.value)
    return refusal.value


def test_a_wrong_password_is_called_that(client: Client, broker: SecureKafka) -> None:
    error = _refusal(client, broker.with_login, _login(broker, password="not it"))
    assert isinstance(error, SinkUnavailable)
    assert "refuses the login" in str(error) and "password" in str(error) and "not it" not in str(error)


def test_a_mechanism_that_the_broker_lacks_is_called_that(client: Client, broker: SecureKafka) -> None:
    error = _refusal(client, broker.with_token, _scram(broker, "SCRAM-SHA-256"))
    assert "does not offer this kind of login" in str(error) and "OAUTHBEARER" in str(error)


@pytest.mark.parametrize(
    ("where", "kind", "told"),
    [
        ("expired", SinkUnavailable, "has expired"),
        ("of_another_host", ConfigError, "is for another host"),
    ],
)
def test_what_is_wrong_with_a_certificate_is_told(
    client: Client, broker: SecureKafka, where: str, kind: type[TidemarkError], told: str
) -> None:
    error = _refusal(client, getattr(broker, where), {"security.protocol": "SSL", **_trust(broker, "PEM file")})
    assert type(error) is kind and told in str(error)


def test_an_authority_that_nobody_trusts_is_told(client: Client, broker: SecureKafka) -> None:
    options = {n: v for n, v in _login(broker).items() if not n.startswith("ssl.")}
    error = _refusal(client, broker.with_login, options)
    assert isinstance(error, ConfigError) and "not signed by an authority in the truststore" in str(error)


def test_tls_on_one_side_only_is_among_the_reasons_for_no_answer(client: Client, broker: SecureKafka) -> None:
    tls = {"security.protocol": "SSL", **_trust(broker, "PEM file")}
    for servers, options in ((broker.topics.bootstrap_servers, tls), (broker.with_login, {})):
        error = _refusal(client, servers, options)
        assert isinstance(error, SinkUnavailable)
        assert f"Kafka at {servers} does not answer" in str(error) and "security.protocol" in str(error)


def test_a_missing_store_file_is_named(client: Client, broker: SecureKafka) -> None:
    error = _refusal(client, broker.with_login, {**_login(broker), "ssl.truststore.location": "/not/there.pem"})
    assert isinstance(error, ConfigError) and "the file /not/there.pem is not there" in str(error)


@pytest.mark.parametrize("client", ["java"], indirect=True)
def test_a_wrong_password_of_a_store_names_the_store(client: Client, broker: SecureKafka) -> None:
    trust = {**_trust(broker, "PKCS12"), "ssl.truststore.password": "no"}
    error = _refusal(client, broker.with_login, {**_login(broker), **trust})
    assert isinstance(error, ConfigError) and "trust.pkcs12 cannot be opened as PKCS12" in str(error)


@pytest.mark.parametrize("client", ["java"], indirect=True)
def test_a_jaas_text_that_cannot_be_read_is_not_repeated(client: Client, broker: SecureKafka) -> None:
    options = {**_login(broker), "sasl.jaas.config": "x.Module required username=me password=top secret"}
    error = _refusal(client, broker.with_login, options)
    assert isinstance(error, ConfigError) and "sasl.jaas.config" in str(error) and "secret" not in str(error)


def test_hosts_and_ports_where_nobody_answers_are_named(client: Client) -> None:
    unknown = _refusal(client, "no-such-host.invalid:9092", {})
    assert isinstance(unknown, SinkUnavailable) and "resolve any host of no-such-host.invalid:9092" in str(unknown)
    silent = _refusal(client, f"127.0.0.1:{free_port()}", {})
    assert isinstance(silent, SinkUnavailable) and "does not answer" in str(silent)


def test_listed_topics_that_are_missing_are_named_with_the_nearest(client: Client, broker: SecureKafka) -> None:
    source = client.source(broker.topics.bootstrap_servers, {}, "secure.public.order")
    with (
        kafka_admin(client.jvm, source) as admin,
        pytest.raises(ConfigError, match=r"missing.*'secure\.public\.order' \(did you mean 'secure\.public\.orders'"),
    ):
        source_bounds(admin, source)


def test_both_clients_tell_the_same(jvm: Any, broker: SecureKafka) -> None:
    """Ids of topics too: checkpoints and tables keep them."""
    servers = broker.topics.bootstrap_servers
    broker.topics.create("same.compacted", settings={"cleanup.policy": "compact"})
    broker.topics.create("__debezium-heartbeat.same")
    for number in range(20):  # ids have signs that kinds of Base64 write differently
        broker.topics.create(f"same.{number}")
    broker.topics.produce("same.0", insert_events("same.0", range(4)))
    told = []
    for is_direct in (False, True):
        source = Client(jvm, is_direct).source(servers, {}, "same.0")
        with kafka_admin(jvm, source) as admin:
            admin.commit_group(f"group-{is_direct}", {("same.0", 0): 3})
            told.append(
                (
                    admin.topic_ids(),
                    admin.compacted(["same.0", "same.compacted"]),
                    admin.ends(["same.0", TOPIC, "__debezium-heartbeat.same"]),
                    admin.begins([("same.0", 0)]),
                    [admin.offsets_at(["same.0", TOPIC], time_ms) for time_ms in (0, 4_000_000_000_000)],
                )
            )
    assert told[0] == told[1]
    assert len(told[0][0]) > 20 and told[0][1] == ["same.compacted"] and told[0][3] == {("same.0", 0): 0}
    held = KafkaAdminClient(bootstrap_servers=servers)
    groups = [held.list_group_offsets({f"group-{is_direct}": None}) for is_direct in (False, True)]
    held.close()
    assert [str(group).count("offset=3") for group in groups] == [1, 1]
