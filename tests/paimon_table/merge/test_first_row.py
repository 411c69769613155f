"""The first-row engine: what is kept, what is refused, what readers and the changelog see."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.errors import MalformedRecord
from tests.support.bucket_harness import BucketHarness, Row, context

_COLUMNS = (("k", "INT"), ("v", "STRING"))


@pytest.fixture
def lookup_dir(tmp_path: Path) -> Path:
    return tmp_path / "lookup"


def _bucket(lookup_dir: Path, **options: str) -> BucketHarness:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return BucketHarness(context(_COLUMNS, ["k"], {"merge-engine": "first-row", **named}), lookup_dir)


def test_the_first_row_of_a_key_stays_with_its_kind(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, changelog_producer="lookup")
    first = bucket.commit([("+U", 1, "a"), ("+I", 1, "b"), ("+I", 2, "c")])
    assert bucket.changes(first.compact_changelog) == [("+U", 1, "a"), ("+I", 2, "c")]

    second = bucket.commit([("+I", 1, "d"), ("+U", 3, "e"), ("+I", 2, "f")])

    assert bucket.changes(second.compact_changelog) == [("+U", 3, "e")]
    assert bucket.content() == [(1, "a"), (2, "c"), (3, "e")]


def test_a_commit_of_known_keys_leaves_no_file_and_no_changelog(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, changelog_producer="lookup")
    bucket.commit([("+I", key, "first") for key in range(500)])
    before = list(bucket.files)
    message = bucket.commit([("+I", 7, "later"), ("+I", 8, "later")])
    assert (message.compact_after, message.compact_changelog) == ((), ())
    assert bucket.files == before


def test_keys_are_looked_up_below_the_highest_level(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir)
    bucket.commit([("+I", key, "first") for key in range(5000)])
    bucket.commit([("+I", 1, "later"), ("+I", 9000, "first")])
    bucket.commit([("+I", 2, "later"), ("+I", 9000, "later")])
    assert sorted({f.level for f in bucket.files}) == [4, 5]
    assert sum(f.row_count for f in bucket.files) == 5001
    assert bucket.content()[-1] == (9000, "first")


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_without_compaction_nothing_is_visible(lookup_dir: Path, producer: str) -> None:
    bucket = _bucket(lookup_dir, changelog_producer=producer, write_only="true")
    bucket.commit([("+I", 1, "a")])
    bucket.commit([("+I", 1, "b")])
    assert bucket.content() == []
    bucket.with_options(write_only="false")
    message = bucket.commit([])
    assert bucket.content() == [(1, "a")]
    assert bucket.changes(message.compact_changelog) == ([("+I", 1, "a")] if producer == "lookup" else [])


@pytest.mark.parametrize("kind", ["-D", "-U"])
@pytest.mark.parametrize("stored", [[], [("+I", key, "x") for key in range(2000)]], ids=["new", "old"])
def test_a_single_retract_is_refused_by_compaction(lookup_dir: Path, kind: str, stored: list[Row]) -> None:
    bucket = _bucket(lookup_dir)
    bucket.commit(stored)
    with pytest.raises(MalformedRecord, match=rf"{kind} row for k = 1: the first row merge engine.*ignore-delete"):
        bucket.commit([(kind, 1, "x")])


def test_retracts_are_refused_where_the_engine_sees_them_first(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, write_only="true")
    bucket.commit([("-D", 1, "alone")])
    with pytest.raises(MalformedRecord, match="k = 2"):
        bucket.commit([("-D", 1, "alone"), ("+I", 2, "a"), ("-D", 2, "a")])


@pytest.mark.parametrize("option", ["ignore-delete", "first-row.ignore-delete"])
def test_ignored_retracts_do_nothing(lookup_dir: Path, option: str) -> None:
    bucket = _bucket(lookup_dir, changelog_producer="lookup")
    bucket.with_options(**{option: "true"})
    changes = bucket.commit([("-D", 1, "gone"), ("+I", 1, "a"), ("-U", 2, "gone")]).compact_changelog
    assert bucket.changes(changes) == [("+I", 1, "a")]
    assert bucket.commit([("-D", 1, "a")]).is_empty
    assert bucket.content() == [(1, "a")]


def test_retracts_in_files_of_older_writers_are_passed_over(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, write_only="true", changelog_producer="lookup")
    bucket.commit([("-D", 1, "gone"), ("-D", 2, "gone")])
    bucket.commit([("+I", 1, "a")])
    bucket.with_options(write_only="false", ignore_delete="true")
    message = bucket.commit([])
    assert bucket.changes(message.compact_changelog) == [("+I", 1, "a")]
    assert bucket.content() == [(1, "a")]
    assert [f.delete_row_count for f in bucket.files] == [0]


def test_gentle_lookup_waits_for_more_files(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, lookup_compact="gentle", num_sorted_run__compaction_trigger="3")
    bucket.commit([("+I", 1, "a")])
    bucket.commit([("+I", 1, "b")])
    assert [f.level for f in bucket.files] == [0, 0]
    assert bucket.content() == []
    bucket.commit([("+I", 2, "c")])
    assert bucket.content() == [(1, "a"), (2, "c")]
