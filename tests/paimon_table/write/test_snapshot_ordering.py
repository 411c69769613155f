"""``sequence.snapshot-ordering``: rows of later snapshots are newer, whatever numbers their writers gave them."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.data_files.key_value_file import read_key_value_file
from paimon_table.errors import BrokenInvariant, ConfigError, UnsupportedFeature
from paimon_table.metadata.data_file import DataFileMeta, FileSource
from paimon_table.metadata.snapshot import CommitKind
from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.table import Table
from tests.support.bucket_harness import BucketHarness, context
from tests.support.builders import committer, data_file, message, orders_schema
from tests.support.plain_values import Plain
from tests.support.table_driver import TableDriver, new_table

COLUMNS = [("k", "INT"), ("v", "INT"), ("w", "INT")]
ORDERED = {"sequence.snapshot-ordering": "true", "write-only": "true"}


def driver(tmp_path: Path, options: dict[str, str] | None = None, *, keeps_writers: bool = False) -> TableDriver:
    table = new_table(tmp_path / "t", COLUMNS, ["k"], options={**ORDERED, **(options or {})})
    return TableDriver(table, tmp_path / "lookup", keeps_writers=keeps_writers)


def files_of(of: TableDriver) -> list[DataFileMeta]:
    return [file for files in of.state().files.values() for file in files]


def numbers(files: list[DataFileMeta]) -> list[tuple[int, int]]:
    return [(file.min_sequence_number, file.max_sequence_number) for file in files]


def rows(count: int, value: int) -> list[list[Plain]]:
    return [["+I", 1, value, value]] * count


# ---------------------------------------------------------------- commit


def test_files_of_a_flush_get_the_id_of_their_snapshot(tmp_path: Path) -> None:
    ordered = driver(tmp_path)
    ordered.commit(rows(5, 1))
    ordered.commit(rows(1, 2))
    assert numbers(files_of(ordered)) == [(1, 1), (2, 2)]


def test_a_lost_race_gives_the_files_the_id_of_the_next_attempt() -> None:
    table = Table.create("/w/t", orders_schema(ORDERED), io=MemoryFileIO())
    theirs, ours = data_file("theirs"), data_file("ours")
    slow = committer(table, on_step=lambda step: committer(table, "other").commit(1, [message(new_files=[theirs])], {}))
    slow.commit(1, [message(new_files=[ours])], {})
    stored = table.state()
    found = {f.file_name: f.max_sequence_number for files in stored.files.values() for f in files}
    assert found == {"theirs": 1, "ours": 2}
    assert slow.state.files == stored.files


def test_compaction_keeps_the_numbers_of_its_files() -> None:
    table = Table.create("/w/t", orders_schema(ORDERED), io=MemoryFileIO())
    commit = committer(table)
    commit.commit(1, [message(new_files=[data_file("a")])], {})
    (a,) = next(iter(commit.state.files.values()))
    merged = data_file("m", 5, min_sequence_number=1, max_sequence_number=1)
    commit.commit(2, [message(compact_before=[a], compact_after=[merged])], {})
    assert commit.state.snapshot is not None
    assert commit.state.snapshot.commit_kind is CommitKind.COMPACT
    assert next(iter(commit.state.files.values())) == (merged,)


# ---------------------------------------------------------------- reading


@pytest.mark.parametrize("keeps_writers", [True, False])
def test_later_snapshot_wins_over_higher_numbers(tmp_path: Path, keeps_writers: bool) -> None:
    ordered = driver(tmp_path, keeps_writers=keeps_writers)
    ordered.commit(rows(100, 999))
    other = TableDriver(Table.open(ordered.table.paths.root), tmp_path / "lookup", "other")
    other.commit(rows(1, 1))
    assert ordered.content() == [[1, 1, 1]]
    ordered.commit([["-D", 1, 1, 1]])
    assert ordered.content() == []


def test_rows_of_a_file_read_with_the_id_and_of_a_compaction_with_their_own(tmp_path: Path) -> None:
    ordered = driver(tmp_path)
    ordered.commit([["+I", 1, 1, 1], ["+I", 2, 1, 1]])
    ordered.commit([["+I", 2, 2, 2], ["+I", 3, 2, 2]])
    ordered.compact()
    (merged,) = files_of(ordered)
    assert merged.file_source == FileSource.COMPACT
    assert numbers([merged]) == [(1, 2)]
    (bucket,) = ordered.state().files
    ctx = ordered.table.context
    stored = read_key_value_file(ctx, ctx.bucket_dir(bucket), merged)
    assert stored.column("_SEQUENCE_NUMBER").to_pylist() == [1, 2, 2]


def test_upgraded_file_keeps_its_place(tmp_path: Path) -> None:
    ordered = driver(tmp_path)
    ordered.commit(rows(50, 1))
    ordered.compact()
    (upgraded,) = files_of(ordered)
    assert (upgraded.level, upgraded.file_source, numbers([upgraded])) == (5, FileSource.APPEND, [(1, 1)])
    ordered.commit(rows(1, 2))
    assert ordered.content() == [[1, 2, 2]]
    ordered.compact()
    assert ordered.content() == [[1, 2, 2]]
    assert numbers(files_of(ordered)) == [(3, 3)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"merge-engine": "partial-update"}, [1, 999, 200]),
        ({"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}, [1, 1099, 200]),
        ({"changelog-producer": "lookup"}, [1, 999, None]),
        ({"deletion-vectors.enabled": "true"}, [1, 999, None]),
    ],
    ids=lambda value: str(value)[:24],
)
def test_dedicated_compaction_does_not_change_the_content(
    tmp_path: Path, options: dict[str, str], expected: list[Plain]
) -> None:
    ordered = driver(tmp_path, options)
    ordered.commit([["+I", 1, 100, None]] * 1 + [["+I", 2, 0, 0]] * 30)
    for row in ([1, None, 200], [1, 999, None]):
        ordered.commit([["+I", *row]])
        ordered.compact()
    assert ordered.content()[0] == expected


def test_file_of_unknown_origin_is_refused(tmp_path: Path) -> None:
    ordered = driver(tmp_path)
    ordered.commit(rows(1, 1))
    (bucket, (file,)) = next(iter(ordered.state().files.items()))
    ctx = ordered.table.context
    unknown = data_file(file.file_name, file_source=None)
    with pytest.raises(UnsupportedFeature, match="does not state whether a flush or a compaction"):
        read_key_value_file(ctx, ctx.bucket_dir(bucket), unknown)


def test_tables_opened_for_reading_are_ordered_too(tmp_path: Path) -> None:
    ordered = driver(tmp_path)
    ordered.commit(rows(100, 999))
    ordered.commit(rows(1, 1))
    read = Table.open_for_reading(ordered.table.paths.root)
    assert read.to_arrow(["v"]).column("v").to_pylist() == [1]


# ---------------------------------------------------------------- writing


def test_several_flushes_of_one_commit_become_one_run(tmp_path: Path) -> None:
    io = MemoryFileIO()
    ctx = context(COLUMNS, ["k"], {**ORDERED, "changelog-producer": "input"}, io)
    bucket = BucketHarness(ctx, tmp_path, environment={"write_buffer_bytes": 1})
    writer = bucket.new_writer()
    for value in (5, 1, 3):
        writer.write(bucket.table([("+I", 1, value, value), ("+I", 10 + value, 0, 0)]))
    made = writer.prepare_commit()
    (file,) = made.new_files
    assert (file.row_count, file.level, file.file_source) == (4, 0, FileSource.APPEND)
    assert bucket.read(file).column("v").to_pylist() == [3, 0, 0, 0]
    assert len(bucket.changes(made.changelog_files)) == 6
    data = [path for path in io.disk.files if "/data-" in path]
    assert data == [ctx.data_file(bucket.bucket, file)]


def test_flushes_that_do_not_overlap_stay_as_they_are(tmp_path: Path) -> None:
    bucket = BucketHarness(context(COLUMNS, ["k"], ORDERED), tmp_path, environment={"write_buffer_bytes": 1})
    writer = bucket.new_writer()
    for key in (3, 1, 2):
        writer.write(bucket.table([("+I", key, key, key)]))
    assert [file.row_count for file in writer.prepare_commit().new_files] == [1, 1, 1]


def test_writer_that_compacts_takes_no_rows(tmp_path: Path) -> None:
    bucket = BucketHarness(context(COLUMNS, ["k"], {"sequence.snapshot-ordering": "true"}), tmp_path)
    with pytest.raises(ConfigError, match="write-only=true"):
        bucket.new_writer().write(bucket.table([("+I", 1, 1, 1)]))


def test_rows_without_a_snapshot_cannot_be_looked_up(tmp_path: Path) -> None:
    bucket = BucketHarness(context(COLUMNS, ["k"], ORDERED), tmp_path)
    rows = bucket.table([("+I", 1, 1, 1)])
    bucket.commit([("+I", 1, 1, 1)])
    assert bucket.writer is not None
    with pytest.raises(BrokenInvariant, match="open a new writer"):
        bucket.writer.find_rows(rows.select(["k"]))
    assert bucket.new_writer().find_rows(rows.select(["k"])).rows.num_rows == 1


# ---------------------------------------------------------------- validation


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"write-only": "false"}, "requires 'write-only' = true"),
        ({"sequence.field": "v"}, "mutually exclusive with 'sequence.field'"),
    ],
)
def test_options_that_exclude_it_are_refused(tmp_path: Path, options: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        driver(tmp_path, options)
