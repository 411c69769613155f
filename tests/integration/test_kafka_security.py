"""The page on Kafka's security against a real broker: each kind of store and login, a wrong password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stack.certificates import STORE_PASSWORD
from tests.stack.secure_kafka import PASSWORD, USER, SecureKafka, running_secure_kafka
from tests.stack.token_server import CLIENT, SECRET
from tests.support.command import tidemark_process
from tests.support.kafka_pipelines import insert_events, row_ids
from tests.support.pipeline_run import run_together
from tests.support.security_page import kafka_blocks, write_example

pytestmark = [pytest.mark.stack, pytest.mark.slow]
TOPIC = "shop.public.orders"
STORES = ("pem_file", "inline_pem", "jks", "pkcs12")
KINDS = (*STORES, "scram", "token", "pem_key", "pkcs12_key", "jks_key")
"""Names for the examples of the page, in its order."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    with running_secure_kafka(tmp_path_factory.mktemp("page") / "broker") as broker:
        broker.topics.create(TOPIC)
        broker.topics.produce(TOPIC, insert_events(TOPIC, range(5)))
        yield broker


def places_of(broker: SecureKafka) -> dict[str, str]:
    """What stands for the places that the page names."""
    return {
        "broker.example.com:9093": broker.with_login,
        "broker.example.com:9094": broker.mutual,
        "broker.example.com:9095": broker.with_token,
        "https://login.example.com/token": broker.tokens.url,
        "/etc/tidemark/authority.pem": str(broker.authority.pem),
        "/etc/tidemark/trust.jks": str(broker.authority.truststore("JKS")),
        "/etc/tidemark/trust.p12": str(broker.authority.truststore("PKCS12")),
        "/etc/tidemark/client.pem": str(broker.authority.client_store("PEM")),
        "/etc/tidemark/client.p12": str(broker.authority.client_store("PKCS12")),
        "/etc/tidemark/client.jks": str(broker.authority.client_store("JKS")),
    }


def environment_of(broker: SecureKafka) -> dict[str, str]:
    return {
        "KAFKA_USER": USER,
        "KAFKA_PASSWORD": PASSWORD,
        "KAFKA_CLIENT": CLIENT,
        "KAFKA_SECRET": SECRET,
        "KAFKA_AUTHORITY": broker.authority.pem.read_text(),
        "STORE_PASSWORD": STORE_PASSWORD,
    }


def test_the_examples_read_and_a_wrong_password_is_named_before_spark_starts(
    tmp_path: Path, broker: SecureKafka
) -> None:
    places, environment = places_of(broker), environment_of(broker)
    files = [write_example(tmp_path, kind, kafka_blocks()[i], places) for i, kind in enumerate(KINDS)]
    (events := tmp_path / "events").mkdir()
    logged = f"spark.eventLog.enabled: true, spark.eventLog.compress: false, spark.eventLog.dir: 'file://{events}'"
    files.append(write_example(tmp_path, "token_spark", kafka_blocks()[KINDS.index("token")] + "reader: spark", places))
    for file in files:
        file.write_text(file.read_text().replace("spark.driver.memory: 1g", f"spark.driver.memory: 1g, {logged}"))

    done = run_together(files, env=environment)

    assert done.returncode == 0, done.stderr
    chosen = [line for line in done.stderr.splitlines() if "reads Kafka with Spark's reader" in line]
    assert [line.split(": reads")[0].rpartition(" ")[2] for line in chosen] == ["jks", "pkcs12", "jks_key"]
    told = b"".join(path.read_bytes() for path in events.rglob("*") if path.is_file())
    assert b"MapInArrow" in told
    for secret in (PASSWORD, SECRET, STORE_PASSWORD):
        assert secret.encode() not in told and secret not in done.stderr
    assert all(row_ids(tmp_path, TOPIC, file.stem) == list(range(5)) for file in files)
    wrong = run_together(files[:1], env={**environment, "KAFKA_PASSWORD": "wr0ng password"})
    assert wrong.returncode == 1
    assert f"Kafka at {broker.with_login} refuses the login" in wrong.stderr and "wr0ng" not in wrong.stderr
    assert "starting Spark" not in wrong.stderr


def test_a_plan_reads_with_pem_stores_names_others_and_a_wrong_password(tmp_path: Path, broker: SecureKafka) -> None:
    places, environment = places_of(broker), environment_of(broker)
    files = {kind: write_example(tmp_path, kind, kafka_blocks()[i], places) for i, kind in enumerate(STORES)}

    done = {kind: tidemark_process("plan", file, **environment) for kind, file in files.items()}

    assert {kind: plan.returncode for kind, plan in done.items()} == {
        "pem_file": 3, "inline_pem": 3, "jks": 2, "pkcs12": 2,
    }, {kind: plan.stderr for kind, plan in done.items()}  # fmt: skip
    assert all("Sample: 5 records" in done[kind].stdout for kind in STORES[:2])
    assert "is JKS, which only Java's client reads" in done["jks"].stderr
    wrong = tidemark_process("plan", files["pem_file"], **{**environment, "KAFKA_PASSWORD": "wr0ng password"})
    assert wrong.returncode == 1
    assert f"Kafka at {broker.with_login} refuses the login" in wrong.stderr and "wr0ng" not in wrong.stderr
