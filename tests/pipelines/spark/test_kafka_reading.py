"""Which reader of Kafka a pipeline file chooses, and what it says of the choice."""

from __future__ import annotations

import logging
import pickle
from typing import Any, cast

import pytest
from pydantic import ValidationError

from paimon_table.storage.secret import note_inherited
from pipelines.config.config import PipelineConfig
from pipelines.spark.kafka_reading import reads_directly, say_reader
from pipelines.spark.session import hold_kafka_secrets
from pipelines.spark.session_properties import session_properties
from sources.kafka.record_streams import DirectStream

JKS = {"security.protocol": "SSL", "ssl.truststore.location": "/t.jks", "ssl.truststore.password": "it is secret"}


def config(reader: str = "auto", options: dict[str, str] | None = None, master: str = "local[2]") -> PipelineConfig:
    return PipelineConfig.model_validate(
        {
            "version": 1,
            "name": "shop",
            "source": {
                "kafka": {
                    "bootstrap_servers": "k:9092",
                    "topics": ["t"],
                    "reader": reader,
                    "options": options or {},
                },
                "format": "debezium-json",
            },
            "checkpoint": "/state/shop",
            "catalog": {"warehouse": "/lake"},
            "spark": {"master": master},
            "otherwise": "create",
        }
    )


def test_passwords_are_not_in_the_code_of_tasks_whose_processes_inherit_them() -> None:
    store = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/me.p12", "ssl.keystore.password": "IT-IS-SECRET"}
    chosen = config(options={"security.protocol": "SSL", **store})
    kafka = chosen.source.kafka
    assert kafka is not None
    stream = DirectStream(kafka.settings, cast("Any", None), lambda _losses: None)
    assert b"IT-IS-SECRET" in pickle.dumps(stream.share_reader)  # no JVM has started with it
    hold_kafka_secrets([chosen])
    note_inherited()
    assert b"IT-IS-SECRET" not in pickle.dumps(stream.share_reader)


@pytest.mark.parametrize(
    ("chosen", "is_direct", "told"),
    [
        (config(), True, None),
        (config(master="local"), True, None),
        (config("spark"), False, None),
        (config("direct", master="spark://h:7077"), True, None),
        (config(master="spark://h:7077"), False, "the master is spark://h:7077"),
        (config(master="local-cluster[2,1,1024]"), False, "the master is local-cluster"),
        (config(options=JKS), False, "'ssl.truststore.type' is JKS"),
    ],
)
def test_auto_reads_directly_where_it_can_and_says_where_it_cannot(
    chosen: PipelineConfig, is_direct: bool, told: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    say_reader(chosen)
    assert reads_directly(chosen) is is_direct
    assert [told in record.getMessage() for record in caplog.records if told] == ([] if told is None else [True])
    assert "it is secret" not in caplog.text and (told is not None or not caplog.records)


def test_direct_is_refused_where_librdkafka_cannot_with_place_and_remedy() -> None:
    with pytest.raises(ValidationError) as refusal:
        config("direct", JKS)
    text = str(refusal.value)
    assert "'ssl.truststore.type' is JKS" in text and "keytool" in text and "let `reader` be auto or spark" in text
    assert "'at': ('options', 'ssl.truststore.type')" in str(refusal.value.errors())


def test_only_spark_s_reader_needs_its_connector(tmp_path: object) -> None:
    def packages(*configs: PipelineConfig) -> str | None:
        return session_properties(configs, "local[2]", False, [str(tmp_path)]).get("spark.jars.packages")

    assert packages(config()) is None
    assert "spark-sql-kafka" in str(packages(config(), config("spark")))
