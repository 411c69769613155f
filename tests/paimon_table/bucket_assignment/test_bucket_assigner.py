"""Rows on their way to buckets: what comes together, and in which order."""

from __future__ import annotations

import pyarrow as pa

from paimon_table.bucket_assignment.bucket_assigner import lane_split
from paimon_table.bucket_assignment.fixed_buckets import FixedAssigner, FixedLanes
from paimon_table.bucket_assignment.lanes import Lane
from paimon_table.metadata.table_state import LiveFiles
from paimon_table.options.option_parsing import options_of
from paimon_table.rows.binary_row import deserialize_row
from paimon_table.rows.hashes import assign_buckets
from paimon_table.schema.table_schema import TableSchema, create_schema
from paimon_table.types import parse_type


def schema_of(columns: dict[str, str], key: list[str], partition_by: list[str], **options: str) -> TableSchema:
    typed = [(name, parse_type(text)) for name, text in columns.items()]
    return create_schema(typed, key, partition_by, {name.replace("_", "-"): value for name, value in options.items()})


def lanes_of(schema: TableSchema, rows: pa.Table) -> dict[Lane, pa.Table]:
    return dict(lane_split(schema, options_of(schema), LiveFiles()).split(rows))


def test_a_lane_is_a_bucket_and_keeps_the_order_of_arrival() -> None:
    schema = schema_of({"k": "INT", "v": "INT"}, ["k"], [], bucket="3")
    keys = [n * 7 % 20 for n in range(200)]
    rows = pa.table({"k": pa.array(keys, pa.int32()), "v": pa.array(range(200), pa.int32())})

    lanes = lanes_of(schema, rows)

    buckets = assign_buckets([rows.column("k")], [schema.field("k").type], 3).tolist()
    assert {lane.number: part.column("v").to_pylist() for lane, part in lanes.items()} == {
        number: [n for n in range(200) if buckets[n] == number] for number in range(3)
    }


def test_partitions_have_lanes_of_their_own() -> None:
    schema = schema_of({"d": "DATE", "k": "INT"}, ["d", "k"], ["d"], bucket="2")
    days = pa.array([5, -800_000, None, 5, -800_000], pa.int32()).cast(pa.date32())
    rows = pa.table({"d": days, "k": pa.array([1, 1, 1, 2, 3], pa.int32())})

    lanes = lanes_of(schema, rows)

    found: dict[object, list[int]] = {}
    for lane, part in lanes.items():
        (day,) = deserialize_row(lane.partition, [schema.field("d").type])
        found.setdefault(day, []).extend(part.column("k").to_pylist())
    assert sorted(sorted(keys) for keys in found.values()) == [[1], [1, 2], [1, 3]]
    assert len({lane.partition for lane in lanes}) == 3


def test_the_bucket_key_alone_chooses_the_lane() -> None:
    schema = schema_of({"a": "INT", "b": "INT"}, ["a", "b"], [], bucket="16", bucket_key="a")
    rows = pa.table({"a": pa.array([4] * 50, pa.int32()), "b": pa.array(range(50), pa.int32())})

    assert [part.num_rows for part in lanes_of(schema, rows).values()] == [50]


def test_no_rows_have_no_lanes() -> None:
    schema = schema_of({"k": "INT"}, ["k"], [], bucket="3")

    assert lanes_of(schema, schema.arrow_schema.empty_table()) == {}


def test_fixed_buckets_need_nothing_noted() -> None:
    schema = schema_of({"k": "INT"}, ["k"], [], bucket="3")
    rows = pa.table({"k": pa.array([1, 2], pa.int32())})
    assigner = FixedAssigner()

    ((bucket, assigned),) = assigner.assign(Lane(bytes(12), 2), rows)
    ((same, _),) = assigner.find(Lane(bytes(12), 2), rows)

    assert (bucket.bucket, assigned, same) == (2, rows, bucket)
    assert assigner.prepare_append(bucket).is_empty
    assert lane_split(schema, options_of(schema), LiveFiles()) == FixedLanes(schema, 3, "default")
