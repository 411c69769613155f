"""What a valid file means: defaults, paths, first match wins, effective options, names of targets."""

from __future__ import annotations

import pickle
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from paimon_table.catalog.table_name import TableName
from paimon_table.errors import ConfigError
from paimon_table.types import parse_type
from pipelines.config.config import PipelineConfig
from pipelines.config.config_file import load_pipeline
from pipelines.config.source_config import KafkaSource, StartOffsets, StartTimestamp
from sources.debezium_json.decoder import DebeziumJsonDecoder
from sources.values.value_forms import ValueForms
from tests.support.local_batches import shop_config

KAFKA = """\
version: 1
name: shop
source:
  kafka:
    bootstrap_servers: "${env:KAFKA_BOOTSTRAP_SERVERS:-localhost:9092}"
    topics: { include: ['shop\\.public\\..*'], exclude: ['.*_tmp'] }
    start: START
    max_records_per_batch: ${env:MAX_RECORDS:-1000}
    options: { security.protocol: SASL_SSL, sasl.jaas.config: "${env:JAAS:-}", client.rack: 1.10 }
  format: { debezium-json: { on_message: fail } }
checkpoint: state/shop
catalog: { warehouse: s3://lake/warehouse/ }
spark: { master: 'local[2]', spark.driver.memory: 2g, spark.sql.shuffle.partitions: 4, spark.ui.enabled: false }
defaults: { options: { bucket: 4, changelog-producer: lookup, snapshot.time-retained: 1 h } }
tables:
  - match: { database: shop, schema: public, table: orders }
    into: lake.orders
    primary_key: [order_id, dt]
    partition_by: [dt]
    columns: { types: { amount: 'DECIMAL(10, 2)' } }
    options: { sequence.field: updated_at, snapshot.time-retained: null }
  - match: { table: 'order.*' }
    into: 'lake.{schema}_{table}'
  - match: { topic: 'shop\\.public\\.(a|b)' }
    into: 'lake.{topic}'
otherwise: OTHERWISE
"""


def load(directory: Path, start: str = "earliest", otherwise: str = "skip", **environment: str) -> PipelineConfig:
    file = directory / "shop.yaml"
    file.write_text(KAFKA.replace("START", start).replace("OTHERWISE", otherwise))
    return load_pipeline(file, environment)


def kafka(config: PipelineConfig) -> KafkaSource:
    assert config.source.kafka is not None
    return config.source.kafka


def test_defaults_stand_for_everything_left_out(tmp_path: Path) -> None:
    config = load(tmp_path)
    assert config.trigger.interval == timedelta(seconds=60)
    assert not config.trigger.available_now
    assert config.on_lost_checkpoint == "resume"
    assert config.source.on_bad_record == "quarantine"
    assert config.quarantine == f"{tmp_path}/state/shop-quarantine"
    decoder = config.source.format.decoder
    assert isinstance(decoder, DebeziumJsonDecoder)
    assert decoder.policies.on_message == "fail"
    assert decoder.forms == ValueForms()
    assert kafka(config).bootstrap_servers == "localhost:9092"


def test_references_take_the_type_of_their_place(tmp_path: Path) -> None:
    config = load(tmp_path, MAX_RECORDS="77", KAFKA_BOOTSTRAP_SERVERS="b1:1,b2:2")
    assert kafka(config).max_records_per_batch == 77
    assert kafka(config).bootstrap_servers == "b1:1,b2:2"
    assert load(tmp_path, MAX_RECORDS="").source.reader.max_records_per_batch == 1000


def test_options_of_other_systems_are_text_as_written(tmp_path: Path) -> None:
    config = load(tmp_path)
    assert kafka(config).options == {"security.protocol": "SASL_SSL", "sasl.jaas.config": "", "client.rack": "1.10"}
    assert config.spark.properties == {
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
    }


def test_secrets_are_not_part_of_the_printed_config(tmp_path: Path) -> None:
    printed = repr(load(tmp_path, JAAS='a.Login required password="hunter2 password";'))
    assert "hunter2" not in printed


