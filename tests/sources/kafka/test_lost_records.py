"""Which offsets of a batch were not there any more when its tasks came to them."""

from __future__ import annotations

import pytest

from sources.kafka.lost_records import incomplete, loss_words, lost_in_batch, lost_records
from sources.positions import Bounds, Reading

A = ("a", 0)


@pytest.mark.parametrize(
    ("readings", "held_from", "told"),
    [
        ([], 100, ["offsets 10 to 99 are gone"]),
        ([], 40, ["offsets 10 to 39 are gone"]),
        ([Reading(A, 40, 100)], 40, ["offsets 10 to 39 are gone"]),
        ([Reading(A, 10, 100, ((25, 60),))], 60, ["offsets 25 to 59 are gone"]),
        ([Reading(A, 10, 100, ((12, 14), (25, 64)))], 60, ["offsets 25 to 59 are gone"]),
        ([Reading(A, 10, 25)], 200, ["offsets 25 to 99 are gone"]),
        ([Reading(A, 10, 21), Reading(A, 70, 100)], 70, ["offsets 21 to 69 are gone"]),
        ([Reading(A, 10, 50, ((20, 45),)), Reading(A, 50, 100)], 30, ["offsets 20 to 29 are gone"]),
        ([Reading(A, 10, 99)], 100, ["offset 99 is gone"]),
        ([Reading(A, 12, 90, ((20, 22),))], 10, []),
    ],
    ids=[
        "nothing was read",
        "nothing was read, the rest are markers",
        "the begin",
        "a jump",
        "a jump beside a gap that was always there",
        "the end",
        "between two tasks",
        "in the first of two tasks",
        "one offset",
        "compacted records",
    ],
)
def test_exactly_what_went_before_it_was_read_is_named(
    readings: list[Reading], held_from: int, told: list[str]
) -> None:
    losses = lost_in_batch({A: (10, 100)}, readings, {A: held_from})
    assert [str(loss).partition(": ")[2].partition(" (")[0] for loss in losses] == told


def test_only_partitions_of_which_less_was_read_than_planned_are_asked_for() -> None:
    planned = {A: (0, 10), ("a", 1): (5, 9), ("b", 0): (3, 3)}
    assert incomplete(planned, [Reading(A, 0, 4), Reading(A, 4, 10), Reading(("a", 1), 5, 9, ((6, 7),))]) == [("a", 1)]


def test_many_losses_are_cut_short_in_a_refusal() -> None:
    lost = lost_records({("a", p): 1 for p in range(30)}, {("a", p): Bounds(2, 3, 3) for p in range(30)})
    assert loss_words(lost).endswith("; and 10 more partitions")
    assert loss_words(lost[:1]) == "topic a partition 0: offset 1 is gone (retention, or deleted records)"
