"""Random histories of engines whose result does not depend on when compaction runs, against plain Python dicts.

The history is cut into flushes, commits and full compactions at random; replaying the changelog gives the table.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.bucket_harness import BucketHarness, Row, context

Values = tuple[int | None, ...]
State = dict[int, Values]
Step = Callable[[Values | None, Values], Values]

_FILLER: list[tuple[int, int | None, int | None]] = [(key, key * 7919 % 10007, None) for key in range(800)]
"""Rows of a first commit that is large enough for later ones to stay on levels of their own."""


def _first(old: Values | None, new: Values) -> Values:
    return new if old is None else old


def _last(old: Values | None, new: Values) -> Values:
    return new


def _sum_and_max(old: Values | None, new: Values) -> Values:
    if old is None:
        return new
    (a, b), (c, d) = old, new
    return (a if c is None else c if a is None else a + c), (b if d is None else d if b is None else max(b, d))


def _partial(old: Values | None, new: Values) -> Values:
    return new if old is None else tuple(b if a is None else a for a, b in zip(new, old, strict=True))


_ENGINES: Mapping[str, tuple[Step, dict[str, str]]] = {
    "deduplicate": (_last, {}),
    "first-row": (_first, {}),
    "aggregation": (_sum_and_max, {"fields.a.aggregate-function": "sum", "fields.b.aggregate-function": "max"}),
    "partial-update": (_partial, {}),
}

_PRODUCERS = {
    "none": {},
    "forced": {"force-lookup": "true"},
    "level 0": {"compaction.force-up-level-0": "true"},
    "gentle": {"changelog-producer": "lookup", "lookup-compact": "gentle"},
    "lookup": {"changelog-producer": "lookup"},
    "full-compaction": {"changelog-producer": "full-compaction"},
}


@dataclass(frozen=True)
class Commit:
    """Flushes of (key, a, b); whether a new writer makes it and whether a full compaction ends it."""

    flushes: list[list[tuple[int, int | None, int | None]]]
    fresh: bool = True
    full: bool = False


@dataclass(frozen=True)
class History:
    engine: str
    producer: str
    has_filler: bool
    trigger: int
    chunk_bytes: int
    commits: list[Commit]


_VALUE = st.none() | st.integers(-3, 3)
_ROW = st.tuples(st.integers(0, 4), _VALUE, _VALUE)
_HISTORIES = st.builds(
    History,
    engine=st.sampled_from(sorted(_ENGINES)),
    producer=st.sampled_from(sorted(_PRODUCERS)),
    has_filler=st.booleans(),
    trigger=st.integers(2, 5),
    chunk_bytes=st.sampled_from([200, 1 << 20]),
    commits=st.lists(
        st.builds(
            Commit,
            flushes=st.lists(
                st.lists(st.tuples(st.integers(0, 4), _VALUE, _VALUE), min_size=1, max_size=5), max_size=2
            ),
            fresh=st.booleans(),
            full=st.integers(0, 4).map(lambda n: n == 0),
        ),
        max_size=7,
    ),
).filter(lambda h: (h.engine, h.producer) != ("first-row", "full-compaction"))


def _play(history: History, root: Path) -> None:
    step, options = _ENGINES[history.engine]
    options = {
        "merge-engine": history.engine,
        "num-sorted-run.compaction-trigger": str(history.trigger),
        **options,
        **_PRODUCERS[history.producer],
    }
    ctx = context([("k", "INT"), ("a", "INT"), ("b", "INT")], ["k"], options)
    bucket = BucketHarness(
        ctx, root / "lookup", environment={"chunk_bytes": history.chunk_bytes, "write_buffer_bytes": 1}
    )
    expected: State = {}
    replayed: State = {}
    filler: list[Commit] = [Commit([_FILLER], full=True)] if history.has_filler else []
    for commit in [*filler, *history.commits]:
        _write(bucket, commit, expected, step, replayed)
        _check(bucket, expected, replayed)
    message = bucket.commit([], full=True)
    _replay(bucket.changes(message.compact_changelog), replayed)
    _check(bucket, expected, replayed)
    assert {f.level for f in bucket.files} <= {ctx.options.max_level}


def _write(bucket: BucketHarness, commit: Commit, expected: State, step: Step, replayed: State) -> None:
    writer = bucket.new_writer() if commit.fresh or bucket.writer is None else bucket.writer
    for rows in commit.flushes:
        writer.write(bucket.table([("+I", *row) for row in rows]))
        for key, *values in rows:
            expected[key] = step(expected.get(key), tuple(values))
    message = writer.prepare_commit(full_compact=commit.full)
    bucket.apply(message)
    _replay(bucket.changes(message.compact_changelog), replayed)


def _check(bucket: BucketHarness, expected: State, replayed: State) -> None:
    options = bucket.ctx.options
    is_complete = all(f.level > 0 for f in bucket.files)
    content = {row[0]: tuple(row[1:]) for row in bucket.content()}
    if is_complete or not options.hides_level0:
        assert content == expected
    match options.changelog_producer:
        case "lookup" if is_complete:
            assert replayed == expected
        case "full-compaction":
            assert replayed == _rows_on(bucket, options.max_level)


def _rows_on(bucket: BucketHarness, level: int) -> State:
    rows = [row for f in bucket.files if f.level == level for row in bucket.read(f).to_pylist()]
    return {row["k"]: (row["a"], row["b"]) for row in rows}


def _replay(changes: Sequence[Row], state: State) -> None:
    """Apply a changelog; every -U and -D must show the row that is there, +I must meet none."""
    pending: int | None = None
    for kind, key, *rest in changes:
        values = tuple(rest)
        assert (pending == key) == (kind == "+U")
        pending = None
        if kind in {"-U", "-D"}:
            assert state.pop(key) == values
            pending = key if kind == "-U" else None
        else:
            assert key not in state
            state[key] = values
    assert pending is None


_TWO_UPPER_LEVELS = [Commit([[(1, 1, 1)]]), Commit([[(1, 2, None)]]), Commit([[(1, None, 3)]]), Commit([[(2, 1, 1)]])]


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(_HISTORIES)
@example(History("aggregation", "lookup", True, 5, 200, _TWO_UPPER_LEVELS))
@example(History("aggregation", "full-compaction", True, 2, 200, _TWO_UPPER_LEVELS))
@example(History("partial-update", "forced", True, 5, 200, _TWO_UPPER_LEVELS))
@example(History("first-row", "lookup", True, 5, 200, _TWO_UPPER_LEVELS))
def test_cuts_change_nothing_and_the_changelog_leads_to_the_table(history: History) -> None:
    with tempfile.TemporaryDirectory() as root:
        _play(history, Path(root))
