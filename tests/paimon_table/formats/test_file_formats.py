"""Data files in ORC and Avro, files of several formats in one table, and the options that choose them."""

from __future__ import annotations

import datetime as dt
import io
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as po
import pyorc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table.data_files.key_value_file import (
    ROW_GROUP_ROWS,
    FileNames,
    KeyValueFileWriter,
    iter_key_value_batches,
    read_key_value_file,
)
from paimon_table.deletion_vectors.deletion_vector import DeletionVector
from paimon_table.errors import ConfigError, CorruptFile, UnsupportedFeature
from paimon_table.metadata.data_file import DataFileMeta, FileSource
from paimon_table.metadata.table_context import TableContext
from paimon_table.options.file_settings import changelog_file_settings, data_file_settings, format_of
from paimon_table.options.option_parsing import parse_options
from paimon_table.options.table_options import TableOptions
from paimon_table.schema.table_schema import create_schema
from paimon_table.types import parse_type
from paimon_table.validation.table_validation import validate_table
from tests.support.builders import orders_schema
from tests.support.data_files import (
    ALL_TYPES,
    COLUMN_VALUES,
    NOW_MS,
    bucket_dir,
    context,
    read_schema,
    table,
    wide_rows,
    write,
    write_key_value_file,
    write_rolling,
)

EPOCH = dt.datetime(1970, 1, 1)
NANOSECONDS = {name for name in COLUMN_VALUES if "(9)" in name or "(7)" in name}
CHARS = {name for name in COLUMN_VALUES if name.startswith("CHAR")}
STORED = {
    "parquet": sorted(COLUMN_VALUES),
    "orc": sorted(set(COLUMN_VALUES) - CHARS),
    "avro": sorted(set(COLUMN_VALUES) - {n for n in NANOSECONDS if "TIMESTAMP" in n} - {"TIME(9)"}),
}


def can_be_told(value: Any) -> bool:
    """ORC does not tell a moment of the last second before 1970 from the one a second later."""
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None) >= EPOCH or value.replace(tzinfo=None) < EPOCH - dt.timedelta(seconds=1)
    return not isinstance(value, int) or isinstance(value, bool) or not -1_000_000_000 <= value < 0


def values_of(text: str, file_format: str) -> st.SearchStrategy[Any]:
    values = st.none() | COLUMN_VALUES[text]
    return values.filter(can_be_told) if file_format == "orc" and text.startswith("TIMESTAMP") else values


