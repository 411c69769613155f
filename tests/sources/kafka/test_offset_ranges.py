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
from sources.positions import Place, Positions

PLACES = st.tuples(st.sampled_from(["a", "b.c", "ü"]), st.integers(0, 5))
SPANS = st.dictionaries(PLACES, st.tuples(st.integers(0, 2**40), st.integers(0, 100_000)), min_size=1)


def _begins_and_ends(spans: dict[Place, tuple[int, int]]) -> tuple[dict[Place, int], dict[Place, int]]:
    begins = {place: begin for place, (begin, _) in spans.items()}
    return begins, {place: begin + count for place, (begin, count) in spans.items()}


@pytest.mark.slow
@given(SPANS, st.integers(1, 200_000), st.dictionaries(st.sampled_from(["a", "b.c", "ü"]), st.integers(0, 9)))
def test_a_batch_has_as_much_as_it_may_and_passes_nothing(
    spans: dict[Place, tuple[int, int]], most: int, turns: dict[str, int]
) -> None:
    begins, ends = _begins_and_ends(spans)
    found = limited(begins, ends, most, turns, 8)
    taken = {place: at - begins[place] for place, at in found.items()}
    waiting = [place for place in spans if ends[place] > begins[place]]
    moved = {topic for (topic, _), count in taken.items() if count}
    total = sum(count for _, count in spans.values())
    assert found.keys() == ends.keys()
    assert all(begins[place] <= found[place] <= ends[place] for place in spans)
    assert all(taken[place] > 0 for place in waiting if place[0] in moved), "a partition waits only with its topic"
    assert min(most, total) <= sum(taken.values()) <= max(min(most, total), most + len(waiting))
    assert total > most or found == ends


def test_a_batch_that_cannot_take_all_reads_few_topics_and_they_take_turns() -> None:
    begins: Positions = {(f"t{n}", p): 0 for n in range(40) for p in range(2)}
    ends = dict.fromkeys(begins, 10_000)
    turns = dict.fromkeys((place[0] for place in ends), -1)
    batches: list[set[str]] = []
    while begins != ends:
        found = limited(begins, ends, 100_000, turns, 8)
        batches.append({place[0] for place in ends if found[place] > begins[place]})
        turns |= dict.fromkeys(batches[-1], len(batches))
        begins = found
    assert [len(moved) for moved in batches[:5]] == [8] * 5
    assert set().union(*batches[:5]) == {place[0] for place in ends}, "none twice before each once"
    assert len(batches) == 8, "each batch is full"


def test_a_batch_reads_all_topics_that_had_no_turn() -> None:
    ends = {(f"t{n}", 0): 1000 for n in range(50)}
    found = limited(dict.fromkeys(ends, 0), ends, 10_000, {"t0": 3, "t1": 1}, 8)
    assert {place[0] for place, at in found.items() if at} == {place[0] for place in ends} - {"t0", "t1"}
    assert len({at for at in found.values() if at}) <= 2, "in equal parts"


def test_topics_that_are_nearly_read_do_not_wait_for_one_that_is_far_behind() -> None:
    begins: Positions = {("big", 0): 0, **{(f"live{n}", 0): 500 for n in range(30)}}
    ends = {("big", 0): 10**9, **{(f"live{n}", 0): 500 + n for n in range(30)}}
    found = limited(begins, ends, 100_000, {"big": 1}, 8)
    assert all(found[place] == ends[place] for place in ends if place[0] != "big")
    assert found["big", 0] == 100_000 - sum(range(30))


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
