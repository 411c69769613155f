"""Bloom filters of data files: exact bytes, where they are stored, and how they prune."""

from __future__ import annotations

import datetime as dt
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table.data_files.key_value_file import FileNames, KeyValueFileWriter, read_key_value_file
from paimon_table.errors import BrokenInvariant, ConfigError, CorruptFile, UnsupportedFeature
from paimon_table.file_index.bloom_filter import BloomFilter, BloomFilterBuilder
from paimon_table.file_index.container import DamagedIndex, read_container, write_container
from paimon_table.file_index.hashing import hash64
from paimon_table.file_index.index_builder import bloom_filter
from paimon_table.metadata.data_file import FileSource
from paimon_table.options.option_parsing import parse_options
from paimon_table.scan.confinement import confined_columns
from paimon_table.scan.index_pruning import matching_sections
from paimon_table.schema.table_schema import create_schema
from paimon_table.types import arrow_type, parse_type
from paimon_table.validation.table_validation import validate_table
from tests.support.builders import orders_schema
from tests.support.data_files import NOW_MS, bucket_dir, context, table, write

COLUMNS = {"id": "INT", "name": "STRING", "n": "BIGINT"}
ON_NAME = {"file-index.bloom-filter.columns": "name", "file-index.bloom-filter.name.items": "100"}


def hashed(text: str, *values: Any) -> list[int]:
    t = parse_type(text)
    return [int(h) for h in hash64(pa.array(values, arrow_type(t)), t)]


# ---------------------------------------------------------------- hashes and bits


def test_numbers_are_hashed_as_longs() -> None:
    vectors = {
        0: 0, 1: 6614235796240398542, -1: 6614246905173314819, 42: 1098236396662648698,
        1234567890123: 2536013120387282886,
    }  # fmt: skip
    assert hashed("BIGINT", *vectors) == list(vectors.values())
    assert hashed("TINYINT", 42, -1) == [vectors[42], vectors[-1]]
    assert hashed("DATE", dt.date(1970, 2, 12)) == [vectors[42]]
    assert hashed("TIME(3)", dt.time(0, 0, 0, 42_000)) == [vectors[42]]


def test_floats_are_hashed_by_their_bits() -> None:
    assert hashed("FLOAT", 1.5) == [-5964487987920989368]
    assert hashed("DOUBLE", -2.25) == [-2601598109836619412]


def test_texts_and_bytes_are_hashed_by_xxhash() -> None:
    vectors = {
        "": -1205034819632174695, "a": -3292477735350538661, "hello": 2794345569481354659,
        "hello paimon world, this is longer than 32 bytes": 7977178978299129859,
    }  # fmt: skip
    assert hashed("STRING", *vectors) == list(vectors.values())
    assert hashed("BYTES", *(text.encode() for text in vectors)) == list(vectors.values())


def test_timestamps_are_hashed_as_milliseconds_or_microseconds() -> None:
    assert hashed("TIMESTAMP(3)", 42) == hashed("BIGINT", 42)
    assert hashed("TIMESTAMP(4)", 42) == hashed("BIGINT", 42)
    assert hashed("TIMESTAMP(9) WITH LOCAL TIME ZONE", 42_999, -1) == hashed("BIGINT", 42, -1)


def test_bloom_filter_has_the_bytes_of_paimon() -> None:
    t = parse_type("INT")
    body = bloom_filter(pa.array([1, 2, 3, None, 4, 5], pa.int32()), t, items=10, fpp=0.1)

    assert body == (3).to_bytes(4, "big") + bytes.fromhex("89282170c005")
    assert BloomFilter(body).may_contain(hash64(pa.array([1, 5], pa.int32()), t)).all()


@pytest.mark.parametrize(("items", "fpp", "size", "functions"), [(100, 0.1, 60, 3), (200, 0.01, 240, 7)])
def test_size_follows_from_items_and_probability(items: int, fpp: float, size: int, functions: int) -> None:
    body = BloomFilterBuilder(items, fpp).to_bytes()

    assert (len(body) - 4, int.from_bytes(body[:4], "big")) == (size, functions)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.sets(st.text(max_size=40), min_size=1, max_size=50), st.floats(0.01, 0.5))
