"""PostgreSQL -> Debezium with ExtractNewRecordState -> Kafka -> Tidemark -> Paimon with real parts, in each mode."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.comparison import run_until_equal
from tests.integration.source_tables import TABLES
from tests.integration.workload import new_workload
from tests.stack.apicurio import running_apicurio
from tests.stack.avro_converter import converter_plugins, converter_settings
from tests.stack.connect import Connect, running_connect
from tests.stack.paths import StackUnavailable
from tests.stack.postgres import Postgres
from tests.stack.topics import Topics

pytestmark = pytest.mark.stack
PIPELINE = """\
version: 1
name: {name}
source:
  kafka:
    bootstrap_servers: {servers}
    topics: {{ include: ['.*{name}.*'] }}
    max_records_per_batch: 300
    options: {{ metadata.max.age.ms: 1000 }}
  format: {{ {options} }}
trigger: {{ interval: 500ms }}
checkpoint: {root}/checkpoint
catalog: {{ warehouse: {root}/warehouse }}
spark: {{ master: 'local[2]', spark.driver.memory: 1g }}
defaults: {{ options: {{ bucket: 2, changelog-producer: lookup }} }}
tables:
  - match: {{ schema: public, table: '(?!zz_).*' }}
    into: 'lake.{{table}}'
"""
MODES = {
    "flat_rewrite": (
        {"delete.tombstone.handling.mode": "rewrite", "add.fields": "op,table,lsn,source.ts_ms"},
        "upsert-json: {}",
    ),
    "flat_both": (
        {
            "delete.tombstone.handling.mode": "rewrite-with-tombstone",
            "add.fields": "op:operation,db,schema,table",
            "add.fields.prefix": "m.",
        },
        "upsert-json: { add_fields_prefix: m., add_fields: 'op:operation,db,schema,table' }",
    ),
    "flat_null": ({"delete.tombstone.handling.mode": "tombstone", "add.headers": "op,table"}, "upsert-json: {}"),
}
JSON_WITH_SCHEMAS = {"key.converter.schemas.enable": "true", "value.converter.schemas.enable": "true"}


@pytest.mark.parametrize("name", MODES)
def test_tables_equal_their_source(
    tmp_path: Path, kafka: Topics, postgres: Postgres, connect: Connect, name: str
) -> None:
    transform, options = MODES[name]
    assert_tables_follow(
        tmp_path, kafka, postgres, connect, name, {**transform_settings(transform), **JSON_WITH_SCHEMAS}, options
    )


def test_tables_equal_their_source_in_avro(tmp_path: Path, kafka: Topics, postgres: Postgres) -> None:
    """The converter registers the schemas of keys and values in a real registry."""
    transform, _ = MODES["flat_rewrite"]
    with ExitStack() as stack:
        try:
            plugins = converter_plugins(tmp_path)
            registry = stack.enter_context(running_apicurio(tmp_path))
        except StackUnavailable as error:
            pytest.skip(str(error))
        worker = running_connect(tmp_path / "connect", kafka.bootstrap_servers, plugins=[plugins])
        connect = stack.enter_context(worker)
        options = f"upsert-avro: {{ registry: {{ url: '{registry.url}', proxy: none }} }}"
        settings = {**transform_settings(transform), **converter_settings(registry)}
        assert_tables_follow(tmp_path, kafka, postgres, connect, "flat_avro", settings, options)


def transform_settings(transform: Mapping[str, str]) -> dict[str, str]:
    """Properties of a connector whose records are flattened."""
    settings = {f"transforms.unwrap.{key}": value for key, value in transform.items()}
    settings |= {"transforms": "unwrap", "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState"}
    return settings


def assert_tables_follow(
    tmp_path: Path,
    kafka: Topics,
    postgres: Postgres,
    connect: Connect,
    name: str,
    settings: Mapping[str, str],
    options: str,
) -> None:
    """Random transactions before and while a pipeline runs: its tables equal their source."""
    workload = new_workload(postgres, name, seed=29)
    workload.fill(30)
    more = {"heartbeat.interval.ms": "1000", "provide.transaction.metadata": "true"}
    connect.capture(name, postgres, name, {**settings, **more})
    workload.run(120)
    file, log = tmp_path / "pipeline.yaml", tmp_path / "tidemark.log"
    text = PIPELINE.format(name=name, servers=kafka.bootstrap_servers, root=tmp_path, options=options)
    file.write_text(text)
    tables = run_until_equal(tmp_path, file, log, workload)
    connect.release(name)
    for table, of_source in zip(tables, TABLES, strict=True):
        assert table.schema.column_names == tuple(column.name for column in of_source.columns)
    assert log.read_text().count("a transaction record, which is not a row") == 1
    assert log.read_text().count("a heartbeat, which is not a row") == 1
