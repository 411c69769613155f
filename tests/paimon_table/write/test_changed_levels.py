"""The changelog of full compactions of tables whose number of levels changes, or that got the producer later."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.bucket_harness import BucketHarness, Row, context

_TWO = (("k", "INT"), ("v", "INT"))
_ROW = st.tuples(st.sampled_from(["+I", "+U", "-D"]), st.integers(0, 8), st.integers(0, 99))
_STEP = st.one_of(
    st.tuples(st.lists(_ROW, max_size=4), st.booleans()),
    st.sampled_from(["2", "3", "4", "6", "9"]),
)
"""Rows and whether the commit compacts fully, or another number of levels."""

Step = tuple[list[Row], bool] | str

_FILLER: list[Row] = [("+I", key, key * 7919 % 10007) for key in range(5, 800)]
"""Rows of a first commit that is large enough for later ones to stay on levels of their own."""


def _bucket(lookup_dir: Path, **options: str) -> BucketHarness:
    named = {name.replace("_", "-"): value for name, value in options.items()}
    return BucketHarness(context(_TWO, ["k"], named), lookup_dir)


def _changes(bucket: BucketHarness, rows: Sequence[Row], full: bool = True) -> list[Row]:
    return bucket.changes(bucket.commit(rows, full=full).compact_changelog)


@pytest.mark.parametrize("raised", [{"num_levels": "8"}, {"num-sorted-run.compaction-trigger": "7"}])
def test_old_rows_are_known_after_levels_were_added(tmp_path: Path, raised: dict[str, str]) -> None:
    bucket = _bucket(tmp_path, changelog_producer="full-compaction")
    bucket.commit([("+I", 1, 1), ("+I", 2, 2), ("+I", 3, 3)], full=True)

    bucket.with_options(**raised)

    assert _changes(bucket, [("-D", 1, 1), ("+U", 2, 20), ("+I", 4, 4)]) == [
        ("-D", 1, 1),
        ("-U", 2, 2),
        ("+U", 2, 20),
        ("+I", 4, 4),
    ]
    assert {file.level for file in bucket.files} == {7}


def test_rows_that_only_move_to_a_new_level_are_not_published(tmp_path: Path) -> None:
    bucket = _bucket(tmp_path, changelog_producer="full-compaction")
    bucket.commit([("+I", 1, 1), ("+I", 2, 2)], full=True)
    bucket.with_options(num_levels="8")

    message = bucket.commit([], full=True)

    assert (message.compact_changelog, [file.level for file in message.compact_after]) == ((), [7])


def test_rows_compacted_below_the_old_top_are_published_after_levels_were_added(tmp_path: Path) -> None:
    bucket = _bucket(tmp_path, changelog_producer="full-compaction")
    bucket.commit([("+I", key, 0) for key in range(5000)], full=True)
    for value in (1, 2, 3, 4):
        assert _changes(bucket, [("+U", 7, value), ("-D", 8, 0)], full=False) == []
    assert {file.level for file in bucket.files} == {4, 5}

    bucket.with_options(num_levels="8")

    assert _changes(bucket, []) == [("-U", 7, 0), ("+U", 7, 4), ("-D", 8, 0)]


@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
def test_rows_compacted_before_the_producer_was_chosen_are_known(tmp_path: Path, producer: str) -> None:
    bucket = _bucket(tmp_path, changelog_producer=producer)
    bucket.commit([("+I", 1, 1), ("+I", 2, 2)], full=True)

    bucket.with_options(changelog_producer="full-compaction", num_levels="8")

    assert _changes(bucket, [("-D", 1, 1), ("+U", 2, 20)]) == [("-D", 1, 1), ("-U", 2, 2), ("+U", 2, 20)]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.booleans(), st.lists(_STEP, max_size=14), st.sampled_from(["2", "3", "6"]))
def test_the_changelog_leads_from_state_to_state_however_the_levels_change(
    has_filler: bool, steps: list[Step], levels: str
) -> None:
    with TemporaryDirectory() as directory:
        bucket = _bucket(Path(directory), changelog_producer="full-compaction", num_levels=levels)
        replayed: dict[int, int] = {}
        for step in [(_FILLER if has_filler else [], True), *steps, ([], True)]:
            if isinstance(step, str):
                bucket.with_options(num_levels=step)
                continue
            rows, full = step
            _replay(_changes(bucket, rows, full), replayed)
            if full:
                assert sorted(replayed.items()) == bucket.content()


def _replay(changes: Sequence[Row], state: dict[int, int]) -> None:
    for kind, key, value in changes:
        if kind == "+I":
            assert key not in state
        elif kind in ("-U", "-D"):
            assert state.pop(key) == value
        if kind in ("+I", "+U"):
            state[key] = value
