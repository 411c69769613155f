"""What each changelog producer publishes, commit by commit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.storage.memory_io import MemoryFileIO
from tests.support.bucket_harness import BucketHarness, Row, context
from tests.support.table_driver import TableDriver, new_table

_TWO = (("k", "INT"), ("v", "INT"))
_SUM: dict[str, Any] = {"merge_engine": "aggregation", "fields__v__aggregate_function": "sum"}
_SEQUENCED = (("k", "INT"), ("v", "INT"), ("s", "INT"))


@pytest.fixture
def lookup_dir(tmp_path: Path) -> Path:
    return tmp_path / "lookup"


def _bucket(lookup_dir: Path, columns: Sequence[tuple[str, str]] = _TWO, **options: str) -> BucketHarness:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return BucketHarness(context(columns, ["k"], named), lookup_dir)


def _published(bucket: BucketHarness, message: CommitMessage) -> list[Row]:
    """What a streaming reader sees of a commit."""
    match bucket.ctx.options.changelog_producer:
        case "none":
            return bucket.changes(message.new_files)
        case "input":
            return bucket.changes(message.changelog_files)
        case _:
            assert message.changelog_files == ()
            return bucket.changes(message.compact_changelog)


def _changes(bucket: BucketHarness, rows: Sequence[Row], full: bool | None = None) -> list[Row]:
    is_full = bucket.ctx.options.changelog_producer == "full-compaction" if full is None else full
    return _published(bucket, bucket.commit(rows, full=is_full))


# ---------------------------------------------------------------- all producers

_COMMITS: list[tuple[list[Row], list[Row], list[Row], list[Row]]] = [
    # rows, seen with none, with input, with lookup and with full-compaction
    ([("+I", 1, 1)], [("+I", 1, 1)], [("+I", 1, 1)], [("+I", 1, 1)]),
    (
        [("-D", 1, 1), ("+I", 1, 2)],
        [("+I", 1, 2)],
        [("-D", 1, 1), ("+I", 1, 2)],
        [("-U", 1, 1), ("+U", 1, 2)],
    ),
    ([("+I", 1, 2)], [("+I", 1, 2)], [("+I", 1, 2)], [("-U", 1, 2), ("+U", 1, 2)]),
    ([("-D", 1, 777)], [("-D", 1, 777)], [("-D", 1, 777)], [("-D", 1, 2)]),
    ([("-D", 1, 5)], [("-D", 1, 5)], [("-D", 1, 5)], []),
    ([("+I", 1, 9), ("-D", 1, 9)], [("-D", 1, 9)], [("+I", 1, 9), ("-D", 1, 9)], []),
]


@pytest.mark.parametrize(("producer", "seen"), [("none", 1), ("input", 2), ("lookup", 3), ("full-compaction", 3)])
@pytest.mark.parametrize("keeps_writer", [False, True])
def test_commit_by_commit(lookup_dir: Path, producer: str, seen: int, keeps_writer: bool) -> None:
    bucket = _bucket(lookup_dir, changelog_producer=producer)
    for commit in _COMMITS:
        message = bucket.commit(commit[0], full=producer == "full-compaction", fresh=not keeps_writer)
        assert _published(bucket, message) == commit[seen]
    assert bucket.content() == []


_COMPARING = ["lookup", "full-compaction"]


@pytest.mark.parametrize("producer", _COMPARING)
def test_row_deduplicate_publishes_real_changes_only(lookup_dir: Path, producer: str) -> None:
    bucket = _bucket(lookup_dir, changelog_producer=producer, changelog_producer__row_deduplicate="true")
    bucket.commit([("+I", 1, 1), ("+I", 2, 2)], full=True)
    assert _changes(bucket, [("+I", 1, 1), ("-D", 2, 2), ("+I", 2, 2), ("+U", 3, 3)]) == [("+I", 3, 3)]
    assert _changes(bucket, [("+I", 1, 4), ("-D", 3, 0)]) == [("-U", 1, 1), ("+U", 1, 4), ("-D", 3, 3)]


@pytest.mark.parametrize("producer", _COMPARING)
def test_columns_that_do_not_count_are_stored_all_the_same(lookup_dir: Path, producer: str) -> None:
    bucket = _bucket(
        lookup_dir,
        _SEQUENCED,
        changelog_producer=producer,
        changelog_producer__row_deduplicate="true",
        changelog_producer__row_deduplicate_ignore_fields="s",
        sequence__field="s",
    )
    bucket.commit([("+I", 1, 10, 1)], full=True)
    assert _changes(bucket, [("+I", 1, 10, 2)]) == []
    assert bucket.content() == [(1, 10, 2)]
    assert _changes(bucket, [("+I", 1, 11, 3)]) == [("-U", 1, 10, 2), ("+U", 1, 11, 3)]


@pytest.mark.parametrize("producer", _COMPARING)
@pytest.mark.parametrize("row_deduplicate", ["false", "true"])
def test_late_rows_change_nothing(lookup_dir: Path, producer: str, row_deduplicate: str) -> None:
    bucket = _bucket(
        lookup_dir,
        _SEQUENCED,
        sequence__field="s",
        changelog_producer=producer,
        changelog_producer__row_deduplicate=row_deduplicate,
    )
    bucket.commit([("+I", 1, 10, 5)], full=True)
    unchanged = [] if row_deduplicate == "true" else [("-U", 1, 10, 5), ("+U", 1, 10, 5)]
    assert _changes(bucket, [("+I", 1, 11, 3)]) == unchanged
    assert _changes(bucket, [("-D", 1, 12, 4)]) == unchanged
    assert _changes(bucket, [("-D", 1, 13, 6)]) == [("-D", 1, 10, 5)]
    bucket.commit([], full=True)
    assert _changes(bucket, [("+I", 1, 14, 5)]) == [("+I", 1, 14, 5)]


@pytest.mark.parametrize("producer", ["none", *_COMPARING])
def test_a_lone_update_before_deletes(lookup_dir: Path, producer: str) -> None:
    bucket = _bucket(lookup_dir, changelog_producer=producer)
    bucket.commit([("+I", 1, 10)], full=True)
    assert _changes(bucket, [("-U", 1, 99)]) == [("-U", 1, 99) if producer == "none" else ("-D", 1, 10)]
    assert bucket.content() == []


# ---------------------------------------------------------------- full-compaction


def test_nothing_is_published_below_the_highest_level(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, changelog_producer="full-compaction")
    assert _changes(bucket, [("+I", key, 0) for key in range(5000)]) == [("+I", key, 0) for key in range(5000)]
    for value in (1, 2, 3):
        assert _changes(bucket, [("+U", 7, value), ("-D", 8, 0)], full=False) == []
    assert [f.level for f in bucket.files] == [5, 0, 0, 0]

    message = bucket.commit([("+U", 7, 4), ("+U", 9, 4)], full=False)

    assert (message.compact_changelog, {f.level for f in bucket.files}) == ((), {4, 5})
    assert _changes(bucket, []) == [("-U", 7, 0), ("+U", 7, 4), ("-D", 8, 0), ("-U", 9, 0), ("+U", 9, 4)]
    assert {f.level for f in bucket.files} == {5}


def test_a_compaction_on_its_own_account_publishes_when_it_reaches_the_highest_level(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, changelog_producer="full-compaction")
    for value in range(4):
        assert _changes(bucket, [("+I", 1, value)], full=False) == []
    assert _changes(bucket, [("+I", 1, 4), ("-D", 2, 0)], full=False) == [("+I", 1, 4)]


def test_a_full_compaction_of_what_is_compacted_publishes_nothing(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, changelog_producer="full-compaction")
    bucket.commit([("+I", 1, 1), ("+I", 2, 2)], full=True)
    assert bucket.commit([], full=True).is_empty


def test_a_file_that_overlaps_nothing_is_moved_up_with_its_changes(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, changelog_producer="full-compaction")
    bucket.commit([("+I", 1, 1), ("+U", 2, 2)], full=False)
    (lower,) = bucket.files
    message = bucket.commit([], full=True)
    assert message.compact_after == (lower.at_level(5),)
    assert bucket.changes(message.compact_changelog) == [("+I", 1, 1), ("+I", 2, 2)]


def test_lone_retracts_are_dropped_by_a_full_compaction(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, changelog_producer="full-compaction")
    assert _changes(bucket, [("-D", 1, 1), ("-U", 2, 2), ("+I", 3, 3)]) == [("+I", 3, 3)]
    assert [(f.row_count, f.delete_row_count) for f in bucket.files] == [(1, 0)]


def test_changes_between_two_full_compactions_are_one_change(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, changelog_producer="full-compaction")
    bucket.commit([("+I", 1, 1), ("+I", 2, 1)], full=True)
    bucket.commit([("-D", 1, 1)], full=False)
    bucket.commit([("+I", 2, 2), ("+I", 3, 1)], full=False)
    assert _changes(bucket, [("+I", 1, 1), ("-D", 2, 2), ("-D", 3, 1)]) == [("-U", 1, 1), ("+U", 1, 1), ("-D", 2, 1)]


def test_chunks_do_not_change_what_is_published(lookup_dir: Path) -> None:
    published = []
    for chunk_bytes in (1, 1 << 20):
        bucket = _bucket(lookup_dir, changelog_producer="full-compaction")
        bucket.environment["chunk_bytes"] = chunk_bytes
        bucket.commit([("+I", key, 0) for key in range(40)], full=True)
        bucket.commit([("+U", key, 1) for key in range(0, 50, 3)], full=False)
        published.append(_changes(bucket, [("-D", key, 0) for key in range(0, 50, 5)]))
    assert published[0] == published[1]
    assert len(published[0]) == 8 + 2 * 11 + 2


# ---------------------------------------------------------------- other engines


def test_upper_levels_are_not_counted_twice(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, **_SUM, changelog_producer="lookup")
    bucket.commit([("+I", key, 1) for key in range(5000)])
    assert _changes(bucket, [("+I", 7, 10)]) == [("-U", 7, 1), ("+U", 7, 11)]
    assert _changes(bucket, [("+I", 7, 100), ("+I", 8, 100)]) == [
        ("-U", 7, 11), ("+U", 7, 111), ("-U", 8, 1), ("+U", 8, 101),
    ]  # fmt: skip
    assert len({f.level for f in bucket.files}) > 1
    assert bucket.content()[6:10] == [(6, 1), (7, 111), (8, 101), (9, 1)]
    assert _changes(bucket, [("+I", 7, 1000)], full=True) == [("-U", 7, 111), ("+U", 7, 1111)]
    assert bucket.content()[6:10] == [(6, 1), (7, 1111), (8, 101), (9, 1)]


def test_full_compaction_merges_every_level(lookup_dir: Path) -> None:
    bucket = _bucket(
        lookup_dir,
        merge_engine="aggregation",
        fields__v__aggregate_function="sum",
        changelog_producer="full-compaction",
    )
    bucket.commit([("+I", key, 1) for key in range(5000)], full=True)
    for _ in range(6):
        bucket.commit([("+I", 7, 10), ("-D", 8, 1)], full=False)
    assert len({f.level for f in bucket.files} - {0}) == 2
    assert bucket.content()[6:10] == [(6, 1), (7, 61), (8, -5), (9, 1)]
    assert _changes(bucket, []) == [("-U", 7, 1), ("+U", 7, 61), ("-U", 8, 1), ("+U", 8, -5)]


@pytest.mark.parametrize(("producer", "seen"), [("lookup", [("+I", 2, -5)]), ("full-compaction", [])])
def test_a_lone_retract_of_a_sum(lookup_dir: Path, producer: str, seen: list[Row]) -> None:
    bucket = _bucket(lookup_dir, **_SUM, changelog_producer=producer)
    bucket.commit([("+I", 1, 3)], full=True)
    assert _changes(bucket, [("-U", 1, 2), ("+U", 1, 5)]) == [("-U", 1, 3), ("+U", 1, 6)]
    assert _changes(bucket, [("-D", 2, 5)]) == seen
    assert bucket.content() == [(1, 6), *(row[1:] for row in seen)]


def test_partial_updates_publish_whole_rows(lookup_dir: Path) -> None:
    bucket = _bucket(
        lookup_dir,
        (("k", "INT"), ("a", "INT"), ("b", "INT")),
        merge_engine="partial-update",
        partial_update__remove_record_on_delete="true",
        changelog_producer="lookup",
    )
    assert _changes(bucket, [("+I", 1, 1, None)]) == [("+I", 1, 1, None)]
    assert _changes(bucket, [("+I", 1, None, 2)]) == [("-U", 1, 1, None), ("+U", 1, 1, 2)]
    assert _changes(bucket, [("-D", 1, 8, 8), ("+I", 1, None, 3)]) == [("-U", 1, 1, 2), ("+U", 1, 8, 3)]
    assert _changes(bucket, [("-D", 1, None, None)]) == [("-D", 1, 8, 3)]


def test_forced_lookup_keeps_rows_whole_without_a_changelog(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, **_SUM, force_lookup="true")
    bucket.commit([("+I", key, 1) for key in range(5000)])
    message = bucket.commit([("+I", 7, 10)])
    (upper,) = message.compact_after
    assert upper.level == 4
    assert bucket.read(upper).column("v").to_pylist() == [11]
    assert message.compact_changelog == ()


def test_forced_lookup_keeps_the_newer_row_against_a_late_one(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, _SEQUENCED, sequence__field="s", force_lookup="true")
    bucket.commit([("+I", key, 1, 5) for key in range(5000)])
    (upper,) = bucket.commit([("+I", 7, 2, 3)]).compact_after
    assert bucket.read(upper).to_pylist()[0]["s"] == 5


def test_level_0_can_be_compacted_at_once_without_lookup(lookup_dir: Path) -> None:
    bucket = _bucket(lookup_dir, compaction__force_up_level_0="true")
    bucket.commit([("+I", 1, 1)])
    assert [f.level for f in bucket.files] == [5]


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "values"), [("aggregation", (111, 101)), ("first-row", (1, 1))])
def test_scans_read_each_key_once_across_levels(tmp_path: Path, engine: str, values: tuple[int, int]) -> None:
    options = {"merge-engine": engine, "changelog-producer": "lookup"}
    if engine == "aggregation":
        options["fields.v.aggregate-function"] = "sum"
    table = new_table("table", _TWO, ["k"], options=options, io=MemoryFileIO())
    driver = TableDriver(table, tmp_path / "lookup")
    driver.commit([("+I", key, 1) for key in range(5000)])
    driver.commit([("+I", 7, 10)])
    driver.commit([("+I", 7, 100), ("+I", 8, 100)])
    if engine == "aggregation":
        assert len({f.level for files in driver.state().files.values() for f in files}) > 1
    expected = dict.fromkeys(range(5000), 1) | dict(zip((7, 8), values, strict=True))
    assert sorted(driver.content()) == [list(row) for row in expected.items()]
