"""Tables without primary key: what their files hold, in which order, and what compaction leaves."""

import os
import resource
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from paimon_table.data_files import joined_files
from paimon_table.data_files.key_value_file import FileNames
from paimon_table.deletion_vectors.deletion_vector import NOTHING_DELETED
from paimon_table.deletion_vectors.deletion_vector_index import write_vectors
from paimon_table.errors import CommitConflict, ConfigError, CorruptFile, MalformedRecord
from paimon_table.maintenance.compaction import compact
from paimon_table.maintenance.job import Job
from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.index_file import IndexChange
from paimon_table.metadata.snapshot import CommitKind
from paimon_table.table import Table
from paimon_table.types import parse_type
from paimon_table.validation.schema_evolution import AddColumn, SetOption, WidenColumn
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.support.plain_values import sorted_rows
from tests.support.table_driver import TableDriver, new_table

UNAWARE = {"bucket": "-1"}
ORDERED = {"bucket": "1", "bucket-key": "id"}
COLUMNS = [("id", "INT"), ("v", "STRING")]


def driver(tmp_path: Path, options: dict[str, str], partition_by: tuple[str, ...] = ()) -> TableDriver:
    table = new_table(tmp_path / "t", COLUMNS, [], partition_by, options)
    return TableDriver(table, tmp_path / "lookup")


def ids(table: Table) -> list[int]:
    """In the order in which the table is read."""
    return [number for rows in table.read() for number in rows.column("id").to_pylist()]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("options", [UNAWARE, ORDERED])
def test_files_hold_the_columns_alone(tmp_path: Path, options: dict[str, str], file_format: str) -> None:
    writer = driver(tmp_path, {**options, "file.format": file_format, "compaction.min.file-num": "9"})
    writer.commit([["+I", 1, "a"], ["+I", 1, "a"], ["+U", 2, None]])
    writer.commit([["+I", 3, "c"]])

    state = writer.state()
    ((bucket, files),) = state.files.items()
    assert bucket.bucket == 0
    assert [(f.level, f.row_count, f.delete_row_count, f.file_source) for f in files] == [(0, 3, 0, 0), (0, 1, 0, 0)]
    assert {(f.min_key, f.max_key, f.key_stats.min_values, f.key_stats.null_counts) for f in files} == {
        (EMPTY_ROW, EMPTY_ROW, EMPTY_ROW, ())
    }
    numbers = [(f.min_sequence_number, f.max_sequence_number) for f in files]
    assert numbers == ([(0, 2), (0, 0)] if options is UNAWARE else [(0, 2), (3, 3)])
    assert set(state.total_buckets.values()) == {int(options["bucket"])}
    if file_format == "parquet":
        path = writer.table.context.data_file(bucket, files[0])
        assert pq.ParquetFile(path).schema_arrow.names == ["id", "v"]
    assert writer.content() == [[1, "a"], [1, "a"], [2, None], [3, "c"]]
    assert sum(rows.num_rows for rows in writer.table.read(columns=[])) == 4
    assert writer.table.to_arrow(columns=["v"], predicate=pc.field("id") > 2).to_pylist() == [{"v": "c"}]


@pytest.mark.parametrize("options", [UNAWARE, ORDERED])
@pytest.mark.parametrize("kind", ["-D", "-U"])
def test_rows_that_take_back_others_are_refused(tmp_path: Path, options: dict[str, str], kind: str) -> None:
    writer = driver(tmp_path, options)
    with pytest.raises(MalformedRecord, match="append table"):
        writer.commit([["+I", 1, "a"], [kind, 1, "a"]])
    assert writer.content() == []


