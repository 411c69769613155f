"""Pruning keeps every file that can match and drops those that cannot."""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_table.errors import ConfigError
from paimon_table.metadata.data_file import SimpleStats
from paimon_table.rows.binary_row import serialize_row
from paimon_table.scan.pruning import (
    FileStats,
    Place,
    RangeColumn,
    key_places,
    matching_files,
    may_match,
    partition_guarantee,
    ranges_of,
    referenced_columns,
    value_places,
)
from paimon_table.schema.table_schema import TableSchema, create_schema
from paimon_table.storage.counting_io import CountingFileIO
from paimon_table.storage.file_io import LocalFileIO
from paimon_table.table import Table
from paimon_table.types import parse_type
from tests.support.table_driver import TableDriver, new_table


def _schema(*columns: tuple[str, str], key: str = "k", partition: tuple[str, ...] = ()) -> TableSchema:
    return create_schema([(name, parse_type(t)) for name, t in columns], [*partition, key], partition)


SCHEMA = _schema(("k", "BIGINT"), ("s", "STRING"), ("f", "DOUBLE"), ("d", "DECIMAL(10, 2)"))


def _stats(
    schema: TableSchema, names: list[str], low: list[Any], high: list[Any], nulls: tuple[int | None, ...]
) -> SimpleStats:
    types = [schema.field(name).type.with_nullable(True) for name in names]
    return SimpleStats(serialize_row(low, types), serialize_row(high, types), nulls)


def _of(schema: TableSchema, every: Sequence[SimpleStats], places: Sequence[Place]) -> tuple[RangeColumn, ...]:
    """The ranges of files of ten rows each, of which these are the statistics."""
    lows, highs = [one.min_values for one in every], [one.max_values for one in every]
    counts = [one.null_counts for one in every]
    return ranges_of(FileStats(["f.parquet"] * len(every), [10] * len(every), lows, highs, counts), places)


def _kept(predicate: pc.Expression, ranges: tuple[RangeColumn, ...], schema: TableSchema = SCHEMA) -> list[bool]:
    return matching_files(predicate, ranges, len(ranges[0].lows), schema)


def test_key_ranges_drop_files_that_hold_none_of_the_keys() -> None:
    stats = [_stats(SCHEMA, ["k"], [low], [high], (0,)) for low, high in [(0, 9), (10, 19), (20, 29)]]
    ranges = _of(SCHEMA, stats, key_places(SCHEMA, SCHEMA.column_names))
    k = pc.field("k")

    def kept(predicate: pc.Expression) -> list[bool]:
        return _kept(predicate, ranges)

    assert kept(k == 15) == [False, True, False]
    assert kept((k == 15) & (pc.field("s") == "x")) == [False, True, False]
    assert kept(k.isin([3, 25])) == [True, False, True]
    assert kept(k > 12.5) == [False, True, True]
    assert kept(pc.field("s") == "x") == [True, True, True]
    assert kept(k + 1 == 4) == [True, True, True]


def test_value_ranges_know_nulls_truncation_and_nan() -> None:
    names = ["s", "f", "d"]
    stats = _stats(SCHEMA, names, ["a", 1.0, None], ["b", 2.0, None], (0, 0, 10))
    known = _of(SCHEMA, [stats], value_places(SCHEMA, SCHEMA, names, SCHEMA.column_names))

    def kept(predicate: pc.Expression) -> bool:
        return _kept(predicate, known)[0]

    assert not kept(pc.field("s") == "c")
    assert not kept(pc.field("s").is_null())
    assert kept(pc.field("s") == "b")
    assert kept(pc.field("f") > 5.0), "a NaN is no part of the range"
    assert not kept(pc.field("d") == Decimal("1.00")), "the file has only nulls there"
    assert kept(pc.field("d").is_null())
    assert kept(pc.field("k") == 1), "a column without statistics says nothing"


def test_added_column_is_null_in_old_files() -> None:
    newer = TableSchema(1, (*SCHEMA.fields, SCHEMA.fields[1].__class__(9, "z", parse_type("INT"))), 9, (), ("k",), {})
    known = _of(newer, [SimpleStats()], value_places(newer, SCHEMA, (), newer.column_names))
    kept = [_kept(p, known, newer)[0] for p in (pc.field("z") == 1, pc.field("z").is_null())]
    assert kept == [False, True]


