"""Captured topics behind ExtractNewRecordState, written by an Avro converter, give what the same in JSON gives."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pytest

from sources.changes import RECORD_SCHEMA, DecodeCounts
from sources.debezium_avro.options import AvroOptions
from sources.dumps.dump_records import record_batches_from_dump
from sources.upsert_avro.decoder import UpsertAvroDecoder
from sources.upsert_json.decoder import UpsertJsonDecoder
from sources.upsert_json.policies import UpsertPolicies
from tests.support.avro_topics import AvroTopics
from tests.support.flattened import UNWRAPS, Unwrap, flattened
from tests.support.replay import CAPTURES, Replay, replay_batches, same

FAST = "rewrite with tombstone"


def both_forms(
    name: str, unwrap: Unwrap, directory: Path, policies: UpsertPolicies | None = None
) -> tuple[Replay, Replay]:
    """A captured topic flat in Avro, and the same in JSON with embedded schemas."""
    unwrap = Unwrap(unwrap.mode, unwrap.add_fields, "__", unwrap.add_headers, schemas=True)
    whole = [r for batch in record_batches_from_dump(str(CAPTURES / f"{name}.jsonl.gz")) for r in batch.to_pylist()]
    json = [
        pa.RecordBatch.from_pylist(list(part), schema=RECORD_SCHEMA)
        for _, part in itertools.groupby(flattened(whole, unwrap), key=lambda record: record["topic"])
    ]
    topics = AvroTopics()
    avro = [topics.batch(batch) for batch in json]
    policies = policies or UpsertPolicies()
    of_avro = UpsertAvroDecoder(policies, AvroOptions(topics.saved(directory)))
    return replay_batches(avro, rows=97, decoder=of_avro), replay_batches(
        json, rows=97, decoder=UpsertJsonDecoder(policies)
    )


@pytest.mark.parametrize(
    "unwrap",
    [pytest.param(unwrap, id=name, marks=[] if name == FAST else pytest.mark.slow) for name, unwrap in UNWRAPS.items()],
)
def test_a_flat_database_in_avro_ends_as_in_json(unwrap: Unwrap, tmp_path: Path) -> None:
    avro, json = both_forms("shop_schema", unwrap, tmp_path)

    assert_same(avro, json)
    assert {"customers", "orders", "order_items"} <= {*avro.tables}


@pytest.mark.slow
@pytest.mark.parametrize("capture", ["types_schema", "evolve_schema"])
def test_every_type_and_every_change_of_schema_gives_what_json_gives(capture: str, tmp_path: Path) -> None:
    avro, json = both_forms(capture, UNWRAPS["rewrite with tombstone"], tmp_path)

    assert_same(avro, json)
    assert json.tables


def assert_same(avro: Replay, json: Replay) -> None:
    """Same tables with the same types, changes, counts and reasons."""
    assert avro.targets == json.targets
    assert avro.bags.keys() == json.bags.keys()
    for table, bag in json.bags.items():
        assert [same(row) for row in avro.bags[table]] == [same(row) for row in bag], table
    assert avro.tables.keys() == json.tables.keys()
    reasons = [[row.reason for d in replay.decoded for row in d.quarantine] for replay in (avro, json)]
    assert reasons[0] == reasons[1]
    counts = [sum((d.counts for d in replay.decoded), DecodeCounts()).accounted for replay in (avro, json)]
    assert counts[0] == counts[1]