def test_values_of_a_filter_are_always_found(values: set[str], fpp: float) -> None:
    array, t = pa.array(sorted(values)), parse_type("STRING")

    filter_ = BloomFilter(bloom_filter(array, t, len(values), fpp))

    assert filter_.may_contain(hash64(array, t)).all()


def test_false_positives_are_as_rare_as_promised() -> None:
    t = parse_type("BIGINT")
    filter_ = BloomFilter(bloom_filter(pa.array(np.arange(10_000)), t, 10_000, 0.05))

    wrong = filter_.may_contain(hash64(pa.array(np.arange(10**6, 10**6 + 10_000)), t)).mean()

    assert 0.01 < wrong < 0.1


# ---------------------------------------------------------------- container


def test_container_has_the_layout_of_paimon() -> None:
    data = write_container({"a": {"bloom-filter": b"\x01\x02"}, "é\0": {"x": b""}})

    head = (
        "00054e4ed01a35ae" "00000001" "0000004a" "00000002"
        "000161" "00000001" "000c626c6f6f6d2d66696c746572" "0000004a" "00000002"
        "0004c3a9c080" "00000001" "000178" "ffffffff" "00000000"
        "00000000"
    )  # fmt: skip
    assert data.hex() == head + "0102"
    assert read_container(data) == {"a": {"bloom-filter": b"\x01\x02"}, "é\0": {"x": b""}}


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04" * 9, write_container({"a": {"bloom-filter": b"12345"}})[:-1]])
def test_damaged_containers_are_told(data: bytes) -> None:
    with pytest.raises(DamagedIndex):
        read_container(data)


# ---------------------------------------------------------------- where indexes are


def test_small_index_is_embedded(tmp_path: Path) -> None:
    ctx = context(tmp_path, COLUMNS, **renamed(ON_NAME))

    meta = write(ctx, table(ctx, [[1, 2], ["a", None], [5, 6]]))

    assert meta.extra_files == ()
    t = parse_type("STRING")
    expected = {"name": {"bloom-filter": bloom_filter(pa.array(["a"]), t, 100, 0.1)}}
    assert meta.embedded_index is not None and read_container(meta.embedded_index) == expected


def test_large_index_is_a_file_beside_the_data(tmp_path: Path) -> None:
    ctx = context(tmp_path, COLUMNS, **renamed(ON_NAME | {"file-index.in-manifest-threshold": "10 b"}))

    meta = write(ctx, table(ctx, [[1], ["a"], [5]]))

    assert (meta.extra_files, meta.embedded_index) == (("data-0a1b-3.parquet.index",), None)
    index = Path(bucket_dir(ctx), meta.extra_files[0])
    assert list(read_container(index.read_bytes())) == ["name"]
    assert meta.file_size_bytes == Path(bucket_dir(ctx), meta.file_name).stat().st_size


def test_all_row_groups_and_formats_are_indexed(tmp_path: Path) -> None:
    ctx = context(
        tmp_path, COLUMNS, file_format="avro", **renamed(ON_NAME | {"file-index.bloom-filter.name.items": "5000"})
    )
    rows = table(ctx, [list(range(4_000)), [f"n{i}" for i in range(4_000)], [0] * 4_000])
    writer = KeyValueFileWriter(ctx, bucket_dir(ctx), 0, FileSource.APPEND, "data-", FileNames("u"), lambda: NOW_MS)
    for start in range(0, 4_000, 1_500):
        writer.write(rows.slice(start, 1_500))

    (meta,) = writer.close()

    data = Path(bucket_dir(ctx), meta.extra_files[0]).read_bytes()
    found = BloomFilter(read_container(data)["name"]["bloom-filter"]).may_contain(
        hash64(rows.column("name").combine_chunks(), parse_type("STRING"))
    )
    assert found.all()


def test_values_of_one_map_key_are_indexed(tmp_path: Path) -> None:
    on_key = {"file-index.bloom-filter.columns": "m[k]", "file-index.bloom-filter.m.items": "10"}
    ctx = context(tmp_path, {"id": "INT", "m": "MAP<STRING, INT>"}, **renamed(on_key))

    meta = write(ctx, table(ctx, [[1, 2, 3], [[("k", 7), ("x", 1)], [("x", 2)], None]]))

    body = bloom_filter(pa.array([7], pa.int32()), parse_type("INT"), 10, 0.1)
    assert meta.embedded_index is not None
    assert read_container(meta.embedded_index) == {"m[k]": {"bloom-filter": body}}