def test_values_that_a_file_gives_back_altered_are_not_ruled_out() -> None:
    """Moments of the last second before 1970 come back from ORC files with the fraction of a later one."""
    schema = _schema(("k", "BIGINT"), ("t", "TIMESTAMP(6)"))
    bounds = _stats(schema, ["t"], [-500_000], [-100_000], (0,))
    columns = ([bounds.min_values] * 2, [bounds.max_values] * 2, [bounds.null_counts] * 2)
    ranges = ranges_of(
        FileStats(["a.orc", "a.parquet"], [10, 10], *columns), value_places(schema, schema, ["t"], ["t"])
    )
    later = pa.scalar(300_000, pa.int64()).cast(pa.timestamp("us"))
    assert _kept(pc.field("t") > later, ranges, schema) == [True, False]


def test_partition_values_and_null_partitions_prune() -> None:
    schema = _schema(("dt", "DATE"), ("k", "INT"), partition=("dt",))
    rows = [serialize_row([value], [parse_type("DATE")]) for value in (19723, 19724, None)]
    guarantees = [partition_guarantee(row, schema) for row in rows]
    arrow = schema.arrow_schema
    assert may_match(pc.field("dt") == pa.scalar(19723, pa.int32()).cast(pa.date32()), guarantees, arrow) == [
        True,
        False,
        False,
    ]
    assert may_match(pc.field("dt").is_null(), guarantees, arrow) == [False, False, True]


def test_referenced_columns_of_a_predicate() -> None:
    predicate = (pc.field("d") > Decimal("1.00")) | pc.field("s").is_null()
    assert referenced_columns(predicate, SCHEMA.arrow_schema) == ("s", "d")
    assert referenced_columns(pc.scalar(True), SCHEMA.arrow_schema) == ()


def test_predicate_on_an_unknown_column_is_refused() -> None:
    with pytest.raises(ConfigError, match="columns are: k, s, f, d"):
        referenced_columns(pc.field("nope") == 1, SCHEMA.arrow_schema)


@pytest.mark.slow
@pytest.mark.parametrize("predicate", [
    pc.field("k") == 500, pc.field("k") > 990, pc.field("k") < 2000, pc.field("k") < 0, pc.field("k") + 1 == 7,
    pc.field("s") == "v042", pc.field("s").is_null(), ~pc.field("s").is_valid(), pc.field("s") > "v900",
    (pc.field("k") > 300) & (pc.field("s") < "v310"), (pc.field("k") < 5) | (pc.field("s") == "v999"),
], ids=str)  # fmt: skip
def test_files_are_found_in_groups_as_they_are_one_by_one(predicate: pc.Expression) -> None:
    """A thousand files, some of them with NULLs, two without any value, one that says nothing."""
    every: list[SimpleStats] = []
    for number in (n * 37 % 1000 for n in range(1000)):
        nulls = 10 if number in (70, 80) else 1 if number > 200 and number % 50 == 0 else 0
        text = None if nulls == 10 else f"v{number:03d}"
        stats = _stats(SCHEMA, ["k", "s"], [number, text], [number + 3, text], (0, nulls))
        every.append(SimpleStats() if number == 9 else stats)
    places = value_places(SCHEMA, SCHEMA, ["k", "s"], SCHEMA.column_names)
    alone = [_kept(predicate, _of(SCHEMA, [stats], places))[0] for stats in every]
    assert _kept(predicate, _of(SCHEMA, every, places)) == alone


def test_manifests_without_matching_partitions_are_not_read(tmp_path: Path) -> None:
    schema = [("dt", "STRING"), ("k", "INT")]
    driver = TableDriver(new_table(tmp_path / "t", schema, ["dt", "k"], ["dt"]), tmp_path / "lookup")
    for dt in ("a", "b", "c"):
        driver.commit([["+I", dt, 1]])
    io = CountingFileIO(LocalFileIO())
    table = Table.open(str(tmp_path / "t"), io=io)
    before = len(io.requests)
    rows = table.to_arrow(predicate=pc.field("dt") == "b")
    assert rows.to_pylist() == [{"dt": "b", "k": 1}]
    manifests = {path for kind, path in io.requests[before:] if kind == "read" and "/manifest-" in path}
    assert sum("/manifest-list-" not in path for path in manifests) == 1
    assert [kind for kind, _ in io.requests[before:] if kind == "list"] == []
