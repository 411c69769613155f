"""Timestamps that a file holds and 64 bits of nanoseconds do not: read right or refused, never wrapped.

Dates of all years beside them, which Python has no class for.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table.data_files.key_value_file import iter_key_value_batches, read_key_value_file
from paimon_table.errors import UnsupportedFeature
from paimon_table.formats.file_format import DamagedFile, UnreadableValue
from paimon_table.formats.parquet.int96 import raw_metadata, timestamps
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.table_context import TableContext
from paimon_table.rows.binary_row import deserialize_row, serialize_row
from paimon_table.types import arrow_type, parse_type
from tests.support.data_files import bucket_dir, context, table, write

DAY_NANOS = 86_400 * 10**9
JULIAN_EPOCH = 2_440_588
TYPES = ("TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP(9) WITH LOCAL TIME ZONE")
NANOS_PER_UNIT = {"ms": 10**6, "us": 10**3, "ns": 1}
YEAR_2300 = (dt.date(2300, 1, 1) - dt.date(1970, 1, 1)).days * DAY_NANOS


def int96(nanos: int, as_java: bool) -> bytes:
    """Java counts days before 1970 towards zero, which leaves a negative time of the day."""
    day, rest = divmod(nanos, DAY_NANOS)
    if as_java and day < 0 and rest:
        day, rest = day + 1, rest - DAY_NANOS
    return rest.to_bytes(8, "little", signed=True) + (day + JULIAN_EPOCH).to_bytes(4, "little", signed=True)


@pytest.mark.slow
@settings(deadline=None)
@given(
    values=st.lists(st.none() | st.integers(-(1 << 66), 1 << 66), min_size=1, max_size=6),
    as_java=st.booleans(),
    text=st.sampled_from(TYPES),
    skipped=st.integers(0, 1),
)
def test_int96_is_read_exactly_or_refused(values: list[int | None], as_java: bool, text: str, skipped: int) -> None:
    t = parse_type(text)
    stored = [None if value is None else int96(value, as_java) for value in values]
    per_unit = NANOS_PER_UNIT[arrow_type(t).unit]
    units = [None if value is None else value // per_unit for value in values]
    raw = pa.array([b"\xff" * 12] * skipped + stored, pa.binary(12)).slice(skipped)

    if any(value is not None and not -(1 << 63) <= value < 1 << 63 for value in units):
        with pytest.raises(UnreadableValue, match="outside of the years 1677 to 2262"):
            timestamps(raw, t)
    else:
        assert timestamps(raw, t).equals(pa.array(units, pa.int64()).cast(arrow_type(t)))


def test_only_timestamps_are_stored_as_int96() -> None:
    with pytest.raises(DamagedFile, match="STRING"):
        timestamps(pa.array([bytes(12)], pa.binary(12)), parse_type("STRING"))


@pytest.mark.parametrize("columns", [1, 20])
def test_a_footer_is_changed_in_its_int96_columns_alone(tmp_path: Path, columns: int) -> None:
    path = tmp_path / "some.parquet"
    nested = pa.list_(pa.struct({"t": pa.timestamp("us"), "n": pa.int32()}))
    rows = pa.table({
        **{f"c{i}": pa.array([1, 2], pa.timestamp("us")) for i in range(columns)},
        "text": ["a", "b"],
        "nested": pa.array([[{"t": None, "n": 1}], None], nested),
    })  # fmt: skip
    pq.write_table(rows, path, row_group_size=1, use_deprecated_int96_timestamps=True)

    with pa.memory_map(str(path)) as stream:
        raw = pq.ParquetFile(stream, metadata=raw_metadata(stream)).read()

    assert raw.schema.field("c0").type == pa.binary(12)
    assert raw.schema.field("nested").type.value_type.field("t").type == pa.binary(12)
    assert raw.column("text").equals(rows.column("text"))
    assert raw.column("c0")[1].as_py() == int96(2000, as_java=False)
    assert raw.column("nested").to_pylist() == rows.column("nested").to_pylist()


FAR = dt.datetime(2300, 1, 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("TIMESTAMP(9)", FAR),
        ("TIMESTAMP(9) WITH LOCAL TIME ZONE", FAR),
        ("ROW<v TIMESTAMP(9)>", {"v": FAR}),
        ("ARRAY<TIMESTAMP(9)>", [None, FAR]),
        ("MAP<INT, TIMESTAMP(9)>", [(1, FAR)]),
    ],
)
def test_a_file_with_a_year_that_nanoseconds_do_not_reach_is_refused(tmp_path: Path, text: str, value: object) -> None:
    ctx, meta = far_file(tmp_path, text, value)

    with pytest.raises(
        UnsupportedFeature, match=rf"{meta.file_name}: column 'ts' holds 2300-01-01 00:00:00\.000000000"
    ):
        read_key_value_file(ctx, bucket_dir(ctx), meta)
    with pytest.raises(UnsupportedFeature, match="2300-01-01"):
        list(iter_key_value_batches(ctx, bucket_dir(ctx), meta, predicate=pc.field("id") > 0))
    assert read_key_value_file(ctx, bucket_dir(ctx), meta, ["id"]).num_rows == 1, "nobody asks for the column"


def far_file(tmp_path: Path, text: str, value: object) -> tuple[TableContext, DataFileMeta]:
    """A file in which another writer stored one value of microseconds where the table has nanoseconds."""
    ctx = context(tmp_path, {"id": "INT", "ts": text})
    meta = write(ctx, table(ctx, [[1], [None]]))
    path = f"{bucket_dir(ctx)}/{meta.file_name}"
    column = pa.array([value], arrow_type(parse_type(text.replace("(9)", "(6)"))))
    pq.write_table(pq.read_table(path).set_column(4, "ts", column), path, use_deprecated_int96_timestamps=True)
    return ctx, replace(meta, file_size_bytes=Path(path).stat().st_size)


def test_key_in_metadata_that_nanoseconds_do_not_reach_is_refused() -> None:
    far = serialize_row([YEAR_2300 // 1000], [parse_type("TIMESTAMP(6)")])

    with pytest.raises(UnsupportedFeature, match="2300-01-01"):
        deserialize_row(far, [parse_type("TIMESTAMP(9)")])


DAYS = st.one_of(
    st.none(),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.sampled_from([-719_163, -719_162, 2_932_896, 2_932_897, -1, 0, -(1 << 31), (1 << 31) - 1]),
)
FAR_MICROS = 250_000_000_000_000_000
MOMENTS_MICROS = [7, FAR_MICROS, -2_001_000, -FAR_MICROS - 1]


@pytest.mark.slow
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@settings(max_examples=30, deadline=None)
@given(
    days=st.lists(DAYS, min_size=4, max_size=8),
    moment=st.sampled_from(MOMENTS_MICROS),
)
def test_dates_of_all_years_are_stored_beside_every_timestamp(
    tmp_path_factory: pytest.TempPathFactory, file_format: str, days: list[int | None], moment: int
) -> None:
    columns = {
        "id": "INT", "ts": "TIMESTAMP(6)", "day": "DATE", "row": "ROW<d DATE, t TIMESTAMP(6)>", "l": "ARRAY<DATE>",
        "m": "MAP<INT, ROW<d DATE, t TIMESTAMP(6)>>",
    }  # fmt: skip
    if file_format == "orc":
        columns["bydate"] = "MAP<DATE, TIMESTAMP(6)>"
    ctx = context(tmp_path_factory.mktemp("t"), columns, file_format=file_format)
    keys = [day for day in dict.fromkeys(days) if day is not None]
    values: list[list[Any]] = [
        [1, 2], [moment, None], days[:2], [{"d": days[2], "t": moment}, {"d": days[3], "t": None}],
        [days, None], [[(5, {"d": days[3], "t": moment}), (6, None)], []],
    ]  # fmt: skip
    if file_format == "orc":
        values.append([[(key, moment) for key in keys], None])
    rows = table(ctx, values)

    meta = write(ctx, rows)

    read = read_key_value_file(ctx, bucket_dir(ctx), meta)
    assert read.equals(rows.cast(read.schema))
    days_alone = read_key_value_file(ctx, bucket_dir(ctx), meta, ["day"])
    assert days_alone.column("day").cast(pa.int32()).to_pylist() == days[:2]