def test_aborted_writer_removes_its_indexes(tmp_path: Path) -> None:
    ctx = context(
        tmp_path, COLUMNS, target__file__size="20 kb", **renamed(ON_NAME | {"file-index.in-manifest-threshold": "1"})
    )
    noise = np.random.default_rng(1).bytes(200_000).hex()
    rows = table(ctx, [list(range(4_000)), [noise[100 * i : 100 * i + 100] for i in range(4_000)], [0] * 4_000])

    with (
        pytest.raises(BrokenInvariant),
        KeyValueFileWriter(
            ctx, bucket_dir(ctx), 0, FileSource.APPEND, "data-", FileNames("u"), lambda: NOW_MS
        ) as writer,
    ):
        writer.write(rows)
        assert any(path.suffix == ".index" for path in Path(bucket_dir(ctx)).iterdir())
        writer.write(rows.drop_columns(["name"]))

    assert list(Path(bucket_dir(ctx)).iterdir()) == []


# ---------------------------------------------------------------- what a predicate says


SCHEMA = create_schema(
    [("id", parse_type("INT")), ("s", parse_type("STRING")), ("d", parse_type("DOUBLE")), ("t", parse_type("DATE"))],
    ["id"], (), {"bucket": "1"},
)  # fmt: skip
ID, S, D, T = (pc.field(name) for name in ("id", "s", "d", "t"))


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (ID == 5, {"id": [5]}),
        (pc.scalar(5) == ID, {"id": [5]}),
        (ID.isin([7, 5, 7]), {"id": [5, 7]}),
        ((ID == 5) | (ID == 9), {"id": [5, 9]}),
        ((ID == 5) & (S == "x"), {"id": [5], "s": ["x"]}),
        ((ID == 5) & (ID == 6), {"id": []}),
        ((ID == 5) | (S == "x"), {}),
        (ID > 5, {}),
        (~(ID == 5), {}),
        (ID.isin([5, None]), {}),
        ((ID == 5) | ID.is_null(), {}),
        ((ID >= 5) & (ID <= 5), {"id": [5]}),
        (D == 1.5, {}),
        (T.isin([dt.date(2024, 1, 1)]), {"t": [dt.date(2024, 1, 1)]}),
        (ID.cast(pa.int64()) == 5, {"id": [5]}),
        (ID == 5.5, {}),
        (S.is_valid(), {}),
        (pc.starts_with(S, "x"), {}),
    ],
)  # fmt: skip
def test_columns_confined_by_a_predicate(predicate: pc.Expression, expected: dict[str, list[Any]]) -> None:
    found = confined_columns(predicate, SCHEMA, SCHEMA.column_names)

    assert {column.name: column.values.to_pylist() for column in found} == expected


# ---------------------------------------------------------------- pruning


def test_files_without_a_wanted_value_are_left_out(tmp_path: Path) -> None:
    ctx = context(tmp_path, COLUMNS, **renamed(ON_NAME))
    a = write(ctx, table(ctx, [[1], ["a"], [0]]))
    b = write(ctx, table(ctx, [[2], ["b"], [0]]))
    alone = (((a,),), ((b,),))

    def left(predicate: pc.Expression) -> tuple[Any, ...]:
        return matching_sections(ctx, bucket_dir(ctx), alone, predicate, ctx.schema.column_names)

    assert left(pc.field("name") == "a") == (((a,),),)
    assert left(pc.field("name").isin(["a", "b"])) == alone
    assert left(pc.field("name") == "zzz") == ()
    assert left(pc.field("n") == 77) == alone


def test_files_that_are_merged_stay_unless_their_keys_cannot_match(tmp_path: Path) -> None:
    # given two files of one section, with an index on the key and one on a value
    both = {"file-index.bloom-filter.columns": "id, name"} | {
        f"file-index.bloom-filter.{name}.items": "50" for name in ("id", "name")
    }
    ctx = context(tmp_path, COLUMNS, **renamed(both))
    old = write(ctx, table(ctx, [[1, 5], ["old", "x"], [0, 0]]))
    new = write(ctx, table(ctx, [[1, 9], ["new", "y"], [0, 0]]))
    section = (((new,), (old,)),)

    def left(predicate: pc.Expression) -> tuple[Any, ...]:
        return matching_sections(ctx, bucket_dir(ctx), section, predicate, ctx.schema.column_names)

    assert left(pc.field("name") == "old") == section, "the newer file says that there is no such row"
    assert left(pc.field("id") == 5) == (((old,),),)
    assert left((pc.field("id") == 9) & (pc.field("name") == "old")) == (((new,),),)


