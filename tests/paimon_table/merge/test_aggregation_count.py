"""``count`` counts the values that arrive, wherever flushes and compactions cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.bucket_harness import BucketHarness, context


@pytest.mark.parametrize("full", [False, True], ids=["", "compacted"])
@pytest.mark.parametrize("commits", [[4], [1, 3], [2, 2], [1, 1, 1, 1]], ids=str)
def test_count_is_the_number_of_non_null_values(tmp_path: Path, commits: list[int], full: bool) -> None:
    options = {"merge-engine": "aggregation", "fields.n.aggregate-function": "count"}
    harness = BucketHarness(context([("k", "INT"), ("n", "BIGINT")], ["k"], options), tmp_path)
    rows = iter([("+I", 1, 700), ("+I", 1, None), ("+U", 1, 800), ("-D", 1, 700)])

    for count in commits:
        harness.commit([next(rows) for _ in range(count)], full=full)

    assert harness.content() == [(1, 1)]


def test_count_works_in_a_sequence_group(tmp_path: Path) -> None:
    options = {
        "merge-engine": "partial-update",
        "fields.g.sequence-group": "n",
        "fields.n.aggregate-function": "count",
    }
    harness = BucketHarness(context([("k", "INT"), ("g", "INT"), ("n", "INT")], ["k"], options), tmp_path)

    harness.commit([("+I", 1, 5, 700)])
    harness.commit([("+I", 1, 4, 800), ("+I", 1, 6, None), ("+I", 1, 7, 900)])

    assert harness.content() == [(1, 7, 3)]


def test_other_columns_keep_their_values(tmp_path: Path) -> None:
    options = {"merge-engine": "aggregation", "fields.n.aggregate-function": "count"}
    harness = BucketHarness(context([("k", "INT"), ("v", "INT"), ("n", "INT")], ["k"], options), tmp_path)

    harness.commit([("+I", 1, 7, 700)])

    assert harness.content() == [(1, 7, 1)]