@pytest.mark.slow
@pytest.mark.parametrize("file_format", ["orc", "avro"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_rows_of_every_type_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, file_format: str, data: st.DataObject
) -> None:
    texts = data.draw(st.lists(st.sampled_from(STORED[file_format]), min_size=1, max_size=4))
    columns = {"id": "INT", **{f"c{i}": text for i, text in enumerate(texts)}}
    ctx = context(tmp_path_factory.mktemp("t"), columns, file_format=file_format)
    count = data.draw(st.integers(1, 5))
    values = [[data.draw(values_of(text, file_format)) for _ in range(count)] for text in texts]
    rows = table(ctx, [list(range(count)), *values])

    meta = write(ctx, rows.slice(data.draw(st.integers(0, count - 1))))

    read = read_key_value_file(ctx, bucket_dir(ctx), meta)
    read.validate(full=True)
    assert format_of(meta.file_name) == file_format
    assert read.equals(rows.slice(count - read.num_rows).cast(read.schema))
    assert next(iter_key_value_batches(ctx, bucket_dir(ctx), meta)).equals(read)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_statistics_do_not_depend_on_the_format(tmp_path: Path, file_format: str) -> None:
    def written(name: str) -> Any:
        ctx = context(tmp_path, {"id": "INT", "s": "STRING", "d": "DECIMAL(10, 2)"}, file_format=name)
        meta = write(ctx, table(ctx, [[1, 2], ["a", None], [Decimal("1.25"), Decimal("2.50")]], kinds=[0, 3]))
        assert meta.file_size_bytes == Path(bucket_dir(ctx), meta.file_name).stat().st_size
        return replace(meta, file_name="", file_size_bytes=0)

    assert written(file_format) == written("parquet")


@pytest.mark.slow
@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_one_table_is_cut_into_files_of_the_target_size(tmp_path: Path, file_format: str) -> None:
    ctx = context(tmp_path, {"id": "INT", "noise": "STRING"}, target__file__size="200 kb", file_format=file_format)
    rows = wide_rows(ctx, 20_000)

    files = write_rolling(ctx, bucket_dir(ctx), rows, 1, FileSource.COMPACT, "data-", FileNames("u"), lambda: NOW_MS)

    assert len(files) > 3
    assert all(150_000 < f.file_size_bytes < 260_000 for f in files[:-1])
    assert pa.concat_tables(read_key_value_file(ctx, bucket_dir(ctx), f) for f in files).to_pydict() == rows.to_pydict()


@pytest.mark.slow
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_deleted_positions_count_from_the_start_of_the_file(tmp_path: Path, file_format: str) -> None:
    # given a file of several row groups, of which the predicate may leave out the first ones
    ctx = context(tmp_path, {"id": "INT", "noise": "BIGINT"}, file_format=file_format)
    count = 300_000
    noise = np.random.default_rng(1).integers(0, 2**62, count)
    meta = write(ctx, table(ctx, [list(range(count)), noise.tolist()]))
    wanted, deleted = pc.field("id") >= 270_001, DeletionVector(np.arange(0, count, 7))

    batches = iter_key_value_batches(
        ctx, bucket_dir(ctx), meta, ["id"], batch_rows=1_000, predicate=wanted, deleted=deleted
    )

    read = pa.concat_tables(batches)
    assert read.filter(wanted).column("id").to_pylist() == [i for i in range(270_001, count) if i % 7]
    whole = read_key_value_file(ctx, bucket_dir(ctx), meta, ["id"], deleted=deleted)
    assert whole.column("id").to_pylist() == [i for i in range(count) if i % 7]


@pytest.mark.parametrize(
    ("file_format", "codec"),
    [(f, c) for f, codecs in {
        "parquet": ("zstd", "snappy", "gzip", "none"), "orc": ("zstd", "snappy", "zlib", "lz4", "none"),
        "avro": ("zstd", "deflate", "null"),
    }.items() for c in codecs],
)  # fmt: skip
def test_every_codec_is_read_back(tmp_path: Path, file_format: str, codec: str) -> None:
    ctx = context(tmp_path, {"id": "INT", "s": "STRING"}, file_format=file_format, file_compression=codec)
    rows = table(ctx, [list(range(5_000)), ["ab" * 10] * 5_000])

    meta = write(ctx, rows)

    assert read_key_value_file(ctx, bucket_dir(ctx), meta).to_pydict() == rows.to_pydict()
    packed = codec not in {"none", "null"}
    assert (meta.file_size_bytes < 60_000) == packed or file_format != "avro"


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_damaged_file_is_reported_with_its_path(tmp_path: Path, file_format: str) -> None:
    ctx = context(tmp_path, {"id": "INT", "t": "TIMESTAMP(3)"}, file_format=file_format)
    meta = write(ctx, table(ctx, [[1], [5]]))
    path = Path(bucket_dir(ctx), meta.file_name)
    path.write_bytes(path.read_bytes()[:-20])

    with pytest.raises(CorruptFile, match=rf"data-0a1b-3\.{file_format} is not readable"):
        list(iter_key_value_batches(ctx, bucket_dir(ctx), meta))


# ---------------------------------------------------------------- ORC


def test_orc_columns_have_paimons_types_and_ids(tmp_path: Path) -> None:
    ctx = context(tmp_path, ALL_TYPES, file_format="orc")
    meta = write(ctx, table(ctx, [[1], *([None] for _ in ctx.schema.fields[1:])]))

    schema = po.ORCFile(f"{bucket_dir(ctx)}/{meta.file_name}").schema

    assert schema.names == ["_KEY_id", "_SEQUENCE_NUMBER", "_VALUE_KIND", *ALL_TYPES]
    types = {f.name: str(f.type) for f in schema}
    assert types["time"] == "int32"
    assert (types["ts3"], types["ltz6"]) == ("timestamp[ns]", "timestamp[ns, tz=UTC]")
    assert (types["dec18"], types["tiny"], types["char"]) == ("decimal128(18, 0)", "int8", "string")
    ids = {f.name: (f.metadata or {}).get(b"paimon.id") for f in schema}
    assert (ids["id"], ids["_KEY_id"], ids["_VALUE_KIND"]) == (b"0", b"1073741823", b"2147483645")
    assert (schema.field("array").type.value_field.metadata or {})[b"paimon.id"] == b"%d" % (536870911 + 23 * 1024 + 1)


def test_orc_timestamps_of_all_years_are_read(tmp_path: Path) -> None:
    ctx = context(
        tmp_path,
        {"id": "INT", "ts": "TIMESTAMP(6)", "ltz": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
         "row": "ROW<t TIMESTAMP(3), d DATE>", "map": "MAP<STRING, TIMESTAMP(6)>", "l": "ARRAY<TIMESTAMP(9)>"},
        file_format="orc",
    )  # fmt: skip
    far, near = dt.datetime(9999, 12, 31, 1, 2, 3, 4000), dt.datetime(1969, 12, 31, 23, 59, 58, 999000)
    rows = table(
        ctx,
        [[1, 2], [far, dt.datetime(1, 1, 1)], [far, None], [{"t": far, "d": dt.date(1, 1, 1)}, None],
         [[("k", near), ("n", None)], []], [[-1_000_000_001, None], None]],
    )  # fmt: skip

    meta = write(ctx, rows)

    assert read_key_value_file(ctx, bucket_dir(ctx), meta).equals(rows.cast(read_schema(ctx)))
    none_far = read_key_value_file(ctx, bucket_dir(ctx), meta, ["id"])
    assert none_far.column("id").to_pylist() == [1, 2]


def test_orc_moments_before_1970_are_stored_as_java_reads_them(tmp_path: Path) -> None:
    # given whole seconds first, then fractions of a second, nested ones among them
    ctx = context(
        tmp_path,
        {"id": "INT", "ts": "TIMESTAMP(6)", "l": "ARRAY<TIMESTAMP(3)>", "m": "MAP<STRING, TIME(3)>",
         "d": "DECIMAL(9, 2)", "row": "ROW<t TIMESTAMP(9) WITH LOCAL TIME ZONE, b BYTES>",
         "bag": "MULTISET<STRING>", "day": "DATE"},
        file_format="orc",
    )  # fmt: skip
    whole = table(ctx, [[0], [-1_000_000], *([None] for _ in range(6))])
    early = table(
        ctx,
        [[1, 2], [-1_000_001, -(10**15) - 7], [[-2_001, None], []], [[("k", 5), ("n", None)], None],
         [Decimal("-1.25"), None], [{"t": -1_500_000_001, "b": b"\0"}, None], [[("x", 2)], None],
         [dt.date(1, 1, 1), None]],
        first=1,
    )  # fmt: skip

    files: list[DataFileMeta] = []
    with KeyValueFileWriter(
        ctx, bucket_dir(ctx), 0, FileSource.APPEND, "data-", FileNames("u"), lambda: NOW_MS
    ) as writer:
        for rows in (whole, early):
            writer.write(rows)
            files += writer.close()

    expected = pa.concat_tables([whole, early]).cast(read_schema(ctx))
    assert pa.concat_tables(read_key_value_file(ctx, bucket_dir(ctx), f) for f in files).equals(expected)
    assert [_stored_timestamps(f"{bucket_dir(ctx)}/{f.file_name}") for f in files] == [
        [(-1, 0)], [(-2, 999_999_000), (-1_000_000_001, 999_993_000)],
    ]  # fmt: skip


def test_orc_files_written_by_rows_have_the_same_columns(tmp_path: Path) -> None:
    columns = {name: text for name, text in ALL_TYPES.items() if "TIMESTAMP" not in text} | {"ts": "TIMESTAMP(3)"}
    ctx = context(tmp_path, columns, file_format="orc")
    schemas = []
    for number, value in enumerate((5, -1_500)):
        nulls = [[None]] * (len(ctx.schema.fields) - 2)
        rows = table(ctx, [[number], *nulls, [value]])
        meta = write_key_value_file(
            ctx, bucket_dir(ctx), rows, 0, FileSource.APPEND, "data-", FileNames("u", number), lambda: NOW_MS
        )
        schemas.append(po.ORCFile(f"{bucket_dir(ctx)}/{meta.file_name}").schema)

    assert schemas[0].equals(schemas[1], check_metadata=True)


@pytest.mark.slow
def test_a_file_ends_where_rows_need_another_way_of_writing(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT", "ts": "TIMESTAMP(3)"}, file_format="orc")
    count = 2 * ROW_GROUP_ROWS
    rows = table(ctx, [list(range(count)), [*range(count - 1), -1_500]])

    files = write_rolling(ctx, bucket_dir(ctx), rows, 0, FileSource.APPEND, "data-", FileNames("u"), lambda: NOW_MS)

    assert [f.row_count for f in files] == [ROW_GROUP_ROWS, ROW_GROUP_ROWS]
    assert read_key_value_file(ctx, bucket_dir(ctx), files[1]).column("ts").cast(pa.int64())[-1].as_py() == -1_500


def _stored_timestamps(path: str) -> list[tuple[int, int]]:
    """Seconds and nanoseconds of column ``ts``."""

    class Parts(pyorc.converters.ORCConverter):
        @staticmethod
        def from_orc(seconds: int, nanoseconds: int, timezone: Any) -> tuple[int, int]:
            return seconds, nanoseconds

        @staticmethod
        def to_orc(obj: Any, timezone: Any) -> tuple[int, int]:
            raise NotImplementedError

    with open(path, "rb") as file:
        reader = pyorc.Reader(file, column_names=["ts"], converters={pyorc.TypeKind.TIMESTAMP: Parts})
        return [row[0] for row in reader]


def test_orc_rows_of_a_slice_keep_their_nulls(tmp_path: Path) -> None:
    types = {
        "r": "ROW<x INT>",
        "l": "ARRAY<ROW<x INT>>",
        "deep": "ROW<y ARRAY<ROW<z INT NOT NULL, t TIME(3) NOT NULL>>>",
    }
    ctx = context(tmp_path, {"id": "INT", **types}, file_format="orc")
    structs = [{"x": 1}, None, {"x": 2}, None]
    inner = {"z": 1, "t": dt.time(1)}
    deep = [{"y": [inner]}, {"y": [None, inner]}, None, {"y": [inner, None]}]
    rows = table(ctx, [list(range(4)), structs, [structs[:1], None, structs[1:], []], deep])

    meta = write(ctx, rows.slice(1))

    assert read_key_value_file(ctx, bucket_dir(ctx), meta).equals(rows.slice(1).cast(read_schema(ctx)))


def test_orc_chars_lose_their_padding_as_in_paimon(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT", "c": "CHAR(4)", "l": "ARRAY<CHAR(4)>", "v": "VARCHAR(4)"}, file_format="orc")

    meta = write(ctx, table(ctx, [[1], ["a   "], [["b  ", None]], ["a  "]]))

    (row,) = read_key_value_file(ctx, bucket_dir(ctx), meta).to_pylist()
    assert (row["c"], row["l"], row["v"]) == ("a", ["b", None], "a  ")


# ---------------------------------------------------------------- Avro


def test_avro_schema_is_the_one_that_java_writes(tmp_path: Path) -> None:
    types = {
        "id": "INT", "a": "TIMESTAMP(6)", "b": "TIMESTAMP(6) WITH LOCAL TIME ZONE", "m": "MAP<INT, ROW<a INT>>",
        "s": "MAP<STRING, INT>", "bag": "MULTISET<STRING>", "c": "CHAR(5)", "d": "DECIMAL(9, 2)",
    }  # fmt: skip
    ctx = context(tmp_path, types, file_format="avro")
    meta = write(ctx, table(ctx, [[1], *([None] for _ in ctx.schema.fields[1:])]))

    with open(f"{bucket_dir(ctx)}/{meta.file_name}", "rb") as file:
        schema = json.loads(fastavro.reader(file).metadata["avro.schema"])

    golden = Path(__file__).with_name("key_value_avro_schema.json")
    assert schema == json.loads(golden.read_text(encoding="utf-8"))


def test_avro_rows_are_read_by_another_reader(tmp_path: Path) -> None:
    ctx = context(
        tmp_path, {"id": "INT", "d": "DECIMAL(20, 2)", "t": "TIME(3)", "m": "MAP<INT, STRING>", "l": "ARRAY<BIGINT>"},
        file_format="avro",
    )  # fmt: skip
    meta = write(
        ctx, table(ctx, [[-3], [Decimal("-1.28")], [dt.time(1, 2, 3)], [[(5, None), (6, "x")]], [[2**62, None, -1]]])
    )

    (stored,) = fastavro.reader(io.BytesIO(Path(bucket_dir(ctx), meta.file_name).read_bytes()))
    record = cast("dict[str, Any]", stored)

    assert record["_KEY_id"] == record["id"] == -3
    assert (str(record["d"]), record["t"], record["l"]) == ("-1.28", dt.time(1, 2, 3), [2**62, None, -1])
    assert record["m"] == [{"key": 5, "value": None}, {"key": 6, "value": "x"}]


# ---------------------------------------------------------------- options


def options(**texts: str) -> TableOptions:
    named = {name.replace("__", "-").replace("_", "."): text for name, text in texts.items()}
    return parse_options(named, orders_schema())


def test_formats_are_chosen_by_level() -> None:
    chosen = options(
        file_format="ORC", file_format_per_level="0:avro, 3:parquet", file_compression="snappy",
        file_compression_per_level="0:null", metadata_stats__mode_per_level="0:none",
    )  # fmt: skip

    words = [(s.format, s.compression, s.stats_mode) for s in (data_file_settings(chosen, n) for n in (0, 3, 5))]
    assert words == [
        ("avro", "null", "none"), ("parquet", "snappy", "truncate(16)"), ("orc", "snappy", "truncate(16)"),
    ]  # fmt: skip


def test_changelog_files_may_have_their_own_settings() -> None:
    chosen = options(
        file_format_per_level="0:avro", changelog__file_format="orc", changelog__file_compression="zlib",
        changelog__file_stats__mode="counts",
    )  # fmt: skip

    changelog = changelog_file_settings(chosen, 0)
    assert (changelog.format, changelog.compression, changelog.stats_mode) == ("orc", "zlib", "counts")
    assert changelog_file_settings(options(file_format_per_level="0:avro"), 0).format == "avro"


def test_names_of_files_can_tell_the_compression() -> None:
    chosen = options(file_suffix_include_compression="true", file_format_per_level="1:orc")

    assert [data_file_settings(chosen, level).extension for level in (0, 1)] == ["zst.parquet", "zst.orc"]
    assert format_of("data-u-0.zst.orc") == "orc"


@pytest.mark.parametrize(
    ("texts", "error", "match"),
    [
        ({"file_format": "csv"}, UnsupportedFeature, r"'file\.format': 'csv'"),
        ({"file_format_per_level": "0:lance"}, UnsupportedFeature, r"'file\.format\.per\.level': 'lance'"),
        ({"changelog__file_format": "json"}, UnsupportedFeature, r"'changelog-file\.format': 'json'"),
        ({"file_format_per_level": "zero:orc"}, ConfigError, r"'file\.format\.per\.level': 'zero:orc'"),
        ({"file_format_per_level": "0:orc,0:avro"}, ConfigError, "level 0 is named twice"),
        ({"file_compression": "lzo"}, UnsupportedFeature, r"'file\.compression': 'lzo'"),
        ({"file_compression": "gzip", "file_format_per_level": "0:avro"}, UnsupportedFeature, "for avro files"),
        ({"file_compression_per_level": "1:br"}, UnsupportedFeature, r"'file\.compression\.per\.level': 'br'"),
        ({"metadata_stats__mode_per_level": "0:some"}, ConfigError, r"'metadata\.stats-mode\.per\.level': 'some'"),
        ({"file_format_per_level": "2:avro"}, ConfigError, r"column 't' of type TIMESTAMP\(9\).*at most 6 digits"),
    ],
)
def test_what_cannot_be_written_is_refused_before_a_table_is_made(
    texts: dict[str, str], error: type[Exception], match: str
) -> None:
    named = {name.replace("__", "-").replace("_", "."): text for name, text in texts.items()}
    columns = [("id", parse_type("INT")), ("t", parse_type("TIMESTAMP(9)"))]
    schema = create_schema(columns, ["id"], (), {"bucket": "1", **named})

    with pytest.raises(error, match=match):
        validate_table(schema)


def test_files_of_several_formats_are_one_table(tmp_path: Path) -> None:
    def of_format(name: str) -> TableContext:
        return context(tmp_path, {"id": "INT", "s": "STRING"}, file_format=name)

    read = []
    for number, name in enumerate(("parquet", "orc", "avro")):
        ctx = of_format(name)
        rows = table(ctx, [[number], [name]], first=number)
        meta = write_key_value_file(
            ctx, bucket_dir(ctx), rows, 0, FileSource.APPEND, "data-", FileNames("u", number), lambda: NOW_MS
        )
        read.append(read_key_value_file(of_format("parquet"), bucket_dir(ctx), meta))

    assert pa.concat_tables(read).column("s").to_pylist() == ["parquet", "orc", "avro"]
