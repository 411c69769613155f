"""One bucket whose levels have different formats, and file indexes through flush, compaction and removal."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.storage.memory_io import MemoryFileIO
from tests.support.bucket_harness import BucketHarness, context

COLUMNS = [("k", "INT"), ("v", "STRING")]


def formats(bucket: BucketHarness) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for file in bucket.files:
        found.setdefault(file.level, set()).add(file.file_name.rpartition(".")[2])
    return found


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
def test_levels_of_different_formats_are_merged(tmp_path: Path, producer: str) -> None:
    options = {
        "file.format": "orc", "file.format.per.level": "0:avro,5:parquet", "changelog-producer": producer,
        "changelog-file.format": "avro", "num-sorted-run.compaction-trigger": "3", "num-levels": "6",
    }  # fmt: skip
    bucket = BucketHarness(context(COLUMNS, ["k"], options), tmp_path)
    expected: dict[int, str] = {}
    for number in range(8):
        rows = {key: f"{key}@{number}" for key in range(number, number + 4)}
        message = bucket.commit([("+I", key, value) for key, value in rows.items()], full=number == 4)
        expected |= rows
        changelog = (*message.changelog_files, *message.compact_changelog)
        assert {file.file_name.rpartition(".")[2] for file in changelog} <= {"avro"}
        assert bucket.content() == sorted(expected.items())
        assert bool(changelog) or producer in {"none", "full-compaction"}

    by_level = formats(bucket)
    assert by_level.pop(0, {"avro"}) == {"avro"}
    assert "parquet" in by_level[5]


def test_lookup_rewrites_a_file_that_moves_to_a_level_of_another_format(tmp_path: Path) -> None:
    options = {"file.format.per.level": "0:avro", "changelog-producer": "lookup"}
    bucket = BucketHarness(context(COLUMNS, ["k"], options), tmp_path)

    message = bucket.commit([("+I", 1, "a")])

    (before,), (after,) = message.compact_before, message.compact_after
    assert (before.file_name[-5:], after.file_name[-8:]) == (".avro", ".parquet")
    assert bucket.changes(message.compact_changelog) == [("+I", 1, "a")]


def test_files_of_the_right_format_are_moved_as_they_are(tmp_path: Path) -> None:
    options = {"file.format": "orc", "changelog-producer": "lookup", "deletion-vectors.enabled": "true"}
    bucket = BucketHarness(context(COLUMNS, ["k"], options), tmp_path)

    message = bucket.commit([("+I", 1, "a")])

    (before,), (after,) = message.compact_before, message.compact_after
    assert before.file_name == after.file_name
    bucket.commit([("+U", 1, "b"), ("+I", 2, "c")])
    assert bucket.content() == sorted(bucket.unmerged_content()) == [(1, "b"), (2, "c")]


def test_deletion_vectors_mark_rows_of_every_format(tmp_path: Path) -> None:
    for name in ("orc", "avro"):
        options = {"file.format": name, "deletion-vectors.enabled": "true"}
        bucket = BucketHarness(context(COLUMNS, ["k"], options), tmp_path / name)
        bucket.commit([("+I", key, "old") for key in range(5_000)])
        bucket.commit([("+U", 7, "new"), ("-D", 9, "old")])

        assert bucket.vectors()
        expected = {key: "new" if key == 7 else "old" for key in range(5_000) if key != 9}
        assert sorted(bucket.unmerged_content()) == sorted(expected.items())


def test_index_files_go_with_their_data_files(tmp_path: Path) -> None:
    # given two rounds of compaction in one commit, so that a file of the first one is removed by the second
    io = MemoryFileIO()
    options = {
        "file-index.bloom-filter.columns": "v", "file-index.bloom-filter.v.items": "5000",
        "num-sorted-run.compaction-trigger": "2", "changelog-producer": "input",
    }  # fmt: skip
    flushed_at_once = {"write_buffer_bytes": 1}
    bucket = BucketHarness(context(COLUMNS, ["k"], options, io), tmp_path, environment=flushed_at_once)
    for number in range(6):
        writer = bucket.new_writer()
        for part in range(3):
            writer.write(bucket.table([("+I", key, f"{number}.{part}") for key in range(5)]))
        bucket.apply(writer.prepare_commit(full_compact=number % 2 == 1))

    names = {path.rpartition("/")[2] for path in io.disk.files if "/bucket-" in path}
    data = {name for name in names if not name.endswith(".index") and not name.startswith("changelog-")}
    assert {name for name in names if name.endswith(".index")} == {f"{name}.index" for name in data}
    assert all(file.extra_files == (f"{file.file_name}.index",) for file in bucket.files)