def test_the_config_travels_by_pickle(tmp_path: Path) -> None:
    config = load(tmp_path)
    assert pickle.loads(pickle.dumps(config)) == config


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("state", "{dir}/state"),
        ("./a/../b", "{dir}/b"),
        ("/abs/b", "/abs/b"),
        ("file:///x/y/", "file:///x/y"),
        ("s3a://lake/x", "s3a://lake/x"),
    ],
)
def test_paths_are_relative_to_the_file_and_uris_stay(tmp_path: Path, text: str, path: str) -> None:
    file = tmp_path / "shop.yaml"
    given = KAFKA.replace("spark: {", "spark: { spark.jars.packages: 'org.apache.hadoop:hadoop-aws:3.4.1',")
    file.write_text(given.replace("START", "latest").replace("OTHERWISE", "skip").replace("state/shop", text))
    assert load_pipeline(file, {}).checkpoint == path.replace("{dir}", str(tmp_path))


def test_a_start_has_one_of_four_forms(tmp_path: Path) -> None:
    assert kafka(load(tmp_path, "latest")).start == "latest"
    moment = datetime(2024, 5, 1, 10, tzinfo=UTC)
    assert kafka(load(tmp_path, "{ timestamp: 2024-05-01T12:00:00+02:00 }")).start == StartTimestamp(timestamp=moment)
    assert kafka(load(tmp_path, "{ timestamp: 1714557600000 }")).start == StartTimestamp(timestamp=moment)
    assert kafka(load(tmp_path, "{ offsets: { a: { 0: 42, 1: -2 } } }")).start == StartOffsets(
        offsets={"a": {0: 42, 1: -2}}
    )


@pytest.mark.parametrize(
    ("start", "offsets", "skips"),
    [
        ("earliest", None, False),
        ("latest", None, True),
        ("{ timestamp: 1714557600000 }", None, True),
        ("{ offsets: { a: { 0: 42, 1: -2 } } }", {"a": {0: 42, 1: -2}}, False),
    ],
)
def test_a_source_knows_what_its_start_says_of_records_that_come_twice(
    tmp_path: Path, start: str, offsets: object, skips: bool
) -> None:
    source = load(tmp_path, start).source
    assert (source.start_offsets, source.skips_records) == (offsets, skips)


def test_the_first_rule_that_matches_wins(tmp_path: Path) -> None:
    config = load(tmp_path)
    first = config.rule_for("shop", "public", "orders", "shop.public.orders")
    second = config.rule_for("shop", "audit", "orders", "shop.audit.orders")
    assert first is not None
    assert second is not None
    assert str(first.target("shop", "public", "orders", "t")) == "lake.orders"
    assert first.column_types == {"amount": parse_type("DECIMAL(10, 2)")}
    assert (first.primary_key, first.partition_by) == (("order_id", "dt"), ("dt",))
    assert str(second.target("shop", "audit", "orders", "t")) == "lake.audit_orders"
    assert config.rule_for("shop", "public", "customers", "shop.public.customers") is None


def test_a_pattern_matches_whole_names_only(tmp_path: Path) -> None:
    config = load(tmp_path)
    assert config.rule_for("shop", "public", "reorders", "x") is None
    assert config.rule_for(None, None, "z", "shop.public.ab") is None
    assert config.rule_for(None, None, "z", "shop.public.a") is not None


def test_keys_between_slashes_are_patterns_of_column_names(tmp_path: Path) -> None:
    columns = {
        "types": {"a_at": "DATE", "/.*_at/": "TIMESTAMP(6)", "/a.*/": "BIGINT", "x.y": "INT"},
        "decimal_format": "text",
        "decimal_formats": {"/raw_.*/": "base64", "raw_x": "auto"},
    }
    rule = shop_config(tmp_path, [{"match": {"table": "t"}, "into": "lake.t", "columns": columns}], {}).target_rules[0]
    found = {name: str(t) for name, t in rule.declared(["a_at", "b_at", "ab", "b_at_c", "xzy"]).items()}
    assert found == {"a_at": "DATE", "b_at": "TIMESTAMP(6)", "ab": "BIGINT", "x.y": "INT"}
    assert rule.column_types.keys() == {"a_at", "x.y"}
    assert rule.decimal_formats(["n", "raw_n", "raw_x"]) == {"n": "text", "raw_n": "base64", "raw_x": "auto"}


