"""10,000 mutated records of Avro topics: each ends in change rows, in quarantine or in a counted skip."""

from __future__ import annotations

import random
import re
import time
from collections import defaultdict

import psutil
import pyarrow as pa
import pytest

from sources.avro.registry_settings import RegistrySettings
from sources.changes import RECORD_SCHEMA
from sources.debezium_avro.decoder import DebeziumAvroDecoder
from sources.debezium_avro.options import AvroOptions
from sources.debezium_json.policies import DebeziumPolicies
from sources.dumps.dump_records import record_batches_from_dump
from sources.wording import BadReason, bad_reason
from tests.support.avro_mutants import Record, mutated_avro
from tests.support.replay import CAPTURES, replay_capture

MUTANTS = 10_000
AT_ONCE = 1000
_SHOP = re.compile(r"\.(customers|orders|order_items)$")


def decoder() -> DebeziumAvroDecoder:
    settings = RegistrySettings(file=str(CAPTURES / "shop_avro.schemas.json"))
    return DebeziumAvroDecoder(DebeziumPolicies(), AvroOptions(settings))


def mixed(good: list[Record], mutants: list[Record], r: random.Random) -> list[Record]:
    """Good records in their order, with mutants anywhere among them; offsets are given anew."""
    rows = [*good]
    for mutant in mutants:
        rows.insert(r.randrange(len(rows) + 1), mutant)
    ends: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        row["offset"], ends[row["topic"]] = ends[row["topic"]], ends[row["topic"]] + 1
    return rows


@pytest.mark.slow
def test_no_mutated_record_is_lost_stops_a_batch_or_harms_a_good_one() -> None:
    r = random.Random(1)
    targets = replay_capture("shop_avro.raw", decoder=decoder()).targets
    all_rows = [
        row for b in record_batches_from_dump(str(CAPTURES / "shop_avro.raw.jsonl.gz")) for row in b.to_pylist()
    ]
    models = [row for row in all_rows if _SHOP.search(row["topic"])]
    with_values = [row for row in models if row["value"]]
    reasons: defaultdict[str, int] = defaultdict(int)
    stored = 0
    memory, longest_s = psutil.Process().memory_info().rss, 0.0
    for _ in range(MUTANTS // AT_ONCE):
        good = [dict(row) for row in r.sample(models, 300)]
        mutants = [mutated_avro(r.choice(with_values), r) for _ in range(AT_ONCE)]
        rows = mixed(good, mutants, r)
        batch = pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)

        started = time.process_time()
        decoded = decoder().decode(batch, targets)
        longest_s = max(longest_s, time.process_time() - started)

        unknown = decoded.counts.unknown_tables
        refused = len(decoded.refusals)
        assert decoded.counts.accounted + unknown + refused == len(rows)
        bad = {(row.topic, row.offset): row.reason for row in decoded.quarantine}
        good_places = {(row["topic"], row["offset"]) for row in good}
        assert not good_places & bad.keys(), [bad[place] for place in good_places & bad.keys()]
        offsets = {(c.source.topic, o) for c in decoded.changes for o in c.rows.column("_OFFSET").to_pylist()}
        assert {(row["topic"], row["offset"]) for row in good if row["value"]} <= offsets
        for reason in bad.values():
            assert bad_reason(reason) is not BadReason.OTHER, reason
            reasons[re.sub(r"\d+", "N", reason.partition(":")[0])] += 1
        stored += len(offsets) - len(good_places & offsets)
    assert sum(reasons.values()) > MUTANTS / 3
    assert stored > MUTANTS / 20  # a flipped bit may give another good row
    assert longest_s < 20
    assert psutil.Process().memory_info().rss - memory < 500 << 20
