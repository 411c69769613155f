"""10,000 mutated records of Avro topics, with envelopes and flat: each ends in change rows, in quarantine or in a
counted skip."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

import psutil
import pyarrow as pa
import pytest

from sources.avro.registry_settings import RegistrySettings
from sources.changes import RECORD_SCHEMA
from sources.debezium_avro.decoder import DebeziumAvroDecoder
from sources.debezium_avro.options import AvroOptions
from sources.debezium_json.policies import DebeziumPolicies
from sources.decode_target import Decoder
from sources.dumps.dump_records import record_batches_from_dump
from sources.upsert_avro.decoder import UpsertAvroDecoder
from sources.upsert_json.policies import UpsertPolicies
from sources.wording import BadReason, bad_reason
from tests.support.avro_mutants import Record, mutated_avro
from tests.support.avro_topics import AvroTopics
from tests.support.flattened import Unwrap, flattened
from tests.support.replay import CAPTURES, replay_batches

MUTANTS = 10_000
AT_ONCE = 1000
Topics: TypeAlias = Callable[[Path], tuple[Decoder, list[Record]]]
_SHOP = re.compile(r"\.(customers|orders|order_items)$")


def enveloped(_: Path) -> tuple[Decoder, list[Record]]:
    """A captured topic of Debezium's Avro converter, and its decoder."""
    settings = RegistrySettings(file=str(CAPTURES / "shop_avro.schemas.json"))
    return DebeziumAvroDecoder(DebeziumPolicies(), AvroOptions(settings)), captured("shop_avro.raw")


def flat(directory: Path) -> tuple[Decoder, list[Record]]:
    """The same database behind the transform that takes envelopes away."""
    topics = AvroTopics()
    unwrap = Unwrap("rewrite-with-tombstone", ("op", "table", "lsn", "source.ts_ms"), schemas=True)
    rows = [
        {**row, "key": topics.rewritten(row["key"]), "value": topics.rewritten(row["value"])}
        for row in flattened(captured("shop_schema"), unwrap)
    ]
    return UpsertAvroDecoder(UpsertPolicies(), AvroOptions(topics.saved(directory))), rows


def captured(name: str) -> list[Record]:
    return [row for b in record_batches_from_dump(str(CAPTURES / f"{name}.jsonl.gz")) for row in b.to_pylist()]


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
@pytest.mark.parametrize("topics", [enveloped, flat])
def test_no_mutated_record_is_lost_stops_a_batch_or_harms_a_good_one(topics: Topics, tmp_path: Path) -> None:
    r = random.Random(1)
    decoder, all_rows = topics(tmp_path)
    by_topic = groupby(all_rows, key=lambda row: row["topic"])
    batches = [pa.RecordBatch.from_pylist([*rows], schema=RECORD_SCHEMA) for _, rows in by_topic]
    targets = replay_batches(batches, decoder=decoder).targets
    models = [row for row in all_rows if _SHOP.search(row["topic"])]
    with_values = [row for row in models if row["value"]]
    reasons: defaultdict[str, int] = defaultdict(int)
    stored = 0
    memory = psutil.Process().memory_info().rss
    for _ in range(MUTANTS // AT_ONCE):
        good = [dict(row) for row in r.sample(models, 300)]
        mutants = [mutated_avro(r.choice(with_values), r) for _ in range(AT_ONCE)]
        rows = mixed(good, mutants, r)
        batch = pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)

        decoded = decoder.decode(batch, targets)

        unknown = decoded.counts.unknown_tables
        refused = len(decoded.refusals)
        assert decoded.counts.accounted + unknown + refused == len(rows)
        bad = {(row.topic, row.offset): row.reason for row in decoded.quarantine}
        good_places = {(row["topic"], row["offset"]) for row in good}
        harmed = {
            (row["topic"], row["offset"]) for row in good if (row["topic"], row["offset"]) in bad and row["value"]
        }
        assert not harmed, [bad[place] for place in harmed]
        # A null value names no table: where mutants name others in its topic, it may be of these.
        assert all("which of the tables of" in bad[place] for place in good_places & bad.keys())
        offsets = {(c.source.topic, o) for c in decoded.changes for o in c.rows.column("_OFFSET").to_pylist()}
        assert {(row["topic"], row["offset"]) for row in good if row["value"]} <= offsets
        for reason in bad.values():
            assert bad_reason(reason) is not BadReason.OTHER, reason
            reasons[re.sub(r"\d+", "N", reason.partition(":")[0])] += 1
        stored += len(offsets) - len(good_places & offsets)
    assert sum(reasons.values()) > MUTANTS / 3
    assert stored > MUTANTS / 20  # a flipped bit may give another good row
    assert psutil.Process().memory_info().rss - memory < 500 << 20