@pytest.mark.slow
@pytest.mark.parametrize("keeps_writers", [False, True])
def test_a_bucket_keeps_the_order_of_arrival_through_compactions(tmp_path: Path, keeps_writers: bool) -> None:
    table = new_table(tmp_path / "t", COLUMNS, [], [], ORDERED)
    writer = TableDriver(table, tmp_path / "lookup", keeps_writers=keeps_writers)
    arrived: list[int] = []
    kinds = []
    for commit in range(23):
        rows = [commit * 10 + 9 - i for i in range(commit % 4 + 1)]
        arrived += rows
        result = writer.commit([["+I", number, "x" * number] for number in rows])
        kinds += [s.commit_kind for s in (result.append, result.compact) if s is not None]
    assert ids(table) == arrived
    assert CommitKind.COMPACT in kinds
    assert len(writer.state().files_of(BucketId(EMPTY_ROW, 0))) < 10
    assert [row[1] for change in writer.changes() for row in change.rows] == arrived
    writer.compact()
    assert ids(table) == arrived
    (file,) = writer.state().files_of(BucketId(EMPTY_ROW, 0))
    assert (file.min_sequence_number, file.max_sequence_number) == (0, len(arrived) - 1)
    writer.commit([["+I", 1, "last"]])
    assert ids(table) == [*arrived, 1]


@pytest.mark.slow
def test_small_files_without_buckets_are_packed_per_partition(tmp_path: Path) -> None:
    writer = driver(tmp_path, UNAWARE, ("v",))
    for number in range(12):
        writer.commit([["+I", number, "p"], ["+I", number, "q"]])
    assert {len(files) for files in writer.state().files.values()} == {4}
    assert ids(writer.table) == unordered(ids(writer.table), [*range(12), *range(12)])
    writer.compact()
    assert {len(files) for files in writer.state().files.values()} == {1}
    assert writer.compact().compact is None


def unordered(actual: list[int], expected: list[int]) -> list[int]:
    """``actual`` if it has the numbers of ``expected`` in any order."""
    return actual if sorted(actual) == sorted(expected) else expected


def test_several_writers_of_a_partition_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", COLUMNS, [], [], UNAWARE)
    rows = TableDriver(table, tmp_path / "lookup").arrow([["+I", n, "v"] for n in range(6)])
    bucket, environment = BucketId(EMPTY_ROW, 0), WriterEnvironment(str(tmp_path / "lookup"))
    for identifier in range(4):
        messages = []
        for start in (0, 3):
            writer = table.bucket_writer(bucket, table.state().live_files().of(bucket), environment)
            writer.write(rows.slice(start, 3))
            messages.append(writer.prepare_append())
            assert not writer.bytes_to_compact()
        table.new_commit("u").commit(identifier, messages, {})
    assert sorted(ids(table)) == sorted([*range(6)] * 4)
    assert table.due_compactions(table.state(), fully=False, is_appended=False) == (bucket,)
    packing = table.bucket_writer(bucket, table.state().live_files().of(bucket), environment)
    table.new_commit("u").commit(9, [packing.compact_only()], {})
    assert len(table.state().files_of(bucket)) == 1
    assert sorted(ids(table)) == sorted([*range(6)] * 4)
    assert table.due_compactions(table.state(), fully=False, is_appended=False) == ()


