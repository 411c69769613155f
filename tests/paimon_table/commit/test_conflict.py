"""Which deltas may follow a state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paimon_table.commit.conflict import (
    find_bucket_change,
    find_conflict,
    find_inconsistency,
    find_unseen,
    find_unseen_rows,
    find_unseen_vectors,
)
from paimon_table.metadata.bucket_id import EMPTY_ROW, BucketId
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.metadata.index_file import DELETION_VECTORS, IndexFileMeta, VectorRange
from paimon_table.metadata.index_manifest import IndexEntry
from paimon_table.metadata.manifest import ADD, DELETE, ManifestEntry
from paimon_table.metadata.snapshot import CommitKind, Snapshot, SnapshotIdentity
from paimon_table.metadata.table_state import TableState
from tests.support.builders import KEY_TYPES, data_file

BUCKET = BucketId(EMPTY_ROW, 0)


def entry(
    kind: int, name: str, level: int = 0, keys: tuple[int, int] = (0, 9), bucket: BucketId = BUCKET, total: int = 4
) -> ManifestEntry:
    return ManifestEntry(kind, bucket, total, data_file(name, level, keys))


def state(*files: DataFileMeta) -> TableState:
    return TableState(files={BUCKET: tuple(files)}, total_buckets={EMPTY_ROW: 4})


def test_compaction_of_live_files_is_no_conflict() -> None:
    before = state(data_file("a", 0), data_file("b", 5, (0, 9)))
    delta = [entry(DELETE, "a"), entry(DELETE, "b", 5), entry(ADD, "c", 5)]
    assert find_conflict(before, delta, KEY_TYPES) is None


def test_upgrade_is_no_conflict() -> None:
    delta = [entry(DELETE, "a"), entry(ADD, "a", 5)]
    assert find_inconsistency(delta) is None
    assert find_conflict(state(data_file("a", 0)), delta, KEY_TYPES) is None


@pytest.mark.parametrize("delta", [[entry(DELETE, "gone")], [entry(DELETE, "a", 1)], [entry(DELETE, "a")] * 2])
def test_deleting_what_is_not_live_is_a_conflict(delta: list[ManifestEntry]) -> None:
    assert "file deletion conflict" in (find_conflict(state(data_file("a", 0)), delta, KEY_TYPES) or "")


def test_adding_what_is_live_is_a_conflict() -> None:
    assert "already in the table" in (find_conflict(state(data_file("a")), [entry(ADD, "a")], KEY_TYPES) or "")


@pytest.mark.parametrize(
    ("keys", "conflict"), [((10, 12), False), ((9, 12), True), ((-5, -1), False), ((-5, 100), True)]
)
def test_files_of_one_level_above_zero_may_not_overlap(keys: tuple[int, int], conflict: bool) -> None:
    found = find_conflict(state(data_file("a", 3, (0, 9))), [entry(ADD, "b", 3, keys)], KEY_TYPES)
    assert (found is not None) == conflict
    assert not conflict or "LSM conflict" in (found or "")


def test_level_zero_and_other_levels_and_other_buckets_may_overlap() -> None:
    before = state(data_file("a", 3, (0, 9)), data_file("b", 0, (0, 9)))
    other = BucketId(EMPTY_ROW, 1)
    delta = [entry(ADD, "c"), entry(ADD, "d", 2), entry(ADD, "e", 3, bucket=other)]
    assert find_conflict(before, delta, KEY_TYPES) is None


@pytest.mark.parametrize(
    ("delta", "words"),
    [
        ([entry(ADD, "a"), entry(ADD, "a")], "added twice"),
        ([entry(DELETE, "a"), entry(DELETE, "a")], "deleted twice"),
        ([entry(DELETE, "a", 5), entry(ADD, "a", 5)], "added and deleted"),
    ],
)
def test_delta_that_scans_would_misread_is_found(delta: list[ManifestEntry], words: str) -> None:
    assert words in (find_inconsistency(delta) or "")


def test_other_number_of_buckets_is_found_per_partition() -> None:
    before = state(data_file("a"))
    changed = find_bucket_change(before, [entry(ADD, "b", total=3)])
    assert changed is not None
    assert "bucket num 3" in changed
    assert "bucket num is 4" in changed
    assert find_bucket_change(before, [entry(DELETE, "a", total=3)]) is None
    assert find_bucket_change(before, [entry(ADD, "b", bucket=BucketId(b"other", 0), total=3)]) is None


def test_rows_that_came_above_level_0_after_a_lookup_are_a_conflict() -> None:
    now = state(data_file("a", 0), data_file("b", 4), data_file("c", 5))
    assert find_unseen(now, {BUCKET: frozenset({(4, "b"), (5, "c")})}) is None
    assert find_unseen(now, {}) is None
    assert "b on level 4" in (find_unseen(now, {BUCKET: frozenset({(5, "c")})}) or "")
    assert "b on level 3" in (find_unseen(now, {BUCKET: frozenset({(3, "b"), (5, "c")})}) or "")
    assert "d on level 1" in (find_unseen(now, {BUCKET: frozenset({(1, "d"), (4, "b"), (5, "c")})}) or "")


def test_a_file_whose_rows_were_marked_meanwhile_cannot_go() -> None:
    marks = IndexFileMeta(
        index_type=DELETION_VECTORS,
        file_name="marks",
        file_size_bytes=9,
        row_count=1,
        vector_ranges=(VectorRange("a", 1, 2, 1),),
    )
    now = replace(state(data_file("a"), data_file("b")), index=(IndexEntry(ADD, BUCKET, marks),))
    assert "rows of a of bucket 0" in str(find_unseen_vectors(now, [entry(DELETE, "a"), entry(ADD, "c")], ()))
    assert find_unseen_vectors(now, [entry(DELETE, "a")], [IndexEntry(DELETE, BUCKET, marks)]) is None
    assert find_unseen_vectors(now, [entry(DELETE, "a"), entry(ADD, "a", 5)], ()) is None
    assert find_unseen_vectors(now, [entry(DELETE, "b"), entry(ADD, "c")], ()) is None
    assert find_unseen_vectors(now, [entry(DELETE, "a", bucket=BucketId(b"other", 0))], ()) is None


def snapshot(id: int, kind: CommitKind, rows: int = 1) -> Snapshot:
    return Snapshot(
        id=id,
        uuid=f"u{id}",
        schema_id=0,
        base_manifest_list="b",
        delta_manifest_list="d",
        commit_user="other",
        commit_identifier=id,
        commit_kind=kind,
        time_ms=0,
        total_record_count=9,
        delta_record_count=rows,
    )


@pytest.mark.parametrize(
    ("kind", "rows", "conflict"),
    [
        (CommitKind.APPEND, 1, True),
        (CommitKind.APPEND, 0, False),
        (CommitKind.COMPACT, -3, False),
        (CommitKind.ANALYZE, 0, False),
        (CommitKind.OVERWRITE, 0, True),
    ],
)
@pytest.mark.parametrize("seen_id", [0, 4])
def test_rows_that_others_added_since_keys_were_placed_are_a_conflict(
    kind: CommitKind, rows: int, conflict: bool, seen_id: int
) -> None:
    others = [snapshot(n, CommitKind.COMPACT) for n in range(1, seen_id + 2)]
    table = {s.id: s for s in [*others, snapshot(seen_id + 2, kind, rows)]}
    now = TableState(snapshot=table[seen_id + 2])
    seen = SnapshotIdentity(seen_id, f"u{seen_id}" if seen_id else None)

    assert (find_unseen_rows(seen, now, table.get) is not None) == conflict
    assert find_unseen_rows(None, now, table.get) is None
    assert find_unseen_rows(SnapshotIdentity(seen_id + 2, f"u{seen_id + 2}"), now, table.get) is None
    assert find_unseen_rows(seen, now, {**table, seen_id + 1: None}.get) is not None


def test_keys_placed_by_a_state_that_the_table_went_back_from_are_a_conflict() -> None:
    table = {n: snapshot(n, CommitKind.COMPACT) for n in range(1, 4)}
    for seen in (SnapshotIdentity(3, "other"), SnapshotIdentity(2, "other"), SnapshotIdentity(4, "u4")):
        assert "no longer exists" in (find_unseen_rows(seen, TableState(snapshot=table[3]), table.get) or "")
    assert "no longer exists" in (find_unseen_rows(SnapshotIdentity(2, "u2"), TableState(), table.get) or "")
