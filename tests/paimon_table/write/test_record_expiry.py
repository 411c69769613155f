"""Which rows leave a table because of their age, and what is said about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from paimon_table.compaction.due import due_compactions
from paimon_table.compaction.row_ages import row_ages
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.table_state import TableState
from tests.support.bucket_harness import BucketHarness, Row, context

_START_S = 1_700_000_000
_KEPT_S = 100
_PATIENT = {"compaction__max_size_amplification_percent": "9999"}
"""The highest level is left alone while it is much larger than what comes."""


@dataclass
class Expiring:
    """A bucket whose rows (k, t, v) expire 100 seconds after t, and the clock of its writers."""

    bucket: BucketHarness
    seconds: int = 0
    rows: list[Row] = field(default_factory=list)

    def commit(self, rows: Sequence[Row], full: bool = False, at: int | None = None) -> CommitMessage:
        self.seconds = self.seconds if at is None else at
        return self.bucket.commit(rows, full=full)

    def row(self, kind: str, key: int, seconds: int | None, value: int = 0) -> Row:
        return (kind, key, None if seconds is None else _START_S + seconds, value)

    def left(self) -> list[int]:
        return [row[0] for row in self.bucket.content()]


def _expiring(tmp_path: Path, time_type: str = "INT", **options: str) -> Expiring:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    named = {"record-level.expire-time": f"{_KEPT_S} s", "record-level.time-field": "t", **named}
    columns = [("k", "INT"), ("t", time_type), ("v", "INT")]
    bucket = BucketHarness(context(columns, ["k"], named), tmp_path / "lookup")
    made = Expiring(bucket)
    bucket.environment["clock_ms"] = lambda: (_START_S + made.seconds) * 1000 + 999
    return made


def test_rows_expire_in_compactions_and_not_before(tmp_path: Path) -> None:
    table = _expiring(tmp_path)
    rows = [table.row("+I", 1, 0), table.row("+I", 2, 50), table.row("+I", 3, None)]
    table.commit(rows)
    table.commit([], at=100)
    assert table.left() == [1, 2, 3]
    table.commit([], full=True, at=100)
    assert table.left() == [1, 2, 3], "a row lives for all of its last second"
    table.commit([], full=True, at=101)
    assert table.left() == [2, 3]
    table.commit([], full=True, at=10_000)
    assert table.left() == [3], "a row without a time stays"


_MOMENT = datetime.fromtimestamp(_START_S, UTC)


@pytest.mark.parametrize(
    ("time_type", "old", "kept"),
    [
        ("INT", _START_S, _START_S + 1),
        ("BIGINT", _START_S, _START_S + 1),
        ("BIGINT", _START_S * 1000 + 999, _START_S * 1000 + 1000),
        ("BIGINT", -5, None),
        ("TIMESTAMP(0)", _MOMENT.replace(tzinfo=None), (_MOMENT + timedelta(seconds=1)).replace(tzinfo=None)),
        ("TIMESTAMP(6)", (_MOMENT + timedelta(microseconds=999_999)).replace(tzinfo=None), None),
        ("TIMESTAMP(9)", _MOMENT.replace(tzinfo=None), (_MOMENT + timedelta(seconds=1)).replace(tzinfo=None)),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", _MOMENT, _MOMENT + timedelta(seconds=1)),
    ],
)
def test_every_type_that_tells_the_time(tmp_path: Path, time_type: str, old: Any, kept: Any) -> None:
    table = _expiring(tmp_path, time_type)
    table.commit([("+I", 1, old, 0), ("+I", 2, kept, 0)])
    table.commit([], full=True, at=_KEPT_S + 1)
    assert table.left() == [2]
    # and from the highest level, where only the statistics of a file tell of them
    table = _expiring(tmp_path / "top", time_type)
    table.commit([("+I", 1, old, 0), ("+I", 2, kept, 0)], full=True, at=-100_000)
    assert [f.level for f in table.bucket.files] == [5]
    table.commit([], full=True, at=_KEPT_S + 1)
    assert table.left() == [2]


def test_a_file_without_old_rows_is_not_rewritten(tmp_path: Path) -> None:
    table = _expiring(tmp_path)
    table.commit([table.row("+I", 1, 60)], full=True)
    before = table.bucket.files
    message = table.commit([], full=True, at=120)
    assert (message.compact_before, table.bucket.files) == ((), before)


@pytest.mark.parametrize("dense", ["true", "false"])
def test_statistics_that_do_not_tell_leave_a_file_until_it_is_merged(tmp_path: Path, dense: str) -> None:
    table = _expiring(tmp_path, metadata__stats_mode="none", metadata__stats_dense_store=dense)
    table.commit([table.row("+I", 1, 0), table.row("+I", 2, 500)], full=True)
    table.commit([], full=True, at=200)
    assert table.left() == [1, 2]
    table.commit([table.row("+I", 2, 501)], full=True)
    assert table.left() == [2]


def _many(table: Expiring) -> list[Row]:
    """Rows that stay and make a file large."""
    return [table.row("+I", key, 10_000, key * 7919 % 10_007) for key in range(1000, 3000)]


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
def test_rows_leave_without_a_word_in_the_changelog(tmp_path: Path, producer: str) -> None:
    table = _expiring(tmp_path, changelog_producer=producer)
    table.commit([table.row("+I", 1, 0), table.row("+I", 2, 90)], full=True)
    message = table.commit([], full=True, at=150)
    assert (table.left(), message.changelog_files, message.compact_changelog) == ([2], (), ())


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
@pytest.mark.parametrize("vectors", [False, True])
def test_a_row_that_comes_after_an_expired_one_is_new(tmp_path: Path, producer: str, vectors: bool) -> None:
    if producer == "full-compaction" and vectors:
        pytest.skip("deletion vectors and full-compaction exclude each other")
    table = _expiring(tmp_path, changelog_producer=producer, deletion_vectors__enabled=str(vectors).lower(), **_PATIENT)
    is_full = producer == "full-compaction"
    table.commit([table.row("+I", 1, 0, 7), table.row("+I", 2, 90, 7), *_many(table)], full=True)
    message = table.commit([table.row("+I", 1, 150, 8), table.row("+I", 2, 150, 8)], full=is_full, at=150)
    changes = table.bucket.changes(message.compact_changelog)
    assert [(row[0], row[1], row[3]) for row in changes] == [("+I", 1, 8), ("-U", 2, 7), ("+U", 2, 8)]
    assert is_full or len(message.compact_before) == 1, "the old rows were looked up"


@pytest.mark.parametrize("stats", ["full", "none"])
@pytest.mark.parametrize("target", ["1 b", "128 mb"])
def test_a_key_is_in_one_live_row_with_deletion_vectors(tmp_path: Path, stats: str, target: str) -> None:
    """Although the row that a newer one replaces has expired, and although the newer one has as well."""
    options = {"metadata__stats_mode": stats, "target_file_size": target}
    table = _expiring(tmp_path, deletion_vectors__enabled="true", **options, **_PATIENT)
    table.commit([*(table.row("+I", key, 0) for key in range(4)), *_many(table)], full=True)
    table.commit([table.row("+I", 0, 20), table.row("+I", 1, 150), table.row("+I", 2, 20)], at=150)
    table.commit([table.row("-D", 3, 0)])
    assert [f.level for f in table.bucket.files].count(5) >= 1
    keys = [row[0] for row in table.bucket.unmerged_content()]
    assert sorted(keys) == sorted(set(keys))
    assert 1 in keys and 3 not in keys
    table.commit([], full=True)
    table.commit([table.row("+I", 5, 160)], full=True)
    assert sorted(row[0] for row in table.bucket.unmerged_content() if row[0] < 1000) == [1, 5]


def test_what_is_stored_is_looked_up_whatever_its_age(tmp_path: Path) -> None:
    """Also in a file that was moved up as it is, because its statistics do not tell of old rows."""
    options = {"metadata__stats_mode": "none", "target_file_size": "1 b", **_PATIENT}
    table = _expiring(tmp_path, changelog_producer="lookup", **options)
    table.commit(_many(table), full=True)
    table.commit([table.row("+I", 1, 0), table.row("+I", 2, 150)], at=150)
    assert 1 in table.left()
    found = table.bucket.new_writer().lookup(table.bucket.table([table.row("+I", 1, 0)]).select(["k"]))
    assert found.column("k").to_pylist() == [1]


def test_an_old_delete_hides_its_row_until_that_has_gone(tmp_path: Path) -> None:
    table = _expiring(tmp_path, num_sorted_run__compaction_trigger="2", **_PATIENT)
    table.commit([table.row("+I", 1, 0), table.row("+I", 2, 0), *_many(table)], full=True)
    for key in range(10, 13):
        table.commit([table.row("-D", 1, 0), table.row("+I", key, 300)], at=150)
        assert 1 not in table.left()
    assert 2 in table.left(), "the file above was not compacted yet"


def test_sums_forget_old_rows_and_what_takes_them_back(tmp_path: Path) -> None:
    table = _expiring(tmp_path, merge_engine="aggregation", fields__v__aggregate_function="sum")
    old, new = table.row("+I", 1, 0, 5), table.row("+I", 1, 100, 7)
    for row in (old, new, table.row("-U", 1, 0, 5)):
        table.commit([row])
    table.commit([], full=True, at=150)
    assert table.bucket.content() == [(1, _START_S + 100, 7)]


def test_buckets_with_expired_rows_are_due_in_full_compactions(tmp_path: Path) -> None:
    table = _expiring(tmp_path)
    table.commit([table.row("+I", 1, 0)], full=True)
    bucket = BucketId(table.bucket.bucket.partition, 0)
    state = TableState(files={bucket: tuple(table.bucket.files)})
    for seconds, due in ((100, ()), (101, (bucket,))):
        ages = row_ages(table.bucket.ctx, (_START_S + seconds) * 1000)
        options = table.bucket.ctx.options
        assert due_compactions(state, options, fully=True, is_appended=False, ages=ages) == due
        assert due_compactions(state, options, fully=False, is_appended=False, ages=ages) == ()
