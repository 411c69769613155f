"""A branch in which the content of a table is rebuilt: its schemas and files, and the table that takes them over."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table import AddColumn, SetOption, Table
from paimon_table.errors import CommitConflict, ConfigError
from paimon_table.maintenance.aside_branch import AsideBranch
from paimon_table.maintenance.row_counts import RowCounting
from paimon_table.maintenance.take_over import take_over
from paimon_table.storage.file_io import FileIO, file_io_for
from paimon_table.types import parse_type
from tests.support.s3_server import s3_server
from tests.support.table_driver import TableDriver, new_table

COLUMNS = [("id", "INT"), ("v", "STRING")]
OPTIONS = {"bucket": "2", "changelog-producer": "lookup"}


def started(
    tmp_path: Path, options: dict[str, str | None] | None = None, io: FileIO | None = None, path: str | None = None
) -> tuple[Table, AsideBranch]:
    """A table with three rows, and a branch beside it that is empty."""
    table = new_table(path or tmp_path / "t", COLUMNS, ["id"], options=OPTIONS, io=io)
    TableDriver(table, tmp_path / "lookup").commit([("+I", key, "old") for key in range(3)])
    branch = AsideBranch.of(table, "aside", options or {})
    branch.begin()
    return table, branch


def fill(tmp_path: Path, branch: AsideBranch, *keys: int) -> Table:
    table = branch.open()
    number = (table.snapshots.latest_id() or 0) + 1
    TableDriver(table, tmp_path / "lookup", "builder", number).commit([("+I", key, "new") for key in keys])
    return table


def rows(table: Table) -> dict[int, str]:
    return {row["id"]: row["v"] for row in table.refreshed().to_arrow().to_pylist()}


def test_a_branch_has_the_versions_of_the_table_with_its_own_options(tmp_path: Path) -> None:
    table, branch = started(tmp_path, {"merge-engine": "partial-update", "ignore-delete": "true"})
    opened = branch.open()
    table.evolve([AddColumn("w", parse_type("INT"))], 1)
    assert (branch.open().schema.column_names, branch.open().options.merge_engine) == (
        ("id", "v", "w"),
        "partial-update",
    )

    evolved = opened.evolve([AddColumn("x", parse_type("INT")), SetOption("target-file-size", "1 mb")], 2)

    newest = table.refreshed()
    assert (newest.schema.id, newest.schema.fields) == (evolved.schema.id, evolved.schema.fields)
    assert newest.schema.column_names == ("id", "v", "w", "x")
    assert (newest.options.merge_engine, newest.schema.options["target-file-size"]) == ("deduplicate", "1 mb")
    assert evolved.options.merge_engine == "partial-update"


def test_options_that_no_table_can_have_are_refused_before_a_branch_is_made(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", COLUMNS, ["id"], options=OPTIONS)
    branch = AsideBranch.of(table, "aside", {"merge-engine": "partial-update", "rowkind.field": "w"})
    with pytest.raises(ConfigError, match="rowkind"):
        branch.begin()
    assert not branch.is_there


def test_what_is_taken_over_is_seen_in_one_snapshot_and_stays_when_the_branch_goes(tmp_path: Path) -> None:
    table, branch = started(tmp_path)
    built = fill(tmp_path, branch, 7, 8)
    built = fill(tmp_path, branch, 8, 9)
    assert rows(table) == dict.fromkeys(range(3), "old")
    commit = table.new_commit("switch", is_new_user=True)
    before = commit.refresh().snapshot_id

    published = take_over(built, commit, 0, {"a": "b"})
    branch.tidy("builder")
    branch.remove(is_taken=True)

    assert published is not None
    assert (published.id, published.properties) == (before + 1, {"a": "b"})
    assert rows(table) == {7: "new", 8: "new", 9: "new"}
    assert rows(table) == {row["id"]: row["v"] for row in table.to_arrow(snapshot_id=published.id).to_pylist()}
    assert RowCounting.of(table, table.snapshots.latest()).total() == 3
    assert not (tmp_path / "t" / "branch" / "branch-aside").exists()


@pytest.mark.slow
def test_object_storage_needs_no_other_step(tmp_path: Path) -> None:
    with s3_server() as server:
        access = {"s3.endpoint": server.endpoint, "s3.access-key": "k", "s3.secret-key": "s"}
        io, path = file_io_for("s3://lake/t", {**access, "s3.path.style.access": "true"})
        table, branch = started(tmp_path, io=io, path=path)
        built = fill(tmp_path, branch, 7, 8)
        commit = table.new_commit("switch", is_new_user=True)
        commit.refresh()
        take_over(built, commit, 0, {})
        branch.remove(is_taken=True)
        assert rows(table) == {7: "new", 8: "new"}
        assert not branch.is_there


def test_a_table_that_others_have_written_since_is_not_replaced(tmp_path: Path) -> None:
    table, branch = started(tmp_path)
    built = fill(tmp_path, branch, 7)
    commit = table.new_commit("switch", is_new_user=True)
    commit.refresh()
    TableDriver(table, tmp_path / "lookup", "other").commit([("+I", 50, "late")])
    with pytest.raises(CommitConflict, match="other writers have committed to the table since snapshot"):
        take_over(built, commit, 0, {})
    assert rows(table) == {**dict.fromkeys(range(3), "old"), 50: "late"}


def test_a_branch_keeps_the_snapshots_from_the_newest_one_of_its_writer_on(tmp_path: Path) -> None:
    table, branch = started(tmp_path)
    for key in range(6):
        fill(tmp_path, branch, key)
    TableDriver(branch.open(), tmp_path / "lookup", "compactor").compact()
    branch.tidy("builder")
    kept = list(branch.open().snapshots.newest_first())
    assert "builder" in {snapshot.commit_user for snapshot in kept}
    assert len(kept) <= 3
    assert rows(branch.open()) == dict.fromkeys(range(6), "new")
    assert rows(table) == dict.fromkeys(range(3), "old")


def test_a_removal_that_was_interrupted_is_done_by_the_next_one(tmp_path: Path) -> None:
    table, branch = started(tmp_path)
    fill(tmp_path, branch, 7)
    newest = branch.open().snapshots.latest()
    assert newest is not None
    (tmp_path / "t" / "manifest" / newest.delta_manifest_list).unlink()
    branch.remove(is_taken=False)
    branch.remove(is_taken=False)
    assert rows(table) == dict.fromkeys(range(3), "old")
    assert not branch.is_there
