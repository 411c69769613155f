"""Two copies of one table: Java expires one, Tidemark the other; the same files are left, and all read them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from paimon_table.history.branches import BranchStore
from paimon_table.history.consumers import ConsumerStore
from paimon_table.history.removal import carry_out
from paimon_table.history.rollback import plan_rollback, plan_rollback_to_tag, roll_back
from paimon_table.history.tag_removal import plan_tag_removal
from paimon_table.history.tags import TagStore
from paimon_table.maintenance.expiration import Surroundings, expire
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.tidying import tidy
from paimon_table.surroundings import random_uuid
from paimon_table.table import Table
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.interop.expired_copies import NOW, TABLES, assert_equal, content, context, history, tag
from tests.interop.java_paimon import JavaPaimon
from tests.support.plain_values import sorted_rows
from tests.support.table_driver import TableDriver, new_table

EXPIRIES = {
    "numbers": {**NOW, "snapshot.num-retained.min": "3", "snapshot.num-retained.max": "5"},
    "the newest alone": {**NOW, "snapshot.num-retained.min": "1", "snapshot.clean-empty-directories": "true"},
    "a few at once": {**NOW, "snapshot.num-retained.min": "2", "snapshot.expire.limit": "4"},
    "nothing is over": {"snapshot.num-retained.min": "1"},
    "long-lived changelog": {
        **NOW,
        "snapshot.num-retained.min": "2",
        "changelog.num-retained.min": "6",
        "changelog.num-retained.max": "8",
        "changelog.time-retained": "1 ms",
    },
    "changelog for ever": {**NOW, "snapshot.num-retained.min": "1", "changelog.time-retained": "10 d"},
}


def copies(tmp_path: Path, kind: str) -> tuple[Path, Path]:
    """The same history twice."""
    ours, theirs = tmp_path / f"{kind}-ours", tmp_path / f"{kind}-theirs"
    history(ours, TABLES[kind], tmp_path)
    shutil.copytree(ours, theirs)
    return ours, theirs


def consumer(path: Path, name: str, next_snapshot: int) -> None:
    table = Table.open(str(path))
    ConsumerStore(table.io, table.paths).reset(name, next_snapshot)


PAIRS = [
    *(("lookup", expiry) for expiry in EXPIRIES),
    *(("none", expiry) for expiry in ("numbers", "long-lived changelog", "changelog for ever")),
    *((kind, "the newest alone") for kind in ("input", "dynamic", "vectors", "append")),
    *((kind, "long-lived changelog") for kind in ("input", "append")),
]


@pytest.mark.parametrize(("kind", "expiry"), PAIRS)
def test_the_same_is_left(kind: str, expiry: str, tmp_path: Path, java: JavaPaimon) -> None:
    options = EXPIRIES[expiry]
    ours, theirs = copies(tmp_path, kind)
    rows = sorted_rows(row[1:] for row in java.read(str(ours)))

    before = {c.snapshot_id: c.rows for c in java.changes(str(ours))}
    for _ in range(2):
        snapshots, changelogs = java.expire(str(theirs), options)
        done = expire(context(ours, options), Surroundings(), rounds=1)

        assert (len(done.snapshots), len(done.changelogs)) == (snapshots, changelogs)
        assert_equal(ours, theirs)
    assert sorted_rows(row[1:] for row in java.read(str(ours))) == rows
    assert TableDriver(Table.open(str(ours)), tmp_path).content() == rows
    assert not list(ours.glob("tidemark/removals/*"))
    store = Table.open(str(ours)).snapshots
    oldest = min([*store.changelog_ids()[:1], store.earliest_id() or 1])
    changes = {c.snapshot_id: c.rows for c in TableDriver(Table.open(str(ours)), tmp_path).changes()}
    assert changes == {number: rows for number, rows in before.items() if number >= oldest}


@pytest.mark.parametrize("kind", ["lookup", "none", "vectors", "append"])
def test_tags_and_consumers_hold_the_same(kind: str, tmp_path: Path, java: JavaPaimon) -> None:
    ours, theirs = copies(tmp_path, kind)
    tagged = {"a": 2, "b": 5, "c": 6, "also-c": 6}
    for name, number in tagged.items():
        java.create_tag(str(theirs), name, number, 3600 if name == "b" else None)
        tag(ours, name, number, 3_600_000 if name == "b" else None)
    java.reset_consumer(str(theirs), "slow", 8)
    consumer(ours, "slow", 8)
    options = {**NOW, "snapshot.num-retained.min": "1"}

    assert java.expire(str(theirs), options)[0] == 7
    done = expire(context(ours, options), Surroundings(), rounds=1)

    assert done.snapshots == tuple(range(1, 8))
    assert done.keeper is not None and "'slow'" in done.keeper.text
    assert_equal(ours, theirs)
    for name in tagged:
        at_tag = [java.read(str(path), {"scan.tag-name": name}) for path in (ours, theirs)]
        assert at_tag[0] and at_tag[0] == at_tag[1]

    java.reset_consumer(str(theirs), "slow", 50)
    consumer(ours, "slow", 50)
    java.expire(str(theirs), options)
    expire(context(ours, options), Surroundings())
    assert_equal(ours, theirs)

    for name in ("b", "also-c", "c", "a"):
        java.delete_tag(str(theirs), name)
        ctx = context(ours, options)
        carry_out(ctx.io, ctx.paths, plan_tag_removal(ctx, TagStore(ctx.io, ctx.paths).read(name)).removal, random_uuid)
        assert_equal(ours, theirs)


def test_all_that_follows_a_commit_leaves_the_same(tmp_path: Path, java: JavaPaimon) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    columns = [("id", "INT"), ("dt", "STRING"), ("v", "INT")]
    driver = TableDriver(new_table(ours, columns, ["dt", "id"], ["dt"]), tmp_path / "lookup")
    today = datetime.now()
    days = [(today - timedelta(days=days)).strftime("%Y%m%d") for days in (0, 3, 30, 400)]
    for commit in range(4):
        driver.commit([["+I", n, day, commit] for n in range(3) for day in days])
    driver.commit([["+I", 1, "no-day", 0]])
    shutil.copytree(ours, theirs)
    options = {
        **NOW,
        "snapshot.num-retained.min": "2",
        "partition.expiration-time": "20 d",
        "partition.expiration-check-interval": "0 ms",
        "partition.timestamp-formatter": "yyyyMMdd",
        "tag.automatic-creation": "process-time",
        "tag.creation-period": "daily",  # hours end often enough between the two
        "sink.process-time-zone": "Asia/Kolkata",
    }

    java.maintain(str(theirs), options)
    table = Table.open(str(ours))
    table = replace(table, context=context(ours, options))
    done = tidy(table, Surroundings(), Job(WriterEnvironment(str(tmp_path / "lookup"))))

    assert [facts.directory for facts in done.partitions] == [f"dt={day}" for day in sorted(days[2:])]
    assert len(done.tags_made) == 1
    left = [sorted_rows(row[1:] for row in java.read(str(path))) for path in (ours, theirs)]
    assert left[0] == left[1]
    assert {row[1] for row in left[0]} == {*days[:2], "no-day"}
    names = [{name for name, size in content(path).items() if "/manifest" not in name} for path in (ours, theirs)]
    assert names[0] == names[1]


def test_branches_and_rollbacks_leave_the_same(tmp_path: Path, java: JavaPaimon) -> None:
    ours, theirs = copies(tmp_path, "lookup")
    table = Table.open(str(ours))
    branches, tags = BranchStore(table.io, table.paths), TagStore(table.io, table.paths)
    for name, number in (("early", 4), ("late", 12)):
        java.create_tag(str(theirs), name, number)
        tag(ours, name, number)
    for name, at in (("b", "early"), ("empty", None)):
        java.create_branch(str(theirs), name, at)
        branches.create(name, None if at is None else tags.read(at))
    assert_equal(ours, theirs)
    of_branch = [sorted_rows(row[1:] for row in java.read(str(path), {"branch": "b"})) for path in (ours, theirs)]
    assert (
        of_branch[0] == of_branch[1] == sorted_rows(row[1:] for row in java.read(str(ours), {"scan.tag-name": "early"}))
    )

    java.rollback(str(theirs), 8)
    roll_back(table.context, plan_rollback(table.context, 8))
    assert_equal(ours, theirs)

    options = {**NOW, "snapshot.num-retained.min": "2"}
    shutil.rmtree(theirs / "branch")
    for name in branches.names():
        branches.delete(name)
    java.expire(str(theirs), options)
    expire(context(ours, options), Surroundings())
    (ours / "branch").rmdir()
    java.rollback(str(theirs), tag="early")
    roll_back(table.context, plan_rollback_to_tag(table.context, "early"))
    assert_equal(ours, theirs)
    assert sorted_rows(row[1:] for row in java.read(str(ours))) == of_branch[0]
