"""`tidemark table expire | tags | rollback | branches | consumers`: dry runs touch nothing, refusals say what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from paimon_table import Table
from paimon_table.history.branches import BranchStore
from paimon_table.history.tags import TagStore
from sinks.commit.pipeline_mark import write_mark
from sinks.commit.positions import REPLAY_PROPERTY, RETRY_PROPERTY
from tests.support.command import tidemark
from tests.support.table_driver import TableDriver, new_table

COLUMNS = [("k", "INT"), ("v", "INT"), ("dt", "STRING")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table with the snapshots 1 to 6, of which 4 is a compaction."""
    return Path(table(tmp_path).table.paths.root)


def table(tmp_path: Path, options: Mapping[str, str] | None = None) -> TableDriver:
    made = new_table(tmp_path / "t", COLUMNS, ["k", "dt"], ["dt"], {"changelog-producer": "input", **(options or {})})
    driver = TableDriver(made, tmp_path / "lookup")
    for commit in range(5):
        driver.commit([["+I", key, commit, "2020-01-01"] for key in range(3)], full_compact=commit == 2)
    return driver


def done(*arguments: str | Path, code: int = 0) -> str:
    """What is printed, errors last; nothing else may have changed after a dry run."""
    ended = tidemark("table", *arguments)
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def files(path: Path) -> dict[str, int]:
    return {str(file): file.stat().st_mtime_ns for file in path.rglob("*") if file.is_file()}


def rows(*arguments: str | Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in done(*arguments, "--format", "json").splitlines()]


def snapshots(path: Path) -> tuple[int | None, int | None]:
    store = Table.open(str(path)).snapshots
    return store.earliest_id(), store.latest_id()


def test_expire_says_what_goes_and_a_dry_run_leaves_it(path: Path) -> None:
    before = files(path)
    asked = ("--retain-min", "2", "--older-than", "0s")

    plan = done("expire", path, *asked, "--dry-run")
    assert files(path) == before
    assert "4 snapshots would be expired: 1 to 4" in plan
    said = done("expire", path, *asked)

    assert snapshots(path) == (5, 6)
    assert said.splitlines()[0] == "4 snapshots expired: 1 to 4"
    assert said.splitlines()[1].startswith("removed: ")
    assert plan.replace("would be ", "").splitlines()[1] == said.splitlines()[1]
    assert done("expire", path, *asked) == "nothing to expire\n"
    assert len(rows("scan", path)) == 3


def test_expire_keeps_what_the_options_keep(path: Path) -> None:
    assert done("expire", path) == "nothing to expire\n"


def test_expire_says_who_keeps_more(path: Path) -> None:
    done("consumers", "reset", path, "slow", "--snapshot", "3", "--create")

    said = done("expire", path, "--retain-min", "1", "--older-than", "0s")

    assert "2 snapshots expired: 1 to 2" in said
    assert "snapshot 3 and later ones are kept: consumer 'slow' reads it next" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (("--retain-max", "3"), "--retain-max 3 is less than --retain-min 10"),
        (("--older-than", "yesterday"), "--older-than: 'yesterday' is not understood"),
        (("--older-than", "12"), "--older-than: '12' has no unit; write for example 12d, 12h, 12min"),
        (("--retain-min", "0"), "should be greater than or equal to 1"),
    ],
)
def test_expire_refuses_what_it_does_not_understand(path: Path, asked: tuple[str, ...], text: str) -> None:
    before = files(path)

    assert text in done("expire", path, *asked, code=2)
    assert files(path) == before


def test_a_tag_is_read_also_when_its_snapshot_has_expired(path: Path) -> None:
    before = rows("scan", path, "--snapshot", "2")
    done("tags", "create", path, "monday", "--snapshot", "2")
    done("expire", path, "--retain-min", "1", "--retain-max", "1")
    assert rows("scan", path, "--tag", "monday") == before != rows("scan", path)
    refused = tidemark("table", "scan", path, "--tag", "tuesday")
    assert refused.returncode == 2 and "monday" in refused.stderr
    both = tidemark("table", "scan", path, "--tag", "monday", "--snapshot", "6")
    assert both.returncode == 2 and "exclude each other" in both.stderr


def test_expire_says_which_tags_it_would_make(tmp_path: Path) -> None:
    table(tmp_path, {"tag.automatic-creation": "process-time", "tag.creation-period": "daily"})
    path = tmp_path / "t"
    before = files(path)
    plan = done("expire", path, "--dry-run")
    assert files(path) == before
    said = done("expire", path)
    (name,) = TagStore(Table.open(str(path)).io, Table.open(str(path)).paths).names()
    assert f"tag {name} would be made" in plan and f"tag {name} made" in said
    assert "made" not in done("expire", path, "--dry-run")


