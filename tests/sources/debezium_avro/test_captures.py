"""A captured database in Avro gives the tables that its JSON form gives, and those of the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from sources.avro.registry_settings import RegistrySettings
from sources.changes import DecodeTarget
from sources.debezium_avro.decoder import DebeziumAvroDecoder
from sources.debezium_avro.options import AvroOptions
from sources.debezium_json.policies import DebeziumPolicies
from tests.support.replay import CAPTURES, Replay, assert_final, assert_nothing_lost, replay_capture

SCHEMAS = CAPTURES / "shop_avro.schemas.json"


def avro_decoder(schemas: Path = SCHEMAS, **options: str) -> DebeziumAvroDecoder:
    return DebeziumAvroDecoder(DebeziumPolicies(), AvroOptions(RegistrySettings(file=str(schemas)), **options))


def shop(replay: Replay, table: str) -> DecodeTarget:
    """The target of a table of the shop."""
    (target,) = (t for s, t in replay.targets.items() if s.table == table and t is not None)
    return target


@pytest.mark.parametrize("rows", [10_000, 97])
def test_shop_in_avro_equals_its_source(rows: int) -> None:
    replay = replay_capture("shop_avro.raw", rows=rows, decoder=avro_decoder())

    assert_nothing_lost(replay)
    assert_final(replay, "shop", "customers", ["id"])
    assert_final(replay, "shop", "orders", ["id"])
    assert_final(replay, "shop", "order_items", ["order_id", "line_no"])


@pytest.mark.parametrize("table", ["customers", "orders", "order_items"])
def test_shop_in_avro_has_the_schema_and_the_rows_of_its_json_form(table: str) -> None:
    avro, json = replay_capture("shop_avro.raw", decoder=avro_decoder()), replay_capture("shop_schema")

    assert shop(avro, table) == shop(json, table)
    assert shop(avro, table).forms == shop(json, table).forms
    assert avro.tables[table] == json.tables[table]
    assert len(avro.bags[table]) > len(avro.tables[table])


def test_control_records_of_avro_topics_are_counted() -> None:
    replay = replay_capture("shop_avro.raw", decoder=avro_decoder())

    kinds = {(control.topic, control.kind) for decoded in replay.decoded for control in decoded.control}
    assert kinds == {("__debezium-heartbeat.shop_avro", "heartbeat")}
    for decoded in replay.decoded:
        assert decoded.counts.exact <= decoded.counts.control
