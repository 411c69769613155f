"""Batches of Kafka as they are planned: their limits, and how tasks share them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.kafka.offset_ranges import (
    LEAST_PER_TASK,
    OffsetRange,
    from_bytes,
    limited,
    offsets_of,
    ranges_of,
    shared,
    text_of,
    to_bytes,
)
from sources.positions import Place

PLACES = st.tuples(st.sampled_from(["a", "b.c", "ü"]), st.integers(0, 5))
SPANS = st.dictionaries(PLACES, st.tuples(st.integers(0, 2**40), st.integers(0, 100_000)), min_size=1)


def _begins_and_ends(spans: dict[Place, tuple[int, int]]) -> tuple[dict[Place, int], dict[Place, int]]:
    begins = {place: begin for place, (begin, _) in spans.items()}
    return begins, {place: begin + count for place, (begin, count) in spans.items()}


@pytest.mark.slow
@given(SPANS, st.integers(1, 200_000))
def test_a_batch_has_as_much_as_it_may_and_every_partition_moves_on(
    spans: dict[Place, tuple[int, int]], most: int
) -> None:
    begins, ends = _begins_and_ends(spans)
    found = limited(begins, ends, most)
    taken = {place: at - begins[place] for place, at in found.items()}
    waiting = [place for place in spans if ends[place] > begins[place]]
    total = sum(count for _, count in spans.values())
    assert found.keys() == ends.keys()
    assert all(begins[place] <= found[place] <= ends[place] for place in spans)
    assert all(taken[place] > 0 for place in waiting)
    assert min(most, total) <= sum(taken.values()) <= max(min(most, total), most + len(waiting))


@pytest.mark.slow
@given(SPANS, st.integers(1, 8))
def test_tasks_share_all_offsets_once_and_evenly(spans: dict[Place, tuple[int, int]], tasks: int) -> None:
    begins, ends = _begins_and_ends(spans)
    shares = [from_bytes(to_bytes(share)) for share in shared(ranges_of(begins, ends), tasks)]
    assert len(shares) <= tasks
    sizes = [sum(one.end - one.begin for one in share) for share in shares]
    assert all(size == max(sizes) for size in sizes[:-1]) and all(size > 0 for size in sizes)
    joined: dict[Place, list[OffsetRange]] = {}
    for share in shares:
        assert len({one.place for one in share}) == len(share), "a consumer reads a partition once"
        for one in share:
            joined.setdefault(one.place, []).append(one)
    for place, parts in joined.items():
        edges = [begins[place], *(part.end for part in parts)]
        assert [part.begin for part in parts] == edges[:-1] and edges[-1] == ends[place]
    assert joined.keys() == {place for place in spans if ends[place] > begins[place]}


def test_few_offsets_take_one_task() -> None:
    assert len(shared([OffsetRange(("t", 0), 0, LEAST_PER_TASK)], 8)) == 1
    assert shared([], 8) == []


@pytest.mark.slow
@given(st.dictionaries(PLACES, st.integers(0, 2**62)))
def test_positions_come_back_from_their_text(positions: dict[Place, int]) -> None:
    assert offsets_of(text_of(positions)) == positions
