"""Which snapshots and changelogs are over, by number, by time and by who needs them."""

import pytest

from paimon_table.history.retention import End, Keeper, Limits, end_of_changelogs, end_of_snapshots

NOW_MS = 1_000_000
HOUR_MS = 3_600_000


def times(first: int, last: int, age_ms: int) -> dict[int, int]:
    """Snapshots of which each was published ``age_ms`` before the next, the last one now."""
    return {i: NOW_MS - (last - i) * age_ms for i in range(first, last + 1)}


@pytest.mark.parametrize(
    ("limits", "age_ms", "end"),
    [
        (Limits(10, 100, 0, 50), 10, 11),  # the newest ten, whatever their age
        (Limits(1, 100, 45, 50), 10, 15),  # and those that were the newest within the time
        (Limits(1, 3, HOUR_MS, 50), 10, 18),  # but no more than so many
        (Limits(1, 100, HOUR_MS, 50), 10, 1),
        (Limits(20, 100, 0, 50), 10, 1),
        (Limits(1, 100, 0, 4), 10, 5),  # no more than so many at once
        (Limits(5, 5, 0, 50), 10, 16),
    ],
)
def test_numbers_and_times_decide(limits: Limits, age_ms: int, end: int) -> None:
    assert end_of_snapshots(1, 20, limits, [], times(1, 20, age_ms).get, NOW_MS) == End(end)


def test_who_needs_a_snapshot_is_named_when_that_decides() -> None:
    slow, fast = Keeper(7, "slow"), Keeper(19, "fast")
    limits = Limits(2, 100, 0, 50)

    assert end_of_snapshots(1, 20, limits, [fast, slow], times(1, 20, 10).get, NOW_MS) == End(7, slow)
    assert end_of_snapshots(1, 20, limits, [fast], times(1, 20, 10).get, NOW_MS) == End(19)
    assert end_of_snapshots(9, 20, limits, [slow], times(9, 20, 10).get, NOW_MS) == End(9, slow)


def test_a_snapshot_that_others_have_just_expired_is_over() -> None:
    known = times(4, 20, 10)

    assert end_of_snapshots(1, 20, Limits(1, 100, 45, 50), [], known.get, NOW_MS) == End(15)


def test_the_last_changelog_stays() -> None:
    limits = Limits(1, 100, 0, 50)

    assert end_of_changelogs(1, 10, 20, limits, [], times(1, 20, 10).get, NOW_MS) == End(10)
    assert end_of_changelogs(1, 10, 20, Limits(15, 100, 0, 50), [], times(1, 20, 10).get, NOW_MS) == End(6)
    assert end_of_changelogs(1, 10, 20, Limits(1, 100, 155, 50), [], times(1, 20, 10).get, NOW_MS) == End(5)
    assert end_of_changelogs(1, 10, 20, limits, [Keeper(3, "slow")], times(1, 20, 10).get, NOW_MS).id == 3
