"""Changelogs that outlive their snapshots: Java reads ours, and leaves the same files after the same expiry."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from paimon_table.history.tags import TagStore
from paimon_table.maintenance.expiration import Surroundings, expire
from paimon_table.maintenance.tidying import delete_tags
from paimon_table.table import Table
from tests.interop.expired_copies import COLUMNS, TABLES, assert_equal, content, context, history, tag
from tests.interop.java_paimon import JavaPaimon
from tests.interop.worker import WorkerError
from tests.support.plain_values import sorted_rows
from tests.support.table_driver import TableDriver

LONG_LIVED = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "1",
    "snapshot.time-retained": "0 ms",
    "changelog.num-retained.min": "7",
    "changelog.num-retained.max": "9",
    "changelog.time-retained": "1 ms",
}
FEW = {"changelog.num-retained.min": "1", "changelog.num-retained.max": "2"}


@pytest.mark.parametrize("kind", ["lookup", "input", "none"])
def test_tags_that_go_leave_java_the_changes_behind_them(kind: str, tmp_path: Path, java: JavaPaimon) -> None:
    # given two copies with tags of snapshots before, in and at the end of what the changelogs tell
    ours, theirs = tmp_path / f"{kind}-ours", tmp_path / f"{kind}-theirs"
    history(ours, {**TABLES[kind], **LONG_LIVED}, tmp_path)
    latest = Table.open(str(ours)).snapshots.latest_id() or 0
    for name, number in {"early": 2, "amid": latest - 5, "late": latest - 2, "also-late": latest - 2}.items():
        tag(ours, name, number)
    shutil.copytree(ours, theirs)
    before = {change.snapshot_id: sorted_rows(change.rows) for change in java.changes(str(ours))}

    def told(path: Path) -> dict[int, list[list[object]]]:
        oldest = min(Table.open(str(path)).snapshots.changelog_ids())
        changes = java.changes(str(path), from_id=oldest)
        own = [(c.snapshot_id, c.rows) for c in TableDriver(Table.open(str(path)), tmp_path).changes()]
        assert own == [(c.snapshot_id, c.rows) for c in changes]
        return {change.snapshot_id: sorted_rows(change.rows) for change in changes}

    # when both have expired, then they have the same files, and Java reads the changes that are left
    assert java.expire(str(theirs), LONG_LIVED)[1] > 0
    expire(context(ours, LONG_LIVED), Surroundings())
    assert_equal(ours, theirs)
    oldest = min(Table.open(str(ours)).snapshots.changelog_ids())
    left = {number: rows for number, rows in before.items() if number >= oldest}
    assert left and told(ours) == left

    # and when the tags go, then the changes stay, for which Java keeps too little without a changelog producer
    for name in ("amid", "also-late", "late", "early"):
        java.delete_tag(str(theirs), name)
        table = Table.open(str(ours))
        delete_tags(table, [TagStore(table.io, table.paths).read(name)], Surroundings())
        assert told(ours) == left
        if kind != "none":
            assert_equal(ours, theirs)
        assert content(theirs).keys() <= content(ours).keys()

    # and when these changelogs go, then nothing is left of the tags
    java.expire(str(theirs), {**LONG_LIVED, **FEW})
    expire(context(ours, {**LONG_LIVED, **FEW}), Surroundings())
    assert content(ours).keys() <= content(theirs).keys()
    if kind != "none":
        assert_equal(ours, theirs)


def test_java_looks_for_changelogs_that_never_were_where_more_are_kept_than_there_are(
    tmp_path: Path, java: JavaPaimon
) -> None:
    """Java 1.4 goes on where nothing is over, from 'latest - changelog.num-retained.min + 1'; later versions do not."""
    options = {**LONG_LIVED, "changelog.num-retained.min": "5", "changelog.num-retained.max": "20"}
    path = tmp_path / "t"
    java.create_table(str(path), COLUMNS, ["id"], [], options)
    for identifier in range(4):
        java.write(str(path), [["+I", identifier, "v", 0]], identifier=identifier, options={"write-only": "true"})
    latest = Table.open(str(path)).snapshots.latest_id()
    assert latest == 4

    with pytest.raises(WorkerError, match="changelog-0"):
        java.expire(str(path), options)

    assert Table.open(str(path)).snapshots.changelog_ids() == [1, 2, 3]
    assert expire(context(path, options), Surroundings()).changelogs == ()
    assert [change.snapshot_id for change in java.changes(str(path))] == [1, 2, 3, 4]
