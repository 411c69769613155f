"""Changes on their way to the tasks that write them: each in one blob, in order, at the task that owns its lane."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from paimon_table.bucket_assignment.bucket_assigner import lane_split
from paimon_table.metadata.table_state import LiveFiles
from paimon_table.options.option_parsing import options_of
from paimon_table.row_kind import VALUE_KIND
from paimon_table.rows.binary_row import deserialize_row
from paimon_table.schema.table_schema import create_schema
from paimon_table.types import parse_type
from sinks.exchange.blob import Blob, decode_rows
from sinks.exchange.router import Origin, route
from sinks.exchange.slots import spark_hash_int
from sinks.exchange.target import OFFSET, OTHER_KEY, UNAVAILABLE, Routing

COLUMNS = {"day": "DATE", "id": "INT", "v": "STRING"}
FAR_DAY = 2_932_897
"""The first day of the year 10000, which Python's own dates do not have."""


def routing(partition_by: Sequence[str] = (), buckets: int = 4, floor: int | None = None) -> Routing:
    columns = [(name, parse_type(text)) for name, text in COLUMNS.items()]
    schema = create_schema(columns, [*partition_by, "id"], partition_by, {"bucket": str(buckets)})
    options = options_of(schema)
    floors = {} if floor is None else {("orders", 3): floor}
    return Routing(schema, options, lane_split(schema, options, LiveFiles()), floors)


def changes(count: int, first_offset: int = 100, days: Sequence[int | None] = (0,)) -> pa.Table:
    numbers = range(count)
    return pa.table(
        {
            "day": pa.array([days[n % len(days)] for n in numbers], pa.date32()),
            "id": pa.array([n * 7 % 13 for n in numbers], pa.int32()),
            "v": [f"v{n}" for n in numbers],
            VALUE_KIND: pa.array([n % 4 for n in numbers], pa.int8()),
            OFFSET: pa.array(range(first_offset, first_offset + count), pa.int64()),
        }
    )


def routed(rows: pa.Table, target: Routing, slots: int = 2, topic_partition: int = 3) -> list[Blob]:
    return list(route(rows, 1, target, Origin("orders", topic_partition), slots))


def test_every_row_is_in_one_blob_and_rows_of_a_key_stay_in_order() -> None:
    rows = changes(60)

    blobs = routed(rows, routing())

    parts = [decode_rows(blob.data) for blob in blobs]
    assert len({blob.lane for blob in blobs}) == len(blobs) > 1
    assert [blob.row_count for blob in blobs] == [part.num_rows for part in parts]
    assert sorted(v for part in parts for v in part.column("v").to_pylist()) == sorted(rows.column("v").to_pylist())
    for part in parts:
        numbers = [int(v[1:]) for v in part.column("v").to_pylist()]
        assert numbers == sorted(numbers)
        assert part.column(VALUE_KIND).to_pylist() == [number % 4 for number in numbers]
    keys = [set(part.column("id").to_pylist()) for part in parts]
    assert sum(map(len, keys)) == len(set().union(*keys)), "no key is in two blobs"


def test_a_blob_says_where_it_was_read_and_the_offsets_stay_behind() -> None:
    rows = changes(60)

    for blob in routed(rows, routing()):
        part = decode_rows(blob.data)
        assert OFFSET not in part.column_names
        assert (blob.target, blob.topic, blob.topic_partition) == (1, "orders", 3)
        assert blob.first_offset == 100 + int(part.column("v")[0].as_py()[1:])


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_a_lane_has_one_owner_wherever_its_rows_were_read(slots: int) -> None:
    owners: dict[object, set[int]] = {}
    for partition in range(3):
        for blob in routed(changes(60, days=[0, 1]), routing(["day"]), slots, partition):
            owners.setdefault(blob.lane, set()).add(spark_hash_int(blob.slot_key) % slots)

    assert all(len(found) == 1 for found in owners.values())
    assert len(set().union(*owners.values())) == slots


def test_rows_that_the_table_holds_already_are_left_out_of_their_topic_partition_alone() -> None:
    rows, target = changes(20), routing(floor=110)

    assert sum(blob.row_count for blob in routed(rows, target)) == 10
    assert min(blob.first_offset for blob in routed(rows, target)) == 110
    assert routed(rows.slice(0, 10), target) == []
    assert sum(blob.row_count for blob in routed(rows, target, topic_partition=4)) == 20


def test_partitions_keep_apart_whatever_their_day() -> None:
    target = routing(["day"], buckets=1)

    blobs = routed(changes(9, days=[FAR_DAY, 5, -800_000]), target)

    days = {deserialize_row(blob.lane.partition, [parse_type("DATE")])[0]: decode_rows(blob.data) for blob in blobs}
    assert len(days) == len(blobs) == 3
    assert [part.column("day").cast(pa.int32()).to_pylist() for part in days.values()] == [
        [day] * 3 for day in (FAR_DAY, 5, -800_000)
    ]


def test_what_fills_gaps_travels_with_the_rows() -> None:
    rows = changes(6)
    rows = rows.append_column(UNAVAILABLE, pa.array([[2], None, [1, 2], None, [], None], pa.list_(pa.int32())))
    rows = rows.append_column(OTHER_KEY, pa.array([None, "[5]", None, None, "[1]", None]))

    (blob,) = routed(rows, routing(buckets=1))

    assert decode_rows(blob.data).equals(rows.drop_columns([OFFSET]))
