"""Source positions survive in snapshot properties and never go back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from paimon_table.metadata.snapshot import Snapshot, from_json
from paimon_table.table import Table
from sinks.commit.positions import Position, newest_position, position_of, to_properties
from tests.support.events import History, records_of
from tests.support.local_batches import ALL_TABLES, pipeline_tables, run_batches

SNAPSHOT = from_json(
    '{"version": 3, "id": 1, "schemaId": 0, "baseManifestList": "b", "deltaManifestList": "d", "commitUser": "u",'
    ' "commitIdentifier": 5, "commitKind": "APPEND", "timeMillis": 1, "totalRecordCount": 0, "deltaRecordCount": 0}'
)


def with_properties(properties: dict[str, str]) -> Snapshot:
    return replace(SNAPSHOT, properties=properties)


def test_a_position_is_read_back_for_its_own_pipeline_only() -> None:
    position = Position("u", {("shop.public.orders", 0): 12, ("shop.public.orders", 1): 7})
    snapshot = with_properties(to_properties("shop", position))

    assert position_of(snapshot, "shop") == position
    assert position_of(snapshot, "other") is None
    assert position_of(SNAPSHOT, "shop") is None


def test_an_offset_never_goes_back() -> None:
    position = Position("u", {("t", 0): 12}).advanced({("t", 0): 5, ("t", 1): 3})

    assert position.offsets == {("t", 0): 12, ("t", 1): 3}


def test_an_offset_goes_back_with_a_topic_that_was_made_anew() -> None:
    before = Position("u", {("t", 0): 12, ("t", 1): 9, ("s", 0): 4}, topics={"t": "1", "s": "1"}).taken_over("v")

    after = before.advanced({("t", 0): 5}, {"t": "2", "s": "1", "unread": "1"})

    assert after.offsets == {("t", 0): 5, ("s", 0): 4} and after.topics == {"t": "2", "s": "1"}
    assert after.floors == {("s", 0): 4} == before.among({"t": "2"}).floors
    assert before.among({"s": "1"}) == before
    assert position_of(with_properties(to_properties("shop", after)), "shop") == replace(after, commit_user="u")


def test_a_position_of_an_unknown_topic_gets_its_id_once_a_batch_is_beyond_it() -> None:
    unknown = Position("u", {("t", 0): 12})
    behind = unknown.advanced({("t", 0): 5}, {"t": "1"})
    assert behind == unknown and not behind.topics
    assert behind.advanced({("t", 0): 12}, {"t": "1"}).topics == {"t": "1"}


def test_the_table_says_where_it_stands(tmp_path: Path) -> None:
    history = History("orders", seed=11, partitions=2).extend(50)
    tables = pipeline_tables(tmp_path, ALL_TABLES)
    run_batches(tables, [records_of(history)], tmp_path)

    found = newest_position(Table.open(f"{tables.config.catalog.warehouse}/lake.db/orders").snapshots, "shop")

    counts = [sum(partition == p for partition, _, _ in history.events) for p in range(2)]
    assert found is not None
    assert found.offsets == {(history.topic, p): count for p, count in enumerate(counts)}