def test_pruning_by_the_index_can_be_switched_off(tmp_path: Path) -> None:
    ctx = context(tmp_path, COLUMNS, **renamed(ON_NAME | {"file-index.read.enabled": "false"}))
    sections = (((write(ctx, table(ctx, [[1], ["a"], [0]])),),),)

    assert matching_sections(ctx, bucket_dir(ctx), sections, pc.field("name") == "b", ["name"]) == sections


def test_missing_index_file_is_reported(tmp_path: Path) -> None:
    ctx = context(tmp_path, COLUMNS, **renamed(ON_NAME | {"file-index.in-manifest-threshold": "1"}))
    meta = write(ctx, table(ctx, [[1], ["a"], [0]]))
    Path(bucket_dir(ctx), meta.extra_files[0]).unlink()

    with pytest.raises(CorruptFile, match=r"data-0a1b-3\.parquet\.index is missing"):
        matching_sections(ctx, bucket_dir(ctx), (((meta,),),), pc.field("name") == "a", ["name"])
    assert read_key_value_file(ctx, bucket_dir(ctx), meta).num_rows == 1


# ---------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"file-index.bloom-filter.columns": "zz"}, ConfigError, "'zz' can not be found"),
        ({"file-index.bloom-filter.columns": "ok"}, ConfigError, "BOOLEAN, for which there is no bloom filter"),
        ({"file-index.bloom-filter.columns": "id[k]"}, ConfigError, "has type INT"),
        ({"file-index.bloom-filter.id.items": "5"}, ConfigError, "is unknown"),
        ({"file-index.bloom-filter.columns": "id", "file-index.bloom-filter.id.fpp": "1.5"}, ConfigError, "between 0"),
        ({"file-index.bloom-filter.columns": "id", "file-index.bloom-filter.id.size": "1"}, ConfigError, "items or"),
        ({"file-index.bitmap.columns": "id"}, UnsupportedFeature, r"'file-index\.bitmap\.columns'"),
    ],
)
def test_indexes_that_cannot_be_written_are_refused(
    options: dict[str, str], error: type[Exception], match: str
) -> None:
    columns = [("id", parse_type("INT")), ("ok", parse_type("BOOLEAN"))]
    schema = create_schema(columns, ["id"], (), {"bucket": "1", **options})

    with pytest.raises(error, match=match):
        validate_table(schema)


def test_a_filter_that_is_too_large_names_the_option_that_asks_for_it() -> None:
    options = {"file-index.bloom-filter.columns": "name[a]", "file-index.bloom-filter.name.items": "449000000"}

    with pytest.raises(ConfigError, match=r"'file-index\.bloom-filter\.name\.items': .* Write fewer items"):
        parse_options(options, orders_schema())
    fewer = parse_options({**options, "file-index.bloom-filter.name.items": "448000000"}, orders_schema())

    assert fewer.bloom_filters[0].items == 448_000_000


def test_a_filter_is_built_in_the_memory_that_it_takes() -> None:
    tracemalloc.start()
    try:
        builder = BloomFilterBuilder(10_000_000, 0.1)
        builder.add(np.arange(1000))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert held < 2 * len(builder.to_bytes())


def test_columns_of_an_index_have_their_own_options() -> None:
    options = {
        "file-index.bloom-filter.columns": "id, name", "file-index.bloom-filter.id.items": "7",
        "file-index.bloom-filter.name.fpp": "0.01",
    }  # fmt: skip
    one, two = parse_options(options, orders_schema()).bloom_filters

    assert (one.name, one.items, one.fpp) == ("id", 7, 0.1)
    assert (two.name, two.items, two.fpp) == ("name", 1_000_000, 0.01)


def renamed(options: dict[str, str]) -> dict[str, Any]:
    """Options as ``context`` takes them."""
    return {name.replace("-", "__").replace(".", "_"): text for name, text in options.items()}
