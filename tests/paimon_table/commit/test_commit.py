"""Commits: which snapshots they make, what is in them, and that nothing is ever committed twice or lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import fastavro
import pytest

from paimon_table.commit.attempts import RetryWait
from paimon_table.commit.commit import TableCommit
from paimon_table.errors import BrokenInvariant, CommitConflict, CommitOutcomeUnknown, ConfigError, SinkUnavailable
from paimon_table.history.rollback import plan_rollback, roll_back
from paimon_table.metadata.bucket_id import EMPTY_ROW
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.index_file import HASH, IndexChange, IndexFileMeta
from paimon_table.metadata.index_manifest import encode_index_manifest
from paimon_table.metadata.snapshot import CommitKind
from paimon_table.rows.binary_row import serialize_row
from paimon_table.storage.counting_io import CountingFileIO
from paimon_table.storage.file_io import LocalFileIO
from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO
from paimon_table.surroundings import now_ms
from paimon_table.table import Table
from paimon_table.types import parse_type
from paimon_table.validation.schema_evolution import AddColumn
from tests.support.builders import committer, counting_uuids, data_file, message, orders_schema


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
def table(disk: MemoryDisk) -> Table:
    return Table.create("/w/t", orders_schema({"commit.max-retries": "3"}), io=MemoryFileIO(disk))


def live(table: Table) -> set[str]:
    files = table.state().files
    return {f.file_name for metas in files.values() for f in metas}


def kinds(table: Table) -> list[tuple[int, str, int, str]]:
    newest = table.snapshots.latest_id() or 0
    snapshots = [table.snapshots.read(i) for i in range(1, newest + 1)]
    return [(s.id, s.commit_user, s.commit_identifier, str(s.commit_kind)) for s in snapshots]


def listed(table: Table, manifest_list: str) -> list[dict[str, Any]]:
    with table.io.open_input(table.paths.manifest_file(manifest_list)) as stream:
        return cast("list[dict[str, Any]]", list(fastavro.reader(stream)))


def new_file(name: str, bucket: int = 0) -> CommitMessage:
    return message(bucket, new_files=[data_file(name)])


# ---------------------------------------------------------------- what a commit writes


def test_one_commit_makes_an_append_and_a_compact_snapshot(table: Table) -> None:
    a, merged = data_file("a", rows=10), data_file("m", 5, rows=7)
    part = message(
        0,
        new_files=[a],
        changelog_files=[data_file("cl-1", rows=4)],
        compact_before=[a],
        compact_after=[merged],
        compact_changelog=[data_file("cl-2", rows=3)],
    )
    result = committer(table).commit(5, [part], {"offsets": "9"}, watermark=77)
    append, compact = result.append, result.compact
    assert append is not None
    assert compact is not None
    assert kinds(table) == [(1, "user", 5, "APPEND"), (2, "user", 5, "COMPACT")]
    assert (append.delta_record_count, append.total_record_count, append.changelog_record_count) == (10, 10, 4)
    assert (compact.delta_record_count, compact.total_record_count, compact.changelog_record_count) == (-3, 7, 3)
    assert append.properties == compact.properties == {"offsets": "9"}
    assert (append.watermark, compact.watermark, append.next_row_id) == (77, 77, 0)
    assert (append, compact) == (table.snapshots.read(1), table.snapshots.read(2))


def test_table_has_the_file_tree_of_the_format(table: Table, disk: MemoryDisk) -> None:
    a = data_file("a")
    parts = [message(0, new_files=[a], compact_before=[a], compact_after=[a.at_level(5)])]
    committer(table, new_uuid=counting_uuids("user")).commit(1, parts, {})
    assert sorted(path.removeprefix("/w/t/") for path in disk.files) == [
        "manifest/manifest-list-user-0-1",
        "manifest/manifest-list-user-1-0",
        "manifest/manifest-list-user-3-1",
        "manifest/manifest-list-user-4-0",
        "manifest/manifest-user-0-0",
        "manifest/manifest-user-3-0",
        "schema/schema-0",
        "snapshot/EARLIEST",
        "snapshot/LATEST",
        "snapshot/snapshot-1",
        "snapshot/snapshot-2",
    ]


def test_sizes_and_counts_in_the_lists_are_exact(table: Table, disk: MemoryDisk) -> None:
    a = data_file("a")
    committer(table).commit(1, [message(2, new_files=[a], compact_before=[a], compact_after=[a.at_level(5)])], {})
    for number in (1, 2):
        snapshot = table.snapshots.read(number)
        for name, size in (
            (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
            (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        ):
            assert len(disk.files[table.paths.manifest_file(name)]) == size
    (record,) = listed(table, snapshot.delta_manifest_list)
    manifest = disk.files[table.paths.manifest_file(record["_FILE_NAME"])]
    assert (record["_FILE_SIZE"], record["_NUM_ADDED_FILES"], record["_NUM_DELETED_FILES"]) == (len(manifest), 1, 1)
    assert (record["_MIN_BUCKET"], record["_MAX_BUCKET"], record["_MIN_LEVEL"], record["_MAX_LEVEL"]) == (2, 2, 0, 5)
    assert record["_PARTITION_STATS"] == {"_MIN_VALUES": EMPTY_ROW, "_MAX_VALUES": EMPTY_ROW, "_NULL_COUNTS": []}


def test_manifests_of_a_partitioned_table_have_partition_statistics(disk: MemoryDisk) -> None:
    table = Table.create("/w/p", orders_schema(partition_by=["dt"]), io=MemoryFileIO(disk))
    types = [parse_type("STRING")]
    days = {day: serialize_row([day], types) for day in ("2024-01-02", "2024-01-01", None)}
    parts = [message(0, partition, new_files=[data_file(f"f-{day}")]) for day, partition in days.items()]
    snapshot = committer(table).commit(1, parts, {}).append
    assert snapshot is not None
    (record,) = listed(table, snapshot.delta_manifest_list)
    assert record["_PARTITION_STATS"] == {
        "_MIN_VALUES": days["2024-01-01"],
        "_MAX_VALUES": days["2024-01-02"],
        "_NULL_COUNTS": [1],
    }
    assert set(table.state(snapshot).total_buckets) == set(days.values())


def test_first_snapshot_has_an_empty_base_list_and_later_ones_everything_before(table: Table) -> None:
    commit = committer(table)
    for number in (1, 2, 3):
        commit.commit(number, [new_file(f"f{number}")], {})
    sizes = []
    for number in (1, 2, 3):
        with table.io.open_input(table.paths.manifest_file(table.snapshots.read(number).base_manifest_list)) as stream:
            sizes.append(len(list(fastavro.reader(stream))))
    assert sizes == [0, 1, 2]


def test_base_list_is_merged_when_it_gets_long(disk: MemoryDisk) -> None:
    table = Table.create("/w/t", orders_schema({"manifest.merge-min-count": "5"}), io=MemoryFileIO(disk))
    commit = committer(table)
    for number in range(30):
        commit.commit(number, [new_file(f"f{number}")], {})
    with table.io.open_input(table.paths.manifest_file(table.snapshots.read(30).base_manifest_list)) as stream:
        assert len(list(fastavro.reader(stream))) < 10
    assert live(table) == {f"f{n}" for n in range(30)}


def test_large_delta_is_cut_into_several_manifests(disk: MemoryDisk) -> None:
    table = Table.create(
        "/w/t",
        orders_schema({"manifest.target-file-size": "20 kb", "manifest.compression": "none"}),
        io=MemoryFileIO(disk),
    )
    names = [f"data-{n:08d}" for n in range(300)]
    committer(table).commit(1, [message(n % 4, new_files=[data_file(name)]) for n, name in enumerate(names)], {})
    assert sum("/manifest-user" in path for path in disk.files) > 2
    assert live(table) == set(names)


def test_commit_without_content_makes_no_snapshot(table: Table) -> None:
    result = committer(table).commit(1, [message(0)], {})
    assert (result.append, result.compact, result.replayed) == (None, None, False)
    assert table.snapshots.latest_id() is None


def test_watermark_never_goes_back(table: Table) -> None:
    commit = committer(table)
    commit.commit(1, [new_file("a")], {}, watermark=50)
    commit.commit(2, [new_file("b")], {}, watermark=40)
    commit.commit(3, [new_file("c")], {})
    assert [table.snapshots.read(n).watermark for n in (1, 2, 3)] == [50, 50, 50]


def test_snapshot_carries_what_others_left(table: Table, disk: MemoryDisk) -> None:
    from paimon_table.metadata.snapshot import to_json

    committer(table, "theirs").commit(1, [new_file("a")], {"their": "property"})
    left = replace(
        table.snapshots.read(1),
        index_manifest="index-manifest-x-0",
        statistics="stat-x-0",
        next_row_id=7,
        time_ms=10**15,
    )
    disk.files[table.paths.snapshot_file(1)] = to_json(left).encode()
    disk.files[table.paths.manifest_file("index-manifest-x-0")] = encode_index_manifest([], "zstd")
    result = committer(table).commit(1, [new_file("b")], {})
    assert result.append is not None
    assert (result.append.index_manifest, result.append.statistics) == ("index-manifest-x-0", "stat-x-0")
    assert (result.append.next_row_id, result.append.properties) == (7, {})
    assert result.append.time_ms == 10**15


def test_snapshot_names_the_latest_schema_and_drops_statistics_of_an_older_one(table: Table, disk: MemoryDisk) -> None:
    from paimon_table.metadata.snapshot import to_json

    commit = committer(table)
    commit.commit(1, [new_file("a")], {})
    with_statistics = replace(table.snapshots.read(1), statistics="stat-x-0")
    disk.files[table.paths.snapshot_file(1)] = to_json(with_statistics).encode()
    table.evolve([AddColumn("x", parse_type("INT"))], time_ms=1)
    result = committer(table).commit(2, [new_file("b")], {})
    assert result.append is not None
    assert (result.append.schema_id, result.append.statistics) == (1, None)


def test_the_index_of_new_rows_comes_with_them_in_the_append(table: Table) -> None:
    hashes = IndexFileMeta(index_type=HASH, file_name="index-a", file_size_bytes=8, row_count=2)
    grown = replace(hashes, file_name="index-b", file_size_bytes=12, row_count=3)
    commit = committer(table)
    first = replace(new_file("a"), append_index=IndexChange(after=(hashes,)))
    compacted = message(compact_before=[data_file("a")], compact_after=[data_file("c", level=5)])
    second = replace(compacted, new_files=(data_file("b"),), append_index=IndexChange((hashes,), (grown,)))

    commit.commit(1, [first], {})
    result = commit.commit(2, [second], {})

    (at_first,) = table.state(table.snapshots.read(1)).index
    assert at_first.file == hashes
    assert result.append is not None and result.compact is not None
    assert [entry.file for entry in table.state(result.append).index] == [grown]
    assert [entry.file for entry in table.state(result.compact).index] == [grown]
    with pytest.raises(CommitConflict, match="index-a of bucket 0 is no longer live"):
        commit.commit(3, [replace(new_file("d"), append_index=IndexChange((hashes,), (hashes,)))], {})


# ---------------------------------------------------------------- exactly once


def test_replayed_commit_is_committed_once(table: Table) -> None:
    part = [new_file("a")]
    committer(table).commit(7, part, {})
    result = committer(table).commit(7, part, {})
    assert (result.append, result.replayed) == (None, True)
    assert kinds(table) == [(1, "user", 7, "APPEND")]


def test_older_identifiers_of_the_user_are_skipped_too(table: Table) -> None:
    commit = committer(table)
    commit.commit(7, [new_file("a")], {})
    assert commit.commit(3, [new_file("b")], {}).replayed
    assert live(table) == {"a"}


def test_other_users_do_not_count(table: Table) -> None:
    committer(table, "one").commit(7, [new_file("a")], {})
    assert not committer(table, "two").commit(7, [new_file("b")], {}).replayed
    assert live(table) == {"a", "b"}


def test_missing_compact_part_of_a_replay_is_still_committed(table: Table) -> None:
    a = data_file("a")
    full = [message(0, new_files=[a], compact_before=[a], compact_after=[a.at_level(5)])]
    committer(table).commit(1, [message(0, new_files=[a])], {})
    result = committer(table).commit(1, full, {"p": "1"})
    assert result.replayed
    assert result.compact is not None
    assert kinds(table) == [(1, "user", 1, "APPEND"), (2, "user", 1, "COMPACT")]
    again = committer(table).commit(1, full, {})
    assert (again.append, again.compact) == (None, None)
    assert table.snapshots.latest_id() == 2


def test_committed_identifier_tells_where_a_user_stands(table: Table) -> None:
    assert committer(table).committed_identifier() is None
    committer(table).commit(4, [new_file("a")], {})
    committer(table, "other").commit(9, [new_file("b")], {})
    assert committer(table).committed_identifier() == 4


def test_older_process_of_the_same_user_cannot_commit_twice(table: Table) -> None:
    """A process that is thought dead wakes up and commits the batch that its successor has committed."""
    zombie, successor = committer(table), committer(table)
    for process in (zombie, successor):
        process.commit(1, [new_file("a")], {})
    successor.commit(2, [new_file("b")], {})
    assert zombie.commit(2, [new_file("zombie-b")], {}).replayed
    assert live(table) == {"a", "b"}


def test_commit_after_a_rollback_starts_from_what_is_left(table: Table) -> None:
    commit = committer(table)
    for number in (1, 2, 3):
        commit.commit(number, [new_file(f"f{number}")], {})
    for number in (2, 3):
        table.io.delete(table.paths.snapshot_file(number))
    table.snapshots.write_latest_hint(1)
    assert commit.committed_identifier() == 1
    assert not commit.commit(2, [new_file("again")], {}).replayed
    assert live(table) == {"f1", "again"}


def rolled_back(table: Table, to: int) -> None:
    """As Java does it: later snapshots go, with the files that only they have."""
    roll_back(table.context, plan_rollback(table.context, to))


@pytest.mark.parametrize("others", [2, 3, 5])
def test_a_table_that_was_rolled_back_and_has_grown_again_is_read_anew(table: Table, others: int) -> None:
    """To the very snapshot that this committer knows (2 of others), or beyond it."""
    commit = committer(table)
    for number in (1, 2, 3):
        commit.commit(number, [new_file(f"f{number}")], {})
    rolled_back(table, 1)
    other = committer(Table.open("/w/t", io=table.io), "other")
    for number in range(others):
        other.commit(number, [new_file(f"o{number}")], {})
    theirs = {"f1", *(f"o{number}" for number in range(others))}

    assert {f.file_name for files in commit.refresh().files.values() for f in files} == theirs
    assert commit.committed_identifier() == 1
    assert not commit.commit(3, [new_file("again")], {}).replayed
    assert live(table) == {*theirs, "again"}


def test_a_table_that_was_made_anew_under_its_name_is_read_anew(table: Table, disk: MemoryDisk) -> None:
    commit = committer(table)
    commit.commit(1, [new_file("old")], {})
    table.io.delete_tree("/w/t")
    again = Table.create("/w/t", orders_schema({"commit.max-retries": "3"}), io=MemoryFileIO(disk))
    committer(again, "other").commit(7, [new_file("new")], {})

    assert commit.committed_identifier() is None
    commit.commit(2, [new_file("mine")], {})
    assert live(again) == {"new", "mine"}


def test_looking_whether_somebody_has_committed_takes_two_requests(tmp_path: Path) -> None:
    io = CountingFileIO(LocalFileIO())
    table = Table.create(str(tmp_path / "t"), orders_schema({}), io=io)
    commit = committer(table)
    commit.commit(1, [new_file("a")], {})
    io.requests.clear()
    commit.refresh()
    assert len(io.requests) == 2


def test_expired_own_snapshots_are_not_mistaken_for_a_first_commit(table: Table) -> None:
    committer(table).commit(1, [new_file("a")], {})
    for number in range(5):
        committer(table, "other").commit(number, [new_file(f"o{number}")], {})
    for number in (1, 2):
        table.io.delete(table.paths.snapshot_file(number))
    with pytest.raises(CommitOutcomeUnknown, match="have expired"):
        committer(table).commit(1, [new_file("a2")], {})
    assert "a2" not in live(table)


def test_start_of_the_batch_makes_the_search_end_before_expired_snapshots(table: Table) -> None:
    hour = 3_600_000
    for number in range(5):
        other = committer(table, "other", clock_ms=lambda number=number: number * hour)
        other.commit(number, [new_file(f"o{number}")], {})
    table.io.delete(table.paths.snapshot_file(1))
    with pytest.raises(CommitOutcomeUnknown):
        committer(table).commit(1, [new_file("a")], {}, started_ms=hour)
    committer(table).commit(1, [new_file("a")], {}, started_ms=3 * hour)
    assert "a" in live(table)


# ---------------------------------------------------------------- races and failures


class Outrun(MemoryFileIO):
    """Storage on which a rival commits right before each of the first ``times`` publishes."""

    def __init__(self, disk: MemoryDisk, times: int) -> None:
        super().__init__(disk)
        self.times = times

    def publish(self, path: str, data: bytes) -> bool:
        if self.times:
            self.times -= 1
            rival = committer(Table.open("/w/t", io=MemoryFileIO(self.disk)), "rival")
            rival.commit(100 - self.times, [new_file(f"rival-{self.times}")], {})
        return super().publish(path, data)


def outrun(disk: MemoryDisk, times: int) -> TableCommit:
    return committer(Table.open("/w/t", io=Outrun(disk, times)))


def test_lost_race_is_retried_on_top_of_the_winner(table: Table, disk: MemoryDisk) -> None:
    result = outrun(disk, 2).commit(1, [new_file("a")], {})
    assert result.append is not None
    assert result.append.id == 3
    assert live(table) == {"a", "rival-0", "rival-1"}


def test_files_of_lost_attempts_are_removed(table: Table, disk: MemoryDisk) -> None:
    outrun(disk, 2).commit(1, [new_file("a")], {})
    named = set()
    for number in (1, 2, 3):
        snapshot = table.snapshots.read(number)
        lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
        named.update(lists)
        for name in lists:
            named.update(record["_FILE_NAME"] for record in listed(table, name))
    assert set(table.io.list_names(table.paths.manifest_dir)) == named


def test_commit_that_always_loses_gives_up_and_cleans_up(table: Table, disk: MemoryDisk) -> None:
    with pytest.raises(CommitConflict, match="faster 4 times"):
        outrun(disk, 99).commit(1, [new_file("a")], {})
    assert not any("user-" in name for name in table.io.list_names(table.paths.manifest_dir))
    assert "a" not in live(table)


def test_compaction_of_files_that_another_compacted_is_a_conflict(table: Table) -> None:
    a = data_file("a")
    mine, theirs = committer(table), committer(table, "theirs")
    mine.commit(1, [message(0, new_files=[a])], {})
    theirs.commit(1, [message(0, compact_before=[a], compact_after=[data_file("b", 5)])], {})
    with pytest.raises(CommitConflict, match="file deletion conflict"):
        mine.commit(2, [message(0, new_files=[data_file("c")], compact_before=[a], compact_after=[a.at_level(5)])], {})
    assert live(table) == {"b", "c"}
    assert table.snapshots.latest_id() == 3


def test_conflict_that_arises_during_the_race_is_found(table: Table) -> None:
    a = data_file("a")
    committer(table).commit(1, [message(0, new_files=[a])], {})

    def steal(step: str) -> None:
        if step == "before-compact":
            committer(table, "thief").commit(1, [message(0, compact_before=[a], compact_after=[a.at_level(4)])], {})

    with pytest.raises(CommitConflict, match="no longer live"):
        committer(table, on_step=steal).commit(2, [message(0, compact_before=[a], compact_after=[a.at_level(5)])], {})
    files = table.state().files
    assert [f.level for metas in files.values() for f in metas] == [4]


def test_other_number_of_buckets_is_refused_for_new_files_too(table: Table) -> None:
    committer(table).commit(1, [new_file("a")], {})
    with pytest.raises(ConfigError, match="bucket num 8, but the partition's bucket num is 4"):
        committer(table).commit(2, [message(7, total_buckets=8, new_files=[data_file("b")])], {})


def test_file_added_and_deleted_on_one_level_is_never_published(table: Table) -> None:
    a = data_file("a", 5)
    committer(table).commit(1, [message(0, new_files=[a])], {})
    with pytest.raises(BrokenInvariant, match="added and deleted"):
        committer(table).commit(2, [message(0, compact_before=[a], compact_after=[a])], {})


@pytest.mark.parametrize("outcome", ["done", "not done"])
def test_publish_with_a_lost_answer_is_looked_up(disk: MemoryDisk, table: Table, outcome: str) -> None:
    answers = iter([outcome])
    io = MemoryFileIO(disk, lose_answer=lambda path: next(answers, None))
    commit = committer(Table.open("/w/t", io=io))
    if outcome == "done":
        result = commit.commit(1, [new_file("a")], {})
        assert result.append == table.snapshots.read(1)
    else:
        with pytest.raises(CommitOutcomeUnknown, match="repeat the commit"):
            commit.commit(1, [new_file("a")], {})
        assert table.io.list_names(table.paths.manifest_dir) != []
        commit.commit(1, [new_file("a")], {})
    assert live(table) == {"a"}
    assert kinds(table) == [(1, "user", 1, "APPEND")]


def test_answer_false_for_ones_own_file_is_recognised(disk: MemoryDisk, table: Table) -> None:
    """A storage client that retries by itself reports its own first try as somebody else's file."""

    class Retrying(MemoryFileIO):
        def publish(self, path: str, data: bytes) -> bool:
            super().publish(path, data)
            return super().publish(path, data)

    commit = committer(Table.open("/w/t", io=Retrying(disk)))
    assert commit.commit(1, [new_file("a")], {}).append == table.snapshots.read(1)
    assert kinds(table) == [(1, "user", 1, "APPEND")]
    assert live(table) == {"a"}


