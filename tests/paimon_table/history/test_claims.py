"""The newest snapshot of a writer stays while the writer may look for it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from paimon_table.history.claims import Claim, claimed
from paimon_table.metadata.snapshot import CommitKind, Snapshot

NOW_MS = 1_000_000
DAY_MS = 100_000


def snapshot(number: int, user: str, age_ms: int = 0) -> Snapshot:
    return Snapshot(
        id=number,
        schema_id=0,
        base_manifest_list="b",
        delta_manifest_list="d",
        commit_user=user,
        commit_identifier=number,
        commit_kind=CommitKind.APPEND,
        time_ms=NOW_MS - age_ms,
        total_record_count=0,
        delta_record_count=0,
    )


def by_user(found: Snapshot) -> Sequence[Claim]:
    return (
        () if found.commit_user == "job" else (Claim((found.commit_user,), DAY_MS, f"newest of {found.commit_user}"),)
    )


def test_the_newest_of_a_writer_stays_while_it_is_young() -> None:
    over = [snapshot(1, "rare"), snapshot(2, "rare"), snapshot(3, "job"), snapshot(4, "often")]
    newer = [snapshot(6, "often"), snapshot(5, "job")]

    (keeper,) = claimed(over, newer, by_user, NOW_MS)

    assert (keeper.snapshot_id, keeper.text) == (2, "newest of rare")


def test_one_that_is_old_goes() -> None:
    assert claimed([snapshot(1, "rare", DAY_MS + 1)], [], by_user, NOW_MS) == []


def test_an_own_snapshot_stays_for_ever() -> None:
    old = snapshot(1, "own", DAY_MS * 100)

    def for_ever(found: Snapshot) -> Sequence[Claim]:
        return [replace(claim, time_ms=None) for claim in by_user(found)]

    assert [keeper.snapshot_id for keeper in claimed([old], [snapshot(2, "other")], for_ever, NOW_MS)] == [1]
    assert claimed([old], [snapshot(3, "own"), snapshot(2, "other")], for_ever, NOW_MS) == []


def test_no_more_snapshots_are_read_than_settle_it() -> None:
    def newest_first() -> Iterator[Snapshot]:
        yield snapshot(9, "a")
        yield snapshot(8, "b")
        raise AssertionError("both are settled")

    assert claimed([snapshot(1, "a"), snapshot(2, "b")], newest_first(), by_user, NOW_MS) == []
