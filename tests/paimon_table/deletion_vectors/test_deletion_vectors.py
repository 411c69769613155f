"""Tables with deletion vectors: what readers see, what compaction marks, and what a commit publishes."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table.commit.commit import TableCommit
from paimon_table.deletion_vectors.deletion_vector_index import read_vectors
from paimon_table.errors import CommitConflict, ConfigError
from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.snapshot import CommitKind
from paimon_table.scan.scan import TableScan
from paimon_table.storage.memory_io import MemoryFileIO, SimulatedCrash
from paimon_table.table import Table
from paimon_table.validation.schema_evolution import SetOption
from paimon_table.write.bucket_writer import BucketWriter, WriterEnvironment
from tests.support.bucket_harness import BucketHarness, context
from tests.support.builders import committer
from tests.support.table_driver import TableDriver, new_table

BUCKET = BucketId(EMPTY_ROW, 0)
UPGRADES: dict[str, str] = {"compaction.small-file-ratio": "0"}
"""Files that overlap nothing are moved, however small they are."""

Rows = list[list[Any]]


def driver(tmp_path: Path, io: MemoryFileIO | None = None, /, **options: str) -> TableDriver:
    given = {name.replace("_", "-"): value for name, value in options.items()}
    table = new_table(
        tmp_path / "t", [("k", "INT"), ("v", "STRING")], ["k"], (), {"deletion-vectors.enabled": "true", **given}, io
    )
    return TableDriver(table, tmp_path / "lookup")


def reopened(old: TableDriver, tmp_path: Path, **options: str | None) -> TableDriver:
    """The same table with other options."""
    changes = [SetOption(name.replace("_", "-"), value) for name, value in options.items()]
    return TableDriver(old.table.evolve(changes, 0), tmp_path / "lookup", "other", 100)


def adds(keys: Sequence[int], value: str) -> Rows:
    return [["+I", k, value] for k in keys]


def content(it: TableDriver, snapshot_id: int | None = None) -> Rows:
    """The rows that a reader sees, by key."""
    return sorted(it.content(snapshot_id), key=lambda row: row[0])


def vectors(table: Table) -> dict[int, list[int]]:
    """Deleted positions by level of the file; files of one level in key order."""
    state = TableDriver(table, Path("/none")).state()
    levels = {f.file_name: f.level for f in state.files_of(BUCKET)}
    found = read_vectors(table.io, table.paths, state.deletion_files().get(BUCKET, ()))
    return {levels[name]: vector.positions.tolist() for name, vector in found.items()}


def levels(table: Table) -> list[int]:
    return sorted(f.level for f in TableDriver(table, Path("/none")).state().files_of(BUCKET))


# ---------------------------------------------------------------- reading


def test_replaced_rows_are_marked_and_not_rewritten(tmp_path: Path) -> None:
    it = driver(tmp_path)
    it.commit(adds(range(100), "a"))
    result = it.commit([["+I", 3, "b"], ["-D", 5, "x"], ["+I", 100, "c"]])

    assert levels(it.table) == [4, 5]
    assert vectors(it.table) == {5: [3, 5]}
    assert content(it) == [[k, "b" if k == 3 else "c" if k == 100 else "a"] for k in range(101) if k != 5]
    assert result.compact is not None
    assert (result.compact.commit_kind, result.compact.index_manifest is None) == (CommitKind.COMPACT, False)
    assert result.append is not None
    assert result.append.index_manifest is None


def test_what_is_not_compacted_is_not_seen_unless_reads_merge(tmp_path: Path) -> None:
    it = driver(tmp_path, **{"write-only": "true"})
    it.commit(adds([1, 2], "a"))
    assert content(it) == []
    merging = reopened(it, tmp_path, **{"deletion-vectors.merge-on-read": "true"})
    assert content(merging) == [[1, "a"], [2, "a"]]


def test_merge_on_read_merges_level_0_with_live_rows_only(tmp_path: Path) -> None:
    it = driver(tmp_path)
    it.commit(adds(range(10), "a"))
    it.commit([["-D", 1, "x"], ["+I", 2, "b"]])
    writer = reopened(it, tmp_path, **{"write-only": "true", "deletion-vectors.merge-on-read": "true"})
    writer.commit([["-D", 3, "x"], ["+I", 4, "c"]])
    expected = [[k, {2: "b", 4: "c"}.get(k, "a")] for k in range(10) if k not in {1, 3}]
    assert content(writer) == expected
    assert levels(writer.table) == [0, 4, 5]


def test_levels_are_read_without_a_merge(tmp_path: Path) -> None:
    it = driver(tmp_path)
    it.commit(adds(range(100), "a"))
    it.commit(adds([3], "b"))
    splits = TableScan.make(it.table.context).plan(it.state().snapshot)
    assert sorted(f.level for split in splits for f in split.files) == [4, 5]
    assert all(len(section) == 1 for split in splits for section in split.sections), "nothing is merged"
    assert [r.data_file for split in splits for f in split.deletion_files for r in f.vector_ranges or ()] == [
        f.file_name for f in it.state().files_of(BUCKET) if f.level == 5
    ]


@pytest.mark.slow
def test_every_snapshot_is_read_with_its_own_vectors(tmp_path: Path) -> None:
    it = driver(tmp_path)
    expected: dict[int, Rows] = {}
    rows: dict[int, str] = {}
    for number in range(7):
        keys = range(number, 40, number + 1)
        it.commit([*adds(keys, f"v{number}"), ["-D", number, "x"]])
        rows |= dict.fromkeys(keys, f"v{number}")
        rows.pop(number, None)
        latest = it.table.snapshots.latest_id()
        assert latest is not None
        expected[latest] = [[k, rows[k]] for k in sorted(rows)]
    for snapshot_id, seen in expected.items():
        assert content(it, snapshot_id) == seen


@pytest.mark.slow
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_predicates_and_columns_leave_marked_rows_out(tmp_path: Path, file_format: str) -> None:
    it = driver(tmp_path, **{"file.format": file_format})
    it.commit(adds(range(5000), "a"))
    it.commit([["-D", 7, "x"], ["+I", 8, "b"], ["-D", 4000, "x"]])
    found = it.table.to_arrow(columns=["v"], predicate=(pc.field("k") >= 3990) & (pc.field("k") < 4010))
    assert found.num_rows == 19
    assert it.table.to_arrow(predicate=pc.field("k") == 7).num_rows == 0
    assert it.table.to_arrow(predicate=pc.field("k") == 8).to_pylist() == [{"k": 8, "v": "b"}]
    assert it.table.to_arrow(predicate=pc.field("v") == "b").to_pylist() == [{"k": 8, "v": "b"}]


def test_changes_show_level_0_rows_without_a_producer_and_old_values_with_lookup(tmp_path: Path) -> None:
    it = driver(tmp_path)
    it.commit(adds([1, 2], "a"))
    it.commit([["+I", 1, "b"], ["-D", 2, "x"]])
    assert [change.rows for change in it.changes()] == [adds([1, 2], "a"), [["+I", 1, "b"], ["-D", 2, "x"]]]
    other = driver(tmp_path / "lookup-table", **{"changelog-producer": "lookup"})
    other.commit(adds([1, 2], "a"))
    other.commit([["+I", 1, "b"], ["-D", 2, "x"]])
    assert other.changes()[-1].rows == [["-U", 1, "a"], ["+U", 1, "b"], ["-D", 2, "a"]]


# ---------------------------------------------------------------- compaction


def test_a_file_that_overlaps_nothing_is_moved_and_marks_what_it_replaces(tmp_path: Path) -> None:
    it = driver(tmp_path, **UPGRADES)
    it.commit(adds(range(100), "a"))
    it.commit(adds([3, 4], "b"))
    state = it.state()
    assert {(f.level, f.file_source) for f in state.files_of(BUCKET)} == {(4, 0), (5, 0)}
    assert vectors(it.table) == {5: [3, 4]}


def test_a_file_with_deletes_is_rewritten_without_them(tmp_path: Path) -> None:
    it = driver(tmp_path, **UPGRADES)
    it.commit(adds(range(100), "a"))
    it.commit([["-D", 3, "x"], ["+I", 4, "b"]])
    (upper,) = [f for f in it.state().files_of(BUCKET) if f.level == 4]
    assert (upper.row_count, upper.delete_row_count, upper.file_source) == (1, 0, 1)
    assert vectors(it.table) == {5: [3, 4]}


def test_deletes_alone_leave_nothing_but_marks(tmp_path: Path) -> None:
    it = driver(tmp_path)
    it.commit(adds(range(100), "a"))
    it.commit([["-D", 3, "x"], ["-D", 500, "x"]])
    assert levels(it.table) == [5]
    assert vectors(it.table) == {5: [3]}


def test_a_late_row_loses_against_the_row_that_is_looked_up(tmp_path: Path) -> None:
    table = new_table(
        tmp_path / "t",
        [("k", "INT"), ("s", "INT"), ("v", "STRING")],
        ["k"],
        (),
        {"deletion-vectors.enabled": "true", "sequence.field": "s", **UPGRADES},
    )
    it = TableDriver(table, tmp_path / "lookup")
    it.commit([["+I", k, 5, "a"] for k in range(50)])
    it.commit([["+I", 1, 3, "late"], ["+I", 2, 7, "new"], ["-D", 3, 4, "late"]])
    assert content(it)[:5] == [[0, 5, "a"], [1, 5, "a"], [2, 7, "new"], [3, 5, "a"], [4, 5, "a"]]
    assert len(content(it)) == 50


def test_full_compaction_rewrites_marked_files_even_on_the_highest_level(tmp_path: Path) -> None:
    it = driver(tmp_path)
    it.commit(adds(range(100), "a"))
    it.commit([["-D", 3, "x"]])
    before = [f.file_name for f in it.state().files_of(BUCKET)]
    result = it.compact()
    assert result.compact is not None
    assert result.compact.index_manifest is None
    (after,) = it.state().files_of(BUCKET)
    assert (after.level, after.row_count, after.file_name in before) == (5, 99, False)
    assert len(content(it)) == 99
    assert it.compact().compact is None


def test_a_commit_without_marks_keeps_the_index_of_the_snapshot_before(tmp_path: Path) -> None:
    it = driver(tmp_path)
    it.commit(adds(range(5000), "a"))
    marking = it.commit(adds([3], "b")).compact
    other = it.commit(adds([9000], "b")).compact
    assert marking is not None
    assert other is not None
    assert marking.index_manifest == other.index_manifest


def test_a_writer_that_stays_goes_on_from_its_own_vectors(tmp_path: Path) -> None:
    table = driver(tmp_path).table
    it = TableDriver(table, tmp_path / "lookup", keeps_writers=True)
    it.commit(adds(range(100), "a"))
    it.commit([["-D", 3, "x"]])
    it.commit([["-D", 4, "x"]])
    it.commit(adds([3], "again"))
    assert vectors(it.table) == {5: [3, 4]}
    assert content(it)[:5] == [[0, "a"], [1, "a"], [2, "a"], [3, "again"], [5, "a"]]


@pytest.mark.parametrize("first", ["false", "true"])
def test_the_width_of_vectors_may_change_between_commits(tmp_path: Path, first: str) -> None:
    it = driver(tmp_path, **{"deletion-vectors.bitmap64": first})
    it.commit(adds(range(100), "a"))
    it.commit([["-D", 3, "x"]])
    second = {"false": "true", "true": "false"}[first]
    it = reopened(it, tmp_path, **{"deletion-vectors.bitmap64": second})
    it.commit([["-D", 4, "x"]])
    (meta,) = it.state().deletion_files()[BUCKET]
    data = it.table.io.read(it.table.paths.index_file(meta.file_name))
    assert data[5:9].hex() == {"true": "d1d33964", "false": "5e43f2d0"}[second]
    assert len(content(it)) == 98


_CHANGES = st.lists(
    st.tuples(
        st.lists(
            st.tuples(
                st.sampled_from(["+I", "+U", "-D"]), st.integers(0, 6), st.integers(0, 9), st.none() | st.text("ab")
            ),
            max_size=6,
        ),
        st.integers(0, 5).map(lambda n: n == 0),
    ),
    max_size=7,
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(_CHANGES, st.sampled_from(["none", "lookup"]), st.sampled_from(["0", "0.7"]))
def test_every_key_holds_the_merge_of_all_its_rows_once(commits: Any, producer: str, small_file_ratio: str) -> None:
    """Aggregation merges the row that is looked up into the new one, which alone stays alive."""
    options = {
        "deletion-vectors.enabled": "true", "merge-engine": "aggregation", "fields.n.aggregate-function": "sum",
        "fields.v.ignore-retract": "true", "changelog-producer": producer,
        "compaction.small-file-ratio": small_file_ratio, "num-sorted-run.compaction-trigger": "3",
    }  # fmt: skip
    ctx = context([("k", "INT"), ("n", "INT"), ("v", "STRING")], ["k"], options)
    with TemporaryDirectory() as lookup:
        bucket = BucketHarness(ctx, Path(lookup))
        expected: dict[int, list[Any]] = {}
        for rows, full in commits:
            for kind, k, n, v in rows:
                present = expected.setdefault(k, [k, 0, None])
                present[1] += -n if kind == "-D" else n
                present[2] = present[2] if v is None or kind == "-D" else v
            bucket.commit(rows, full)
            assert sorted(map(list, bucket.unmerged_content())) == [expected[k] for k in sorted(expected)]


# ---------------------------------------------------------------- mode changes and foreign tables


def test_after_vectors_are_turned_off_marked_rows_stay_dead(tmp_path: Path) -> None:
    it = driver(tmp_path, **{"deletion-vectors.modifiable": "true"})
    it.commit(adds(range(100), "a"))
    it.commit([["-D", 3, "x"], ["+I", 4, "b"]])
    it = reopened(it, tmp_path, **{"deletion-vectors.enabled": None})
    expected = [[k, "b" if k == 4 else "a"] for k in range(100) if k != 3]
    assert content(it) == expected
    it.compact()
    assert content(it) == expected
    assert vectors(it.table) == {}
    assert it.state().index == ()


def test_the_mode_changes_with_permission_only(tmp_path: Path) -> None:
    it = driver(tmp_path)
    it.commit(adds([1], "a"))
    with pytest.raises(ConfigError, match=r"deletion-vectors\.modifiable"):
        it.table.evolve([SetOption("deletion-vectors.enabled", "false")], 0)
    same = it.table.evolve([SetOption("deletion-vectors.enabled", "TRUE")], 0)
    assert same.options.deletion_vectors


# ---------------------------------------------------------------- other writers, crashes


def writer_of(it: TableDriver, tmp_path: Path) -> BucketWriter:
    state = it.state()
    environment = WriterEnvironment(str(tmp_path / "lookup"), lambda: str(uuid.uuid4()), lambda: 0)
    return BucketWriter(it.table.context, BUCKET, state.live_files().of(BUCKET), environment)


def test_a_compaction_that_did_not_see_new_upper_rows_is_not_published(tmp_path: Path) -> None:
    """Both put key 1000 above level 0, on different levels: nothing but the rows themselves would conflict."""
    it = driver(tmp_path)
    it.commit(adds(range(100), "a"))
    slow = writer_of(it, tmp_path)
    slow.write(it.arrow(adds([1000], "slow")))
    message = slow.prepare_commit()
    assert [f.level for f in message.compact_after] == [4]
    it.commit(adds([1000], "fast"))
    it.commit(adds(range(2000, 2100), "fast"))
    it.compact()
    with pytest.raises(CommitConflict, match="during the lookup of rows"):
        committer(it.table, "slow").commit(1, [message], {})
    assert [row for row in content(it) if row[0] == 1000] == [[1000, "fast"]]


def run_process(io: MemoryFileIO, lookup: Path, batches: Sequence[Rows], completed: list[int]) -> None:
    """One life of a driver: every batch that is not known to be complete, as the sink runs it."""
    columns = [("k", "INT"), ("v", "STRING")]
    options = {"deletion-vectors.enabled": "true", "compaction.small-file-ratio": "0"}
    table = new_table("/w/t", columns, ["k"], (), options, io)
    commit: TableCommit = committer(table, new_uuid=lambda: str(uuid.uuid4()))
    it = TableDriver(table, lookup)
    for number, rows in enumerate(batches):
        if number in completed:
            continue
        done = commit.committed_identifier()
        writer = writer_of(it, lookup)
        if done is None or done < number:
            writer.write(it.arrow(rows))
        commit.commit(number, [writer.prepare_commit()], {})
        completed.append(number)


@pytest.mark.slow
def test_a_power_cut_after_any_operation_loses_and_doubles_nothing(tmp_path: Path) -> None:
    batches: list[Rows] = [
        adds(range(20), "a"),
        [["+I", 3, "b"], ["-D", 4, "x"]],
        [["+I", 4, "c"], ["-D", 3, "x"], ["+I", 30, "c"]],
        [["-D", 30, "x"], ["+I", 0, "d"]],
    ]
    expected = [[0, "d"], [1, "a"], [2, "a"], [4, "c"], *([k, "a"] for k in range(5, 20))]
    whole = MemoryFileIO()
    run_process(whole, tmp_path, batches, [])
    for crash_after in [*range(1, whole.operations, 3), whole.operations]:
        io, completed = MemoryFileIO(crash_after=crash_after), list[int]()
        for _ in range(2):
            try:
                run_process(io, tmp_path, batches, completed)
            except SimulatedCrash:
                io = MemoryFileIO(io.disk.after_power_cut())
        it = TableDriver(Table.open("/w/t", io=io), tmp_path)
        assert content(it) == expected
        assert all(f.level > 0 for f in it.state().files_of(BUCKET))


def test_a_committer_keeps_up_with_the_vectors_of_others(tmp_path: Path) -> None:
    it = driver(tmp_path)
    it.commit(adds(range(5000), "a"))
    watching = committer(it.table, "watching")
    watching.refresh()
    for number in range(3):
        it.commit([["-D", number, "x"]])
        assert watching.refresh() == it.state()
    assert watching.state.index
    it.compact()
    assert watching.refresh() == it.state()
    assert watching.state.index == ()