def test_failing_storage_is_reported_as_such(disk: MemoryDisk, table: Table) -> None:
    class Full(MemoryFileIO):
        def write_all(self, files: object) -> None:
            raise OSError(28, "No space left on device")

    with pytest.raises(SinkUnavailable, match="No space left"):
        committer(Table.open("/w/t", io=Full(disk))).commit(1, [new_file("a")], {})
    assert table.snapshots.latest_id() is None


def test_hint_that_cannot_be_written_does_not_fail_the_commit(disk: MemoryDisk, table: Table) -> None:
    class NoHints(MemoryFileIO):
        def write(self, path: str, data: bytes, durable: bool = True) -> None:
            raise OSError("read only")

    committer(Table.open("/w/t", io=NoHints(disk))).commit(1, [new_file("a")], {})
    assert live(table) == {"a"}


def test_steps_are_announced_in_order(table: Table) -> None:
    steps: list[str] = []
    a = data_file("a")
    parts = [message(0, new_files=[a], compact_before=[a], compact_after=[a.at_level(5)])]
    committer(table, on_step=steps.append).commit(1, parts, {})
    assert steps == ["before-append", "after-append", "before-compact", "after-compact"]
    assert table.snapshots.read(2).commit_kind is CommitKind.COMPACT


def test_waits_grow_and_stay_below_the_longest(table: Table) -> None:
    waits: list[float] = []
    wait = RetryWait(sleep_s=waits.append, random_fraction=lambda: 1.0)
    options = replace(table.options, commit_max_retries=60)
    assert [wait.after(failures, 0.0, options) for failures in (1, 2, 3, 60, 61)] == [True] * 4 + [False]
    assert waits == [0.01, 0.02, 0.04, 10.0]


@pytest.mark.slow
def test_a_commit_lists_nothing_and_reads_no_more_after_many_snapshots(tmp_path: Path) -> None:
    """A new process, whose table has sixty snapshots, reads the newest one with its manifests, and then once more."""
    table = Table.create(str(tmp_path / "t"), orders_schema())
    first = committer(table)
    for number in range(60):
        first.commit(number, [message(new_files=[data_file(f"data-{number}")])], {})
    io = CountingFileIO(LocalFileIO())
    again = committer(Table.open(str(tmp_path / "t"), io=io), user="other")
    io.requests.clear()
    again.commit(1, [message(new_files=[data_file("data-x")])], {}, started_ms=now_ms())
    assert [path for kind, path in io.requests if kind == "list"] == []
    read = [path for kind, path in io.requests if kind == "read"]
    assert sum("/snapshot/snapshot-" in path for path in read) <= 3 and len(read) < 40
