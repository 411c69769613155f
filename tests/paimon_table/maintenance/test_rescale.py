"""Another number of buckets: the same rows, for readers at any time and for writers afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from paimon_table.errors import BucketCountChanged, CommitConflict, ConfigError, UnsupportedFeature
from paimon_table.maintenance.compaction import compact
from paimon_table.maintenance.job import ATTEMPTS, Job
from paimon_table.maintenance.rescale import rescale
from paimon_table.metadata.bucket_id import DYNAMIC
from paimon_table.metadata.hash_index import read_hashes
from paimon_table.metadata.snapshot import CommitKind
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO, SimulatedCrash
from paimon_table.table import Table
from paimon_table.validation.schema_evolution import SetOption
from paimon_table.write.bucket_writer import BucketWriter, WriterEnvironment
from tests.support.job_steps import Steps
from tests.support.plain_values import Plain, sorted_rows
from tests.support.table_driver import TableDriver, new_table

COLUMNS = [("k", "INT"), ("v", "INT"), ("dt", "STRING")]


def job(tmp_path: Path, at: Callable[[int], None] = lambda _: None) -> Job:
    environment = WriterEnvironment(str(tmp_path / "lookup"), chunk_bytes=2_000)
    return Job(environment, Steps(at))


def plain(tmp_path: Path, buckets: int = 2, **options: str) -> TableDriver:
    given = {name.replace("_", "-"): value for name, value in options.items()}
    table = new_table(tmp_path / "t", COLUMNS[:2], ["k"], options={"bucket": str(buckets), **given}, io=MemoryFileIO())
    return TableDriver(table, tmp_path / "lookup")


def by_day(tmp_path: Path, buckets: int = 2, **options: str) -> TableDriver:
    given = {name.replace("_", "-"): value for name, value in options.items()}
    given["bucket"] = str(buckets)
    table = new_table(tmp_path / "t", COLUMNS, ["k", "dt"], ["dt"], given, MemoryFileIO())
    writer = TableDriver(table, tmp_path / "lookup")
    writer.commit([["+I", key, 1, day] for key in range(40) for day in ("a", "b")])
    return writer


def rows(keys: range, value: int = 1, kind: str = "+I") -> list[list[Plain]]:
    return [[kind, key, value] for key in keys]


def after(driver: TableDriver, tmp_path: Path) -> TableDriver:
    """The next writer of the table."""
    return TableDriver(Table.open(driver.table.paths.root, io=driver.table.io), tmp_path / "lookup", "next")


def live_names(driver: TableDriver) -> set[str]:
    return {file.file_name for files in driver.state().files.values() for file in files}


def stored_names(driver: TableDriver) -> set[str]:
    io = driver.table.io
    assert isinstance(io, MemoryFileIO)
    return {path.rpartition("/")[2] for path in io.disk.files if "/bucket-" in path}


def check_places(driver: TableDriver, directory: Path) -> None:
    """Every key lies in the bucket that its hash names, on the highest level."""
    table, state = driver.table, driver.state()
    assert {file.level for files in state.files.values() for file in files} == {table.options.max_level}
    assert set(state.total_buckets.values()) == {table.options.bucket}
    environment = WriterEnvironment(str(directory / "places"))
    files = {bucket: read_hashes(table.io, table.paths, file) for bucket, file in state.hash_files().items()}
    hashes = np.sort(np.concatenate([np.empty(0, np.int32), *files.values()]))
    assert bool(np.all(hashes[1:] > hashes[:-1])), "a hash has one bucket in a partition; tables here hold keys once"
    assert {*state.files} <= {*files} or table.options.bucket != DYNAMIC
    assert not files or table.options.bucket == DYNAMIC
    for bucket, part in table.assign(table.to_arrow(), state.live_files(), environment).buckets.items():
        held = BucketWriter(table.context, bucket, state.live_files().of(bucket), environment)
        assert held.lookup(part.select(["k"])).num_rows == part.num_rows


def check_places_by_day(driver: TableDriver) -> None:
    """All partitions have the number of the option; dynamic buckets have all of their keys in the index."""
    table, state = driver.table, driver.state()
    assert set(state.total_buckets.values()) == {table.options.bucket}
    counts = {bucket: file.row_count for bucket, file in state.hash_files().items()}
    if table.options.bucket != DYNAMIC:
        assert not counts
        return
    assert counts == {bucket: sum(file.row_count for file in files) for bucket, files in state.files.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "numbers",
    [(2, 4), (4, 2), (2, 3), (6, 4), (1, 40), (40, 3), (3, 1), (2, -1), (40, -1), (-1, 1), (-1, 3), (-1, 40)],
    ids=str,
)
def test_all_rows_move_to_the_buckets_of_their_keys(tmp_path: Path, numbers: tuple[int, int]) -> None:
    old, new = numbers
    table = plain(tmp_path, old, **{"dynamic-bucket.target-row-num": "7"})
    table.commit(rows(range(300)))
    table.commit(rows(range(100, 200), value=2))
    table.commit(rows(range(30), kind="-D"))
    expected = table.content()

    done = rescale(table.table, new, job(tmp_path))

    table = after(table, tmp_path)
    assert (table.content(), table.table.options.bucket) == (expected, new)
    assert table.table.snapshots.read(done.snapshot_ids[-1]).commit_kind is CommitKind.OVERWRITE
    assert (done.row_count, len(done.rewritten), done.option_before) == (270, 1, old)
    check_places(table, tmp_path)
    assert len(table.state().files) >= (36 if new == DYNAMIC else 1)
    table.commit([*rows(range(5)), *rows(range(100, 105), value=3), *rows(range(200, 205), kind="-D")])
    values: dict[Plain, Plain] = {row[0]: row[1] for row in table.content()}
    assert len(values) == 270
    assert [values.get(key) for key in (0, 29, 30, 100, 106, 200)] == [1, None, 1, 3, 2, None]


def test_what_an_engine_keeps_beside_the_values_goes_on(tmp_path: Path) -> None:
    columns = [("k", "INT"), ("total", "BIGINT"), ("seen", "BIGINT"), ("texts", "STRING")]
    functions = {"total": "sum", "seen": "count", "texts": "listagg"}
    options = {f"fields.{name}.aggregate-function": function for name, function in functions.items()}
    options |= {"bucket": "2", "merge-engine": "aggregation"}
    table = TableDriver(new_table(tmp_path / "t", columns, ["k"], options=options), tmp_path / "lookup")
    table.commit([["+I", key, key, 5, "a"] for key in range(50)])
    table.commit([["+I", key, 10, 7, "b"] for key in range(50)])

    rescale(table.table, 5, job(tmp_path))

    table = after(table, tmp_path)
    table.commit([["+I", key, 100, 9, "c"] for key in range(50)])
    assert table.content() == sorted_rows([key, key + 110, 3, "a,b,c"] for key in range(50))


def test_deletes_that_stay_move_with_their_keys(tmp_path: Path) -> None:
    options = {"bucket": "2", "sequence.field": "v", "tidemark.keep-deletes": "1 h"}
    columns = [("k", "INT"), ("v", "INT"), ("_tidemark_deleted_at", "TIMESTAMP_LTZ(3)")]
    table = TableDriver(new_table(tmp_path / "t", columns, ["k"], options=options), tmp_path / "lookup")
    table.commit([["+I", key, 5, None] for key in range(9)])
    table.commit([["-D", key, 6, None] for key in range(0, 9, 2)])

    rescale(table.table, 5, job(tmp_path))

    table = after(table, tmp_path)
    table.commit([["+I", key, 4, None] for key in range(9)])
    assert table.content() == sorted_rows([key, 5, None] for key in range(1, 9, 2))


def test_parts_of_a_row_go_on_by_their_sequences(tmp_path: Path) -> None:
    options = {"bucket": "1", "merge-engine": "partial-update", "fields.g.sequence-group": "a"}
    columns = [("k", "INT"), ("g", "INT"), ("a", "INT"), ("b", "INT")]
    table = TableDriver(new_table(tmp_path / "t", columns, ["k"], options=options), tmp_path / "lookup")
    table.commit([["+I", key, 5, 1, None] for key in range(9)])
    table.commit([["+I", key, None, None, 2] for key in range(9)])

    rescale(table.table, 4, job(tmp_path))

    table = after(table, tmp_path)
    table.commit([["+I", key, 4 + key % 2 * 2, 9, None] for key in range(9)])
    assert table.content() == [[key, 6 if key % 2 else 5, 9 if key % 2 else 1, 2] for key in range(9)]


@pytest.mark.parametrize(
    "options",
    [
        {"changelog-producer": "lookup"},
        {"changelog-producer": "lookup", "lookup-compact": "gentle"},
        {"changelog-producer": "full-compaction"},
        {"changelog-producer": "lookup", "write-only": "true"},
        {"deletion-vectors.enabled": "true", "write-only": "true"},
        {"merge-engine": "first-row", "write-only": "true"},
        {"merge-engine": "first-row", "changelog-producer": "lookup"},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("old", "new"), [(2, 3), pytest.param(2, -1, marks=pytest.mark.slow), pytest.param(-1, 3, marks=pytest.mark.slow)]
)
def test_rows_that_wait_for_a_compaction_get_it_before(
    tmp_path: Path, options: dict[str, str], old: int, new: int
) -> None:
    table = plain(tmp_path, old, **{name.replace("-", "_"): value for name, value in options.items()})
    table.commit(rows(range(20)))
    table.commit(rows(range(10, 30), value=2))

    rescale(table.table, new, job(tmp_path))

    table = after(table, tmp_path)
    kept = 1 if "merge-engine" in options else 2
    assert table.content() == sorted_rows([key, 1 if key < 10 else kept if key < 20 else 2] for key in range(30))
    if "changelog-producer" in options:
        seen: dict[Plain, Plain] = {}
        for change in table.changes():
            for kind, key, value in change.rows:
                seen |= {key: value} if kind[0] == "+" else {}
        assert sorted_rows(map(list, seen.items())) == table.content()
    check_places(table, tmp_path)


def test_one_partition_alone(tmp_path: Path) -> None:
    table = by_day(tmp_path)
    expected = table.content()
    (a, b) = sorted(table.state().total_buckets, key=lambda p: table.table.context.partition_values(p))

    done = rescale(table.table, 4, job(tmp_path), chosen=lambda partition: partition == a)

    assert (done.rewritten, dict(done.left)) == ({a}, {b: 2})
    table = after(table, tmp_path)
    assert table.content() == expected
    table.commit([["+I", 1, 2, "a"], ["+I", 1, 2, "new"]])
    with pytest.raises(BucketCountChanged, match=r"dt=b of .*: rows would be written with bucket num 4, but .* is 2"):
        table.commit([["+I", 1, 2, "b"]])
    rescale(table.table, 4, job(tmp_path))
    table.commit([["+I", 1, 2, "b"]])
    assert len(table.content()) == 81


def test_a_second_call_has_nothing_to_do(tmp_path: Path) -> None:
    table = by_day(tmp_path)
    rescale(table.table, 4, job(tmp_path))
    newest = table.table.snapshots.latest_id()
    done = rescale(after(table, tmp_path).table, 4, job(tmp_path))
    assert (done.rewritten, done.snapshot_ids, table.table.snapshots.latest_id()) == (set(), [], newest)


def test_an_empty_table_gets_the_option_alone(tmp_path: Path) -> None:
    table = plain(tmp_path)
    rescale(table.table, 7, job(tmp_path))
    assert after(table, tmp_path).table.options.bucket == 7
    assert table.table.snapshots.latest_id() is None


@pytest.mark.parametrize("number", [0, -3])
def test_other_kinds_of_numbers_are_refused(tmp_path: Path, number: int) -> None:
    with pytest.raises(ConfigError, match="is not a number of buckets"):
        rescale(plain(tmp_path).table, number, job(tmp_path))


@pytest.mark.parametrize(
    ("old", "new", "options", "text"),
    [
        (-1, -2, {}, "between dynamic and postponed; rescale it to a number of buckets first"),
        (-2, -1, {}, "between dynamic and postponed; rescale it to a number of buckets first"),
        (2, -1, {"bucket-key": "k"}, "cannot have 'bucket' = -1: option 'bucket-key' cannot be set with"),
        (2, -1, {"dynamic-bucket.max-buckets": "0"}, "max-buckets' = 0 leaves no bucket"),
    ],
)
def test_what_the_other_options_forbid_is_refused_before_a_row_is_read(
    tmp_path: Path, old: int, new: int, options: dict[str, str], text: str
) -> None:
    table = plain(tmp_path, old)
    table.commit(rows(range(5)))
    changed = replace(table.table.schema, options={**table.table.schema.options, **options})
    table = TableDriver(
        replace(table.table, context=replace(table.table.context, schema=changed)), tmp_path / "lookup", "next"
    )
    before = stored_names(table)
    with pytest.raises((ConfigError, UnsupportedFeature), match=text):
        rescale(table.table, new, job(tmp_path))
    assert stored_names(table) == before


@pytest.mark.parametrize(("old", "new"), [(2, -1), (-1, 2)])
def test_single_partitions_do_not_become_dynamic_or_fixed(tmp_path: Path, old: int, new: int) -> None:
    table = by_day(tmp_path, old)
    with pytest.raises(UnsupportedFeature, match=r"in all partitions or in none.* Remove --partition"):
        rescale(table.table, new, job(tmp_path), chosen=lambda _: True)


def test_rows_that_move_between_partitions_keep_dynamic_buckets(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", COLUMNS, ["k"], ["dt"], {"bucket": "-1"}, MemoryFileIO())
    with pytest.raises(UnsupportedFeature, match=r"with rows that move .* includes the partition columns"):
        rescale(table, 2, job(tmp_path))


@pytest.mark.parametrize("new", [-1, 4])
def test_rows_of_java_that_stay_in_old_partitions_get_no_other_buckets(tmp_path: Path, new: int) -> None:
    table = by_day(tmp_path, 2).table
    schema = replace(table.schema, primary_keys=("k",))
    with pytest.raises(UnsupportedFeature, match="partition column 'dt', which is not in its primary key"):
        rescale(replace(table, context=replace(table.context, schema=schema)), new, job(tmp_path))


@pytest.mark.parametrize(("old", "new"), [(2, -1), (-1, 2)])
def test_partitions_are_refused_to_writers_between_option_and_files(tmp_path: Path, old: int, new: int) -> None:
    table = by_day(tmp_path, old)
    between = after(table, tmp_path)
    between.table.evolve([SetOption("bucket", str(new))], 1, rows_fit=True)
    between = after(table, tmp_path)
    with pytest.raises(BucketCountChanged, match=f"num {new}, .* is {old}. Nothing was written: rescale it, by"):
        between.commit([["+I", 1, 2, "b"]])
    assert len(between.content()) == 80
    rescale(between.table, new, job(tmp_path))
    between = after(table, tmp_path)
    check_places_by_day(between)
    between.commit([["+I", 1, 2, "b"]])
    assert len(between.content()) == 80


def test_an_index_without_rows_goes_with_dynamic_buckets(tmp_path: Path) -> None:
    table = by_day(tmp_path, -1)
    table.commit([["-D", key, 1, "a"] for key in range(40)])
    compact(table.table, job(tmp_path), lambda _: True, fully=True)
    assert len({bucket.partition for bucket in table.state().files}) == 1
    assert len({bucket.partition for bucket in table.state().hash_files()}) == 2
    rescale(table.table, 2, job(tmp_path))
    assert not table.state().hash_files()
    assert len(after(table, tmp_path).content()) == 40


def test_a_dynamic_writer_that_does_not_know_starts_no_partition(tmp_path: Path) -> None:
    table = by_day(tmp_path, -1)
    old = after(table, tmp_path)
    rescale(table.table, 2, job(tmp_path))
    with pytest.raises(BucketCountChanged, match="written for dynamic buckets, but 'bucket' has become 2"):
        old.commit([["+I", 1, 1, "new"]])
    assert len(after(table, tmp_path).content()) == 80


# ---------------------------------------------------------------- others at work


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"changelog-producer": "lookup"}], ids=str)
@pytest.mark.parametrize(("old", "new"), [(2, 3), (2, -1), (-1, 3)])
def test_rows_that_come_meanwhile_are_not_lost(tmp_path: Path, options: dict[str, str], old: int, new: int) -> None:
    table = plain(tmp_path, old, **{name.replace("-", "_"): value for name, value in options.items()})
    table.commit(rows(range(2000)))
    other = after(table, tmp_path)

    def write(step: int) -> None:
        if step in (0, 3):
            other.commit([["+I", 9000 + step, 1], ["+U", 5, 2]])

    rescale(table.table, new, job(tmp_path, write))

    table = after(table, tmp_path)
    assert len(table.content()) == 2002
    assert [5, 2] in table.content()
    check_places(table, tmp_path)
    assert {name for name in stored_names(table) if name.startswith("data-")} >= live_names(table)


@pytest.mark.slow
def test_a_writer_that_never_rests_is_named_and_loses_nothing(tmp_path: Path) -> None:
    table = plain(tmp_path)
    table.commit(rows(range(100)))
    other = after(table, tmp_path)

    with pytest.raises(CommitConflict, match=f"each of the {ATTEMPTS} attempts .* Stop the pipelines"):
        rescale(table.table, 3, job(tmp_path, lambda step: void(other.commit([["+I", 1000 + step, 1]]))))

    table = after(table, tmp_path)
    assert (table.table.options.bucket, set(table.state().total_buckets.values())) == (2, {2})
    snapshots = [table.table.snapshots.read(i + 1) for i in range(table.table.snapshots.latest_id() or 0)]
    ever = {f.file_name for s in snapshots for fs in table.table.state(s).files.values() for f in fs}
    assert stored_names(table) == ever, "files of the attempts are gone"


@pytest.mark.slow
def test_giving_up_to_make_buckets_dynamic_tells_of_the_option_too(tmp_path: Path) -> None:
    table = plain(tmp_path)
    table.commit(rows(range(100)))
    other, expected = after(table, tmp_path), 100

    with pytest.raises(CommitConflict, match=r"but the option 'bucket' is already -1"):
        rescale(table.table, -1, job(tmp_path, lambda step: void(other.commit([["+I", 1000 + step, 1]]))))

    table = after(table, tmp_path)
    assert (table.table.options.bucket, set(table.state().total_buckets.values())) == (DYNAMIC, {2})
    assert len(table.content()) > expected
    rescale(table.table, -1, job(tmp_path))
    check_places(after(table, tmp_path), tmp_path)


def void(_: object) -> None: ...


def test_a_partition_that_begins_meanwhile_gets_the_number_too(tmp_path: Path) -> None:
    table = by_day(tmp_path)
    other = after(table, tmp_path)
    written: list[int] = []

    def write(step: int) -> None:
        if not written:
            written.append(step)
            other.commit([["+I", 1, 1, "new"]])

    done = rescale(table.table, 4, job(tmp_path, write))
    assert (len(done.rewritten), done.left) == (3, {})
    assert len(after(table, tmp_path).content()) == 81


def test_a_commit_that_was_planned_before_is_refused(tmp_path: Path) -> None:
    table = plain(tmp_path)
    table.commit(rows(range(100)))
    old = after(table, tmp_path)
    commit = old.table.new_commit("late")
    state = commit.refresh()
    messages = []
    live, environment = state.live_files(), job(tmp_path).environment
    for bucket, part in old.table.assign(old.arrow(rows(range(5), value=9)), live, environment).buckets.items():
        writer = old.table.bucket_writer(bucket, live.of(bucket), environment)
        writer.write(part)
        messages.append(writer.prepare_append())

    rescale(table.table, 4, job(tmp_path))

    with pytest.raises(BucketCountChanged, match="bucket num 2, but the partition's bucket num is 4"):
        commit.commit(1, messages, {})
    assert after(table, tmp_path).content() == sorted_rows([key, 1] for key in range(100))


def test_an_interruption_leaves_what_was_there(tmp_path: Path) -> None:
    table = by_day(tmp_path, changelog_producer="lookup")
    before = stored_names(table)

    def interrupt(step: int) -> None:
        if step == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rescale(table.table, 3, job(tmp_path, interrupt))

    assert (stored_names(table), after(table, tmp_path).table.options.bucket) == (before, 2)


def test_the_option_alone_is_set_after_a_crash_behind_the_snapshot(tmp_path: Path) -> None:
    table = by_day(tmp_path)
    rescale(table.table, 4, job(tmp_path))
    back = after(table, tmp_path)
    back.evolve([SetOption("bucket", "2")])
    with pytest.raises(BucketCountChanged, match="bucket num 2, but the previous bucket num is 4"):
        back.commit([["+I", 1, 2, "b"]])
    done = rescale(back.table, 4, job(tmp_path))
    assert (done.rewritten, after(table, tmp_path).table.options.bucket) == (set(), 4)


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), [(2, 3), (2, -1), (-1, 3)])
def test_a_crash_after_any_change_loses_nothing_and_the_next_call_ends_it(tmp_path: Path, old: int, new: int) -> None:
    table = by_day(tmp_path, old, changelog_producer="lookup")
    io = table.table.io
    assert isinstance(io, MemoryFileIO)
    expected, root = table.content(), table.table.paths.root
    whole = MemoryFileIO(MemoryDisk(dict(io.disk.files), set(io.disk.volatile)))
    rescale(Table.open(root, io=whole), new, job(tmp_path))
    assert len(whole.changes) >= 20
    for crash_after in whole.changes:
        disk = MemoryDisk(dict(io.disk.files), set(io.disk.volatile))
        with pytest.raises(SimulatedCrash):
            rescale(Table.open(root, io=MemoryFileIO(disk, crash_after)), new, job(tmp_path))
        disk = disk.after_power_cut()
        left = TableDriver(Table.open(root, io=MemoryFileIO(disk)), tmp_path / "lookup", "next")
        assert left.content() == expected
        assert left.table.options.bucket == DYNAMIC or DYNAMIC not in left.state().total_buckets.values()
        rescale(left.table, new, job(tmp_path))
        left = TableDriver(Table.open(root, io=MemoryFileIO(disk)), tmp_path / "lookup", "next")
        assert left.content() == expected
        check_places_by_day(left)
        left.commit([["+U", 1, 2, "a"], ["+I", 99, 1, "c"]])
        others = [row for row in expected if row != [1, 1, "a"]]
        assert left.content() == sorted_rows([*others, [1, 2, "a"], [99, 1, "c"]])


@pytest.mark.slow
def test_wide_classes_are_merged_in_two_steps(tmp_path: Path) -> None:
    table = plain(tmp_path, 37)
    table.commit(rows(range(500)))
    table.commit(rows(range(250), value=2))
    rescale(table.table, 19, job(tmp_path))
    table = after(table, tmp_path)
    assert table.content() == sorted_rows([key, 2 if key < 250 else 1] for key in range(500))
    check_places(table, tmp_path)
    assert len(stored_names(table) - live_names(table)) <= 80, "steps on the way are gone"
