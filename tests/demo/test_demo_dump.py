"""The bundled dump: made by its generator, in the form of a real topic, and consistent with its final content."""

import json
from collections import Counter
from typing import Any

import pytest

from benchmarks.demo_dump import DUMP_DIR, FINAL_DIR, DemoDump, read_lines, simulate
from benchmarks.shop import TABLES


@pytest.fixture(scope="module")
def dump() -> DemoDump:
    return simulate()


def records_of(topic: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in read_lines(DUMP_DIR / f"{topic}.jsonl.gz")]


def operation_of(record: dict[str, Any]) -> str:
    if record["payload"] is None:
        return "tombstone"
    operation: str = json.loads(record["payload"])["op"]
    is_key_change = "__debezium.newkey" in record["headers"]
    return "key change" if operation == "d" and is_key_change else operation


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_committed_files_are_what_the_generator_makes(dump: DemoDump, table: Any) -> None:
    assert read_lines(DUMP_DIR / f"{table.topic}.jsonl.gz") == dump.events[table.topic]
    assert read_lines(FINAL_DIR / f"{table.name}.final.jsonl.gz") == dump.final[table.name]


@pytest.mark.slow
def test_the_dump_holds_every_kind_of_record() -> None:
    kinds = Counter(operation_of(record) for table in TABLES for record in records_of(table.topic))

    assert set(kinds) == {"r", "c", "u", "d", "key change", "tombstone"}
    assert kinds["tombstone"] == kinds["d"] + kinds["key change"]
    assert kinds.total() - kinds["tombstone"] >= 24_000


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_offsets_rise_by_one_in_every_partition(table: Any) -> None:
    next_offsets = dict.fromkeys(range(table.partitions), 0)
    for record in records_of(table.topic):
        assert record["offset"] == next_offsets[record["partition"]]
        next_offsets[record["partition"]] += 1
    assert all(next_offsets.values())


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_replaying_the_keys_leaves_the_keys_of_the_final_content(table: Any) -> None:
    present: set[str] = set()
    for record in records_of(table.topic):
        gone = record["payload"] is None or json.loads(record["payload"])["after"] is None
        (present.discard if gone else present.add)(record["key"])

    final = [json.loads(row) for row in read_lines(FINAL_DIR / f"{table.name}.final.jsonl.gz")]
    assert {json.dumps(table.key_of(row), separators=(",", ":")) for row in final} == present
