"""A captured database in Avro gives the tables that its JSON form gives, and those of the source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sources.avro.registry_settings import RegistrySettings
from sources.changes import DecodeCounts
from sources.debezium_avro.decoder import DebeziumAvroDecoder
from sources.debezium_avro.options import AvroOptions
from sources.debezium_json.policies import DebeziumPolicies
from sources.decode_target import DecodeTarget
from sources.dumps.dump_records import record_batches_from_dump
from tests.support.avro_topics import AvroTopics
from tests.support.replay import (
    CAPTURES,
    Replay,
    assert_final,
    assert_nothing_lost,
    replay_batches,
    replay_capture,
    same,
)

SCHEMAS = CAPTURES / "shop_avro.schemas.json"


def avro_decoder(schemas: Path = SCHEMAS, **options: str) -> DebeziumAvroDecoder:
    return DebeziumAvroDecoder(DebeziumPolicies(), AvroOptions(RegistrySettings(file=str(schemas)), **options))


def shop(replay: Replay, table: str) -> DecodeTarget:
    """The target of a table of the shop."""
    (target,) = (t for s, t in replay.targets.items() if s.table == table and t is not None)
    return target


@pytest.mark.slow
@pytest.mark.parametrize("rows", [10_000, 97])
def test_shop_in_avro_equals_its_source(rows: int) -> None:
    replay = replay_capture("shop_avro.raw", rows=rows, decoder=avro_decoder())

    assert_nothing_lost(replay)
    assert_final(replay, "shop", "customers", ["id"])
    assert_final(replay, "shop", "orders", ["id"])
    assert_final(replay, "shop", "order_items", ["order_id", "line_no"])


@pytest.mark.slow
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


def both_forms(name: str, directory: Path, rows: int) -> tuple[Replay, Replay]:
    """A topic with embedded schemas, replayed from its JSON and from the same in Avro."""
    topics = AvroTopics()
    batches = [topics.batch(batch) for batch in record_batches_from_dump(str(CAPTURES / f"{name}.jsonl.gz"))]
    avro = replay_batches(batches, rows=rows, decoder=topics.decoder(directory))
    return avro, replay_capture(name, rows=rows)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [10_000, 7])
@pytest.mark.parametrize("name", ["types_schema", "evolve_schema", "shop_schema"])
def test_every_type_and_every_change_of_schema_gives_what_json_gives(name: str, rows: int, tmp_path: Path) -> None:
    avro, json = both_forms(name, tmp_path, rows)

    assert avro.targets.keys() == json.targets.keys()
    for source, target in json.targets.items():
        assert avro.targets[source] == target, source
        assert target is None or (avro.targets[source] or target).forms == target.forms, source
    assert avro.bags.keys() == json.bags.keys()
    for table, bag in json.bags.items():
        assert [same(row) for row in avro.bags[table]] == [same(row) for row in bag], table
    assert sum((d.counts for d in avro.decoded), DecodeCounts()) == replace(
        sum((d.counts for d in json.decoded), DecodeCounts()), exact=sum(d.counts.exact for d in avro.decoded)
    )
    reasons = [[row.reason for d in replay.decoded for row in d.quarantine] for replay in (avro, json)]
    assert reasons[0] == reasons[1]
    assert [d.refusals for d in avro.decoded] == [d.refusals for d in json.decoded]
