"""Postponed buckets: rows wait unmerged, in the order in which they arrived, until a compaction gives them buckets."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from paimon_table.errors import BucketCountChanged, ConfigError, MalformedRecord, UnsupportedFeature
from paimon_table.maintenance.compaction import compact
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.postponed import bucket_number, compact_postponed
from paimon_table.maintenance.rescale import rescale
from paimon_table.metadata.bucket_id import EMPTY_ROW, POSTPONED, BucketId
from paimon_table.metadata.snapshot import CommitKind
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO, SimulatedCrash
from paimon_table.table import Table
from paimon_table.validation.schema_evolution import SetOption
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.support.builders import data_file
from tests.support.job_steps import Steps
from tests.support.plain_values import sorted_rows
from tests.support.table_driver import TableDriver, new_table

COLUMNS = [("k", "INT"), ("v", "INT"), ("dt", "STRING")]


def postponed(tmp_path: Path, **options: str) -> TableDriver:
    given = {"bucket": "-2", **{name.replace("_", "-"): value for name, value in options.items()}}
    return TableDriver(new_table(tmp_path / "t", COLUMNS[:2], ["k"], options=given, io=MemoryFileIO()), tmp_path / "l")


def settle(driver: TableDriver, tmp_path: Path, fully: bool = False) -> tuple[int, ...]:
    table = Table.open(driver.table.paths.root, io=driver.table.io)
    job = Job(WriterEnvironment(str(tmp_path / "job")))
    return compact_postponed(table, job, lambda _: True, fully=fully).snapshot_ids


def test_rows_are_hidden_until_they_have_their_buckets(tmp_path: Path) -> None:
    driver = postponed(tmp_path, **{"postpone.default-bucket-num": "3"})
    driver.commit([["+I", key, 1] for key in range(50)])
    driver.commit([["+U", key, 2] for key in range(25)])
    driver.commit([["-D", key, 2] for key in range(5)])
    assert driver.content() == []
    assert {bucket.bucket for bucket in driver.state().files} == {POSTPONED}

    (newest,) = settle(driver, tmp_path)

    assert driver.content() == sorted_rows([key, 2 if key < 25 else 1] for key in range(5, 50))
    assert driver.table.snapshots.read(newest).commit_kind is CommitKind.COMPACT
    assert {bucket.bucket for bucket in driver.state().files} == {0, 1, 2}
    assert dict(driver.state().total_buckets) == {EMPTY_ROW: 3}
    assert settle(driver, tmp_path) == ()


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_each_row_is_a_change_once(tmp_path: Path, producer: str) -> None:
    """Without producer the rows as they came; with one, what the compaction finds."""
    driver = postponed(tmp_path, **{"changelog-producer": producer})
    driver.commit([["+I", 1, 1], ["+U", 1, 2]])
    settle(driver, tmp_path)
    driver.commit([["-D", 1, 2]])
    settle(driver, tmp_path)
    expected = {
        "none": {1: [["+I", 1, 1], ["+U", 1, 2]], 3: [["-D", 1, 2]]},
        "lookup": {2: [["+I", 1, 2]], 4: [["-D", 1, 2]]},
    }
    assert {change.snapshot_id: change.rows for change in driver.changes()} == expected[producer]


@pytest.mark.parametrize(
    ("column", "options", "ending"),
    [
        (("v", "INT"), {}, "avro"),
        (("v", "TIMESTAMP(6)"), {"file.format": "orc"}, "avro"),
        (("v", "INT"), {"file.format.per.level": "0:orc"}, "orc"),
        (("v", "TIMESTAMP(7)"), {}, "parquet"),
        (("v", "TIMESTAMP(9) WITH LOCAL TIME ZONE"), {"file.format": "orc"}, "orc"),
        (("v", "MAP<INT, ARRAY<TIMESTAMP(9)>>"), {}, "parquet"),
        (("v", "ROW<a TIME(6)>"), {}, "parquet"),
        (("v", "ROW<`a-b` INT>"), {}, "parquet"),
        (("a-b", "INT"), {}, "parquet"),
        (("größe_1", "INT"), {}, "avro"),
        (("1a", "INT"), {}, "parquet"),
    ],
    ids=str,
)
def test_rows_wait_in_avro_where_it_can_hold_the_columns(
    tmp_path: Path, column: tuple[str, str], options: dict[str, str], ending: str
) -> None:
    given = {"bucket": "-2", **options}
    table = new_table(tmp_path / "t", [("k", "INT"), column], ["k"], options=given, io=MemoryFileIO())
    driver = TableDriver(table, tmp_path / "l")
    driver.commit([["+I", 1, None]])
    assert {f.file_name.rpartition(".")[2] for f in driver.state().files_of(BucketId(EMPTY_ROW, POSTPONED))} == {ending}
    settle(driver, tmp_path)
    assert driver.content() == [[1, None]]


def test_files_are_as_java_writes_them(tmp_path: Path) -> None:
    driver = postponed(tmp_path)
    driver.commit([["+I", key, 1] for key in range(50)])
    files = driver.state().files_of(BucketId(EMPTY_ROW, POSTPONED))
    assert len(files) == 4
    for file in files:
        assert re.fullmatch(r"data--u-tidemark-s-[0-3]-w-[-0-9a-f]{36}-\d+\.avro", file.file_name)
        assert (file.level, file.min_sequence_number, file.max_sequence_number) == (0, -1, -1)
        assert (file.value_stats_cols, file.delete_row_count, file.schema_id) == ((), 0, 0)
    io = driver.table.io
    assert isinstance(io, MemoryFileIO)
    assert any("/bucket-postpone/" in path for path in io.disk.files)


def test_a_key_goes_through_one_writer_whatever_else_is_written(tmp_path: Path) -> None:
    driver = postponed(tmp_path)
    driver.commit([["+I", key, 1] for key in range(50)])
    driver.commit([["+I", 7, 2]])
    driver.commit([["+I", 7, 3], ["+I", 8, 3]])
    settle(driver, tmp_path)
    assert [row for row in driver.content() if row[0] in (7, 8)] == [[7, 3], [8, 3]]


def test_files_are_replayed_in_order_though_the_clock_goes_back(tmp_path: Path) -> None:
    driver = postponed(tmp_path)
    for value, now_ms in ((1, 5_000), (2, 5_000), (3, 1_000), (4, 7_000), (5, 6_999)):
        driver._environment = replace(driver._environment, clock_ms=partial(int, now_ms))
        driver.commit([["+I", 1, value]])
    settle(driver, tmp_path)
    assert driver.content() == [[1, 5]]


def test_rows_go_on_top_of_those_that_have_buckets(tmp_path: Path) -> None:
    driver = postponed(tmp_path, merge_engine="aggregation", **{"fields.v.aggregate-function": "sum"})
    for _ in range(4):
        driver.commit([["+I", key, 1] for key in range(20)])
        driver.commit([["+I", key, 10] for key in range(10)])
        settle(driver, tmp_path)
    assert driver.content() == sorted_rows([key, 44 if key < 10 else 4] for key in range(20))


def test_what_is_counted_is_counted_once(tmp_path: Path) -> None:
    driver = postponed(tmp_path, merge_engine="aggregation", **{"fields.v.aggregate-function": "count"})
    driver.commit([["+I", 1, 7], ["+I", 1, None], ["+I", 2, None]])
    settle(driver, tmp_path)
    assert driver.content() == [[1, 1], [2, 0]]


@pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction"])
def test_the_changelog_comes_with_the_compaction(tmp_path: Path, producer: str) -> None:
    driver = postponed(tmp_path, changelog_producer=producer)
    driver.commit([["+I", 1, 1], ["+I", 2, 1]])
    driver.commit([["-D", 2, 1]])
    assert driver.changes() == []
    settle(driver, tmp_path, fully=True)
    driver.commit([["+U", 1, 2]])
    settle(driver, tmp_path, fully=True)
    kinds = [[row[0] for row in change.rows] for change in driver.changes()]
    assert kinds == ([["+I", "+I", "-D"], ["+U"]] if producer == "input" else [["+I"], ["-U", "+U"]])


@pytest.mark.parametrize(
    "options", [{"deletion-vectors.enabled": "true"}, {"merge-engine": "first-row"}, {"write-only": "true"}], ids=str
)
def test_level_0_is_no_hiding_place(tmp_path: Path, options: dict[str, str]) -> None:
    driver = postponed(tmp_path, **options)
    for value in (1, 2):
        driver.commit([["+I", 1, value], ["+I", value + 1, value]])
        settle(driver, tmp_path)
    newest = 1 if "merge-engine" in options else 2
    assert driver.content() == [[1, newest], [2, 1], [3, 2]]


def test_what_the_engine_refuses_is_refused_at_once(tmp_path: Path) -> None:
    driver = postponed(tmp_path, merge_engine="partial-update")
    with pytest.raises(MalformedRecord):
        driver.commit([["+I", 1, 1], ["-D", 1, 1]])
    io = driver.table.io
    assert isinstance(io, MemoryFileIO)
    assert not any("bucket-" in path for path in io.disk.files)


def test_every_retract_meets_the_engine_at_once(tmp_path: Path) -> None:
    options = {"bucket": "-2", "merge-engine": "partial-update", "fields.s.sequence-group": "n"}
    options["fields.n.aggregate-function"] = "max"
    table = new_table(tmp_path / "t", [("k", "INT"), ("s", "INT"), ("n", "INT")], ["k"], [], options, MemoryFileIO())
    driver = TableDriver(table, tmp_path / "l")
    driver.commit([["+I", 1, 1, 5], ["-D", 1, None, 5]])
    with pytest.raises(MalformedRecord, match="'max' does not support retraction"):
        driver.commit([["-D", 1, None, 5], ["-D", 1, 2, 5]])
    settle(driver, tmp_path)
    assert driver.content() == [[1, 1, 5]]


@pytest.mark.parametrize(
    ("options", "present", "number"),
    [
        ({}, None, 1),
        ({}, 5, 5),
        ({"postpone.default-bucket-num": "3", "postpone.target-row-num-per-bucket": "1"}, None, 3),
        ({"postpone.default-bucket-num": "3"}, 5, 5),
        ({"postpone.target-row-num-per-bucket": "7", "postpone.target-size-per-bucket": "1"}, None, 3),
        ({"postpone.target-size-per-bucket": "150"}, None, 2),
    ],
    ids=str,
)
def test_how_many_buckets_a_partition_gets(
    tmp_path: Path, options: dict[str, str], present: int | None, number: int
) -> None:
    files = [replace(data_file(name), row_count=10, file_size_bytes=100) for name in "ab"]
    assert bucket_number(postponed(tmp_path, **options).table.options, present, files) == number


def test_partitions_have_numbers_of_their_own(tmp_path: Path) -> None:
    options = {"bucket": "-2", "postpone.target-row-num-per-bucket": "10"}
    driver = TableDriver(new_table(tmp_path / "t", COLUMNS, ["k", "dt"], ["dt"], options), tmp_path / "l")
    driver.commit([["+I", key, 1, "a"] for key in range(40)] + [["+I", key, 1, "b"] for key in range(5)])
    settle(driver, tmp_path)
    driver.commit([["+I", key, 2, "b"] for key in range(40)])
    settle(driver, tmp_path)
    assert sorted(driver.state().total_buckets.values()) == [1, 4]
    assert len(driver.content()) == 80


def test_rows_that_come_meanwhile_wait_for_the_next_time(tmp_path: Path) -> None:
    driver = postponed(tmp_path)
    driver.commit([["+I", key, 1] for key in range(50)])
    other = TableDriver(driver.table, tmp_path / "l", "other")
    job = Job(WriterEnvironment(str(tmp_path / "job")), Steps(lambda step: void(other.commit([["+I", 99, step]]))))
    compact_postponed(driver.table, job, lambda _: True)
    assert (len(driver.content()), POSTPONED in {bucket.bucket for bucket in driver.state().files}) == (50, True)
    settle(driver, tmp_path)
    assert len(driver.content()) == 51


def void(_: object) -> None: ...


def test_two_compactions_at_once_do_it_once(tmp_path: Path) -> None:
    driver = postponed(tmp_path, merge_engine="aggregation", **{"fields.v.aggregate-function": "sum"})
    driver.commit([["+I", key, 1] for key in range(50)])

    def other(step: int) -> None:
        if step == 0:
            settle(driver, tmp_path)

    job = Job(WriterEnvironment(str(tmp_path / "job2")), Steps(other))
    compact_postponed(driver.table, job, lambda _: True)
    assert driver.content() == sorted_rows([key, 1] for key in range(50))


def test_an_interruption_leaves_no_files(tmp_path: Path) -> None:
    driver = postponed(tmp_path)
    driver.commit([["+I", key, 1] for key in range(50)])
    io = driver.table.io
    assert isinstance(io, MemoryFileIO)
    before = set(io.disk.files)

    def interrupt(step: int) -> None:
        if step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        environment = WriterEnvironment(str(tmp_path / "job"), write_buffer_bytes=1)
        compact_postponed(driver.table, Job(environment, Steps(interrupt)), lambda _: True)
    assert set(io.disk.files) == before


@pytest.mark.slow
def test_a_crash_at_any_operation_doubles_and_loses_nothing(tmp_path: Path) -> None:
    driver = postponed(tmp_path, merge_engine="aggregation", **{"fields.v.aggregate-function": "sum"})
    driver.commit([["+I", key, 1] for key in range(10)])
    settle(driver, tmp_path)
    driver.commit([["+I", key, 1] for key in range(10)])
    io, root = driver.table.io, driver.table.paths.root
    assert isinstance(io, MemoryFileIO)
    for crash_after in itertools.count(1):
        disk = MemoryDisk(dict(io.disk.files), set(io.disk.volatile))
        dying = Table.open(root, io=MemoryFileIO(disk, crash_after=None))
        mounted = dying.io
        assert isinstance(mounted, MemoryFileIO)
        mounted.crash_after = mounted.operations + crash_after
        try:
            compact_postponed(dying, Job(WriterEnvironment(str(tmp_path / "job"))), lambda _: True)
        except SimulatedCrash:
            left = TableDriver(Table.open(root, io=MemoryFileIO(disk.after_power_cut())), tmp_path / "l", "next")
            assert left.content() in ([[key, 1] for key in range(10)], [[key, 2] for key in range(10)])
            settle(left, tmp_path)
            assert left.content() == [[key, 2] for key in range(10)]
        else:
            assert crash_after > 10
            return


# ---------------------------------------------------------------- from and to other modes


def test_postponed_buckets_become_fixed_and_fixed_ones_postponed(tmp_path: Path) -> None:
    driver = postponed(tmp_path)
    driver.commit([["+I", key, 1] for key in range(50)])
    rescale(driver.table, 4, Job(WriterEnvironment(str(tmp_path / "job"))))
    driver = TableDriver(Table.open(driver.table.paths.root, io=driver.table.io), tmp_path / "l", "next")
    assert (driver.table.options.bucket, dict(driver.state().total_buckets)) == (4, {EMPTY_ROW: 4})
    driver.commit([["+U", key, 2] for key in range(25)])
    assert driver.content() == sorted_rows([key, 2 if key < 25 else 1] for key in range(50))

    rescale(driver.table, -2, Job(WriterEnvironment(str(tmp_path / "job"))))
    driver = TableDriver(Table.open(driver.table.paths.root, io=driver.table.io), tmp_path / "l", "last")
    driver.commit([["+U", 3, 7]])
    assert [row for row in driver.content() if row[0] == 3] == [[3, 2]]
    settle(driver, tmp_path)
    assert [row for row in driver.content() if row[0] == 3] == [[3, 7]]


def fresh(driver: TableDriver, tmp_path: Path, user: str = "fresh") -> TableDriver:
    """A writer that knows the newest options."""
    return TableDriver(Table.open(driver.table.paths.root, io=driver.table.io), tmp_path / "l", user)


def by_day(tmp_path: Path) -> TableDriver:
    options = {"bucket": "-2"}
    table = new_table(tmp_path / "t", COLUMNS, ["k", "dt"], ["dt"], options, MemoryFileIO())
    return TableDriver(table, tmp_path / "l")


def test_a_rescale_of_one_partition_leaves_no_rows_waiting_in_others(tmp_path: Path) -> None:
    driver = by_day(tmp_path)
    driver.commit([["+I", 1, 1, "a"], ["+I", 1, 1, "b"], ["+I", 2, 1, "b"]])
    first = min(bucket.partition for bucket in driver.state().files)

    done = rescale(driver.table, 2, Job(WriterEnvironment(str(tmp_path / "job"))), {first}.__contains__)

    assert (dict(done.left), POSTPONED in {bucket.bucket for bucket in driver.state().files}) == ({}, False)
    writer = fresh(driver, tmp_path)
    assert writer.content() == [[1, 1, "a"], [1, 1, "b"], [2, 1, "b"]]
    writer.commit([["+U", 1, 2, "b"], ["-D", 2, 1, "b"]])
    settle(writer, tmp_path)
    assert writer.content() == [[1, 1, "a"], [1, 2, "b"]]


def test_rows_that_would_wait_behind_a_fixed_number_are_refused(tmp_path: Path) -> None:
    driver = postponed(tmp_path)
    driver.commit([["+I", 1, 1]])
    rescale(driver.table, 2, Job(WriterEnvironment(str(tmp_path / "job"))))
    for write in (driver.commit, driver.overwrite):
        with pytest.raises(BucketCountChanged, match="would wait for a bucket, but 'bucket' has become 2"):
            write([["+I", 1, 2]])
    writer = fresh(driver, tmp_path)
    writer.commit([["+I", 1, 3]])
    settle(writer, tmp_path)
    assert writer.content() == [[1, 3]]


def test_rows_are_never_written_behind_those_that_wait(tmp_path: Path) -> None:
    driver = by_day(tmp_path)
    driver.commit([["+I", 1, 1, "a"]])
    driver.evolve([SetOption("bucket", "2")])
    with pytest.raises(BucketCountChanged, match=r"older rows still wait .*'tidemark table compact .*/t'"):
        driver.commit([["+I", 1, 2, "a"], ["+I", 1, 2, "b"]])
    driver.commit([["+I", 1, 2, "b"]])
    settle(driver, tmp_path)
    driver.commit([["+I", 1, 2, "a"]])
    assert driver.content() == [[1, 2, "a"], [1, 2, "b"]]


def test_a_writer_that_does_not_know_that_rows_wait_now_is_refused(tmp_path: Path) -> None:
    driver = postponed(tmp_path, bucket="2")
    driver.commit([["+I", 1, 1]])
    rescale(driver.table, POSTPONED, Job(WriterEnvironment(str(tmp_path / "job"))))
    fresh(driver, tmp_path).commit([["+I", 1, 2]])
    with pytest.raises(BucketCountChanged, match="older rows still wait"):
        driver.commit([["+I", 1, 3]])
    settle(driver, tmp_path)
    assert fresh(driver, tmp_path).content() == [[1, 2]]


def test_rows_that_come_to_wait_while_the_option_changes_get_their_buckets(tmp_path: Path) -> None:
    driver = postponed(tmp_path)
    driver.commit([["+I", 1, 1]])

    class Straggler(MemoryFileIO):
        """Lets the batch in flight be committed right before the new option is."""

        def publish(self, path: str, data: bytes) -> bool:
            if path.endswith("/schema-1"):
                driver.commit([["+U", 1, 2]])
            return super().publish(path, data)

    io = driver.table.io
    assert isinstance(io, MemoryFileIO)
    table = Table.open(driver.table.paths.root, io=Straggler(io.disk))
    rescale(table, 3, Job(WriterEnvironment(str(tmp_path / "job"))))
    writer = fresh(driver, tmp_path)
    assert writer.content() == [[1, 2]]
    writer.commit([["+U", 1, 3]])
    settle(writer, tmp_path)
    assert writer.content() == [[1, 3]]


def test_a_compaction_that_a_rescale_overtakes_is_done_again(tmp_path: Path) -> None:
    driver = postponed(tmp_path, **{"postpone.default-bucket-num": "2", "num-sorted-run.compaction-trigger": "9"})
    driver.commit([["+I", key, 1] for key in range(50)])
    settle(driver, tmp_path)
    driver.commit([["+U", key, 2] for key in range(25)])

    def other(step: int) -> None:
        if step == 0:
            rescale(driver.table, 3, Job(WriterEnvironment(str(tmp_path / "other"))))

    compact_postponed(driver.table, Job(WriterEnvironment(str(tmp_path / "job")), Steps(other)), lambda _: True)
    settle(driver, tmp_path)
    left = fresh(driver, tmp_path)
    assert left.content() == sorted_rows([key, 2 if key < 25 else 1] for key in range(50))


def test_a_compaction_of_fixed_buckets_that_a_rescale_overtakes_is_done_again(tmp_path: Path) -> None:
    driver = postponed(tmp_path, bucket="2", **{"write-only": "true"})
    for value in range(3):
        driver.commit([["+I", key, value] for key in range(50)])

    def other(step: int) -> None:
        if step == 0:
            rescale(driver.table, 4, Job(WriterEnvironment(str(tmp_path / "other"))))

    job = Job(WriterEnvironment(str(tmp_path / "job")), Steps(other))
    compact(driver.table, job, lambda _: True, fully=True)
    left = fresh(driver, tmp_path)
    assert left.content() == sorted_rows([key, 2] for key in range(50))


def test_postponing_single_partitions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="remove --partition"):
        rescale(by_day(tmp_path).table, POSTPONED, Job(WriterEnvironment(str(tmp_path / "job"))), lambda _: True)


def test_options_that_do_not_go_with_it_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"full-compaction.delta-commits.*remove it"):
        postponed(tmp_path, **{"full-compaction.delta-commits": "2"})
    with pytest.raises(UnsupportedFeature, match=r"sequence.snapshot-ordering"):
        postponed(tmp_path, **{"sequence.snapshot-ordering": "true", "write-only": "true"})
