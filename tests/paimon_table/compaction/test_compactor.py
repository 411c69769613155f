"""Results of several compactions in one commit, levels, and what a crash leaves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from paimon_table.compaction.compactor import CompactionResult
from paimon_table.data_files.key_value_file import FileNames, KeyValueFileWriter
from paimon_table.errors import BrokenInvariant, CorruptFile
from paimon_table.mergetree.levels import build_levels
from paimon_table.metadata.data_file import DataFileMeta, FileSource, SimpleStats
from paimon_table.row_kind import SEQUENCE_NUMBER, VALUE_KIND
from paimon_table.storage.file_io import LocalFileIO
from paimon_table.storage.memory_io import MemoryFileIO, SimulatedCrash
from tests.support.bucket_harness import BucketHarness, context


def _file(name: str, level: int = 0, keys: str = "1-2", newest: int = 0, oldest: int = 0) -> DataFileMeta:
    first, last = keys.split("-")
    return DataFileMeta(
        file_name=name,
        file_size_bytes=1,
        row_count=1,
        min_key=first.encode(),
        max_key=last.encode(),
        key_stats=SimpleStats(),
        value_stats=SimpleStats(),
        min_sequence_number=oldest,
        max_sequence_number=newest,
        schema_id=0,
        level=level,
    )


def _names(files: tuple[DataFileMeta, ...]) -> list[str]:
    return [f"{f.file_name}@{f.level}" for f in files]


def test_a_rewritten_file_that_lived_between_two_rounds_vanishes() -> None:
    first = CompactionResult((_file("a"), _file("b")), (_file("c", 4), _file("d", 4)), (_file("log1"),))
    second = CompactionResult((_file("c", 4), _file("old", 5)), (_file("e", 5),), (_file("log2"),))
    combined, obsolete = first.then(second)
    assert _names(combined.before) == ["a@0", "b@0", "old@5"]
    assert _names(combined.after) == ["d@4", "e@5"]
    assert _names(combined.changelog) == ["log1@0", "log2@0"]
    assert _names(obsolete) == ["c@4"]


def test_a_file_that_was_moved_in_or_out_of_the_state_between_stays() -> None:
    moved_in = CompactionResult((_file("a"),), (_file("a", 4),))
    rewritten = CompactionResult((_file("a", 4),), (_file("b", 5),))
    combined, obsolete = moved_in.then(rewritten)
    assert (_names(combined.before), _names(combined.after), obsolete) == (["a@0"], ["b@5"], ())

    made = CompactionResult((_file("x"),), (_file("c", 3),))
    moved_out = CompactionResult((_file("c", 3),), (_file("c", 5),))
    combined, obsolete = made.then(moved_out)
    assert (_names(combined.before), _names(combined.after), obsolete) == (["x@0"], ["c@5"], ())


def test_level_0_is_ordered_newest_first_and_higher_levels_by_key() -> None:
    files = [
        _file("old", newest=3),
        _file("new", newest=9),
        _file("mid2", newest=5, oldest=4),
        _file("mid1", newest=5, oldest=2),
        _file("z", 3, "7-9"),
        _file("y", 3, "1-6"),
        _file("top", 5),
    ]
    levels = build_levels(files, 6, int)
    assert [f.file_name for run in levels.runs() for f in run.files] == ["new", "mid1", "mid2", "old", "y", "z", "top"]
    assert [run.level for run in levels.runs()] == [0, 0, 0, 0, 3, 5]
    assert (levels.max_level, levels.highest_level) == (5, 5)
    assert (build_levels([], 6, int).max_level, build_levels([], 6, int).highest_level) == (5, -1)
    assert build_levels([_file("deep", 8)], 6, int).max_level == 8


def test_overlapping_files_on_one_level_are_corrupt() -> None:
    with pytest.raises(CorruptFile, match="a and b overlap on level 2"):
        build_levels([_file("a", 2, "1-5"), _file("b", 2, "5-6")], 6, int)


def test_replacing_unknown_files_is_refused() -> None:
    levels = build_levels([_file("a")], 6, int)
    with pytest.raises(BrokenInvariant, match="lacks"):
        levels.with_compacted([_file("a", 1)], [], int)


@pytest.mark.slow
def test_memory_of_a_compaction_follows_the_chunk_size_not_the_runs(tmp_path: Path) -> None:
    columns = [("k", "BIGINT"), *((f"c{i}", "BIGINT") for i in range(15))]
    ctx = context(columns, ["k"], {}, LocalFileIO(), str(tmp_path / "table"))
    bucket = BucketHarness(ctx, tmp_path / "lookup", environment={"chunk_bytes": 8 << 20})
    for level in (5, 4):
        bucket.files += _long_run(bucket, level, row_count=800_000)
    run_bytes = 800_000 * 17 * 8
    pool, usual = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        bucket.commit([], full=True)
    finally:
        pa.set_memory_pool(usual)
    assert sum(f.row_count for f in bucket.files) == 1_600_000
    assert pool.max_memory() < run_bytes


def _long_run(bucket: BucketHarness, level: int, row_count: int) -> tuple[DataFileMeta, ...]:
    """One sorted run; runs of different levels interleave without equal keys."""
    names = FileNames(f"run{level}")
    with KeyValueFileWriter(
        bucket.ctx, bucket.directory, level, FileSource.COMPACT, "data-", names, lambda: 0
    ) as writer:
        for start in range(0, row_count, 100_000):
            numbers = np.arange(start, start + 100_000)
            values = {f"c{i}": numbers * 31 for i in range(15)}
            kinds = np.zeros(len(numbers), np.int8)
            keys = {SEQUENCE_NUMBER: numbers, VALUE_KIND: kinds, "k": numbers * 2 + level % 2}
            writer.write(pa.table({**keys, **values}))
        return writer.close()


@pytest.mark.slow
@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_a_crash_at_any_operation_leaves_the_live_files_whole(tmp_path: Path, producer: str) -> None:
    options = {"changelog-producer": producer, "num-sorted-run.compaction-trigger": "2"}
    crashes = 0
    for operations in range(1, 100):
        io = MemoryFileIO()
        bucket = BucketHarness(context([("k", "INT"), ("v", "INT")], ["k"], options, io), tmp_path / f"l{operations}")
        for value in range(3):
            bucket.commit([("+I", key, value) for key in range(value, 6)])
        before = bucket.content()
        io.operations, io.crash_after = 0, operations
        batch = [("+U", 1, 100), ("-D", 2, 0), ("+I", 9, 9)]
        try:
            bucket.new_writer()
            bucket.commit(batch, full=True)
        except SimulatedCrash:
            crashes += 1
            survivor = MemoryFileIO(io.disk.after_power_cut())
            bucket.ctx = context([("k", "INT"), ("v", "INT")], ["k"], options, survivor)
            assert bucket.content() == before
            bucket.commit(batch, full=True)
        else:
            assert crashes > 3
            return
        assert bucket.content() == [(0, 0), (1, 100), (3, 2), (4, 2), (5, 2), (9, 9)]
    pytest.fail("the commit never came to its end")


@pytest.mark.slow
@pytest.mark.parametrize("fresh", [True, False])
def test_lookup_files_go_with_their_data_files(tmp_path: Path, fresh: bool) -> None:
    options = {"changelog-producer": "lookup", "num-sorted-run.compaction-trigger": "3"}
    bucket = BucketHarness(context([("k", "INT"), ("v", "INT")], ["k"], options), tmp_path)
    looked_up: set[str] = set()
    for value in range(20):
        bucket.commit([("+I", key, value) for key in range(value % 7, 200)], fresh=fresh)
        assert bucket.looked_up() <= {file.file_name for file in bucket.files}
        looked_up |= bucket.looked_up()
    assert len(looked_up) > 2 * len(bucket.looked_up()) > 0
