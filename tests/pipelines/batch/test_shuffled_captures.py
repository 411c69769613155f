"""Topics of a real connector whose records come in any order: tables ordered by source positions equal the source."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sources.avro.registry_settings import RegistrySettings
from sources.debezium_avro.decoder import DebeziumAvroDecoder
from sources.debezium_avro.options import AvroOptions
from sources.debezium_json.decoder import DebeziumJsonDecoder
from sources.debezium_json.policies import DebeziumPolicies
from sources.decode_target import Decoder
from sources.dumps.dump_records import record_batches_from_dump
from sources.upsert_json.decoder import UpsertJsonDecoder
from tests.support.local_batches import pipeline_tables, reported_batches, shop_rules
from tests.support.replay import CAPTURES
from tests.support.source_content import assert_equals_source, open_table

SCHEMAS = str(CAPTURES / "shop_avro.schemas.json")
KEYS = {"customers": ["id"], "orders": ["id"], "order_items": ["order_id", "line_no"]}


def shuffled(capture: str, r: random.Random) -> pa.RecordBatch:
    """The records in any order; the offsets of each topic rise in that order."""
    records = pa.Table.from_batches(record_batches_from_dump(str(CAPTURES / f"{capture}.jsonl.gz"))).combine_chunks()
    order = list(range(records.num_rows))
    r.shuffle(order)
    records = records.take(pa.array(order))
    offsets = np.zeros(records.num_rows, np.int64)
    topics = np.array(records.column("topic").to_pylist())
    for topic in np.unique(topics):
        offsets[topics == topic] = np.arange((topics == topic).sum())
    index = records.schema.get_field_index("offset")
    return records.set_column(index, "offset", pa.array(offsets)).combine_chunks().to_batches()[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capture", "decoder"),
    [
        ("shop_plain", DebeziumJsonDecoder()),
        ("shop_schema", DebeziumJsonDecoder()),
        ("shop_unwrap", UpsertJsonDecoder()),
        ("shop_avro.raw", DebeziumAvroDecoder(DebeziumPolicies(), AvroOptions(RegistrySettings(file=SCHEMAS)))),
    ],
    ids=["plain", "schema", "unwrap", "avro"],
)
def test_a_captured_shop_in_any_order_equals_its_source(tmp_path: Path, capture: str, decoder: Decoder) -> None:
    rules = [{**rule, "order_by": "source_position"} for rule in shop_rules()]
    tables = pipeline_tables(tmp_path, rules, **{"full-compaction.delta-commits": "1"})
    records = shuffled(capture, random.Random(7))
    size = records.num_rows // 3 + 1

    batches = [records.slice(start, size) for start in range(0, records.num_rows, size)]
    quarantine, reports = reported_batches(tables, batches, tmp_path, decoder=decoder)

    for name, key in KEYS.items():
        table = open_table(tables, name)
        assert_equals_source(table, "shop", name, key, {"_tidemark_position", "_tidemark_deleted_at"})
        assert table.to_arrow().column("_tidemark_position").null_count == 0
    assert not Path(quarantine.path).exists()
    assert sum(report.counts.exact for report in reports) == 0
