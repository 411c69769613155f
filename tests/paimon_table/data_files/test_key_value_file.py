"""Data and changelog files: layout, metadata, rolling, durability, and reading them back."""

import datetime as dt
import random
import resource
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
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
from paimon_table.errors import BrokenInvariant, CorruptFile, UnsupportedFeature
from paimon_table.metadata.data_file import FileSource
from paimon_table.rows.binary_row import deserialize_row
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO, SimulatedCrash
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
    write_rolling,
)


def test_parquet_schema_is_the_one_that_java_writes(tmp_path: Path) -> None:
    ctx = context(tmp_path, {name: text for name, text in ALL_TYPES.items() if name not in {"ts9", "ltz9"}})
    meta = write(ctx, table(ctx, [[1], *([None] for _ in ctx.schema.fields[1:])]))

    schema = str(pq.ParquetFile(f"{bucket_dir(ctx)}/{meta.file_name}").schema).partition("\n")[2]

    golden = Path(__file__).with_name("key_value_parquet_schema.txt")
    assert schema.strip() == golden.read_text(encoding="utf-8").strip()


def test_timestamps_beside_nanoseconds_are_int96_and_keep_their_range(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT", "ts3": "TIMESTAMP(3)", "ts9": "TIMESTAMP(9)", "row": "ROW<t TIMESTAMP(6)>"})
    rows = table(ctx, [[1], [dt.datetime(1, 1, 1)], [-1], [{"t": dt.datetime(9999, 12, 31)}]])

    meta = write(ctx, rows)

    schema = pq.ParquetFile(f"{bucket_dir(ctx)}/{meta.file_name}").schema
    physical = {schema.column(i).path: schema.column(i).physical_type for i in range(len(schema.names))}
    assert {physical[path] for path in ("ts3", "ts9", "row.t")} == {"INT96"}, "the only nanoseconds that Java reads"
    assert read_key_value_file(ctx, bucket_dir(ctx), meta).equals(rows.cast(read_schema(ctx)))
    assert next(iter_key_value_batches(ctx, bucket_dir(ctx), meta)).equals(rows.cast(read_schema(ctx)))


def test_the_first_and_the_last_nanosecond_come_back(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT", "ts": "TIMESTAMP(9)"})
    ends = [-(1 << 63), -(1 << 63) + 807, -1, 0, (1 << 63) - 1]
    rows = table(ctx, [list(range(len(ends))), ends])

    assert read_key_value_file(ctx, bucket_dir(ctx), write(ctx, rows)).equals(rows.cast(read_schema(ctx)))


@pytest.mark.parametrize("room_bytes", [2, 4096])
def test_a_data_file_that_finds_no_room_is_named_and_goes(tmp_path: Path, room_bytes: int) -> None:
    ctx, draw = context(tmp_path, {"id": "INT", "s": "STRING"}), random.Random(1)
    rows = table(ctx, [list(range(1000)), [str(draw.random()) for _ in range(1000)]])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room_bytes, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as raised:
            write(ctx, rows)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, previous)
    assert str(raised.value.filename).startswith(f"{bucket_dir(ctx)}/data-")
    assert list(Path(bucket_dir(ctx)).iterdir()) == []


def test_parquet_pages_are_version_one_and_zstandard(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT", "name": "STRING"})
    meta = write(ctx, table(ctx, [[1, 2], ["a", "a"]]))

    file = pq.ParquetFile(f"{bucket_dir(ctx)}/{meta.file_name}")

    columns = [file.metadata.row_group(0).column(i) for i in range(file.metadata.num_columns)]
    assert {c.compression for c in columns} == {"ZSTD"}
    assert file.metadata.metadata is None
    assert {c.path_in_schema: c.is_stats_set for c in columns}["id"]


def test_metadata_describes_the_file(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"region": "STRING", "id": "BIGINT", "amount": "DOUBLE"}, ("region", "id"))
    rows = table(ctx, [["eu", "eu", "us", "us"], [1, 2, 1, 9], [None, 5.0, 1.0, None]], [0, 3, 1, 0], first=40)
    rows = rows.set_column(0, "_SEQUENCE_NUMBER", pa.array([43, 40, 42, 41]))

    meta = write(ctx, rows, level=5)

    types = [f.type for f in ctx.schema.key_fields]
    path = Path(bucket_dir(ctx)) / "data-0a1b-3.parquet"
    assert (meta.file_name, meta.file_size_bytes, meta.row_count) == (path.name, path.stat().st_size, 4)
    assert (deserialize_row(meta.min_key, types), deserialize_row(meta.max_key, types)) == (("eu", 1), ("us", 9))
    assert (meta.min_sequence_number, meta.max_sequence_number, meta.delete_row_count) == (40, 43, 2)
    assert (meta.schema_id, meta.level, meta.file_source, meta.extra_files) == (0, 5, FileSource.APPEND, ())
    assert deserialize_row(meta.key_stats.max_values, types) == ("us", 9)
    assert meta.key_stats.null_counts == (0, 0)
    assert (meta.value_stats.null_counts, meta.value_stats_cols) == ((0, 0, 2), None)
    assert (meta.embedded_index, meta.external_path, meta.first_row_id, meta.write_cols) == (None,) * 4


@pytest.fixture
def chatham(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process whose local time is UTC+13:45 at NOW_MS."""
    monkeypatch.setenv("TZ", "Pacific/Chatham")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("chatham")
def test_creation_time_is_the_local_wall_clock(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT"})

    meta = write(ctx, table(ctx, [[1]]))

    assert meta.creation_time_ms == NOW_MS + (13 * 60 + 45) * 60_000


def test_key_copies_stand_in_the_file_only(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"v": "STRING", "id": "INT"})
    rows = table(ctx, [["a", None], [1, 2]])

    meta = write(ctx, rows)

    file = pq.ParquetFile(f"{bucket_dir(ctx)}/{meta.file_name}")
    assert file.schema_arrow.names == ["_KEY_id", "_SEQUENCE_NUMBER", "_VALUE_KIND", "v", "id"]
    assert file.read(["_KEY_id"]).column(0).to_pylist() == [1, 2]
    assert read_key_value_file(ctx, bucket_dir(ctx), meta).to_pylist() == rows.to_pylist()


@pytest.mark.slow
@settings(deadline=None)
@given(st.data())
def test_rows_of_every_type_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    texts = data.draw(st.lists(st.sampled_from(sorted(COLUMN_VALUES)), min_size=1, max_size=4))
    ctx = context(tmp_path_factory.mktemp("t"), {"id": "INT", **{f"c{i}": text for i, text in enumerate(texts)}})
    count = data.draw(st.integers(1, 5))
    values = [[data.draw(st.none() | COLUMN_VALUES[text]) for _ in range(count)] for text in texts]
    rows = table(ctx, [list(range(count)), *values])

    meta = write(ctx, rows)

    read = read_key_value_file(ctx, bucket_dir(ctx), meta)
    read.validate(full=True)
    assert read.equals(rows.cast(read.schema))
    assert read.select(ctx.schema.column_names).schema == ctx.schema.arrow_schema


def test_columns_are_projected_in_the_requested_order(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT", "a.b": "STRING", "a": "STRING"})
    meta = write(ctx, table(ctx, [[1], ["x"], ["y"]]))

    read = read_key_value_file(ctx, bucket_dir(ctx), meta, ["a", "id"])
    none = read_key_value_file(ctx, bucket_dir(ctx), meta, [])

    assert read.to_pylist() == [{"_SEQUENCE_NUMBER": 0, "_VALUE_KIND": 0, "a": "y", "id": 1}]
    assert none.to_pylist() == [{"_SEQUENCE_NUMBER": 0, "_VALUE_KIND": 0}]


def test_partition_columns_come_from_the_manifest(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"dt": "DATE", "n": "STRING", "id": "INT"}, ("dt", "n", "id"), ("dt", "n"))
    meta = write(ctx, table(ctx, [[dt.date(1999, 1, 1)] * 2, ["stored"] * 2, [1, 2]]))

    read = read_key_value_file(ctx, bucket_dir(ctx), meta, None, (dt.date(2024, 1, 1), "given"))

    assert read.column("dt").to_pylist() == [dt.date(2024, 1, 1)] * 2
    assert read.column("n").to_pylist() == ["given"] * 2


def test_null_partition_values_fill_the_column(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"p": "STRING", "id": "INT"}, ("p", "id"), ("p",), primary__key_nullable="true")
    meta = write(ctx, table(ctx, [["x"], [1]]))

    assert read_key_value_file(ctx, bucket_dir(ctx), meta, ["p"], (None,)).column("p").to_pylist() == [None]


def test_batches_cover_the_file_in_order(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT"})
    rows = table(ctx, [list(range(2_500))])
    meta = write(ctx, rows)

    batches = list(iter_key_value_batches(ctx, bucket_dir(ctx), meta, batch_rows=1_000))

    assert [b.num_rows for b in batches] == [1_000, 1_000, 500]
    assert pa.concat_tables(batches).to_pydict() == rows.to_pydict()


def test_row_groups_that_cannot_match_are_left_out(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT"})
    count = 2 * ROW_GROUP_ROWS + 10
    meta = write(ctx, table(ctx, [list(range(count))]))

    def ids(predicate: pc.Expression) -> list[int]:
        batches = iter_key_value_batches(ctx, bucket_dir(ctx), meta, ["id"], predicate=predicate)
        return [i for batch in batches for i in batch.column("id").to_pylist()]

    assert ids(pc.field("id") == ROW_GROUP_ROWS + 1) == list(range(ROW_GROUP_ROWS, 2 * ROW_GROUP_ROWS))
    assert ids(pc.field("id") < 0) == []


# ---------------------------------------------------------------- rolling


def test_one_table_is_cut_into_files_of_the_target_size(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT", "noise": "STRING"}, target__file__size="200 kb")
    rows = wide_rows(ctx, 20_000)

    files = write_rolling(ctx, bucket_dir(ctx), rows, 1, FileSource.COMPACT, "data-", FileNames("u"), lambda: NOW_MS)

    assert len(files) > 3
    assert all(180_000 < f.file_size_bytes < 260_000 for f in files[:-1])
    assert [f.file_name for f in files] == [f"data-u-{i}.parquet" for i in range(len(files))]
    read = pa.concat_tables(read_key_value_file(ctx, bucket_dir(ctx), f) for f in files)
    assert read.to_pydict() == rows.to_pydict()
    assert all(a.max_key != b.min_key for a, b in pairwise(files))


def test_chunks_give_the_same_rows_and_metadata_as_one_table(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT", "noise": "STRING"})
    rows = wide_rows(ctx, 5_000)
    whole = write(ctx, rows)

    with KeyValueFileWriter(
        ctx, bucket_dir(ctx), 0, FileSource.APPEND, "data-", FileNames("chunks"), lambda: NOW_MS
    ) as writer:
        for start in range(0, 5_000, 700):
            writer.write(rows.slice(start, 700))
        (file,) = writer.close()

    assert replace(file, file_name=whole.file_name, file_size_bytes=whole.file_size_bytes) == whole
    assert read_key_value_file(ctx, bucket_dir(ctx), file).to_pydict() == rows.to_pydict()


def test_no_rows_give_no_files(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT"})

    files = write_rolling(
        ctx, bucket_dir(ctx), table(ctx, [[]]), 0, FileSource.APPEND, "data-", FileNames("u"), lambda: NOW_MS
    )

    assert files == ()
    assert not Path(bucket_dir(ctx)).exists()


def test_a_failed_writer_leaves_no_files(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT", "noise": "STRING"}, target__file__size="100 kb")

    with (
        pytest.raises(BrokenInvariant, match="do not have the columns of schema 0"),
        KeyValueFileWriter(
            ctx, bucket_dir(ctx), 0, FileSource.APPEND, "data-", FileNames("u"), lambda: NOW_MS
        ) as writer,
    ):
        writer.write(wide_rows(ctx, 5_000))
        assert len(list(Path(bucket_dir(ctx)).iterdir())) > 1
        writer.write(wide_rows(ctx, 5_000, first=5_000).drop_columns(["noise"]))
        writer.close()

    assert list(Path(bucket_dir(ctx)).iterdir()) == []


def test_an_abandoned_file_is_removed(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT", "noise": "STRING"}, target__file__size="1 mb")

    with (
        pytest.raises(KeyboardInterrupt),
        KeyValueFileWriter(
            ctx, bucket_dir(ctx), 0, FileSource.APPEND, "data-", FileNames("u"), lambda: NOW_MS
        ) as writer,
    ):
        writer.write(wide_rows(ctx, 12_000))
        assert [path.name for path in Path(bucket_dir(ctx)).iterdir()] == ["data-u-0.parquet"]
        raise KeyboardInterrupt

    assert list(Path(bucket_dir(ctx)).iterdir()) == []


def test_files_that_were_handed_out_survive_a_later_failure(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT"})

    with (
        pytest.raises(KeyboardInterrupt),
        KeyValueFileWriter(
            ctx, bucket_dir(ctx), 0, FileSource.APPEND, "data-", FileNames("u"), lambda: NOW_MS
        ) as writer,
    ):
        writer.write(table(ctx, [[1]]))
        (file,) = writer.close()
        raise KeyboardInterrupt

    assert read_key_value_file(ctx, bucket_dir(ctx), file, ["id"]).num_rows == 1


@pytest.mark.parametrize("crash_after", range(1, 5))
def test_a_crash_leaves_only_whole_files(tmp_path: Path, crash_after: int) -> None:
    disk = MemoryDisk()
    ctx = context(tmp_path, {"id": "INT", "noise": "STRING"}, target__file__size="100 kb")
    rows = wide_rows(ctx, 3_000)
    crashing = replace(ctx, io=MemoryFileIO(disk, crash_after=crash_after))

    with pytest.raises(SimulatedCrash):
        write_rolling(crashing, bucket_dir(ctx), rows, 0, FileSource.APPEND, "data-", FileNames("u"), lambda: NOW_MS)

    closed = [data for data in disk.files.values() if data]
    assert len(closed) == crash_after // 2
    assert all(pq.ParquetFile(pa.BufferReader(data)).metadata.num_rows > 0 for data in closed)
    assert not disk.after_power_cut().files


def test_synced_files_survive_a_power_cut(tmp_path: Path) -> None:
    disk = MemoryDisk()
    ctx = replace(context(tmp_path, {"id": "INT", "noise": "STRING"}), io=MemoryFileIO(disk))
    rows = wide_rows(ctx, 100)

    meta = write(ctx, rows)
    ctx.io.sync()

    after = replace(ctx, io=MemoryFileIO(disk.after_power_cut()))
    assert read_key_value_file(after, bucket_dir(ctx), meta).to_pydict() == rows.to_pydict()


def test_null_in_a_column_that_is_not_null_is_refused(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT"})

    with pytest.raises(BrokenInvariant, match="NOT NULL"):
        write(ctx, table(ctx, [[None]]))


def test_data_and_changelog_files_share_one_counter(tmp_path: Path) -> None:
    names = FileNames("u")

    assert [names.next("changelog-", "avro"), names.next("data-", "orc")] == ["changelog-u-0.avro", "data-u-1.orc"]


def test_null_keys_sort_first_when_the_table_allows_them(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "STRING", "v": "INT"}, primary__key_nullable="true")

    meta = write(ctx, table(ctx, [[None, "a", "b"], [1, 2, 3]]))

    types = [f.type for f in ctx.schema.key_fields]
    assert deserialize_row(meta.min_key, types) == (None,)
    assert (deserialize_row(meta.key_stats.min_values, types), meta.key_stats.null_counts) == (("a",), (1,))


# ---------------------------------------------------------------- files that are not as they should be


def test_missing_file_is_reported_with_its_path(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT"})
    meta = write(ctx, table(ctx, [[1]]))
    Path(bucket_dir(ctx), meta.file_name).unlink()

    with pytest.raises(CorruptFile, match=r"data-0a1b-3\.parquet is missing"):
        read_key_value_file(ctx, bucket_dir(ctx), meta)


def test_damaged_file_is_reported_with_its_path(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT"})
    meta = write(ctx, table(ctx, [[1]]))
    path = Path(bucket_dir(ctx), meta.file_name)
    path.write_bytes(path.read_bytes()[:-20])

    with pytest.raises(CorruptFile, match=r"data-0a1b-3\.parquet is not readable"):
        list(iter_key_value_batches(ctx, bucket_dir(ctx), meta))


def test_wrong_row_count_is_reported(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT"})
    meta = write(ctx, table(ctx, [[1]]))

    with pytest.raises(CorruptFile, match=r"data-0a1b-3\.parquet .*it has 1 rows, but its manifest states 2"):
        read_key_value_file(ctx, bucket_dir(ctx), replace(meta, row_count=2))


def test_other_formats_are_refused_by_the_extension(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT"})
    meta = write(ctx, table(ctx, [[1]]))

    with pytest.raises(UnsupportedFeature, match=r"data-1\.csv: format 'csv' is not supported"):
        read_key_value_file(ctx, bucket_dir(ctx), replace(meta, file_name="data-1.csv"))


def test_unknown_compression_is_refused(tmp_path: Path) -> None:
    ctx = context(tmp_path, {"id": "INT"}, file_compression="lzo")

    with pytest.raises(UnsupportedFeature, match=r"'file\.compression': 'lzo'"):
        write(ctx, table(ctx, [[1]]))


def test_external_path_takes_precedence(tmp_path: Path) -> None:
    ctx = context(tmp_path / "table", {"id": "INT"})
    meta = write(ctx, table(ctx, [[7]]))
    elsewhere = tmp_path / "elsewhere.parquet"
    Path(bucket_dir(ctx), meta.file_name).rename(elsewhere)

    read = read_key_value_file(ctx, bucket_dir(ctx), replace(meta, external_path=str(elsewhere)), ["id"])

    assert read.column("id").to_pylist() == [7]