def test_expire_drops_old_partitions_and_tags(tmp_path: Path) -> None:
    driver = table(tmp_path, {"partition.expiration-time": "1000 d"})
    driver.commit([["+I", 1, 1, "no-day"]])
    path = tmp_path / "t"
    done("tags", "create", path, "short", "--retained", "0s")

    plan = done("expire", path, "--dry-run")
    assert done("expire", path).replace("expire", "").splitlines()[:2] == plan.replace("would be ", "").splitlines()[:2]

    assert "partition dt=2020-01-01 would be dropped with" in plan
    assert "tag short would be deleted" in plan
    assert "1 partition never expire, because their values are not times: dt=no-day" in plan
    assert [row["dt"] for row in rows("scan", path)] == ["no-day"]
    assert TagStore(driver.table.io, driver.table.paths).names() == []


@pytest.mark.slow
def test_tags_keep_their_snapshot_until_they_are_deleted(path: Path) -> None:
    before = files(path)
    assert done("tags", "create", path, "monday", "--snapshot", "2", "--dry-run") == "would tag snapshot 2 as monday\n"
    assert files(path) == before
    assert "--retained: '30' has no unit" in done("tags", "create", path, "monday", "--retained", "30", code=2)
    done("tags", "create", path, "monday", "--snapshot", "2")
    done("tags", "create", path, "newest", "--retained", "7d")
    done("expire", path, "--retain-min", "1", "--older-than", "0s")

    listed = rows("tags", "list", path)
    assert [(row["tag"], row["snapshot"], row["retained"]) for row in listed] == [
        ("monday", 2, None),
        ("newest", 6, "7 d"),
    ]
    before = files(path)
    plan = done("tags", "delete", path, "monday", "--dry-run")
    assert files(path) == before
    assert done("tags", "delete", path, "monday") == plan.replace("would delete", "deleted")
    assert len(files(path)) < len(before) - 1
    assert len(rows("scan", path)) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (("tags", "create", "{}", "t", "--snapshot", "99"), "snapshot-99 has expired or never existed"),
        (("tags", "create", "{}", "a/b"), "choose another name"),
        (("tags", "create", "{}", "there"), "already has a tag 'there'; delete it first"),
        (("tags", "delete", "{}", "nobody"), "has no tag 'nobody'; it has: there"),
        (("tags", "rollback", "{}", "nobody", "--yes"), "has no tag 'nobody'; it has: there"),
        (("rollback", "{}", "--snapshot", "99", "--yes"), "has no snapshot 99; it has the snapshots 1 to 6"),
        (("rollback", "{}"), "give one of --snapshot, --tag and --timestamp"),
        (
            ("rollback", "{}", "--snapshot", "2"),
            "this command cannot ask for confirmation without a terminal; nothing was done: add --yes",
        ),
        (("rollback", "{}", "--timestamp", "soon", "--yes"), "--timestamp: "),
        (("rollback", "{}", "--timestamp", "1970-01-02", "--yes"), "has no snapshot that is not after 1970-01-02"),
        (("branches", "create", "{}", "main"), "'main' is the table itself"),
        (("branches", "create", "{}", "17"), "numbers cannot name branches"),
        (("branches", "create", "{}", "b", "--tag", "nobody"), "has no tag 'nobody'; it has: there"),
        (("branches", "delete", "{}", "nobody", "--yes"), "has no branch 'nobody'; it has: none"),
        (("consumers", "delete", "{}", "nobody"), "has no consumer 'nobody'; it has: none"),
        (("consumers", "reset", "{}", "c", "--snapshot", "99"), "name one of them or the next"),
        (("consumers", "reset", "{}", "../c", "--snapshot", "1"), "choose another name"),
        (("consumers", "reset", "{}", "typo", "--snapshot", "1"), "no consumer 'typo'; it has: none. --create creates"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_refusals_say_what_to_do_and_touch_nothing(path: Path, asked: tuple[str, ...], text: str) -> None:
    done("tags", "create", path, "there", "--snapshot", "1")
    before = files(path)

    assert text in done(*(word.format(path) for word in asked), code=2)
    assert files(path) == before


def test_a_rollback_says_which_rows_nobody_brings_again(tmp_path: Path) -> None:
    """Those of retries are open in the quarantine again; a replay that is not done goes on behind them."""
    driver = table(tmp_path)
    path = driver.table.paths.root
    for name, value in ((RETRY_PROPERTY, "shop"), (REPLAY_PROPERTY, "r1")):
        latest = driver.table.snapshots.latest()
        assert latest is not None
        file = Path(driver.table.paths.snapshot_file(latest.id if name == RETRY_PROPERTY else latest.id - 1))
        file.write_text(json.dumps({**json.loads(file.read_text()), "properties": {name: value}}))

    told = done("rollback", path, "--snapshot", "4", "--dry-run")
    assert "1 snapshot (6) with rows of `quarantine retry`: afterwards their records are open in the quarantine" in told
    assert "this removes rows of 1 replay (r1). Run each again afterwards" in told
    assert "retry" not in done("rollback", path, "--snapshot", "6", "--dry-run")


def test_a_rollback_says_who_must_be_stopped_and_what_is_missing_then(path: Path) -> None:
    opened = Table.open(str(path))
    write_mark(opened.io, opened.paths, "shop")
    done("tags", "create", path, "later", "--snapshot", "5")
    before = files(path)

    plan = done("rollback", path, "--snapshot", "2", "--dry-run")
    assert files(path) == before
    assert "would roll back to snapshot 2" in plan
    assert "without 4 snapshots: 3 to 6" in plan
    assert "without 1 tag: later" in plan
    assert "written by pipeline shop: stop it and all other writers first. Its next start rereads" in plan
    assert "snapshot 2 is now the newest one" in done("rollback", path, "--snapshot", "2", "--yes")

    assert snapshots(path) == (1, 2)
    assert {row["v"] for row in rows("scan", path)} == {1}
    assert done("rollback", path, "--snapshot", "2", "--yes") == "nothing to do: snapshot 2 is the newest one\n"


def test_a_rollback_to_a_tag_brings_an_expired_snapshot_back(path: Path) -> None:
    done("tags", "create", path, "monday", "--snapshot", "2")
    done("expire", path, "--retain-min", "1", "--older-than", "0s")

    done("tags", "rollback", path, "monday", "--yes")

    assert snapshots(path) == (2, 2)
    assert {row["v"] for row in rows("scan", path)} == {1}
    driver = TableDriver(Table.open(str(path)), path.parent / "lookup", first_identifier=100)
    driver.commit([["+I", 9, 9, "2020-01-01"]])
    assert len(rows("scan", path)) == 4


def test_a_branch_keeps_what_it_needs_when_its_tag_has_gone(path: Path) -> None:
    done("tags", "create", path, "monday", "--snapshot", "2")
    before = files(path)
    assert done("branches", "create", path, "b", "--tag", "monday", "--dry-run").startswith("would begin branch b")
    assert files(path) == before
    done("branches", "create", path, "b", "--tag", "monday")
    done("branches", "create", path, "empty")
    done("tags", "delete", path, "monday")
    done("expire", path, "--retain-min", "1", "--older-than", "0s")

    listed = [(row["branch"], row["latest_snapshot"]) for row in rows("branches", "list", path)]
    assert listed == [("b", 2), ("empty", None)]
    opened = Table.open(str(path))
    at_branch = BranchStore(opened.io, opened.paths).snapshots("b").read(2)
    state = opened.state(at_branch)
    for bucket, held in state.files.items():
        for file in held:
            assert opened.io.exists(opened.context.data_file(bucket, file))

    assert "deleting branch b with 6 stored rows" in done("branches", "delete", path, "b", "--yes")
    assert [row["branch"] for row in rows("branches", "list", path)] == ["empty"]


def test_consumers_are_listed_reset_and_forgotten(path: Path) -> None:
    before = files(path)
    done("consumers", "reset", path, "c", "--snapshot", "6", "--create", "--dry-run")
    assert files(path) == before
    done("consumers", "reset", path, "c", "--snapshot", "6", "--create")
    done("consumers", "reset", path, "c", "--snapshot", "7")

    assert [(row["consumer"], row["next_snapshot"]) for row in rows("consumers", "list", path)] == [("c", 7)]
    assert done("consumers", "delete", path, "c", "--dry-run") == "would forget consumer c\n"
    assert done("consumers", "delete", path, "c") == "forgot consumer c\n"
    assert rows("consumers", "list", path) == []


def test_of_a_branch_that_is_a_link_nothing_but_the_link_goes(path: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Path(table(tmp_path / "other").table.paths.root)
    before = files(other)
    (path / "branch").mkdir()
    (path / "branch/branch-b").symlink_to(other, target_is_directory=True)

    done("branches", "delete", path, "b", "--yes")

    assert files(other) == before
    assert not (path / "branch/branch-b").is_symlink()


def test_a_file_in_the_place_of_a_branch_is_told_with_its_path(path: Path) -> None:
    (path / "branch").mkdir()
    (path / "branch/branch-b").write_text("")

    told = done("branches", "list", path, code=1)

    assert f"{path}/branch/branch-b" in told and "a file has the name of a directory of this path" in told