def test_a_large_batch_is_written_in_bounded_memory_and_cut_into_files(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", COLUMNS, [], [], {**ORDERED, "target-file-size": "64 kb", "write-only": "true"})
    environment = WriterEnvironment(str(tmp_path / "lookup"), write_buffer_bytes=100_000)
    bucket = BucketId(EMPTY_ROW, 0)
    writer = table.bucket_writer(bucket, table.state().live_files().of(bucket), environment)
    for start in range(0, 50_000, 5_000):
        numbers = pa.array(range(start, start + 5_000), pa.int32())
        texts = pa.array([f"{n:x}" * 5 for n in range(start, start + 5_000)])
        kinds = pa.array([0] * 5_000, pa.int8())
        writer.write(pa.table([numbers, texts, kinds], ["id", "v", "_VALUE_KIND"]))
    message = writer.prepare_append()
    table.new_commit("u").commit(1, [message], {})
    assert len(message.new_files) > 2
    assert ids(table) == [*range(50_000)]


def test_a_failed_write_leaves_no_file(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", COLUMNS, [], [], UNAWARE)
    environment = WriterEnvironment(str(tmp_path / "lookup"), write_buffer_bytes=1)
    bucket = BucketId(EMPTY_ROW, 0)
    writer = table.bucket_writer(bucket, table.state().live_files().of(bucket), environment)
    rows = TableDriver(table, tmp_path / "lookup").arrow([["+I", 1, "a"], ["-D", 1, "a"]])
    writer.write(rows.slice(0, 1))
    with pytest.raises(MalformedRecord):
        writer.write(rows.slice(1, 1))
    assert [*(tmp_path / "t").rglob("data-*")] == []


@pytest.mark.parametrize("options", [UNAWARE, ORDERED])
def test_columns_change_under_old_files(tmp_path: Path, options: dict[str, str]) -> None:
    writer = driver(tmp_path, options)
    writer.commit([["+I", 1, "a"]])
    writer.evolve([AddColumn("n", parse_type("BIGINT"))])
    writer.commit([["+I", 2, "b", 5]])
    if options is UNAWARE:
        writer.evolve([WidenColumn("id", parse_type("BIGINT"))])
    assert writer.content() == [[1, "a", None], [2, "b", 5]]
    for number in range(3, 9):
        writer.commit([["+I", number, "x", None]])
    assert [row[0] for row in writer.content()] == [*range(1, 9)]
    assert writer.table.to_arrow(predicate=pc.field("n") == 5).num_rows == 1


def test_partitions_are_read_in_the_order_of_their_values(tmp_path: Path) -> None:
    writer = driver(tmp_path, {**UNAWARE, "scan.plan-sort-partition": "true"}, ("v",))
    for number, partition in enumerate(["q", "z", "a", "q", "b"]):
        writer.commit([["+I", number, partition]])
    assert ids(writer.table) == [2, 4, 0, 3, 1]


def test_bloom_filters_and_ranges_prune_files(tmp_path: Path) -> None:
    options = {**UNAWARE, "file-index.bloom-filter.columns": "v", "write-only": "true"}
    writer = driver(tmp_path, options)
    writer.commit([["+I", 1, "a"], ["+I", 2, "c"]])
    writer.commit([["+I", 11, "b"]])
    table = writer.table
    ((_, files),) = writer.state().files.items()
    assert all(file.embedded_index or file.extra_files for file in files)
    (gone,) = [file for file in files if file.row_count == 2]
    Path(table.context.data_file(BucketId(EMPTY_ROW, 0), gone)).unlink()
    assert table.to_arrow(predicate=pc.field("id") > 10).num_rows == 1
    assert table.to_arrow(predicate=pc.field("v") == "b").num_rows == 1


def test_another_number_of_buckets_is_refused(tmp_path: Path) -> None:
    writer = driver(tmp_path, ORDERED)
    writer.commit([["+I", 1, "a"]])
    writer.evolve([SetOption("bucket", "2")])
    with pytest.raises(ConfigError, match="bucket num 2"):
        writer.commit([["+I", 2, "b"]])


def test_an_overwrite_replaces_partitions(tmp_path: Path) -> None:
    writer = driver(tmp_path, UNAWARE, ("v",))
    writer.commit([["+I", 1, "p"], ["+I", 1, "q"]])
    writer.overwrite([["+I", 2, "q"], ["+I", 2, "q"]])
    assert writer.content() == [[1, "p"], [2, "q"], [2, "q"]]


@pytest.mark.parametrize("option", [{"merge-engine": "aggregation"}, {"sequence.field": "id"}])
def test_options_about_rows_of_one_key_are_refused(tmp_path: Path, option: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="without primary key"):
        driver(tmp_path, {**UNAWARE, **option})


# ---------------------------------------------------------------- rows that other engines delete


class Deleter:
    """Marks rows as engines do: every commit brings an index file of its own."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.count = 0

    def delete_first_row(self, bucket: BucketId, data_file: str) -> None:
        self.count += 1
        vector = {data_file: NOTHING_DELETED.with_deleted(np.array([0]))}
        file = write_vectors(self.table.io, self.table.paths, f"index-{self.count}-0", vector, bitmap64=False)
        message = CommitMessage(bucket=bucket, total_buckets=-1, append_index=IndexChange((), (file,)))
        self.table.new_commit("deleter").commit(self.count, [message], {})


DELETABLE = {**UNAWARE, "deletion-vectors.enabled": "true", "compaction.delete-ratio-threshold": "0.9"}


def three_files(tmp_path: Path, partition_by: tuple[str, ...] = ()) -> TableDriver:
    writer = driver(tmp_path, DELETABLE, partition_by)
    for number in (0, 10, 20):
        writer.commit([["+I", number, "p"], ["+I", number + 1, "p"], ["+I", number, "q"], ["+I", number + 1, "q"]])
    return writer


def test_deleted_rows_stay_deleted_whatever_is_committed(tmp_path: Path) -> None:
    writer = three_files(tmp_path, ("v",))
    deleter = Deleter(writer.table)
    of_p, of_q = sorted(writer.state().files, key=lambda bucket: bucket.partition)
    for bucket, count in ((of_p, 2), (of_q, 1)):
        for file in writer.state().files_of(bucket)[:count]:
            deleter.delete_first_row(bucket, file.file_name)
    expected = writer.content()
    assert (len(expected), len(writer.state().index)) == (9, 3)

    writer.commit([["+I", 99, "p"]])
    expected = sorted_rows([*expected, [99, "p"]])
    job = Job(WriterEnvironment(str(tmp_path / "lookup")))
    assert compact(writer.table, job, lambda partition: partition == of_q.partition, fully=True).buckets == 1
    assert (writer.content(), len(writer.state().index)) == (expected, 2)
    assert compact(writer.table, job, lambda _: True, fully=True).buckets == 1
    assert (writer.content(), writer.state().index) == (expected, ())


@pytest.mark.parametrize("has_marks_before", [False, True])
def test_rows_that_are_deleted_while_their_file_is_packed_stay_deleted(tmp_path: Path, has_marks_before: bool) -> None:
    writer = three_files(tmp_path)
    deleter = Deleter(writer.table)
    ((bucket, files),) = writer.state().files.items()
    if has_marks_before:
        deleter.delete_first_row(bucket, files[0].file_name)
    environment = WriterEnvironment(str(tmp_path / "lookup"))
    packed = writer.table.bucket_writer(bucket, writer.state().live_files().of(bucket), environment)
    message = packed.compact_only(full_compact=True)
    deleter.delete_first_row(bucket, files[1].file_name)
    expected = writer.content()

    with pytest.raises(CommitConflict, match="were deleted while it was compacted"):
        writer.table.new_commit("packer").commit(1, [message], {})
    compact(writer.table, Job(environment), lambda _: True, fully=True)

    assert writer.content() == expected
    assert len(expected) == 11 - has_marks_before
    assert (len(writer.state().files_of(bucket)), writer.state().index) == (1, ())


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_rows_are_sorted_where_columns_to_cluster_by_are_named(tmp_path: Path, file_format: str) -> None:
    clustered = {"sink.clustering.by-columns": "v,id", "sink.clustering.strategy": "order"}
    writer = driver(tmp_path, {**UNAWARE, **clustered, "file.format": file_format})

    writer.commit([["+I", 3, "b"], ["+I", 1, None], ["+I", 2, "b"], ["+I", 5, "a"]])
    assert ids(writer.table) == [1, 5, 2, 3]
    ((file,),) = writer.state().files.values()
    assert (file.min_sequence_number, file.max_sequence_number) == (0, 3)

    for number in range(4):
        writer.commit([["+I", number, "ab"]])
    compact(writer.table, Job(WriterEnvironment(str(tmp_path / "lookup"))), lambda _: True, fully=True)
    assert ids(Table.open(str(tmp_path / "t"))) == [1, 5, 0, 1, 2, 3, 2, 3]


@pytest.mark.parametrize(
    "options", [{**ORDERED, "sink.clustering.by-columns": "v"}, {**UNAWARE, "sink.clustering.by-columns": "v,id"}]
)
def test_rows_keep_their_order_in_buckets_and_where_a_curve_is_asked_for(
    tmp_path: Path, options: dict[str, str]
) -> None:
    writer = driver(tmp_path, options)
    writer.commit([["+I", 3, "b"], ["+I", 1, "a"]])

    assert ids(writer.table) == [3, 1]


def test_columns_to_cluster_by_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no column 'w'; columns are: id, v"):
        driver(tmp_path, {**UNAWARE, "sink.clustering.by-columns": "w"})


JOINING = {**UNAWARE, "compaction.min.file-num": "3"}
"""Such that four files of 30,000 rows of ``many`` are packed."""


def many(count: int, number: int) -> pa.Table:
    """Rows whose texts hardly compress: a file of 30,000 has more than a megabyte."""
    noise = np.random.default_rng(number)
    texts = [None if n % 7 == 0 else noise.bytes(44).hex() for n in range(count)]
    numbers = pa.array(range(number * count, (number + 1) * count), pa.int32())
    return pa.table({"id": numbers, "v": texts, "_VALUE_KIND": pa.array(np.zeros(count, np.int8))})


def groups_of(table: Table, bucket: BucketId, file: DataFileMeta) -> list[int]:
    metadata = pq.read_metadata(table.context.data_file(bucket, file))
    return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]


@pytest.mark.slow
@pytest.mark.parametrize("options", [UNAWARE, ORDERED], ids=["unaware", "ordered"])
def test_row_groups_that_are_large_enough_are_copied(tmp_path: Path, options: dict[str, str]) -> None:
    joined, rewritten = (
        driver(tmp_path / name, {**JOINING, **options, **more})
        for name, more in {"joined": {}, "rewritten": {"file.block-size": "128 mb"}}.items()
    )
    for seed in range(4):
        for writer in (joined, rewritten):
            result = writer.commit_arrow(many(30_000, seed))
    assert result.compact is not None

    described = []
    for writer in (joined, rewritten):
        ((bucket, (file,)),) = writer.state().files.items()
        assert file.row_count == 120_000
        described.append(replace(file, file_name="", file_size_bytes=0, creation_time_ms=0))
    assert described[0] == described[1]
    ((bucket, (file,)),) = joined.state().files.items()
    assert groups_of(joined.table, bucket, file) == [30_000] * 4
    if options is ORDERED:
        assert ids(joined.table) == list(range(120_000))
    assert joined.table.to_arrow().sort_by("id").equals(rewritten.table.to_arrow().sort_by("id"))
    found = joined.table.to_arrow(columns=["id"], predicate=pc.field("id") == 70_000)
    assert found.column("id").to_pylist() == [70_000]

    joined.compact()
    joined.commit([["+I", 120_000, "more"]])
    joined.compact()
    ((bucket, (file,)),) = joined.state().files.items()
    assert groups_of(joined.table, bucket, file)[0] > 30_000
    assert ids(joined.table) == unordered(ids(joined.table), list(range(120_001)))


def test_row_groups_that_are_small_are_written_anew(tmp_path: Path) -> None:
    writer = driver(tmp_path, {**UNAWARE, "compaction.min.file-num": "4"})
    for seed in range(4):
        writer.commit_arrow(many(100, seed))
    ((bucket, (file,)),) = writer.state().files.items()
    assert groups_of(writer.table, bucket, file) == [400]
    assert sorted(ids(writer.table)) == list(range(400))


@pytest.mark.slow
def test_row_groups_of_usual_batches_are_large_enough(tmp_path: Path) -> None:
    writer = driver(tmp_path, JOINING)
    for seed in range(3):
        writer.commit_arrow(many(16_000, seed))
    ((bucket, (file,)),) = writer.state().files.items()
    assert 3 << 19 < file.file_size_bytes < 3 << 20
    assert groups_of(writer.table, bucket, file) == [16_000] * 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        SetOption("file.compression", "snappy"),
        SetOption("file.format", "orc"),
        SetOption("file-index.bloom-filter.columns", "v"),
        AddColumn("more", parse_type("INT")),
    ],
    ids=str,
)
def test_files_of_other_settings_are_written_anew(tmp_path: Path, change: SetOption | AddColumn) -> None:
    writer = driver(tmp_path, JOINING)
    for seed in range(3):
        writer.commit_arrow(many(30_000, seed))
    writer.evolve([change])
    rows = many(29_000, 3)
    if isinstance(change, AddColumn):
        rows = rows.append_column("more", pa.nulls(rows.num_rows, pa.int32()))
    result = writer.commit_arrow(rows)
    if result.compact is None:  # what is not compressed is larger, and waits for more
        result = writer.commit_arrow(rows.slice(0, 1))
    assert result.compact is not None

    ((bucket, (file,)),) = writer.state().files.items()
    assert file.schema_id == writer.table.schema.id
    assert {*ids(writer.table)} == {*range(90_000), *range(87_000, 116_000)}
    if file.file_name.endswith("parquet"):
        assert groups_of(writer.table, bucket, file)[0] > 30_000
        metadata = pq.read_metadata(writer.table.context.data_file(bucket, file))
        codec = "SNAPPY" if change == SetOption("file.compression", "snappy") else "ZSTD"
        assert metadata.row_group(0).column(0).compression == codec


def test_statistics_that_are_not_dense_have_nested_columns(tmp_path: Path) -> None:
    columns = [("id", "INT"), ("a", "ARRAY<INT>"), ("m", "MAP<STRING, INT>"), ("r", "ROW<x INT>")]
    table = new_table(tmp_path / "t", columns, [], (), {**UNAWARE, "metadata.stats-dense-store": "false"})
    writer = TableDriver(table, tmp_path / "lookup")
    for number in range(6):
        writer.commit([["+I", number, [1], [["k", 2]], [3]]], full_compact=number == 5)
    ((_, (file,)),) = writer.state().files.items()
    assert (file.value_stats_cols, file.value_stats.null_counts) == (None, (0, None, None, None))
    assert file.value_stats.max_values[12:16] == (5).to_bytes(4, "little")
    assert sorted(ids(writer.table)) == list(range(6))


@pytest.mark.slow
def test_joined_files_are_large_enough_to_stay(tmp_path: Path) -> None:
    """Two of them fit no file of the target size: each alone would be copied by every commit that follows."""
    writer = driver(tmp_path, {**JOINING, "target-file-size": "8 mb"})
    for seed in range(2):
        result = writer.commit_arrow(many(130_000, seed))
    assert result.compact is not None
    ((bucket, (file,)),) = writer.state().files.items()
    assert len(groups_of(writer.table, bucket, file)) == 4
    for seed in range(2, 4):
        assert writer.commit_arrow(many(1_000, seed)).compact is None
    assert file in writer.state().files_of(bucket)
    assert len(ids(writer.table)) == 262_000


@pytest.mark.slow
def test_joined_files_end_about_at_the_target_size(tmp_path: Path) -> None:
    collecting = driver(tmp_path, {**UNAWARE, "write-only": "true", "target-file-size": "128 mb"})
    for seed in range(12):
        collecting.commit_arrow(many(30_000, seed))
    collecting.evolve([SetOption("target-file-size", "6 mb"), SetOption("write-only", "false")])
    ((bucket, files),) = collecting.state().files.items()
    ctx = collecting.table.context
    alike = tuple(replace(file, schema_id=ctx.schema.id) for file in files)
    joined = joined_files.joined_files(ctx, ctx.bucket_dir(bucket), alike, FileNames("a"), lambda: 0)
    assert joined is not None
    assert [file.row_count for file in joined] == [120_000] * 3


def damaged(directory: Path, place: int) -> tuple[TableDriver, DataFileMeta]:
    """A table of three files, the second one with a changed bit in the byte at ``place``."""
    writer = driver(directory, JOINING)
    for seed in range(3):
        writer.commit_arrow(many(30_000, seed))
    ((bucket, files),) = writer.state().files.items()
    path = Path(writer.table.context.data_file(bucket, files[1]))
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    path.write_bytes(data)
    return writer, files[1]


@pytest.mark.slow
def test_a_damaged_file_is_not_hidden_in_a_larger_one(tmp_path: Path) -> None:
    writer, file = damaged(tmp_path, -20)  # in the footer
    with pytest.raises(CorruptFile, match=file.file_name):
        writer.commit_arrow(many(30_000, 3))


@pytest.mark.parametrize("options", [UNAWARE, ORDERED, DELETABLE])
def test_a_writer_goes_on_after_a_compaction_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    table = driver(tmp_path, {**options, "compaction.min.file-num": "3"}).table
    writer = TableDriver(table, tmp_path / "lookup", keeps_writers=True)
    for number in range(2):
        writer.commit([["+I", number, "a"], ["+I", number + 10, "b"]])
    (bucket,) = writer.state().files
    if options is DELETABLE:
        Deleter(table).delete_first_row(bucket, writer.state().files_of(bucket)[0].file_name)
        writer = TableDriver(table, tmp_path / "lookup", first_identifier=9, keeps_writers=True)
    expected = writer.content()
    directory = Path(table.context.data_file(bucket, writer.state().files_of(bucket)[0])).parent
    before = set(directory.iterdir())

    def fail(*_: object) -> None:
        raise OSError("no answer")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="no answer"):
        patched.setattr("paimon_table.storage.file_io.LocalFileIO.sync", fail)
        writer.commit([["+I", 2, "c"]], full_compact=True)
    left = set(directory.iterdir()) - before
    writer.commit([["+I", 3, "d"]], full_compact=True)

    assert sorted_rows(writer.content()) == sorted_rows([*expected, [2, "c"], [3, "d"]])
    assert len(left) == 1, "the rows that came, which the writer still has"


@pytest.mark.slow
def test_a_page_that_is_damaged_is_not_copied(tmp_path: Path) -> None:
    writer, file = damaged(tmp_path, 1000)
    ((bucket, files),) = writer.state().files.items()
    path = Path(writer.table.context.data_file(bucket, file))
    before = set(path.parent.iterdir())
    with pytest.raises(CorruptFile, match=f"{file.file_name}.*restore"):
        writer.commit_arrow(many(30_000, 3))
    assert writer.state().files_of(bucket) == files
    assert len(set(path.parent.iterdir()) - before) == 1, "the rows that came, which nothing refers to"

    whole = bytearray(path.read_bytes())
    whole[1000] ^= 0x10
    path.write_bytes(whole)
    again = TableDriver(Table.open(str(tmp_path / "t")), tmp_path / "lookup", first_identifier=9)
    assert again.commit_arrow(many(30_000, 4)).compact is not None
    assert sorted(ids(writer.table)) == [*range(90_000), *range(120_000, 150_000)]


@pytest.mark.slow
def test_files_of_other_writers_are_written_anew(tmp_path: Path) -> None:
    writer = driver(tmp_path, JOINING)
    for seed in range(3):
        writer.commit_arrow(many(30_000, seed))
    ((bucket, files),) = writer.state().files.items()
    path = Path(writer.table.context.data_file(bucket, files[0]))
    data = path.read_bytes()
    at = data.rindex(b"TMFC")
    path.write_bytes(data[:at] + b"...." + data[at + 4 :])  # whose footers have no checksum
    writer.commit_arrow(many(30_000, 3))
    ((bucket, (file,)),) = writer.state().files.items()
    assert groups_of(writer.table, bucket, file)[0] > 30_000
    assert sorted(ids(writer.table)) == list(range(120_000))


@pytest.mark.slow
def test_any_number_of_files_is_joined_with_few_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_files, "LEAST_GROUP_BYTES", 0)
    collecting = driver(tmp_path, {**UNAWARE, "write-only": "true"})
    for number in range(40):
        collecting.commit([["+I", number, "v"]])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 20, hard))
    try:
        result = compact(collecting.table, Job(WriterEnvironment(str(tmp_path))), lambda _: True, fully=False)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (result.files_before, result.files_after) == (40, 1)
    ((bucket, (file,)),) = collecting.state().files.items()
    assert groups_of(collecting.table, bucket, file) == [1] * 40
    assert sorted(ids(collecting.table)) == list(range(40))