def test_options_of_a_rule_win_and_null_takes_a_default_away(tmp_path: Path) -> None:
    config = load(tmp_path)
    first, second = (config.target_rule(rule) for rule in config.tables[:2])
    stated = {"bucket": "4", "changelog-producer": "lookup", "sequence.field": "updated_at"}
    assert first.options == stated
    assert second.options == {"bucket": "4", "changelog-producer": "lookup", "snapshot.time-retained": "1 h"}


def test_a_table_has_one_bucket_when_nothing_is_said(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(
        "version: 1\nname: a\nsource: { files: { path: d }, format: debezium-json }\n"
        "checkpoint: c\ncatalog: { warehouse: w }\notherwise: create\n"
    )
    rule = load_pipeline(file, {}).rule_for("db", None, "t", "topic")
    assert rule is not None
    assert rule.options == {"bucket": "1"}
    assert rule.target("db", None, "t", "topic") == TableName("db", "t")


def test_otherwise_create_makes_a_rule_of_its_own(tmp_path: Path) -> None:
    config = load(tmp_path, otherwise="{ create: { into: 'raw.{table}' } }")
    rule = config.rule_for("shop", "public", "customers", "shop.public.customers")
    assert rule is not None
    assert str(rule.target("shop", "public", "customers", "t")) == "raw.customers"
    assert rule.options["bucket"] == "4"
    assert load(tmp_path, otherwise="fail").otherwise.policy == "fail"


def test_a_target_that_needs_an_unknown_name_is_refused_with_the_topic(tmp_path: Path) -> None:
    rule = load(tmp_path).target_rule(load(tmp_path).tables[1])
    with pytest.raises(ConfigError, match=r"uses \{schema\}: neither the records of topic t nor its name show"):
        rule.target("shop", None, "orders", "t")
    with pytest.raises(ConfigError, match=r"for topic t: table .a/b_orders. has a slash"):
        rule.target("shop", "a/b", "orders", "t")


def test_topics_are_selected_by_name_or_by_patterns(tmp_path: Path) -> None:
    topics = kafka(load(tmp_path)).settings.topics
    assert [t for t in ("shop.public.a", "shop.public.a_tmp", "shop.publicXa") if topics.selects(t)] == [
        "shop.public.a"
    ]


@pytest.mark.parametrize("topic", ["shop.public.a", "shop.public.a_tmp", "shop.public._tmpx", "other"])
def test_one_subscribe_pattern_selects_the_same_topics(tmp_path: Path, topic: str) -> None:
    topics = kafka(load(tmp_path)).settings.topics
    assert (re.fullmatch(topics.subscribe_pattern(), topic) is not None) == topics.selects(topic)


@pytest.mark.parametrize(("text", "seconds"), [("500ms", 0.5), ("60s", 60), ("5m", 300), ("1h", 3600), ("1.5 s", 1.5)])
def test_durations_have_units(tmp_path: Path, text: str, seconds: float) -> None:
    file = tmp_path / "shop.yaml"
    body = KAFKA.replace("START", "latest").replace("OTHERWISE", "skip")
    file.write_text(body + f"trigger: {{ interval: {text} }}\n")
    assert load_pipeline(file, {}).trigger.interval.total_seconds() == seconds


def test_anchors_and_merges_share_settings(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    body = KAFKA.replace("START", "latest").replace("OTHERWISE", "skip")
    body = body.replace("    columns: {", "    columns: &columns {").replace(
        "    into: 'lake.{topic}'", "    into: 'lake.{topic}'\n    columns: { <<: *columns }"
    )
    file.write_text(body)
    tables = load_pipeline(file, {}).tables
    assert tables[2].columns == tables[0].columns


def test_a_duration_of_batches_that_nothing_goes_by_is_refused(tmp_path: Path) -> None:
    """Spark's reader has batches of so many records, whatever these take."""
    kafka = {"bootstrap_servers": "localhost:9", "topics": ["t"], "reader": "spark"}
    given = {
        "version": 1, "name": "shop", "source": {"kafka": kafka, "format": "debezium-json"}, "checkpoint": "c",
        "catalog": {"warehouse": "w"}, "otherwise": "create", "trigger": {"target_batch_duration": "5s"},
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"no effect with `source\.kafka\.reader: spark`"):
        PipelineConfig.model_validate(given)
    with pytest.raises(ValueError, match="above zero"):
        PipelineConfig.model_validate({**given, "trigger": {"target_batch_duration": "0s"}})
