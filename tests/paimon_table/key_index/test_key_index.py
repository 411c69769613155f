"""The index of keys against a dict: entries change, leave and are merged; keys are words themselves or not."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from paimon_table.key_index.index_runs import (
    LARGEST_RUN_ROWS,
    MOST_SMALL_RUNS,
    IndexRuns,
    runs_to_merge,
    whole_key_order,
)
from paimon_table.key_index.key_index import KeyIndex
from paimon_table.lookup.cache import LookupCache
from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.snapshot import BEFORE_THE_FIRST
from paimon_table.options.option_parsing import options_of
from paimon_table.schema.table_schema import create_schema
from paimon_table.types import parse_type


@pytest.mark.slow
@pytest.mark.parametrize("key_type", ["INT", "STRING"])
def test_every_key_is_where_it_was_put_last(tmp_path: Path, key_type: str) -> None:
    columns = [(name, parse_type(t)) for name, t in (("pt", "INT"), ("k", key_type))]
    schema = create_schema(columns, ["k"], ["pt"], {"bucket": "-1"})
    key_schema = pa.schema([schema.arrow_schema.field("k")])
    order = whole_key_order(schema, options_of(schema))
    runs = IndexRuns(LookupCache(str(tmp_path)), order, key_schema)
    buckets = [BucketId(EMPTY_ROW, number) for number in range(3)]
    index, _ = KeyIndex(BEFORE_THE_FIRST, (), (), ()).with_buckets(buckets)
    kept = index
    draw = random.Random(5)
    model: dict[int, int] = {}

    def keys_of(numbers: list[int]) -> pa.Table:
        values = pa.array(numbers).cast(key_schema.field(0).type)
        return pa.Table.from_arrays([values], schema=key_schema)

    for step in range(40):
        changed = {draw.randrange(200): draw.randrange(-1, 3) for _ in range(draw.randrange(1, 30))}
        model |= changed
        keys = keys_of(list(changed))
        first, _ = order.distinct(keys)
        slots = np.asarray(list(changed.values()), np.int32)[first]
        index = index.with_entries(runs, f"run-{step}", keys.take(pa.array(first)), slots)
        if step % 3 == 0:
            runs.keep(index.runs, kept.runs)
            kept = index

    runs.keep(index.runs, kept.runs)
    there = [path.stem for path in tmp_path.rglob("*.lookup")]
    assert sorted(there) == sorted(run.name for run in index.runs)
    everything = keys_of(list(range(200)))
    first, _ = order.distinct(everything)
    found = runs.find(index.runs, everything.take(pa.array(first)))
    assert dict(zip(first.tolist(), found.tolist(), strict=True)) == {k: model.get(k, -1) for k in range(200)}
    assert index.key_counts == tuple(sum(slot == n for slot in model.values()) for n in range(3))
    assert len(index.runs) <= MOST_SMALL_RUNS + 1


def test_small_runs_are_merged_with_those_of_their_size() -> None:
    assert runs_to_merge([5] * MOST_SMALL_RUNS) == 0
    assert runs_to_merge([5] * 9) == 9
    assert runs_to_merge([5] * 8 + [1000]) == 8
    assert runs_to_merge([900, 1] + [5] * 7) == 9
    assert runs_to_merge([5] * 3 + [LARGEST_RUN_ROWS] * 20) == 0
    assert runs_to_merge([LARGEST_RUN_ROWS // 2] * 9) == 2
